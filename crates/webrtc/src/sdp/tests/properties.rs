use glassline_media::{Kind, Ssrc};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::*;
use super::{ANSWERS, OFFERS, credentials, local, negotiate, tracks};

fn word() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._+/-]{1,12}"
}

fn payload_type() -> impl Strategy<Value = u8> {
    0u8..128
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        any::<std::net::IpAddr>().prop_map(Address::Ip),
        "[a-z][a-z0-9-]{1,20}\\.local".prop_map(Address::Name),
    ]
}

fn candidate() -> impl Strategy<Value = Candidate> {
    let kind = prop_oneof![
        Just(CandidateKind::Host),
        Just(CandidateKind::ServerReflexive),
        Just(CandidateKind::PeerReflexive),
        Just(CandidateKind::Relay),
        Just(CandidateKind::Other("bridge".to_owned())),
    ];
    let protocol = prop_oneof![
        Just(Protocol::Udp),
        Just(Protocol::Tcp),
        Just(Protocol::Other("quic".to_owned())),
    ];
    let key = word().prop_filter("their own fields", |it| it != "raddr" && it != "rport");
    (
        (word(), 1u16..=256, protocol, any::<u32>()),
        (address(), any::<u16>(), kind),
        option::of((address(), any::<u16>())),
        vec((key, word()), 0..4),
    )
        .prop_map(|(first, place, related, extensions)| Candidate {
            foundation: first.0,
            component: first.1,
            protocol: first.2,
            priority: first.3,
            address: place.0,
            port: place.1,
            kind: place.2,
            related,
            extensions,
        })
}

fn direction() -> impl Strategy<Value = Direction> {
    select(vec![
        Direction::SendRecv,
        Direction::SendOnly,
        Direction::RecvOnly,
        Direction::Inactive,
    ])
}

fn transport_attribute() -> impl Strategy<Value = Attribute> {
    prop_oneof![
        "[A-Za-z0-9+/]{4,32}".prop_map(Attribute::IceUfrag),
        "[A-Za-z0-9+/]{22,40}".prop_map(Attribute::IcePwd),
        vec(word(), 0..3).prop_map(Attribute::IceOptions),
        Just(Attribute::IceLite),
        candidate().prop_map(Attribute::Candidate),
        Just(Attribute::EndOfCandidates),
        any::<[u8; 32]>().prop_map(|it| Attribute::Fingerprint(Fingerprint::sha256(it))),
        select(vec![
            Setup::Active,
            Setup::Passive,
            Setup::ActPass,
            Setup::HoldConn
        ])
        .prop_map(Attribute::Setup),
        (word(), vec(word(), 0..4))
            .prop_map(|(semantics, mids)| Attribute::Group(Group { semantics, mids })),
    ]
}

fn media_attribute() -> impl Strategy<Value = Attribute> {
    let encoding = "[A-Za-z0-9-]{1,8}";
    prop_oneof![
        direction().prop_map(Attribute::Direction),
        (payload_type(), encoding, 1u32.., option::of(any::<u8>())).prop_map(
            |(payload_type, encoding, clock_rate, channels)| Attribute::RtpMap(RtpMap {
                payload_type,
                encoding,
                clock_rate,
                channels,
            })
        ),
        (
            payload_type(),
            "([a-z-]{1,8}=[a-z0-9]{0,6}(; ?[a-z]{1,4}=1)?)?"
        )
            .prop_map(|(payload_type, parameters)| Attribute::FormatParameters(
                FormatParameters {
                    payload_type,
                    parameters,
                }
            )),
        (option::of(payload_type()), "[a-z-]{1,9}( [a-z]{1,4})?").prop_map(
            |(payload_type, kind)| Attribute::RtcpFeedback(RtcpFeedback { payload_type, kind })
        ),
        (1u16.., option::of(direction()), word(), "([a-z]{1,4})?").prop_map(
            |(id, direction, uri, parameters)| Attribute::ExtensionMap(ExtensionMap {
                id,
                direction,
                uri,
                parameters,
            })
        ),
        (any::<u32>(), word(), option::of("[a-z:{} -]{0,8}[a-z]")).prop_map(
            |(ssrc, name, value)| Attribute::Ssrc(SsrcAttribute {
                ssrc: Ssrc(ssrc),
                name,
                value,
            })
        ),
        (word(), vec(any::<u32>().prop_map(Ssrc), 0..4))
            .prop_map(|(semantics, ssrcs)| Attribute::SsrcGroup(SsrcGroup { semantics, ssrcs })),
        (word(), option::of(word()))
            .prop_map(|(stream, track)| Attribute::Msid(Msid { stream, track })),
        Just(Attribute::RtcpMux),
        Just(Attribute::RtcpReducedSize),
        Just(Attribute::BundleOnly),
        Just(Attribute::ExtensionMapMixed),
        ("x-[a-z]{1,6}", option::of("[ -~é]{0,12}"))
            .prop_map(|(name, value)| Attribute::Other { name, value }),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    vec(prop_oneof![transport_attribute(), media_attribute()], 0..12).prop_map(Attributes)
}

fn media() -> impl Strategy<Value = MediaDescription> {
    (
        select(vec!["audio", "video", "application"]),
        any::<u16>(),
        option::of(any::<u16>()),
        vec(payload_type(), 1..6),
        option::of(word()),
        attributes(),
    )
        .prop_map(
            |(kind, port, port_count, formats, connection, attributes)| MediaDescription {
                kind: kind.to_owned(),
                port,
                port_count,
                protocol: "UDP/TLS/RTP/SAVPF".to_owned(),
                formats: formats.iter().map(u8::to_string).collect(),
                lines: connection.into_iter().map(|it| ('c', it)).collect(),
                attributes,
            },
        )
}

fn description() -> impl Strategy<Value = SessionDescription> {
    (
        any::<[u64; 2]>(),
        "[ -~]{0,12}",
        attributes(),
        vec(media(), 0..4),
    )
        .prop_map(|([id, version], name, attributes, mut media)| {
            for (index, section) in media.iter_mut().enumerate() {
                section.attributes.push(Attribute::Mid(index.to_string()));
            }
            SessionDescription {
                origin: Origin::local(id, version),
                name,
                lines: vec![('b', "AS:1".to_owned()), ('t', "0 0".to_owned())],
                attributes,
                media,
            }
        })
}

/// A real description with some bytes or lines changed, so that many of them parse.
fn mangled() -> impl Strategy<Value = String> {
    let texts = OFFERS.into_iter().chain(ANSWERS).map(|(_, text)| text);
    let edit = (any::<prop::sample::Index>(), "[ -~\n]{0,6}", 0usize..40);
    (select(texts.collect::<Vec<_>>()), vec(edit, 0..4)).prop_map(|(text, edits)| {
        let mut text = text.to_owned();
        for (at, insert, cut) in edits {
            let start = at.index(text.len() + 1).min(text.len());
            let end = (start + cut).min(text.len());
            text.replace_range(start..end, &insert);
        }
        text
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(description in description()) {
        let text = description.to_string();
        prop_assert_eq!(SessionDescription::parse(&text), Ok(description));
    }

    #[test]
    fn fragments_are_read_again(attributes in attributes(), media in media()) {
        let fragment = Fragment { attributes, media: vec![media] };
        prop_assert_eq!(Fragment::parse(&fragment.to_string()), Ok(fragment));
    }

    #[test]
    fn arbitrary_text_never_panics(characters in vec(any::<char>(), 0..200)) {
        let text: String = characters.into_iter().collect();
        let _ = SessionDescription::parse(&text);
        let _ = Fragment::parse(&text);
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in vec("[a-z]=[ -~]{0,30}", 0..20)) {
        let text = format!("v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\nt=0 0\n{}", lines.join("\n"));
        let _ = SessionDescription::parse(&text);
        let _ = Fragment::parse(&text);
    }

    /// In addition, a line that an error names exists, and writing once normalizes a
    /// description.
    #[test]
    fn mangled_descriptions_are_read_or_refused(text in mangled()) {
        let offer = match SessionDescription::parse(&text) {
            Ok(offer) => offer,
            Err(error) => {
                prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{}", error);
                return Ok(());
            }
        };
        let again = SessionDescription::parse(&offer.to_string());
        prop_assert_eq!(again.as_ref(), Ok(&offer));
        if let Ok(negotiated) = negotiate(&offer, &tracks(), false) {
            let text = answer(&negotiated, &local(2));
            let answer = SessionDescription::parse(&text).expect("our own answer");
            prop_assert_eq!(answer.media.len(), offer.media.len());
            let agreed = apply_answer(&offer, &text).expect("our own answer");
            prop_assert_eq!(agreed.media.len(), negotiated.tracks.len());
        }
        let ours = super::super::offer(&OfferParameters {
            data: None,
            media: vec![
                OfferedMedia::Receive(Kind::Video),
                OfferedMedia::Receive(Kind::Audio),
            ],
            opus: OpusOptions::default(),
            fec: true,
            cname: "us".to_owned(),
            credentials: credentials(),
            fingerprint: Fingerprint::sha256([1; 32]),
            candidates: Vec::new(),
            relayed: Vec::new(),
            session_id: 1,
        });
        let _ = apply_answer(&ours, &text);
    }
}
