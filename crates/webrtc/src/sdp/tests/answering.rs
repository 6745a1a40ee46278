use glassline_media::{Codec, Kind, Track};

use super::super::*;
use super::{
    AIORTC, CHROMIUM, CHROMIUM_DATA, FIREFOX, GSTREAMER, OFFERS, PION, SAFARI, local, negotiate,
    negotiated, parse, refused, tracks, video, without,
};

#[test]
fn each_browser_gets_constrained_baseline_with_rtx_and_opus() {
    let expected = [
        (CHROMIUM, (108, Some(109)), 111),
        (CHROMIUM_DATA, (108, Some(109)), 111),
        (FIREFOX, (126, Some(127)), 109),
        (SAFARI, (98, Some(99)), 111),
        (PION, (106, Some(107)), 111),
        (AIORTC, (101, Some(102)), 96),
        (GSTREAMER, (96, None), 97),
    ];
    for ((name, offer), (_, video, audio)) in OFFERS.into_iter().zip(expected) {
        let negotiated = negotiated(offer);
        let [v, a] = &negotiated.tracks[..] else {
            panic!("{name}: {negotiated:?}");
        };
        assert_eq!((v.payload_type, v.rtx_payload_type), video, "{name}");
        assert_eq!(
            (a.payload_type, a.rtx_payload_type),
            (audio, None),
            "{name}"
        );
        assert_eq!((v.codec, a.codec), (Codec::H264, Codec::Opus), "{name}");
        assert!(v.feedback.nack && v.feedback.pli, "{name}");
        assert!(!a.feedback.nack && !a.feedback.pli, "{name}");
        assert!(!negotiated.remote.ice_lite, "{name}");
        assert_eq!(negotiated.remote.setup, Some(Setup::ActPass), "{name}");
    }
}

#[test]
fn every_answer_keeps_the_order_of_lines_and_parses() {
    for (name, text) in OFFERS {
        let offer = parse(text);
        let negotiated = negotiated(text);
        let text = answer(&negotiated, &local(2));
        let answer = parse(&text);
        assert_eq!(answer.to_string(), text, "{name}");
        assert!(answer.attributes.has(&Attribute::IceLite), "{name}");
        assert_eq!(answer.media.len(), offer.media.len(), "{name}");
        for (line, (ours, theirs)) in answer.media.iter().zip(&offer.media).enumerate() {
            assert_eq!(ours.kind, theirs.kind, "{name}");
            assert_eq!(ours.protocol, theirs.protocol, "{name}");
            assert_eq!(ours.attributes.mid(), theirs.attributes.mid(), "{name}");
            if ours.port == 0 {
                continue;
            }
            assert_eq!(answer.direction(line), Direction::SendOnly, "{name}");
            assert_eq!(ours.attributes.setup(), Some(Setup::Passive), "{name}");
            assert!(ours.attributes.has(&Attribute::RtcpMux), "{name}");
            for map in ours.attributes.extension_maps() {
                let mut offered = theirs.attributes.extension_maps();
                assert!(
                    offered.any(|it| it.id == map.id && it.uri == map.uri),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn the_answer_to_chromium_as_a_whole() {
    let offer = CHROMIUM_DATA;
    let text = answer(&negotiated(offer), &local(2)).replace("\r\n", "\n");
    let fingerprint = vec!["AB"; 32].join(":");
    let transport = format!(
        "a=rtcp-mux\na=rtcp-rsize\na=ice-ufrag:sErV\na=ice-pwd:aPasswordOfTwentyTwoCh\n\
         a=fingerprint:sha-256 {fingerprint}\na=setup:passive\na=ice-options:trickle\n\
         a=extmap:3 {TRANSPORT_CC_URI}\na=extmap:4 {MID_URI}\n"
    );
    let expected = format!(
        "v=0\no=- 4711 1 IN IP4 127.0.0.1\ns=-\nt=0 0\na=group:BUNDLE 0 1\n\
         a=msid-semantic: WMS *\na=ice-lite\n\
         m=audio 8189 UDP/TLS/RTP/SAVPF 111\nc=IN IP4 192.0.2.7\na=mid:0\na=sendonly\n{transport}\
         a=rtpmap:111 opus/48000/2\na=fmtp:111 minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1\n\
         a=rtcp-fb:111 transport-cc\na=msid:demo audio1\na=ssrc:101 cname:glassline\n\
         a=candidate:1 1 udp 2130706431 2001:db8::7 8189 typ host\n\
         a=candidate:2 1 udp 2130706175 192.0.2.7 8189 typ host\na=end-of-candidates\n\
         m=video 8189 UDP/TLS/RTP/SAVPF 108 109\nc=IN IP4 192.0.2.7\na=mid:1\na=sendonly\n{transport}\
         a=rtpmap:108 H264/90000\n\
         a=fmtp:108 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f\n\
         a=rtcp-fb:108 transport-cc\na=rtcp-fb:108 ccm fir\na=rtcp-fb:108 nack\na=rtcp-fb:108 nack pli\n\
         a=rtpmap:109 rtx/90000\na=fmtp:109 apt=108\na=msid:demo video0\n\
         a=ssrc-group:FID 100 200\na=ssrc:100 cname:glassline\na=ssrc:200 cname:glassline\n\
         m=application 0 UDP/DTLS/SCTP webrtc-datachannel\nc=IN IP4 0.0.0.0\na=mid:2\na=inactive\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn names_from_outside_cannot_add_lines() {
    let mut local = local(2);
    local.stream_id = "cam\r\na=evil é".to_owned();
    local.cname = String::new();
    let text = answer(&negotiated(CHROMIUM), &local);
    assert!(text.contains("a=msid:cam--a-evil-- video0\r\n"), "{text}");
    assert!(text.contains("a=ssrc:100 cname:-\r\n"), "{text}");
}

#[test]
fn the_tracks_profile_is_preferred() {
    let chosen = |profile, offer: &str| {
        let negotiated = negotiate(&parse(offer), &[video(profile)], false).expect("acceptable");
        negotiated.tracks[0].payload_type
    };
    assert_eq!(chosen([0x42, 0x00, 31], CHROMIUM), 102, "baseline");
    assert_eq!(chosen([0x4d, 0x40, 31], CHROMIUM), 116, "main");
    // High is not offered; a profile that decodes it in practice is chosen.
    assert_eq!(
        chosen([0x64, 0x00, 40], CHROMIUM),
        108,
        "constrained baseline"
    );
    assert_eq!(chosen([0xf4, 0x00, 40], CHROMIUM), 41, "4:4:4");
    assert_eq!(chosen([0x64, 0x00, 40], PION), 112, "high");
    assert_eq!(chosen([0x4d, 0x40, 31], SAFARI), 98, "no superset of main");
    assert_eq!(chosen([0x64, 0x0c, 40], SAFARI), 96, "constrained high");
}

#[test]
fn a_sufficient_level_is_preferred_but_not_required() {
    let offer = CHROMIUM.replace("profile-level-id=42001f", "profile-level-id=42e028");
    let negotiate = |level| {
        let negotiated = negotiate(&parse(&offer), &[video([0x42, 0xc0, level])], false);
        negotiated.expect("acceptable").tracks[0].payload_type
    };
    assert_eq!(negotiate(40), 102);
    assert_eq!(negotiate(51), 102, "the first of equals");
    let offer = CHROMIUM.replace("profile-level-id=4d001f", "profile-level-id=42e028");
    let negotiated = super::negotiate(&parse(&offer), &[video([0x42, 0xc0, 40])], false);
    assert_eq!(negotiated.expect("acceptable").tracks[0].payload_type, 116);
}

#[test]
fn an_offer_without_usable_h264_says_what_is_offered() {
    let single_nal = CHROMIUM.replace("packetization-mode=1", "packetization-mode=0");
    let NegotiationError::NoCodec {
        kind,
        wanted,
        offered,
    } = refused(&single_nal)
    else {
        panic!("not a matter of codecs");
    };
    assert_eq!(kind, Kind::Video);
    assert_eq!(
        wanted,
        "H264 with packetization-mode=1 (profile-level-id=42c028)"
    );
    assert_eq!(
        offered[..3],
        ["VP8", "VP9 (profile-id=0)", "VP9 (profile-id=2)"]
    );
    let h264 = "H264 (packetization-mode=0, profile-level-id=42001f)";
    assert!(offered.iter().any(|it| it == h264), "{offered:?}");
    assert!(
        !offered
            .iter()
            .any(|it| it == "rtx" || it == "red" || it == "ulpfec")
    );

    let absent = without(CHROMIUM, "a=fmtp:");
    let text = refused(&absent).to_string();
    assert!(text.contains("no video codec in common"), "{text}");
    assert!(
        text.contains("packetization-mode=0, profile-level-id=absent"),
        "{text}"
    );
    // An offer of audio alone is no reason to refuse video with B-frames.
    let no_opus = CHROMIUM.replace("opus/48000/2", "speex/16000");
    assert_eq!(negotiated(&no_opus).tracks.len(), 1);
}

#[test]
fn a_broken_profile_is_passed_over() {
    let broken = CHROMIUM.replace("profile-level-id=42e01f", "profile-level-id=42e0");
    assert_eq!(negotiated(&broken).tracks[0].payload_type, 102);
    let absent = CHROMIUM.replace(";profile-level-id=42e01f", "");
    assert_eq!(
        negotiated(&absent).tracks[0].payload_type,
        102,
        "absent means baseline"
    );
}

#[test]
fn either_kind_may_be_left_out() {
    let offer = parse(CHROMIUM);
    for (line, codec) in [(0, Codec::H264), (1, Codec::Opus)] {
        let mut one = offer.clone();
        one.media = vec![offer.media[line].clone()];
        let negotiated = negotiate(&one, &tracks(), false).expect("one kind");
        assert_eq!(negotiated.tracks.len(), 1);
        assert_eq!(negotiated.tracks[0].codec, codec);
        assert_eq!(negotiated.tracks[0].line, 0);
        assert_eq!(negotiated.bundle, [line.to_string()]);
        // Its section carries the transport, whatever the offer's tag was.
        assert!(answer(&negotiated, &local(1)).contains("a=candidate:"));
    }
    let audio_only =
        negotiate(&offer, &[Track::audio(Codec::Pcma, 1)], false).expect("static type");
    assert_eq!(
        (audio_only.tracks[0].payload_type, audio_only.tracks[0].line),
        (8, 1)
    );
    assert_eq!(audio_only.bundle, ["0", "1"]);
}

#[test]
fn the_first_line_of_the_bundle_keeps_the_transport_without_media() {
    let offer = parse(CHROMIUM);
    let audio = [Track::audio(Codec::Opus, 2)];
    let negotiated = negotiate(&offer, &audio, false).expect("audio");
    assert!(negotiated.media.is_empty());
    let sdp = answer(&negotiated, &local(1));
    let (_, sections) = sdp.split_once("m=video ").expect("in its place");
    let (video, audio) = sections.split_once("m=audio ").expect("in its place");
    assert!(!video.starts_with("0 "), "{video}");
    for line in ["a=inactive", "a=ice-ufrag:", "a=candidate:", "a=rtcp-mux"] {
        assert!(video.contains(line), "{line}: {video}");
    }
    assert!(audio.contains("a=sendonly"), "{audio}");
    // A line that the offer itself rejects stays so, and another one carries the transport.
    let rejected = CHROMIUM.replacen("m=video 9", "m=video 0", 1);
    let negotiated = negotiate(&parse(&rejected), &tracks()[1..], false);
    assert_eq!(negotiated.expect("audio").bundle, ["1"]);
}

#[test]
fn nothing_to_send_names_the_lines() {
    let inactive = CHROMIUM.replace("a=recvonly", "a=sendonly");
    let text = refused(&inactive).to_string();
    assert_eq!(
        text,
        "no m= line receives video or audio; the offer has \
         m= line 1 (video, mid 0): sendonly, m= line 2 (audio, mid 1): sendonly"
    );
    let only_audio = [Track::audio(Codec::Opus, 2)];
    let no_opus = CHROMIUM.replace("opus/48000/2", "opus/48000/1");
    assert!(matches!(
        negotiate(&parse(&no_opus), &only_audio, false),
        Err(NegotiationError::NoCodec {
            kind: Kind::Audio,
            ..
        })
    ));
}

#[test]
fn static_payload_types_need_no_rtpmap() {
    let bare = without(&without(CHROMIUM, "a=rtpmap:0 "), "a=rtpmap:8 ");
    let offer = parse(&bare);
    for (codec, payload_type) in [(Codec::Pcmu, 0), (Codec::Pcma, 8)] {
        let negotiated = negotiate(&offer, &[Track::audio(codec, 1)], false).expect("static");
        assert_eq!(negotiated.tracks[0].payload_type, payload_type);
        let text = answer(&negotiated, &local(1));
        let name = codec.encoding_name();
        assert!(
            text.contains(&format!("a=rtpmap:{payload_type} {name}/8000\r\n")),
            "{text}"
        );
    }
}

#[test]
fn mono_opus_does_not_claim_stereo() {
    let negotiated = negotiate(&parse(CHROMIUM), &[Track::audio(Codec::Opus, 1)], false);
    let text = answer(&negotiated.expect("acceptable"), &local(1));
    assert!(
        text.contains("a=fmtp:111 minptime=10;useinbandfec=1\r\n"),
        "{text}"
    );
}

#[test]
fn each_track_takes_a_line_of_its_own() {
    let offer = parse(CHROMIUM);
    let two = [video([0x42, 0xc0, 31]), video([0x42, 0xc0, 31])];
    let negotiated = negotiate(&offer, &two, false).expect("one of them");
    assert_eq!(negotiated.tracks.len(), 1);
    let mut more = offer.clone();
    let mut second = offer.media[0].clone();
    second
        .attributes
        .0
        .retain(|it| !matches!(it, Attribute::Mid(_)));
    second.attributes.push(Attribute::Mid("2".to_owned()));
    more.media.push(second);
    more.attributes
        .0
        .retain(|it| !matches!(it, Attribute::Group(_)));
    more.attributes.push(Attribute::Group(Group {
        semantics: "BUNDLE".to_owned(),
        mids: ["2", "1", "0"].map(str::to_owned).to_vec(),
    }));
    let negotiated = negotiate(&more, &two, false).expect("both");
    let lines: Vec<_> = negotiated
        .tracks
        .iter()
        .map(|it| (it.track.get(), it.line))
        .collect();
    assert_eq!(lines, [(0, 0), (1, 2)]);
    assert_eq!(negotiated.bundle, ["2", "0"], "the offer's order");
    let answer = parse(&answer(&negotiated, &local(2)));
    assert_eq!(answer.media[1].port, 0);
    assert!(answer.media[2].attributes.candidates().next().is_some());
    assert!(answer.media[0].attributes.candidates().next().is_none());
}

/// GStreamer's second line has port 0 and `bundle-only`; max-bundle browsers also state the
/// transport only in the section of the bundle's tag.
#[test]
fn bundle_only_lines_are_not_rejected_ones() {
    let mut offer = parse(GSTREAMER);
    assert!(!offer.media[1].is_rejected());
    offer.media[1].attributes.0.retain(|it| {
        !matches!(
            it,
            Attribute::IceUfrag(_)
                | Attribute::IcePwd(_)
                | Attribute::Fingerprint(_)
                | Attribute::Setup(_)
                | Attribute::RtcpMux
        )
    });
    let audio = negotiate(&offer, &[Track::audio(Codec::Opus, 2)], false).expect("audio alone");
    assert_eq!(
        audio.remote.credentials.ufrag,
        "qiex5SOIuG8ixi8UbsTqzCnyqAlL/Iif"
    );
    assert_eq!(audio.bundle, ["video0", "audio1"]);
    offer.media[1]
        .attributes
        .0
        .retain(|it| *it != Attribute::BundleOnly);
    assert!(negotiate(&offer, &[Track::audio(Codec::Opus, 2)], false).is_err());
}

#[test]
fn header_extensions_follow_what_may_change_with_each_sending() {
    let ids = |offer: &str| {
        negotiated(offer)
            .tracks
            .iter()
            .map(|it| it.extensions)
            .collect()
    };
    let full = |mid, transport_cc| ExtensionIds {
        mid: Some(mid),
        transport_cc: Some(transport_cc),
        ..ExtensionIds::default()
    };
    let chromium: Vec<ExtensionIds> = ids(CHROMIUM);
    assert_eq!(chromium, [full(9, 4), full(9, 4)]);
    let aiortc: Vec<ExtensionIds> = ids(AIORTC);
    assert_eq!(
        (aiortc[0].transport_cc, aiortc[0].abs_send_time),
        (None, Some(3))
    );
    // NACK without RTX: retransmissions repeat the packet, and its number with it. A send time
    // would change.
    let gstreamer: Vec<ExtensionIds> = ids(GSTREAMER);
    assert_eq!(gstreamer[0].transport_cc, Some(3));
    assert!(negotiated(GSTREAMER).tracks[0].feedback.transport_cc);
    let send_time = ["extmap:3 ", ABS_SEND_TIME_URI].concat();
    let timed = GSTREAMER.replace(&["extmap:3 ", TRANSPORT_CC_URI].concat(), &send_time);
    assert!(timed.contains(&send_time));
    assert_eq!(ids(&timed)[0], ExtensionIds::default());
    assert!(negotiated(GSTREAMER).tracks[0].feedback.nack);
}

#[test]
fn header_extensions_that_do_not_fit_are_left_out() {
    let first = |offer: String| negotiated(&offer).tracks[0].extensions;
    let two_byte = CHROMIUM.replace("extmap:4 ", "extmap:15 ");
    assert_eq!(
        first(two_byte).transport_cc,
        None,
        "needs the two-byte form"
    );
    let long = CHROMIUM
        .replace("a=mid:0", "a=mid:a-very-long-tag")
        .replace("BUNDLE 0", "BUNDLE a-very-long-tag");
    assert_eq!(first(long).mid, None, "over 20 bytes");
    let theirs = CHROMIUM.replace("extmap:9 ", "extmap:9/sendonly ");
    assert_eq!(first(theirs).mid, None, "only the peer would send it");
    let ours = CHROMIUM.replace("extmap:9 ", "extmap:9/recvonly ");
    let text = answer(&negotiated(&ours), &local(2));
    assert!(
        text.contains(&format!("a=extmap:9/sendonly {MID_URI}\r\n")),
        "{text}"
    );
}

/// Within a bundle, an id has one meaning (RFC 9143 §7.1).
#[test]
fn a_number_with_two_meanings_counts_once() {
    let (video, audio) = CHROMIUM.split_at(CHROMIUM.find("m=audio").expect("a line"));
    let clash = audio
        .replace(&format!("extmap:9 {MID_URI}"), "extmap:12 x:y")
        .replace("extmap:4 ", "extmap:13 ")
        .replace("a=extmap:13 ", "a=extmap:9 ");
    let negotiated = negotiated(&format!("{video}{clash}"));
    assert_eq!(negotiated.tracks[0].extensions.mid, Some(9));
    let audio = negotiated.tracks[1].extensions;
    assert_eq!((audio.mid, audio.transport_cc), (None, None));
    assert_eq!(
        audio.abs_send_time,
        Some(2),
        "what stands in for the sequence number"
    );
}

#[test]
fn payload_types_that_read_as_rtcp_are_not_used() {
    let offer = CHROMIUM.replace("108", "72");
    assert_ne!(negotiated(&offer).tracks[0].payload_type, 72);
}

#[test]
fn fec_is_agreed_on_with_peers_that_offer_it() {
    for (name, offer) in OFFERS {
        let offers = offer.contains(" flexfec-03/90000");
        let negotiated = negotiated(offer);
        let fec = negotiated.tracks[0].fec_payload_type;
        assert_eq!(fec, offers.then_some(49), "{name}");
        assert_eq!(negotiated.tracks[1].fec_payload_type, None, "{name}");
        let text = answer(&negotiated, &local(2));
        let video = &parse(&text).media[negotiated.tracks[0].line];
        assert_eq!(video.formats.contains(&"49".to_owned()), offers, "{name}");
        assert_eq!(text.contains("FEC-FR 100 300\r\n"), offers, "{name}");
        assert_eq!(text.contains("a=ssrc:300 cname:"), offers, "{name}");
        assert_eq!(
            text.contains("a=rtpmap:49 flexfec-03/90000\r\na=fmtp:49 repair-window=10000000\r\n"),
            offers,
            "{name}"
        );
    }
    // RFC 8627's packets are others.
    let newer = CHROMIUM.replace(" flexfec-03/", " flexfec/");
    assert_eq!(negotiated(&newer).tracks[0].fec_payload_type, None);
}
