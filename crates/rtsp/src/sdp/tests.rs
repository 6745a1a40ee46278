use super::*;
use proptest::prelude::*;

/// A description by gst-rtsp-server 1.22 of a camera with audio.
const GST: &str = "v=0\r\no=- 1188340656180883 1 IN IP4 127.0.0.1\r\ns=Session streamed with GStreamer\r\n\
    i=rtsp-server\r\nt=0 0\r\na=tool:GStreamer\r\na=type:broadcast\r\na=control:*\r\na=range:npt=now-\r\n\
    m=video 0 RTP/AVP 96\r\nc=IN IP4 0.0.0.0\r\na=rtpmap:96 H264/90000\r\na=framerate:30\r\n\
    a=fmtp:96 packetization-mode=1;profile-level-id=42c01e;sprop-parameter-sets=Z0LAHtkB==,aMuDyyA=\r\n\
    a=control:stream=0\r\na=ts-refclk:local\r\na=mediaclk:sender\r\n\
    m=audio 0 RTP/AVP 97\r\nc=IN IP4 0.0.0.0\r\na=rtpmap:97 OPUS/48000/2\r\na=control:stream=1\r\n";

/// A camera's description of video, metadata and an audio backchannel.
const CAMERA: &str = "v=0\no=broken\ns=\u{0}\nb=AS:x\nm=video 0 RTP/AVP 26\na=control:rtsp://10.0.0.9/live/track1\n\
    m=application 0 RTP/AVP 107\na=control:/meta\na=rtpmap:107 vnd.onvif.metadata/90000\n\
    m=audio 0 RTP/AVP 0 8\na=sendonly\na=control:?back\nm=audio 0 RTP/AVP 14\n";

fn parse(text: &str) -> Description {
    Description::parse(text.as_bytes()).expect("a description")
}

#[test]
fn tracks_of_gst_are_read_and_resolved() {
    let mut description = parse(GST);
    assert_eq!(description.name, "Session streamed with GStreamer");
    assert_eq!(description.range.as_deref(), Some("npt=now-"));
    description.resolve("rtsp://127.0.0.1:8554/cam/");
    assert_eq!(
        description.control.as_deref(),
        Some("rtsp://127.0.0.1:8554/cam/")
    );
    let [video, audio] = &description.tracks[..] else {
        panic!("{description:?}");
    };
    assert_eq!(video.kind(), Some(Kind::Video));
    assert_eq!(
        video.control.as_deref(),
        Some("rtsp://127.0.0.1:8554/cam/stream=0")
    );
    assert_eq!(video.frame_rate, Some(30.0));
    let format = video.format().expect("a format");
    assert_eq!(
        (format.encoding_name.as_str(), format.clock_rate),
        ("H264", 90_000)
    );
    assert_eq!(format.parameter("Packetization-Mode"), Some("1"));
    let sets = format.parameter("sprop-parameter-sets");
    assert_eq!(sets, Some("Z0LAHtkB==,aMuDyyA="));
    let format = audio.format().expect("a format");
    assert_eq!((format.clock_rate, format.channels), (48_000, 2));
}

#[test]
fn a_camera_may_write_what_it_likes_around_what_matters() {
    let mut description = parse(CAMERA);
    description.resolve("rtsp://10.0.0.9/live");
    let controls = description
        .tracks
        .iter()
        .map(|media| media.control.as_deref());
    let controls: Vec<_> = controls.flatten().collect();
    assert_eq!(
        controls,
        [
            "rtsp://10.0.0.9/live/track1",
            "rtsp://10.0.0.9/meta",
            "rtsp://10.0.0.9/live?back",
            "rtsp://10.0.0.9/live",
        ]
    );
    let kinds: Vec<_> = description.tracks.iter().map(Media::kind).collect();
    assert_eq!(
        kinds,
        [
            Some(Kind::Video),
            None,
            Some(Kind::Audio),
            Some(Kind::Audio)
        ]
    );
    assert!(description.tracks[2].back_channel && !description.tracks[3].back_channel);
    let jpeg = description.tracks[0].format().expect("a format");
    assert_eq!(
        (jpeg.encoding_name.as_str(), jpeg.clock_rate),
        ("JPEG", 90_000)
    );
}

#[test]
fn controls_join_as_players_do() {
    let cases = [
        ("rtsp://h/cam", "trackID=0", "rtsp://h/cam/trackID=0"),
        ("rtsp://h/cam/", "track1", "rtsp://h/cam/track1"),
        (
            "rtsp://h/cam?a=b",
            "trackID=0",
            "rtsp://h/cam?a=b/trackID=0",
        ),
        ("rtsp://h:8554", "/x", "rtsp://h:8554/x"),
        ("rtsp://h/a/b/", "/x", "rtsp://h/x"),
        ("rtsp://h/cam/", "rtsp://other/1", "rtsp://other/1"),
    ];
    for (base, control, expected) in cases {
        assert_eq!(join(base, control), expected);
    }
}

#[test]
fn an_absolute_control_is_the_aggregate() {
    let mut description = parse("v=0\na=control:rtsp://h/all\nm=video 0 RTP/AVP 96\na=control:*\n");
    description.resolve("rtsp://h/asked");
    assert_eq!(description.control.as_deref(), Some("rtsp://h/all"));
    assert_eq!(
        description.tracks[0].control.as_deref(),
        Some("rtsp://h/all")
    );
}

#[test]
fn what_is_no_description_is_said_to_be_none() {
    let page = b"<html><body a=b>404</body></html>";
    assert_eq!(
        Description::parse(page),
        Err(Error::NotSdp { bytes: page.len() })
    );
    let error = Description::parse(b"v=0\r\nm=video x RTP/AVP 96\r\n").expect_err("no port");
    assert!(error.to_string().contains("video x RTP/AVP 96"), "{error}");
    assert_eq!(
        Description::parse(&b"m=video 0 RTP/AVP 96\n".repeat(100))
            .expect("many")
            .tracks
            .len(),
        TRACKS_MAX
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in "([vsma]=[a-z:/0-9 *=;]{0,30}\r?\n){0,12}") {
        let _ = Description::parse(&bytes);
        if let Ok(mut description) = Description::parse(lines.as_bytes()) {
            description.resolve("rtsp://h/x");
            prop_assert!(description.tracks.iter().all(|media| media.control.is_some()));
        }
    }
}

#[test]
fn the_feedback_that_a_publisher_knows_is_read() {
    let feedback = |lines: &str| {
        let text = format!("v=0\r\ns=-\r\nm=video 0 RTP/AVPF 96\r\n{lines}");
        let description = Description::parse(text.as_bytes()).expect("one track");
        let Feedback { pli, fir } = description.tracks[0].feedback;
        (pli, fir)
    };
    assert_eq!(feedback(""), (false, false));
    assert_eq!(feedback("a=rtcp-fb:96 nack pli\r\n"), (true, false));
    assert_eq!(feedback("a=rtcp-fb:*  ccm  fir\r\n"), (false, true));
    let both = "a=rtcp-fb:96 nack\r\na=rtcp-fb:96 ccm fir\r\na=rtcp-fb:96 nack pli\r\n";
    assert_eq!(feedback(both), (true, true));
    assert_eq!(
        feedback("a=rtcp-fb:96 nack\r\na=rtcp-fb\r\n"),
        (false, false)
    );
}

#[test]
fn the_payload_types_of_one_encoding_are_media() {
    let description = parse(
        "v=0\nm=video 0 RTP/AVP 96 97 98 99\na=rtpmap:96 H264/90000\na=rtpmap:97 rtx/90000\n\
         a=rtpmap:98 h264/90000\na=rtpmap:99 H265/90000\nm=audio 0 RTP/AVP 0\n",
    );
    let types = |track: usize| {
        description.tracks[track]
            .payload_types()
            .collect::<Vec<_>>()
    };
    assert_eq!((types(0), types(1)), (vec![96, 98], vec![0]));
}

#[test]
fn the_line_of_a_track_is_read_whole() {
    let description = parse("v=0\nm=audio 5004/2 RTP/SAVP 8 x 97\na=rtpmap:97 L16/44100\n");
    let [track] = &description.tracks[..] else {
        panic!("{description:?}");
    };
    let line = (&*track.name, track.port, &*track.protocol);
    assert_eq!(line, ("audio", 5004, "RTP/SAVP"));
    let formats: Vec<_> = track.formats.iter().map(|it| it.payload_type).collect();
    assert_eq!(formats, [8, 97]);
}

#[test]
fn a_control_is_absolute_only_with_a_scheme() {
    assert_eq!(join("rtsp://h/a", "rtsps2://other/b"), "rtsps2://other/b");
    assert_eq!(join("rtsp://h/a", "://b"), "rtsp://h/a/://b");
    assert_eq!(
        join("rtsp://h/a", "track=1?u=x://b"),
        "rtsp://h/a/track=1?u=x://b"
    );
    assert_eq!(join("rtsp://h/a/b", "/c"), "rtsp://h/c");
    assert_eq!(join("rtsp://h", "/c"), "rtsp://h/c");
}
