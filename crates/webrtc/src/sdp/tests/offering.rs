use glassline_media::{Codec, Kind, Ssrc, Track};

use super::super::*;
use super::{ANSWERS, credentials, local, negotiate, tracks, video};

fn our_offer(kinds: &[Kind]) -> SessionDescription {
    offer(&OfferParameters {
        media: kinds.iter().copied().map(OfferedMedia::Receive).collect(),
        opus: OpusOptions::default(),
        fec: false,
        cname: "us".to_owned(),
        data: None,
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

fn both() -> SessionDescription {
    our_offer(&[Kind::Video, Kind::Audio])
}

fn agreed(name: &str) -> Agreed {
    let (_, answer) = ANSWERS
        .into_iter()
        .find(|(it, _)| *it == name)
        .expect("a known server");
    apply_answer(&both(), answer).unwrap_or_else(|it| panic!("{name}: {it}"))
}

#[test]
fn our_offer_is_one_that_we_answer() {
    let offer = both();
    assert_eq!(
        SessionDescription::parse(&offer.to_string()),
        Ok(offer.clone())
    );
    let expected = [
        ([0x42, 0xc0, 31], 102),
        ([0x42, 0x00, 31], 104),
        ([0x4d, 0x40, 40], 106),
        ([0x64, 0x00, 40], 108),
        ([0x64, 0x0c, 40], 112),
    ];
    for (profile, payload_type) in expected {
        let negotiated = negotiate(&offer, &[video(profile)], false).expect("acceptable");
        let track = &negotiated.tracks[0];
        assert_eq!(track.payload_type, payload_type, "{profile:?}");
        assert_eq!(track.rtx_payload_type, Some(payload_type + 1));
    }
    for (codec, payload_type) in [(Codec::Pcmu, 0), (Codec::Pcma, 8), (Codec::Opus, 111)] {
        let negotiated = negotiate(&offer, &[Track::audio(codec, 1)], false).expect("acceptable");
        assert_eq!(negotiated.tracks[0].payload_type, payload_type);
    }
}

#[test]
fn offer_and_answer_of_our_own_agree() {
    let offer = both();
    let negotiated = negotiate(&offer, &tracks(), false).expect("acceptable");
    assert_eq!(negotiated.remote.credentials.ufrag, "cLiE");
    assert_eq!(negotiated.remote.candidates.len(), 1);
    let agreed = apply_answer(&offer, &answer(&negotiated, &local(2))).expect("agreed");
    assert!(agreed.dtls_client && agreed.remote.ice_lite && agreed.remote.end_of_candidates);
    assert_eq!(agreed.remote.credentials, credentials());
    assert_eq!(agreed.remote.candidates.len(), 2);
    assert_eq!(
        agreed.remote.fingerprints,
        [Fingerprint::sha256([0xab; 32])]
    );
    let [video, audio] = &agreed.media[..] else {
        panic!("{agreed:?}");
    };
    assert_eq!(
        (video.ssrc, video.rtx_ssrc),
        (Some(Ssrc(100)), Some(Ssrc(200)))
    );
    assert_eq!((audio.ssrc, audio.rtx_ssrc), (Some(Ssrc(101)), None));
    for (theirs, ours) in agreed.media.iter().zip(&negotiated.tracks) {
        assert_eq!(theirs.mid, ours.mid);
        assert_eq!(theirs.extensions, ours.extensions);
        assert_eq!(theirs.reduced_size_rtcp, ours.reduced_size_rtcp);
        assert_eq!(theirs.codecs.len(), 1);
        assert_eq!(theirs.codecs[0].payload_type, ours.payload_type);
        assert_eq!(theirs.codecs[0].rtx_payload_type, ours.rtx_payload_type);
        assert_eq!(theirs.codecs[0].feedback, ours.feedback);
    }
    let (media, codec) = agreed.retransmitted(103).expect("RTX of 102");
    assert_eq!((media.line, codec.payload_type), (0, 102));
    assert_eq!(agreed.codec(111).map(|(media, _)| media.line), Some(1));
    assert_eq!(agreed.codec(99), None);
}

#[test]
fn answers_of_other_servers_are_understood() {
    // Agreed lines, RTX of video, whether we are the DTLS client, candidates of component 1.
    let expected = [
        ("Chromium", 2, Some(103), false, 0),
        ("Pion", 2, Some(103), false, 2),
        ("aiortc", 2, Some(103), false, 2),
        ("GStreamer", 1, None, false, 0),
        ("Janus", 2, Some(103), false, 2),
        ("MediaMTX", 1, Some(103), true, 3),
        ("libdatachannel", 2, None, false, 2),
    ];
    for (name, lines, rtx, dtls_client, candidates) in expected {
        let agreed = agreed(name);
        assert_eq!(agreed.media.len(), lines, "{name}");
        let codec = &agreed.media[0].codecs[0];
        assert_eq!(
            (codec.codec, codec.payload_type),
            (Codec::H264, 102),
            "{name}"
        );
        assert_eq!(codec.rtx_payload_type, rtx, "{name}");
        assert_eq!(agreed.dtls_client, dtls_client, "{name}");
        assert_eq!(agreed.remote.candidates.len(), candidates, "{name}");
        if let Some(audio) = agreed.media.get(1) {
            assert_eq!(audio.codecs[0].codec, Codec::Opus, "{name}");
        }
    }
    assert_eq!(agreed("Janus").media[0].rtx_ssrc, Some(Ssrc(3_129_907_715)));
    assert_eq!(agreed("libdatachannel").media[0].ssrc, Some(Ssrc(42)));
    let named = &agreed("MediaMTX").remote.candidates[2];
    assert_eq!(named.address, Address::Name("media.example.org".to_owned()));
}

const JANUS: usize = 4;

fn spoilt(from: &str, to: &str) -> AnswerError {
    let text = ANSWERS[JANUS].1.replace(from, to);
    apply_answer(&both(), &text).expect_err("must not be agreed")
}

#[test]
fn what_an_answer_lacks_is_named() {
    assert!(matches!(
        spoilt("v=0", "v=1"),
        AnswerError::Malformed(Error { line: 1, .. })
    ));
    assert_eq!(
        spoilt("a=rtcp-mux\n", ""),
        AnswerError::NoRtcpMux {
            media: "m= line 1 (video, mid 0)".to_owned()
        }
    );
    assert_eq!(spoilt("a=fingerprint", "a=x"), AnswerError::NoFingerprint);
    assert_eq!(spoilt("a=ice-pwd", "a=x"), AnswerError::NoIce);
    assert_eq!(
        spoilt("setup:active", "setup:holdconn"),
        AnswerError::HeldBack
    );
    assert_eq!(
        spoilt("m=video", "m=audio"),
        AnswerError::LineKind {
            media: "m= line 1 (audio, mid 0)".to_owned(),
            offered: "video".to_owned()
        }
    );
    let text = spoilt("a=sendonly", "a=inactive").to_string();
    assert_eq!(
        text,
        "the answer accepts nothing of the offer: \
         m= line 1 (video, mid 0): inactive, m= line 2 (audio, mid 1): inactive"
    );
    let short = apply_answer(&our_offer(&[Kind::Video]), ANSWERS[JANUS].1);
    assert_eq!(
        short,
        Err(AnswerError::LineCount {
            offered: 1,
            answered: 2
        })
    );
}

#[test]
fn a_missing_bundle_is_forgiven_where_the_credentials_are_equal() {
    let (_, janus) = ANSWERS[JANUS];
    let unbundled = janus.replace("a=group:BUNDLE 0 1\n", "");
    assert!(apply_answer(&both(), &unbundled).is_ok());
    let apart = unbundled.replacen("a=ice-ufrag:f3Kx", "a=ice-ufrag:other", 1);
    assert!(matches!(
        apply_answer(&both(), &apart),
        Err(AnswerError::NoBundle { .. })
    ));
}

#[test]
fn a_missing_mid_setup_or_rtpmap_is_forgiven() {
    let (_, janus) = ANSWERS[JANUS];
    let bare = janus
        .replace("a=mid:0\n", "")
        .replace("a=setup:active\n", "")
        .replace("a=rtpmap:102 H264/90000\n", "");
    let agreed = apply_answer(&both(), &bare).expect("agreed");
    assert_eq!(agreed.media[0].mid, "0");
    assert_eq!(agreed.media[0].codecs[0].codec, Codec::H264);
    assert!(
        agreed.dtls_client,
        "an answer without the attribute is passive"
    );
}
