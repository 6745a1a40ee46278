use super::*;

const NEW: &str = "rtsp://192.0.2.1:8554/new";

/// The announcement of audio by ffmpeg 5.1.
const FFMPEG: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    a=tool:libavformat LIBAVFORMAT_VERSION\r\nm=audio 0 RTP/AVP 96\r\nb=AS:96\r\n\
    a=rtpmap:96 opus/48000/2\r\na=fmtp:96 sprop-stereo=1\r\na=control:streamid=0\r\n";

/// The announcement of video and audio by GStreamer's rtspclientsink 1.22.
const GST: &str = "v=0\r\no=- 365997576 1 IN IP4 127.0.0.1\r\ns=Session streamed with GStreamer\r\n\
    i=rtspclientsink\r\nt=0 0\r\na=tool:GStreamer\r\nm=video 0 RTP/AVP 96\r\nc=IN IP4 0.0.0.0\r\n\
    a=rtpmap:96 H264/90000\r\na=control:stream=0\r\nm=audio 0 RTP/AVP 97\r\nc=IN IP4 0.0.0.0\r\n\
    a=rtpmap:97 OPUS/48000/2\r\na=control:stream=1\r\n";

fn announce(client: &mut ScriptedClient, body: &str) -> u16 {
    let kind = "Content-Type: application/sdp";
    client
        .ask_with(&format!("ANNOUNCE {NEW}"), kind, body)
        .status
        .0
}

#[test]
fn ffmpeg_publishes_within_the_connection() {
    let mut client = ScriptedClient::open();
    assert_eq!(announce(&mut client, FFMPEG), 200);
    let [
        Event::Authorize {
            access: Access::Publish,
            ..
        },
        Event::Announce {
            path, description, ..
        },
    ] = &client.events[..]
    else {
        panic!("{:?}", client.events);
    };
    assert_eq!(path, "new");
    let [audio] = &description.tracks[..] else {
        panic!("{description:?}");
    };
    let control = format!("{NEW}/streamid=0");
    assert_eq!(audio.control.as_deref(), Some(control.as_str()));

    let transport = "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record";
    let response = client.set_up(&control, transport);
    assert_eq!(
        response.headers.get("Transport"),
        Some("RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=00001234;mode=\"RECORD\"")
    );
    let response = client.ask_session(&format!("RECORD {NEW}"), "Range: npt=0.000-");
    assert_eq!(response.status.0, 200);
    assert_eq!(client.connection.state(), State::Recording);
    client.feed(&[b'$', 0, 0, 2, 0x80, 96, b'$', 1, 0, 1, 0x80]);
    assert_eq!(
        client.frames,
        [(0, false, vec![0x80, 96]), (0, true, vec![0x80])]
    );

    let response = client.ask_session(&format!("TEARDOWN {NEW}"), "");
    assert_eq!(response.status.0, 200);
    assert_eq!(client.connection.state(), State::Init);
    client.feed(&[b'$', 0, 0, 1, 0x80]);
    assert_eq!(client.frames.len(), 2);
    let status = client.set_up(&control, transport).status.0;
    assert_eq!(status, 455, "what was announced went with it");
}

#[test]
fn gstreamer_publishes_two_tracks_by_udp() {
    let mut client = ScriptedClient::open();
    assert_eq!(announce(&mut client, GST), 200);
    for (track, ports) in ["5000-5001", "5002-5003"].iter().enumerate() {
        let transport = format!("RTP/AVP;unicast;client_port={ports};mode=record");
        let response = client.set_up(&format!("{NEW}/stream={track}"), &transport);
        let answered = response.headers.get("Transport").expect("a transport");
        assert!(answered.contains("server_port=6000-6001"), "{answered}");
    }
    let tracks: Vec<_> = client
        .connection
        .tracks()
        .iter()
        .map(|set_up| set_up.track.get())
        .collect();
    assert_eq!(tracks, [0, 1]);
    let response = client.ask_session(&format!("PLAY {NEW}"), "");
    assert_eq!(response.status.0, 455, "it is published, not watched");
    assert_eq!(
        client.ask_session(&format!("RECORD {NEW}/"), "").status.0,
        200
    );
    assert_eq!(
        client.ask_session(&format!("PAUSE {NEW}"), "").status.0,
        200
    );
    assert_eq!(client.connection.state(), State::Ready);
}

#[test]
fn tracks_without_controls_are_set_up_in_order() {
    let mut client = ScriptedClient::open();
    let body = "v=0\r\nm=video 0 RTP/AVP 96\r\nm=audio 0 RTP/AVP 0\r\n";
    assert_eq!(announce(&mut client, body), 200);
    for track in 0..2 {
        let response = client.set_up(NEW, "RTP/AVP/TCP;mode=record");
        assert_eq!(response.status.0, 200);
        assert_eq!(client.connection.tracks()[track].track, TrackIndex(track));
    }
}

#[test]
fn what_cannot_be_published_is_said() {
    let mut client = ScriptedClient::open();
    let uri = format!("ANNOUNCE {NEW}");
    assert_eq!(client.ask_with(&uri, "", FFMPEG).status.0, 415);
    let other = "Content-Type: application/xml";
    assert_eq!(client.ask_with(&uri, other, "<x/>").status.0, 415);
    for (body, why) in [
        (
            "hello",
            "the body of 5 bytes is not a session description (SDP)",
        ),
        (
            "v=0\r\n",
            "the session description (SDP) has no media line (m=)",
        ),
    ] {
        let response = client.ask_with(&uri, "Content-Type: application/sdp", body);
        assert_eq!((response.status.0, response.reason.as_str()), (400, why));
        let answered = std::iter::from_fn(|| client.connection.poll_answered());
        assert_eq!(answered.last().and_then(|it| it.why).as_deref(), Some(why));
    }
    client.owner.next = Some(Answer::Refused(Refusal::UnsupportedMedia));
    let body = "v=0\r\nm=audio 0 RTP/AVP 98\r\na=rtpmap:98 G726-32/8000\r\nm=video x\r\n";
    let response = client.ask_with(&uri, "Content-Type: application/sdp", body);
    let why = "no track of the description can be received: audio G726-32 (payload type 98), which \
               is not supported, video: without a format";
    assert_eq!((response.status.0, response.reason.as_str()), (415, why));
    client.owner.next = Some(Answer::Refused(Refusal::Busy));
    assert_eq!(announce(&mut client, FFMPEG), 409);
    let record = "RTP/AVP/TCP;mode=record";
    let status = client.set_up(&format!("{NEW}/streamid=0"), record).status.0;
    assert_eq!(status, 455, "busy, so nothing was announced");
    let status = client.set_up(&format!("{CAM}/trackID=0"), record).status.0;
    assert_eq!(status, 455, "nothing was announced here");

    client.play();
    assert_eq!(
        announce(&mut client, FFMPEG),
        455,
        "while something is set up"
    );
    assert_eq!(
        client.ask_session(&format!("RECORD {CAM}"), "").status.0,
        455
    );
}

#[test]
fn a_second_announcement_takes_the_place_of_the_first() {
    let mut client = ScriptedClient::open();
    announce(&mut client, FFMPEG);
    announce(&mut client, GST);
    let transport = "RTP/AVP/TCP;mode=record";
    let status = client
        .set_up(&format!("{NEW}/streamid=0"), transport)
        .status
        .0;
    assert_eq!(status, 455);
    let status = client
        .set_up(&format!("{NEW}/stream=1"), transport)
        .status
        .0;
    assert_eq!(status, 200);
}

#[test]
fn tracks_of_a_publisher_are_below_the_url_of_the_announcement() {
    let mut client = ScriptedClient::open();
    let own = "a=tool:libavformat LIBAVFORMAT_VERSION\r\na=control:rtsp://192.0.2.9/own/\r\n";
    let body = FFMPEG.replace("a=tool:libavformat LIBAVFORMAT_VERSION\r\n", own);
    assert_eq!(announce(&mut client, &body), 200);
    let transport = "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record";
    let response = client.set_up(&format!("{NEW}/streamid=0"), transport);
    assert_eq!(response.status.0, 200);
}
