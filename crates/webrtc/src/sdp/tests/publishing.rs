//! Offers of WHIP publishers, in the form in which the clients write them.

use glassline_media::{Codec, Kind, Ssrc};

use super::super::*;
use super::{CHROMIUM, local, parse};

/// FFmpeg 8.0's muxer, video alone: DTLS server, a bundle with an absent line, no feedback, a
/// `profile-level-id` of seven digits.
pub(super) const FFMPEG: &str = "v=0\r
o=FFmpeg 4489045141692799359 2 IN IP4 127.0.0.1\r
s=FFmpegPublishSession\r
t=0 0\r
a=group:BUNDLE 0 1\r
a=extmap-allow-mixed\r
a=msid-semantic: WMS\r
m=video 9 UDP/TLS/RTP/SAVPF 106\r
c=IN IP4 0.0.0.0\r
a=ice-ufrag:ffmp\r
a=ice-pwd:0123456789abcdef0123456789abcdef\r
a=fingerprint:sha-256 01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F:20\r
a=setup:passive\r
a=mid:1\r
a=sendonly\r
a=msid:FFmpeg video\r
a=rtcp-mux\r
a=rtcp-rsize\r
a=rtpmap:106 H264/90000\r
a=fmtp:106 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=422001f\r
a=ssrc:4711 cname:FFmpeg\r
a=ssrc:4711 msid:FFmpeg video\r
";

/// OBS 32.1 with simulcast: libdatachannel's form.
pub(super) const OBS: &str = "v=0\r
o=rtc 3767197920 0 IN IP4 127.0.0.1\r
s=-\r
t=0 0\r
a=group:BUNDLE 0 1\r
a=group:LS 0 1\r
a=msid-semantic:WMS *\r
a=setup:actpass\r
a=ice-ufrag:OBSu\r
a=ice-pwd:0123456789abcdef0123456789abcdef\r
a=ice-options:ice2,trickle\r
a=fingerprint:sha-256 01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F:20\r
m=audio 9 UDP/TLS/RTP/SAVPF 111\r
c=IN IP4 0.0.0.0\r
a=mid:0\r
a=sendonly\r
a=ssrc:11 cname:obs\r
a=rtcp-mux\r
a=rtpmap:111 opus/48000/2\r
a=fmtp:111 minptime=10;maxaveragebitrate=96000;stereo=1;sprop-stereo=1;useinbandfec=1\r
m=video 9 UDP/TLS/RTP/SAVPF 96\r
c=IN IP4 0.0.0.0\r
a=mid:1\r
a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid\r
a=extmap:2 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r
a=sendonly\r
a=ssrc:12 cname:obs\r
a=rtcp-mux\r
a=rtpmap:96 H264/90000\r
a=rtcp-fb:96 nack\r
a=rtcp-fb:96 nack pli\r
a=rtcp-fb:96 ccm fir\r
a=fmtp:96 profile-level-id=42e01f;packetization-mode=1;level-asymmetry-allowed=1\r
a=rid:0 send\r
a=rid:1 send\r
a=rid:2 send\r
a=simulcast:send 0;1;2\r
";

fn publish(offer: &str, data: bool) -> Result<Negotiated, NegotiationError> {
    let options = AnswerOptions {
        data,
        publication: true,
        ..AnswerOptions::default()
    };
    negotiate(&parse(offer), &options)
}

fn unsupported(offer: &str) -> String {
    match publish(offer, false) {
        Err(NegotiationError::Unsupported { media, why }) => format!("{media}: {why}"),
        other => panic!("{other:?}"),
    }
}

/// livekit#4689: a publisher that offers High alone, and no other profile.
#[test]
fn high_profile_alone_is_taken() {
    for (offered, profile) in [("640028", "64"), ("640c1f", "640c"), ("64001F", "64")] {
        let offer = OBS.replace("42e01f", offered);
        let negotiated = publish(&offer, false).expect("High");
        let video = &negotiated.media[1];
        assert_eq!(video.codecs[0].codec, Codec::H264);
        let text = answer(&negotiated, &local(0));
        let answered = format!("profile-level-id={profile}");
        assert!(text.contains(&answered), "{answered} in {text}");
    }
}

/// A browser's offer that sends what Chromium's recorded one receives.
fn browser() -> String {
    CHROMIUM.replace("a=recvonly", "a=sendonly")
}

#[test]
fn ffmpegs_offer_makes_this_end_the_dtls_client() {
    let negotiated = publish(FFMPEG, false).expect("FFmpeg publishes");
    assert!(negotiated.is_dtls_client());
    assert_eq!(negotiated.bundle, ["1"]);
    let [media] = &negotiated.media[..] else {
        panic!("{negotiated:?}");
    };
    assert_eq!((media.kind, media.ssrc), (Kind::Video, Some(Ssrc(4711))));
    assert!(media.reduced_size_rtcp && !media.codecs[0].feedback.nack);
    let text = answer(&negotiated, &local(0));
    for line in [
        "a=setup:active",
        "a=recvonly",
        "a=rtcp-mux",
        "profile-level-id=42401f",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(
        !text.contains("a=ssrc") && !text.contains("a=msid:"),
        "{text}"
    );
    let first = text.lines().find(|line| line.contains("typ host"));
    assert!(first.is_some_and(|line| line.contains(" udp ")), "{text}");
    assert!(text.len() < 8192 && text.starts_with("v="));
}

#[test]
fn a_dependency_descriptor_is_taken_where_headers_may_be_of_two_bytes() {
    let line = format!("a=extmap:5 {DEPENDENCY_DESCRIPTOR_URI}\r\n");
    let with = OBS.replace("a=rtpmap:96", &format!("{line}a=rtpmap:96"));
    let id = |offer: &str| {
        let negotiated = publish(offer, false).expect("taken");
        let text = answer(&negotiated, &local(0));
        let id = negotiated.media[1].extensions.dependency_descriptor;
        assert_eq!(text.contains(&line), id.is_some(), "{text}");
        assert_eq!(text.contains("a=extmap-allow-mixed\r\n"), id.is_some());
        id
    };
    assert_eq!(id(&with), None, "that of a keyframe does not fit");
    let mixed = with.replace("a=group:BUNDLE", "a=extmap-allow-mixed\r\na=group:BUNDLE");
    assert_eq!(id(&mixed), Some(5));
    let line_alone = with.replace(&line, &format!("a=extmap-allow-mixed\r\n{line}"));
    assert_eq!(id(&line_alone), Some(5));
}

#[test]
fn every_rid_of_obs_is_in_the_answer() {
    let negotiated = publish(OBS, false).expect("OBS publishes");
    let video = &negotiated.media[1];
    assert_eq!(video.rids, ["0", "1", "2"]);
    assert_eq!(
        (video.extensions.mid, video.extensions.rid),
        (Some(1), Some(2))
    );
    let text = answer(&negotiated, &local(0));
    assert!(text.contains("a=simulcast:recv 0;1;2\r\n"), "{text}");
    for rid in ["a=rid:0 recv\r\n", "a=rid:1 recv\r\n", "a=rid:2 recv\r\n"] {
        assert!(text.contains(rid), "{text}");
    }
    assert!(
        text.contains("a=setup:passive") && text.contains("stereo=1"),
        "{text}"
    );
    let too_many = OBS.replace("send 0;1;2", "send 0;1;2;3;4");
    assert!(unsupported(&too_many).contains("more than 4 simulcast layers"));
}

#[test]
fn simulcast_is_read_in_its_other_forms() {
    let forms = [
        ("a=simulcast:send 0;1;2", "a=simulcast:recv x send ~0;1,7;2"),
        ("a=simulcast:send 0;1;2", "a=other"),
    ];
    for (from, to) in forms {
        let negotiated = publish(&OBS.replace(from, to), false).expect("taken");
        assert_eq!(negotiated.media[1].rids, ["0", "1", "2"], "{to}");
    }
    let odd = OBS.replace("send 0;1;2", "send a/b;0;;0");
    let negotiated = publish(&odd, false).expect("taken");
    assert_eq!(negotiated.media[1].rids, ["0"]);
}

#[test]
fn a_browser_may_send_each_of_its_codecs_without_its_error_correction() {
    let negotiated = publish(&browser(), false).expect("Chromium publishes");
    let codecs: Vec<_> = negotiated
        .media
        .iter()
        .map(|it| it.codecs[0].codec)
        .collect();
    assert_eq!(codecs, [Codec::Vp8, Codec::Opus]);
    for codec in [Codec::Vp9, Codec::H264, Codec::Av1] {
        let mut agreed = negotiated.media[0].codecs.iter();
        let found = agreed.find(|it| it.codec == codec);
        let found = found.unwrap_or_else(|| panic!("no {codec}"));
        assert!(
            found.feedback.nack && found.rtx_payload_type.is_some(),
            "{codec}"
        );
    }
    let video = &negotiated.media[0];
    assert!(video.codecs[0].rtx_payload_type.is_some() && video.codecs[0].feedback.transport_cc);
    assert!(video.extensions.mid.is_some() && video.extensions.transport_cc.is_some());
    let text = answer(&negotiated, &local(0));
    for absent in ["ulpfec", "flexfec", "red/90000"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let sendrecv = CHROMIUM.replace("a=recvonly", "a=sendrecv");
    let text = answer(&publish(&sendrecv, false).expect("taken"), &local(0));
    assert!(
        text.contains("a=recvonly") && !text.contains("a=sendrecv"),
        "{text}"
    );
}

#[test]
fn an_offer_is_refused_as_a_whole_and_the_reason_is_named() {
    let why = unsupported(CHROMIUM);
    assert!(
        why.contains("recvonly") && why.contains("offer sendonly"),
        "{why}"
    );
    let why = unsupported(&OBS.replace("opus/48000", "G7221/16000"));
    assert!(
        why.contains("m= line 1 (audio, mid 0): no codec in common"),
        "{why}"
    );
    assert!(
        why.contains("G7221") && why.contains("received H.264"),
        "{why}"
    );
    let second = OBS
        .replace("m=audio", "m=video")
        .replace("opus/48000/2", "VP8/90000");
    let why = unsupported(&second);
    assert!(why.contains("a second video track"), "{why}");
    let interleaved = FFMPEG.replace("packetization-mode=1", "packetization-mode=2");
    assert!(unsupported(&interleaved).contains("no codec in common"));
    let text = OBS.replace(
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "m=text 9 UDP/TLS/RTP/SAVPF 111",
    );
    assert!(unsupported(&text).contains("neither video, audio nor data channels"));
}

#[test]
fn data_channels_beside_media_are_taken_or_refused_with_it() {
    let data = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n\
                a=mid:2\r\na=sctp-port:5000\r\n";
    let offer = format!("{}{data}", OBS.replace("BUNDLE 0 1", "BUNDLE 0 1 2"));
    assert!(unsupported(&offer).contains("data channels are off here"));
    let negotiated = publish(&offer, true).expect("both");
    assert!(negotiated.data.is_some() && negotiated.media.len() == 2);
}

#[test]
fn packetization_mode_zero_and_g711_are_received() {
    let single = FFMPEG.replace("packetization-mode=1;", "");
    assert!(publish(&single, false).is_ok());
    let g711 = OBS
        .replace("SAVPF 111", "SAVPF 8")
        .replace("a=rtpmap:111 opus/48000/2\r\n", "")
        .replace("a=fmtp:111", "a=x-fmtp:111");
    let negotiated = publish(&g711, false).expect("G.711");
    assert_eq!(negotiated.media[0].codecs[0].codec, Codec::Pcma);
}
