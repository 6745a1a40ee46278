//! Media in both directions on one `m=` line.

use glassline_media::{Codec, Kind, Ssrc, Track};

use super::super::*;
use super::{CHROMIUM, FIREFOX, credentials, local, video};

const VOICE: OpusOptions = OpusOptions {
    fec: true,
    dtx: true,
    redundancy: Redundancy::Always,
    stereo: true,
};

fn voice() -> [Track; 1] {
    [Track::audio(Codec::Opus, 1)]
}

fn wanted(tracks: &[Track]) -> AnswerOptions<'_> {
    AnswerOptions {
        tracks,
        receive: &[Kind::Audio],
        data: false,
        opus: VOICE,
        publication: false,
    }
}

fn parse(text: &str) -> SessionDescription {
    SessionDescription::parse(text).expect("a valid description")
}

/// A browser's offer with a microphone, and the same offer with audio only.
fn calling(offer: &str) -> SessionDescription {
    let mut offer = parse(offer);
    let audio = offer.media.iter().position(|it| it.kind == "audio");
    let audio = offer.media.remove(audio.expect("audio"));
    offer.media = vec![audio];
    let attributes = &mut offer.media[0].attributes;
    for attribute in &mut attributes.0 {
        if let Attribute::Direction(direction) = attribute {
            *direction = Direction::SendRecv;
        }
    }
    if offer.media[0].attributes.ssrcs().next().is_none() {
        offer.media[0]
            .attributes
            .push(Attribute::Ssrc(SsrcAttribute {
                ssrc: Ssrc(4242),
                name: "cname".to_owned(),
                value: Some("browser".to_owned()),
            }));
    }
    offer
}

fn our_call(opus: OpusOptions) -> SessionDescription {
    offer(&OfferParameters {
        media: vec![OfferedMedia::Send {
            codec: Codec::Opus,
            channels: 1,
            sender: SenderSsrc {
                ssrc: Ssrc(7),
                rtx: None,
                fec: None,
            },
            receive: true,
        }],
        opus,
        fec: false,
        cname: "us".to_owned(),
        data: None,
        credentials: credentials(),
        fingerprint: Fingerprint::sha256([0xcd; 32]),
        candidates: vec![super::udp("192.0.2.9:40000")],
        relayed: Vec::new(),
        session_id: 78,
    })
}

#[test]
fn a_browser_that_calls_is_heard_and_answered_on_its_line() {
    let offer = calling(CHROMIUM);
    let negotiated = negotiate(&offer, &wanted(&voice())).expect("acceptable");
    let ([track], [media]) = (&negotiated.tracks[..], &negotiated.media[..]) else {
        panic!("{negotiated:?}");
    };
    assert_eq!((track.line, media.line), (0, 0));
    assert_eq!(
        (track.payload_type, track.red_payload_type),
        (111, Some(63))
    );
    assert_eq!(media.codecs[0].red_payload_type, Some(63));
    assert_eq!(media.ssrc, Some(Ssrc(4242)));
    assert!(!track.feedback.nack, "no browser asks for audio again");
    assert!(OpusParameters::parse(&track.parameters).fec);
    let answer = parse(&answer(&negotiated, &local(1)));
    assert_eq!(answer.direction(0), Direction::SendRecv);
    // The browser sends the first format.
    assert_eq!(answer.media[0].formats, ["63", "111"]);
    let attributes = &answer.media[0].attributes;
    let fmtp = |it| attributes.fmtp(it).map(|it| it.parameters.as_str());
    assert_eq!(fmtp(111), Some("minptime=10;useinbandfec=1;usedtx=1"));
    assert_eq!(fmtp(63), Some("111/111"));
    assert_eq!(attributes.ssrcs().next().map(|it| it.ssrc), Some(Ssrc(100)));
}

#[test]
fn redundancy_is_agreed_only_where_both_want_it() {
    let plain = OpusOptions::default();
    let tracks = voice();
    let without = AnswerOptions {
        opus: plain,
        ..wanted(&tracks)
    };
    let negotiated = negotiate(&calling(CHROMIUM), &without).expect("acceptable");
    assert_eq!(negotiated.tracks[0].red_payload_type, None);
    // Firefox offers none.
    let negotiated = negotiate(&calling(FIREFOX), &wanted(&tracks)).expect("acceptable");
    assert_eq!(negotiated.tracks[0].red_payload_type, None);
    // A block of another codec is not accepted either.
    let mut foreign = calling(CHROMIUM);
    for attribute in &mut foreign.media[0].attributes.0 {
        if let Attribute::FormatParameters(fmtp) = attribute
            && fmtp.payload_type == 63
        {
            fmtp.parameters = "111/0".to_owned();
        }
    }
    let negotiated = negotiate(&foreign, &wanted(&tracks)).expect("acceptable");
    assert_eq!(negotiated.tracks[0].red_payload_type, None);
    for (offered, taken, agreed) in [
        (VOICE, VOICE, Some(63)),
        (VOICE, plain, None),
        (plain, VOICE, None),
    ] {
        let offer = our_call(offered);
        let wanted = AnswerOptions {
            opus: taken,
            ..wanted(&tracks)
        };
        let negotiated = negotiate(&offer, &wanted).expect("acceptable");
        let answer = answer(&negotiated, &local(1));
        let both = apply_answer(&offer, &answer).expect("our own");
        assert_eq!(both.tracks[0].red_payload_type, agreed);
        assert_eq!(both.media[0].codecs[0].red_payload_type, agreed);
        assert_eq!(negotiated.tracks[0].red_payload_type, agreed);
    }
}

#[test]
fn who_prefers_redundancy_says_so_by_its_place() {
    let tracks = voice();
    let opus = OpusOptions {
        redundancy: Redundancy::IfPreferred,
        ..VOICE
    };
    let red = |mut offer: SessionDescription, listens: bool, formats: Option<[&str; 2]>| {
        let media = &mut offer.media[0];
        if let Some(formats) = formats {
            media.formats = formats.map(str::to_owned).to_vec();
        }
        for attribute in &mut media.attributes.0 {
            if let Attribute::Direction(it) = attribute
                && listens
            {
                *it = Direction::RecvOnly;
            }
        }
        let receive: &[Kind] = if listens { &[] } else { &[Kind::Audio] };
        let wanted = AnswerOptions {
            opus,
            receive,
            ..wanted(&tracks)
        };
        let negotiated = negotiate(&offer, &wanted).expect("acceptable");
        negotiated.tracks[0].red_payload_type
    };
    for listens in [false, true] {
        assert_eq!(red(our_call(VOICE), listens, None), Some(63));
        let plain = our_call(OpusOptions::default());
        assert_eq!(red(plain, listens, None), None);
        // Chromium lists it behind Opus, unless a page asks for another order.
        assert_eq!(red(calling(CHROMIUM), listens, None), None);
        let first = red(calling(CHROMIUM), listens, Some(["63", "111"]));
        assert_eq!(first, Some(63));
        assert_eq!(red(calling(FIREFOX), listens, None), None);
    }
    let offer = our_call(opus);
    assert_eq!(offer.media[0].formats, ["111"], "ours does without");
}

#[test]
fn our_own_call_is_agreed_both_ways() {
    let offer = our_call(VOICE);
    assert_eq!(offer.direction(0), Direction::SendRecv);
    assert_eq!(parse(&offer.to_string()), offer);
    assert_eq!(offer.media[0].formats, ["63", "111"], "no other coding");
    let negotiated = negotiate(&offer, &wanted(&voice())).expect("acceptable");
    assert_eq!(negotiated.media[0].ssrc, Some(Ssrc(7)));
    let agreed = apply_answer(&offer, &answer(&negotiated, &local(1))).expect("agreed");
    let ([track], [media]) = (&agreed.tracks[..], &agreed.media[..]) else {
        panic!("{agreed:?}");
    };
    assert_eq!(
        (track.track.get(), track.line, track.payload_type),
        (0, 0, 111)
    );
    assert_eq!(track.extensions, negotiated.tracks[0].extensions);
    assert_eq!(media.ssrc, Some(Ssrc(100)));
    let stated = OpusParameters::parse(&track.parameters);
    assert!(stated.fec && stated.dtx && !stated.stereo);
}

#[test]
fn who_only_sends_is_heard_and_who_only_listens_is_sent_to() {
    let one_way = |direction| {
        let mut offer = our_call(VOICE);
        for attribute in &mut offer.media[0].attributes.0 {
            if let Attribute::Direction(it) = attribute {
                *it = direction;
            }
        }
        let negotiated = negotiate(&offer, &wanted(&voice()))?;
        let answer = parse(&answer(&negotiated, &local(1)));
        let agreed = apply_answer(&offer, &answer.to_string()).expect("our own");
        assert_eq!(agreed.media.len(), negotiated.tracks.len());
        assert_eq!(agreed.tracks.len(), negotiated.media.len());
        Ok::<_, NegotiationError>(answer.direction(0))
    };
    assert_eq!(one_way(Direction::SendOnly), Ok(Direction::RecvOnly));
    assert_eq!(one_way(Direction::RecvOnly), Ok(Direction::SendOnly));
    let refused = one_way(Direction::Inactive).expect_err("nothing to do");
    assert!(
        matches!(refused, NegotiationError::NoMedia { .. }),
        "{refused}"
    );
    let nothing_sent = AnswerOptions {
        tracks: &[],
        ..wanted(&[])
    };
    let refused = negotiate(&parse(CHROMIUM), &nothing_sent).expect_err("it only listens");
    assert!(
        refused.to_string().starts_with("no m= line sends audio"),
        "{refused}"
    );
}

/// A server of streams accepts no audio and says so; the call then has one direction.
#[test]
fn a_server_that_only_sends_answers_a_call() {
    let offer = our_call(VOICE);
    let tracks = [video([0x42, 0xc0, 31]), Track::audio(Codec::Opus, 2)];
    let server = AnswerOptions {
        tracks: &tracks,
        ..AnswerOptions::default()
    };
    let negotiated = negotiate(&offer, &server).expect("audio alone");
    let agreed = apply_answer(&offer, &answer(&negotiated, &local(1))).expect("agreed");
    assert!(agreed.tracks.is_empty());
    assert_eq!(agreed.media.len(), 1);
}
