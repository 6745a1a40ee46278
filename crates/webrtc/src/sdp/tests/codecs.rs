//! What browsers are answered, codec by codec.

use glassline_media::{Codec, Track};

use super::super::*;
use super::{CHROMIUM, FIREFOX, SAFARI, local, negotiate};

/// Chromium's offer on a machine that decodes H.265.
fn chromium_with_h265() -> String {
    CHROMIUM
        .replace("a=rtpmap:47 AV1/90000", "a=rtpmap:47 H265/90000")
        .replace(
            "a=fmtp:47 level-idx=5;profile=1;tier=0",
            "a=fmtp:47 level-id=180;profile-id=1;tier-flag=0;tx-mode=SRST",
        )
}

fn parse(text: &str) -> SessionDescription {
    SessionDescription::parse(text).expect("a valid description")
}

fn with(codec: Codec, parameters: &str) -> Track {
    Track::new(codec).with_format_parameters(parameters)
}

fn opus() -> Track {
    Track::audio(Codec::Opus, 2)
}

#[test]
fn each_codec_gets_the_payload_type_of_its_profile() {
    let offer = chromium_with_h265();
    for (track, payload_type, rtx, fmtp) in [
        (with(Codec::Vp8, ""), 96, Some(97), None),
        (with(Codec::Vp9, ""), 98, Some(99), Some("profile-id=0")),
        (
            with(Codec::Vp9, "profile-id=2"),
            100,
            Some(101),
            Some("profile-id=2"),
        ),
        (
            with(Codec::Av1, ""),
            45,
            Some(46),
            Some("level-idx=5;profile=0;tier=0"),
        ),
        (
            with(Codec::H265, "sprop-sps=QgEBAWAAAAMAkAAAAwAAAwAe"),
            47,
            Some(48),
            Some("level-id=180;profile-id=1;tier-flag=0;tx-mode=SRST"),
        ),
        (
            opus(),
            111,
            None,
            Some("minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1"),
        ),
        (with(Codec::Pcmu, ""), 0, None, None),
        (with(Codec::Pcma, ""), 8, None, None),
    ] {
        let codec = track.codec;
        let negotiated = negotiate(&parse(&offer), &[track], false).expect("Chromium plays it");
        let [chosen] = &negotiated.tracks[..] else {
            panic!("{codec}: {negotiated:?}");
        };
        assert_eq!(chosen.codec, codec);
        assert_eq!(
            (chosen.payload_type, chosen.rtx_payload_type),
            (payload_type, rtx),
            "{codec}"
        );
        let answer = parse(&answer(&negotiated, &local(1)));
        let attributes = &answer.media[chosen.line].attributes;
        let stated = attributes.fmtp(payload_type);
        assert_eq!(stated.map(|it| it.parameters.as_str()), fmtp, "{codec}");
        let map = attributes.rtpmap(payload_type);
        assert_eq!(map.expect("a map").encoding, codec.encoding_name());
    }
}

#[test]
fn a_profile_that_is_not_offered_is_refused_with_what_is() {
    for (track, wanted, offered) in [
        (
            with(Codec::Vp9, "profile-id=2"),
            "VP9 (profile-id=2)",
            "VP8",
        ),
        (
            with(Codec::H265, ""),
            "H265 (profile-id=1)",
            "VP9 (profile-id=0)",
        ),
        (with(Codec::Av1, "profile=2"), "AV1 (profile=2)", "VP8"),
    ] {
        for offer in [FIREFOX, SAFARI] {
            let Err(NegotiationError::NoCodec {
                wanted: stated,
                offered: all,
                ..
            }) = negotiate(&parse(offer), &[track.clone(), opus()], false)
            else {
                continue;
            };
            assert_eq!(stated, wanted);
            assert!(!all.contains(&wanted.to_owned()), "{all:?}");
        }
        let refused = negotiate(
            &parse(CHROMIUM),
            &[with(track.codec, "profile-id=7;profile=7")],
            false,
        );
        let Err(NegotiationError::NoCodec { offered: all, .. }) = refused else {
            panic!("{wanted}");
        };
        assert!(all.contains(&offered.to_owned()), "{all:?}");
    }
}

#[test]
fn tracks_that_no_browser_plays_are_left_out() {
    let tracks = [
        with(Codec::MpegTs, ""),
        with(Codec::Vp8, ""),
        Track::audio(Codec::Aac, 2),
        opus(),
        with(Codec::T140, ""),
    ];
    let negotiated = negotiate(&parse(CHROMIUM), &tracks, false).expect("two of them");
    let chosen: Vec<usize> = negotiated.tracks.iter().map(|it| it.track.get()).collect();
    assert_eq!(chosen, [1, 3]);
    // Video that no browser plays is omitted, and audio stays.
    let negotiated = negotiate(&parse(CHROMIUM), &[with(Codec::Jpeg, ""), opus()], false);
    assert_eq!(negotiated.expect("valid").tracks.len(), 1);
}

#[test]
fn a_stream_without_anything_for_browsers_is_refused_by_name() {
    let tracks = [with(Codec::MpegVideo, ""), Track::audio(Codec::Ac3, 2)];
    let refused = negotiate(&parse(CHROMIUM), &tracks, false).expect_err("nothing to play");
    assert_eq!(
        refused.to_string(),
        "the stream has MPEG-1/2 video, AC-3, which browsers do not play; they play H.264, \
         VP8, VP9, AV1, H.265, Opus and G.711"
    );
}

#[test]
fn frames_out_of_order_are_refused_where_they_are_wanted() {
    let mut video = super::video([0x4d, 0, 31]);
    video.video.reordered = true;
    let refused = negotiate(&parse(CHROMIUM), &[video.clone(), opus()], false);
    let text = refused.expect_err("B-frames").to_string();
    assert!(text.contains("H.264 has B-frames"), "{text}");
    // An offer of audio only gets audio.
    let audio = CHROMIUM.replacen("m=video 9", "m=video 0", 1);
    let negotiated = negotiate(&parse(&audio), &[video, opus()], false).expect("valid");
    assert_eq!(negotiated.tracks.len(), 1);
}
