use glassline_media::{Kind, Track};

use super::super::*;
use super::{CHROMIUM, CHROMIUM_DATA, local, negotiate, tracks};

const OURS: DataParameters = DataParameters {
    port: 5000,
    max_message_size: Some(1 << 20),
};

fn parse(text: &str) -> SessionDescription {
    SessionDescription::parse(text).expect("a valid description")
}

fn our_offer(kinds: &[Kind]) -> SessionDescription {
    offer(&OfferParameters {
        media: kinds.iter().copied().map(OfferedMedia::Receive).collect(),
        opus: OpusOptions::default(),
        fec: false,
        cname: "us".to_owned(),
        data: Some(OURS),
        credentials: IceCredentials {
            ufrag: "cLiE".to_owned(),
            pwd: "thePasswordOfTheClient".to_owned(),
        },
        fingerprint: Fingerprint::sha256([0xcd; 32]),
        candidates: vec![super::udp("192.0.2.9:40000")],
        relayed: Vec::new(),
        session_id: 78,
    })
}

/// The offer's session section and only its `m=application` section.
fn data_alone(offer: &str) -> String {
    let start = offer.find("m=").expect("an m= line");
    let data = offer.find("m=application").expect("an m= line for data");
    format!("{}{}", &offer[..start], &offer[data..])
}

#[test]
fn chromiums_data_is_taken_beside_its_media_and_alone() {
    let negotiated = negotiate(&parse(CHROMIUM_DATA), &tracks(), true).expect("acceptable");
    let data = negotiated.data.as_ref().expect("data");
    assert_eq!((negotiated.tracks.len(), data.line), (2, 2));
    assert_eq!((data.mid.as_str(), data.remote.port), ("2", 5000));
    assert_eq!(data.remote.max_message_size, Some(262_144));
    assert_eq!(negotiated.bundle, ["0", "1", "2"]);
    let text = answer(&negotiated, &local(2)).replace("\r\n", "\n");
    let fingerprint = vec!["AB"; 32].join(":");
    let expected = format!(
        "m=application 8189 UDP/DTLS/SCTP webrtc-datachannel\nc=IN IP4 192.0.2.7\na=mid:2\n\
         a=ice-ufrag:sErV\na=ice-pwd:aPasswordOfTwentyTwoCh\na=fingerprint:sha-256 {fingerprint}\n\
         a=setup:passive\na=ice-options:trickle\na=sctp-port:5000\na=max-message-size:1048576\n"
    );
    assert!(text.ends_with(&expected), "{text}");

    let alone = data_alone(CHROMIUM_DATA);
    for tracks in [&tracks()[..], &[]] {
        let negotiated = negotiate(&parse(&alone), tracks, true).expect("acceptable");
        assert!(negotiated.tracks.is_empty() && negotiated.data.is_some());
        assert_eq!(negotiated.remote.credentials.ufrag, "Q94c");
        let text = answer(&negotiated, &local(0));
        assert_eq!(text.matches("a=candidate:").count(), 2);
        assert_eq!(parse(&text).media.len(), 1);
    }
    let bare = negotiate(&parse(CHROMIUM_DATA), &[], true).expect("acceptable");
    assert_eq!(bare.bundle, ["0", "2"], "the first line has the transport");
    assert!(bare.tracks.is_empty() && bare.media.is_empty());
}

#[test]
fn data_nobody_wants_is_turned_down() {
    let negotiated = negotiate(&parse(CHROMIUM_DATA), &tracks(), false).expect("acceptable");
    assert_eq!(negotiated.data, None);
    let text = answer(&negotiated, &local(2));
    assert!(text.contains("m=application 0 UDP/DTLS/SCTP webrtc-datachannel"));
    let without = negotiate(&parse(CHROMIUM), &tracks(), true).expect("acceptable");
    assert_eq!(without.data, None);
    let refused = negotiate(&parse(CHROMIUM), &[], true).expect_err("nothing left");
    assert!(matches!(refused, NegotiationError::NoData { .. }));
    assert!(refused.to_string().contains("m=application"), "{refused}");
    assert!(negotiate(&parse(&data_alone(CHROMIUM_DATA)), &tracks(), false).is_err());
}

/// The syntax of Chromium before 2019 and of appliances (draft-ietf-mmusic-sctp-sdp-14 and
/// before).
#[test]
fn the_old_form_is_read_and_answered_in_kind() {
    let old = data_alone(CHROMIUM_DATA)
        .replace("UDP/DTLS/SCTP webrtc-datachannel", "DTLS/SCTP 5001")
        .replace("a=sctp-port:5000", "a=sctpmap:5001 webrtc-datachannel 1024")
        .replace(
            "a=max-message-size:262144",
            "a=fmtp:webrtc-datachannel max-message-size=100000",
        );
    let negotiated = negotiate(&parse(&old), &[], true).expect("acceptable");
    let data = negotiated.data.as_ref().expect("data");
    assert_eq!(data.remote.port, 5001);
    assert_eq!(data.remote.max_message_size, Some(100_000));
    let text = answer(&negotiated, &local(0));
    assert!(
        text.contains("m=application 8189 DTLS/SCTP 5000\r\n"),
        "{text}"
    );
    assert!(text.contains("a=sctpmap:5000 webrtc-datachannel 65535\r\n"));
    assert!(!text.contains("a=sctp-port"));
}

#[test]
fn what_is_not_webrtc_data_is_no_data() {
    let alone = data_alone(CHROMIUM_DATA);
    for (from, to) in [
        ("UDP/DTLS/SCTP", "UDP/TLS/UDPTL"),
        ("webrtc-datachannel", "bfcp"),
        ("m=application 9", "m=application 0"),
        ("a=sctp-port:5000", "a=sctp-port:0"),
        ("a=sctp-port:5000", "a=sctp-port:five"),
        ("UDP/DTLS/SCTP webrtc-datachannel", "DTLS/SCTP 5000"),
    ] {
        let changed = alone.replace(from, to);
        assert_ne!(changed, alone);
        let refused = negotiate(&parse(&changed), &[], true);
        assert!(
            matches!(refused, Err(NegotiationError::NoData { .. })),
            "{to}"
        );
    }
}

/// One of two lines of data channels is accepted, and a line without media is no answer to media.
#[test]
fn an_answer_that_accepts_one_of_two_lines_is_understood() {
    let alone = data_alone(CHROMIUM_DATA);
    let second = &alone[alone.find("m=application").expect("data")..];
    let twice = parse(&format!("{alone}{}", second.replace("a=mid:2", "a=mid:3")));
    let negotiated = negotiate(&twice, &[], true).expect("acceptable");
    let agreed = apply_answer(&twice, &answer(&negotiated, &local(0))).expect("agreed");
    assert_eq!(agreed.data.map(|data| data.line), Some(0));
    let media = parse(CHROMIUM_DATA);
    let negotiated = negotiate(&media, &[], true).expect("acceptable");
    let agreed = apply_answer(&media, &answer(&negotiated, &local(0))).expect("agreed");
    assert_eq!((agreed.media.len(), agreed.tracks.len()), (0, 0));
    assert_eq!(agreed.data.map(|data| data.line), Some(2));
}

#[test]
fn an_offer_of_ours_is_answered_with_data_or_without() {
    for kinds in [&[Kind::Video, Kind::Audio][..], &[]] {
        let offer = our_offer(kinds);
        assert_eq!(parse(&offer.to_string()), offer);
        let tracks: Vec<Track> = tracks().into_iter().take(kinds.len()).collect();
        let negotiated = negotiate(&offer, &tracks, true).expect("acceptable");
        let text = answer(&negotiated, &local(2));
        let agreed = apply_answer(&offer, &text).expect("agreed");
        assert_eq!(agreed.media.len(), kinds.len());
        let data = agreed.data.expect("data");
        assert_eq!((data.line, data.remote), (kinds.len(), OURS));
        assert_eq!(agreed.remote.candidates.len(), 2);
    }
    let offer = our_offer(&[Kind::Video, Kind::Audio]);
    let negotiated = negotiate(&offer, &tracks(), false).expect("acceptable");
    let agreed = apply_answer(&offer, &answer(&negotiated, &local(2))).expect("media alone");
    assert_eq!(agreed.data, None);
    let offer = our_offer(&[]);
    let refused = answer(
        &negotiate(&offer, &[], true).expect("acceptable"),
        &local(0),
    )
    .replace("m=application 8189", "m=application 0");
    let error = apply_answer(&offer, &refused).expect_err("nothing left");
    assert!(error.to_string().contains("no data channels"), "{error}");
}
