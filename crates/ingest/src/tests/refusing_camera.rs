//! A camera that refuses much and still shows its video.

use std::collections::VecDeque;

use glassline_media::Codec;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// VP8 with audio that the camera marks as if the camera received it.
const SDP: &str = "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\na=control:video\r\n\
    m=audio 0 RTP/AVP 8\r\na=sendonly\r\na=control:audio\r\n";

/// A keyframe of VP8 in one packet, in the connection: 64 by 64.
const KEYFRAME: [u8; 27] = [
    b'$', 0, 0, 23, 0x80, 0xe0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7, 0x10, 0, 2, 0, 0x9d, 1, 0x2a, 64, 0,
    64, 0,
];

/// Answers the requests of one connection: to each its method and whether it has credentials, and
/// the head and body of its response. Closes the connection when the script says nothing more.
async fn answer(
    connection: TcpStream,
    mut script: VecDeque<(&'static str, bool, String)>,
) -> TcpStream {
    let mut connection = BufReader::new(connection);
    let (mut request, mut line) = (String::new(), String::new());
    while let Some((method, has_credentials, response)) = script.pop_front() {
        request.clear();
        while line != "\r\n" {
            line.clear();
            let read = connection.read_line(&mut line).await.expect("a request");
            assert!(read > 0, "{method} was expected, behind {request}");
            request.push_str(&line);
        }
        line.clear();
        assert!(request.starts_with(method), "{method}: {request}");
        assert_eq!(request.contains("Authorization: "), has_credentials);
        let response = format!("RTSP/1.0 {response}");
        let written = connection.write_all(response.as_bytes()).await;
        written.expect("the server reads");
    }
    connection.into_inner()
}

/// scottlamb/retina#45, and a camera that lists a back channel always and refuses to set it up.
#[tokio::test]
async fn a_camera_that_closes_after_its_401_and_refuses_its_audio_shows_its_video() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let ok = "200 OK\r\nSession: 1\r\n\r\n".to_owned();
    let challenge = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n\r\n";
    let described = format!("200 OK\r\nContent-Length: {}\r\n\r\n{SDP}", SDP.len());
    let first = [
        ("OPTIONS", false, ok.clone()),
        ("DESCRIBE", false, challenge.to_owned()),
    ];
    let second = [
        ("OPTIONS", true, ok.clone()),
        ("DESCRIBE", true, described),
        ("SETUP", true, ok.clone()),
        ("SETUP", true, "454 Session Not Found\r\n\r\n".to_owned()),
        ("PLAY", true, ok),
    ];
    let camera = tokio::spawn(async move {
        let (connection, _) = listener.accept().await.expect("the server");
        drop(answer(connection, first.into()).await);
        let (connection, _) = listener.accept().await.expect("the server again");
        let mut connection = answer(connection, second.into()).await;
        connection.write_all(&KEYFRAME).await.expect("it is read");
        connection
    });
    let spec = format!("cam=rtsp://u:p@127.0.0.1:{port}/live");
    let running = Running::start(&[&spec]).await.expect("starts");
    let stream = running.stream("cam");
    until("the video", || !matches!(stream.state(), State::Connecting)).await;
    let state = stream.state();
    assert!(matches!(state, State::Live { .. }), "{:?}", state.detail());
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::Vp8]);
    let note = stream.source_note().expect("told");
    assert_eq!(
        note.left_out,
        ["audio G.711 A-law: the server refused SETUP: 454 Session Not Found"]
    );
    let _connection = camera.await.expect("no panic");
    running.stop().await;
}
