use glassline_media::TrackIndex;

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
            "rtsp://10.0.0.9/live/meta",
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
    let back_channels = description.back_channels().map(|(track, _)| track);
    assert_eq!(back_channels.collect::<Vec<_>>(), [TrackIndex(2)]);
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
        ("rtsp://h/a/b/", "/x", "rtsp://h/a/b/x"),
        ("rtsp://h/a/b", "/x", "rtsp://h/a/b/x"),
        ("rtsp://h/a/b", "/a/b/x", "rtsp://h/a/b/x"),
        ("rtsp://h", "/media/1/video/1", "rtsp://h/media/1/video/1"),
        ("rtsp://h/cam//", "x", "rtsp://h/cam//x"),
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
    let text = "v=0\na=control:rtsp://h/all/\nm=video 0 RTP/AVP 96\na=control:track1\n";
    let mut description = parse(text);
    description.resolve("rtsp://h/asked");
    assert_eq!(
        description.tracks[0].control.as_deref(),
        Some("rtsp://h/all/track1"),
        "as in FFmpeg, live555 and GStreamer"
    );
}

#[test]
fn what_is_no_description_is_said_to_be_none() {
    let page = b"<html><body a=b>404</body></html>";
    assert_eq!(
        Description::parse(page),
        Err(Error::NotSdp { bytes: page.len() })
    );
    assert_eq!(
        Description::parse(&b"m=video 0 RTP/AVP 96\n".repeat(100))
            .expect("many")
            .tracks
            .len(),
        TRACKS_MAX
    );
}

/// A video as cameras describe it, to which one bad line is added.
const VIDEO: &str = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:trackID=0\r\n";

/// Values that a line may have in a description with errors.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "video",
        "audio",
        "application",
        "0",
        "-",
        "-1353744643",
        "65536",
        "x",
        "RTP/AVP",
        "RTP/SAVP",
        "96",
        "8",
        "256",
        "(null)",
        "IN",
        "IP4",
        "rtpmap:96",
        "rtpmap:",
        "fmtp:96",
        "H264/90000",
        "H264/x",
        "sendonly",
        "recvonly",
        "control:*",
        "smart/1/90000",
        "/",
        ":",
        "=",
        ";",
    ]);
    let word = prop_oneof![
        4 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>().prop_filter("a line's end", |it| !b"\r\n".contains(it)), 0..6),
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.join(&b' '))
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

    /// Whatever a line of the session or of another track says, the video stays what it is, and
    /// each `m=` line counts as one track, since clients name tracks by their place.
    #[test]
    fn a_bad_line_costs_its_own_track_at_most(
        session in prop::collection::vec(("[a-lo-z]", any_value()), 0..4),
        media in any_value(), attributes in prop::collection::vec(("[a-ln-z]", any_value()), 0..4),
        video_first: bool,
    ) {
        let line = |key: &str, value: &[u8]| [key.as_bytes(), b"=", value, b"\r\n"].concat();
        let mut other = line("m", &media);
        other.extend(attributes.iter().flat_map(|(key, value)| line(key, value)));
        let mut body = b"v=0\r\n".to_vec();
        body.extend(session.iter().flat_map(|(key, value)| line(key, value)));
        let sections = match video_first {
            true => [VIDEO.as_bytes(), &other],
            false => [&other, VIDEO.as_bytes()],
        };
        body.extend(sections.concat());
        let description = Description::parse(&body).expect("a description");
        prop_assert_eq!(description.tracks.len(), 2);
        let read = &description.tracks[usize::from(!video_first)];
        let alone = parse(&format!("v=0\r\n{VIDEO}"));
        let expected = Media { direction: read.direction, ..alone.tracks[0].clone() };
        prop_assert_eq!(read, &expected);
        let chosen = description.choose(|_| true);
        prop_assert!(chosen.tracks.iter().any(|(_, track)| track.kind() == Kind::Video));
    }
}

#[test]
fn a_port_that_is_none_costs_nothing() {
    for line in [
        "video -1353744643 RTP/AVP 96",
        "video 65536 RTP/AVP 96",
        "video - RTP/AVP 96",
        "video x RTP/AVP 96",
        "video RTP/AVP 96",
        "video 0 RTP/AVP",
        "video 0 RTP/AVP (null)",
        "video 0/2 RTP/AVP 96 300",
    ] {
        let text = format!("v=0\r\nm={line}\r\na=rtpmap:96 H264/90000");
        let description = parse(&text);
        assert_eq!(description.tracks[0].port, 0, "{line}");
        let chosen = description.choose(|_| true);
        assert_eq!(chosen.tracks.len(), 1, "{line}: {chosen:?}");
    }
}

#[test]
fn attributes_with_another_number_are_about_the_only_format() {
    let aac = "m=audio 0 RTP/AVP 104\r\na=rtpmap:104 MPEG4-GENERIC/16000\r\n\
        a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1408\r\n";
    let format = parse(aac).tracks[0].formats[0].clone();
    assert_eq!(format.parameter("config"), Some("1408"));
    let unnumbered =
        "m=video 0 RTP/AVP 96\r\na=rtpmap:H264/90000\r\na=fmtp:packetization-mode=1\r\n";
    let format = parse(unnumbered).tracks[0].formats[0].clone();
    assert_eq!(
        (format.encoding_name.as_str(), format.payload_type),
        ("H264", 96)
    );
    assert_eq!(format.parameter("packetization-mode"), Some("1"));
    let own = "m=audio 0 RTP/AVP 96\r\na=fmtp:96 a=1\r\na=fmtp:97 a=2\r\n";
    assert_eq!(
        parse(own).tracks[0].formats[0].parameters,
        "a=1",
        "its own counts"
    );
    let several = "m=audio 0 RTP/AVP 96 97\r\na=rtpmap:98 opus/48000/2\r\n";
    let formats = &parse(several).tracks[0].formats;
    assert!(
        formats.iter().all(|it| it.encoding_name.is_empty()),
        "which one is meant?"
    );
}

/// Codecs that are chosen, and indices of the back channels, of a description whose sections have
/// these directions. The empty one is none.
fn directed(session: &str, sections: &[(&str, &str)]) -> (Vec<usize>, Vec<usize>) {
    let line = |direction: &str| match direction {
        "" => String::new(),
        some => format!("a={some}\r\n"),
    };
    let mut text = format!("v=0\r\n{}", line(session));
    for (kind, direction) in sections {
        let number = if *kind == "video" { 26 } else { 8 };
        text.push_str(&format!(
            "m={kind} 0 RTP/AVP {number}\r\n{}",
            line(direction)
        ));
    }
    let description = parse(&text);
    let chosen = description.choose(|_| true).tracks;
    let back_channels = description.back_channels();
    (
        chosen.iter().map(|(track, _)| track.get()).collect(),
        back_channels.map(|(track, _)| track.get()).collect(),
    )
}

#[test]
fn sendonly_video_is_what_the_camera_sends() {
    let (video, audio) = ("video", "audio");
    let cases = [
        // The client's view, as ONVIF has it.
        (
            "",
            vec![
                (video, "recvonly"),
                (audio, "recvonly"),
                (audio, "sendonly"),
            ],
            [0, 1].as_slice(),
            [2].as_slice(),
        ),
        (
            "recvonly",
            vec![(video, ""), (audio, "sendonly"), (audio, "")],
            &[0, 2],
            &[1],
        ),
        ("", vec![(video, ""), (audio, "sendonly")], &[0, 1], &[1]),
        // The camera's view.
        ("", vec![(video, "sendonly")], &[0], &[]),
        (
            "",
            vec![(video, "sendonly"), (audio, "sendonly")],
            &[0, 1],
            &[],
        ),
        ("sendonly", vec![(video, ""), (audio, "")], &[0, 1], &[]),
        (
            "sendonly",
            vec![(video, ""), (audio, "recvonly"), (audio, "")],
            &[0, 2],
            &[1],
        ),
        (
            "",
            vec![(video, "sendonly"), (audio, "recvonly")],
            &[0, 1],
            &[1],
        ),
        // Nothing is said.
        (
            "",
            vec![(audio, ""), (video, "sendrecv"), (audio, "inactive")],
            &[1, 0],
            &[],
        ),
        ("", vec![(audio, "sendonly")], &[0], &[0]),
    ];
    for (session, sections, chosen, back_channels) in cases {
        let (are_chosen, are_back_channels) = directed(session, &sections);
        assert_eq!(are_chosen, chosen, "{session} {sections:?}");
        assert_eq!(are_back_channels, back_channels, "{session} {sections:?}");
    }
}

/// Descriptions of go2rtc#1663, androidx/media#1472, rtsp-client-android#90, go2rtc#2245 and
/// go2rtc#2316.
#[test]
fn odd_lines_of_cameras_leave_the_video() {
    let cases: [&[u8]; 6] = [
        b"v=0\r\no=- 1 1\r\ns=x\r\nc=IN\r\nt=\r\nm=video 0 RTP/AVP 26\r\n",
        b"v=0\r\nm=application/TP-LINK 0 RTP/AVP smart/1/90000\r\na=rtpmap:95 TP-LINK/90000\r\nm=video 0 RTP/AVP 26\r\n",
        b"v=0\r\nm=audio 0 RTP/AVP (null)\r\na=rtpmap\r\nm=video 0 RTP/AVP 26\r\n",
        b"m=video 0 RTP/AVP 26",
        b"v=0\r\nm=video -1353744643 RTP/AVP 26\r\nc=IN IP4 '&\xff\xfe\r\n",
        b"v=0\nm=\nm=application x RTP/AVP 98\nm=video 0 RTP/AVP 26",
    ];
    for body in cases {
        let chosen = Description::parse(body)
            .expect("a description")
            .choose(|_| true);
        let codecs: Vec<_> = chosen.tracks.iter().map(|(_, track)| track.codec).collect();
        assert_eq!(
            codecs,
            [glassline_media::Codec::Jpeg],
            "{}",
            String::from_utf8_lossy(body)
        );
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
    assert_eq!(join("rtsp://h/a/b", "/c"), "rtsp://h/a/b/c");
    assert_eq!(join("rtsp://h", "/c"), "rtsp://h/c");
}
