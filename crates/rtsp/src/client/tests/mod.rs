//! Transcripts: the client's requests, and responses as those of live555,
//! gst-rtsp-server and MediaMTX.

mod credentials;
mod keep_alives;
mod leaving;
mod operations;
mod publishing;
mod transports;

use super::*;
use crate::interleaved;
use crate::message::{Message, Parsed, Request, Status, parse};

const MS: Duration = Duration::from_millis(1);

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=control:*\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:stream=0\r\n\
    m=audio 0 RTP/AVP 97\r\na=rtpmap:97 OPUS/48000/2\r\na=control:stream=1\r\n";

/// A client and the server's side of its connection.
struct ScriptedServer {
    client: Client,
    now: Instant,
    events: Vec<Event>,
    frames: Vec<(usize, bool, Vec<u8>)>,
}

impl ScriptedServer {
    fn open(url: &str) -> Self {
        let mut server = Self::new(url);
        server.client.start(server.now);
        server
    }

    /// A connection on which nothing was sent.
    fn new(url: &str) -> Self {
        let mut config = Config::new(Url::parse(url).expect("a URL"), [1; 32]);
        config.user_agent = "test".to_owned();
        Self {
            client: Client::new(config),
            now: Instant::now(),
            events: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Returns the next request of the client.
    fn request(&mut self) -> Request {
        self.try_request().expect("a request")
    }

    fn try_request(&mut self) -> Option<Request> {
        let output = self.client.output();
        if output.is_empty() {
            return None;
        }
        match parse(output, &Limits::default()) {
            Ok(Parsed::Message(Message::Request(request), consumed)) => {
                self.client.advance(consumed);
                Some(request)
            }
            other => panic!("{other:?}"),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let frames = &mut self.frames;
        self.client.handle_data(self.now, bytes, |frame| {
            frames.push((frame.track.get(), frame.control, frame.payload.to_vec()));
        });
        self.events
            .extend(std::iter::from_fn(|| self.client.poll_event()));
    }

    /// Passes on a response: status line, headers and a body.
    fn answer(&mut self, request: &Request, head: &str, body: &str) {
        let cseq = request.headers.cseq().expect("a number");
        let length = match body.len() {
            0 => String::new(),
            bytes => format!("Content-Length: {bytes}\r\n"),
        };
        let text = format!("RTSP/1.0 {head}\r\nCSeq: {cseq}\r\n{length}\r\n{body}");
        self.feed(text.as_bytes());
    }

    /// Expects `method` on `uri` and answers it.
    fn exchange(&mut self, method: &Method, uri: &str, head: &str, body: &str) -> Request {
        let request = self.request();
        assert_eq!((&request.method, request.uri.as_str()), (method, uri));
        self.answer(&request, head, body);
        request
    }

    fn describe(&mut self) {
        let url = self.client.core.url.clone();
        self.exchange(&Method::Options, &url, PUBLIC, "");
        let base = format!("200 OK\r\nContent-Base: {url}/\r\nContent-Type: application/sdp");
        self.exchange(&Method::Describe, &url, &base, SDP);
        assert!(
            matches!(self.events.last(), Some(Event::Described(_))),
            "{:?}",
            self.events
        );
    }

    /// Opens a connection that plays both tracks interleaved.
    fn play(url: &str) -> Self {
        let mut server = Self::open(url);
        server.describe();
        let tracks = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
        server.client.set_up(server.now, &tracks);
        for (index, channels) in ["0-1", "2-3"].iter().enumerate() {
            let control = format!("{url}/stream={index}");
            let head = format!(
                "200 OK\r\nTransport: RTP/AVP/TCP;unicast;interleaved={channels}\r\nSession: abc;timeout=30"
            );
            let request = server.exchange(&Method::Setup, &control, &head, "");
            let asked = format!("RTP/AVP/TCP;unicast;interleaved={channels}");
            assert_eq!(request.headers.get("Transport"), Some(asked.as_str()));
        }
        let head = "200 OK\r\nRTP-Info: url=stream=0;seq=5;rtptime=6\r\nRange: npt=0-";
        let request = server.exchange(&Method::Play, &format!("{url}/"), head, "");
        assert_eq!(request.headers.get("Session"), Some("abc"));
        assert!(
            matches!(server.events.last(), Some(Event::Playing { .. })),
            "{:?}",
            server.events
        );
        server
    }

    fn closed(&self) -> &Closed {
        match self.events.last() {
            Some(Event::Closed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Advances to the client's deadline.
    fn wait(&mut self) {
        self.now = self.client.poll_timeout().expect("a deadline");
        self.client.handle_timeout(self.now);
        self.events
            .extend(std::iter::from_fn(|| self.client.poll_event()));
    }
}

const URL: &str = "rtsp://127.0.0.1:8554/cam";
const PUBLIC: &str = "200 OK\r\nPublic: OPTIONS, DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN";

#[test]
fn plays_keeps_alive_and_leaves() {
    let mut server = ScriptedServer::play(URL);
    server.feed(&[b'$', 2, 0, 1, 7, b'$', 1, 0, 2, 8, 9, b'$', 77, 0, 0]);
    assert_eq!(server.frames, [(1, false, vec![7]), (0, true, vec![8, 9])]);
    assert_eq!(server.client.stray_frames(), 1);
    let Some(Event::Playing { rtp_info, range }) = server.events.last() else {
        panic!("{:?}", server.events);
    };
    assert_eq!(
        (rtp_info[0].sequence, rtp_info[0].timestamp),
        (Some(5), Some(6))
    );
    assert!(range.is_some());

    let before = server.now;
    server.wait();
    assert_eq!(
        server.now - before,
        MS * 12_000,
        "two in the 30 s of the session"
    );
    let request = server.exchange(&Method::GetParameter, &format!("{URL}/"), "200 OK", "");
    assert_eq!(request.headers.get("Session"), Some("abc"));

    server.client.leave(server.now);
    server.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert_eq!(server.closed(), &Closed::Left);
    assert!(server.client.is_closed() && server.client.poll_timeout().is_none());
}

#[test]
fn a_refused_track_costs_no_more_than_itself_unless_it_is_the_first() {
    for refused in [
        "461 Unsupported transport",
        "454 Session Not Found",
        "200 OK\r\nTransport: nonsense",
    ] {
        let mut server = ScriptedServer::open(URL);
        server.describe();
        let wanted = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
        server.client.set_up(server.now, &wanted);
        let first = "200 OK\r\nSession: 1";
        server.exchange(&Method::Setup, &format!("{URL}/stream=0"), first, "");
        server.exchange(&Method::Setup, &format!("{URL}/stream=1"), refused, "");
        assert!(
            matches!(
                server.events.last(),
                Some(Event::LeftOut {
                    track: TrackIndex(1),
                    ..
                })
            ),
            "{:?}",
            server.events
        );
        server.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
        server.feed(&[b'$', 2, 0, 1, 9, b'$', 0, 0, 1, 8]);
        assert_eq!(
            server.frames,
            [(0, false, vec![8])],
            "the channel is nobody's"
        );

        let mut server = ScriptedServer::open(URL);
        server.describe();
        server.client.set_up(server.now, &wanted);
        server.exchange(&Method::Setup, &format!("{URL}/stream=0"), refused, "");
        assert!(server.client.is_closed());
    }
}

#[test]
fn what_is_live_is_not_rewound() {
    let cases = [("now-", "npt=now-"), ("0-4.5", "npt=0.000-")];
    for (described, asked) in cases {
        let mut server = ScriptedServer::open(URL);
        server.exchange(&Method::Options, URL, PUBLIC, "");
        let sdp = SDP.replace("t=0 0", &format!("a=range:npt={described}"));
        server.exchange(&Method::Describe, URL, "200 OK", &sdp);
        server.client.set_up(
            server.now,
            &[(TrackIndex(0), RequestedTransport::Interleaved)],
        );
        let control = format!("{URL}/stream=0");
        server.exchange(&Method::Setup, &control, "200 OK", "");
        assert_eq!(server.request().headers.get("Range"), Some(asked));
    }
}

#[test]
fn redirects_and_refusals_are_told() {
    for status in [301, 302] {
        let mut server = ScriptedServer::open(URL);
        server.exchange(&Method::Options, URL, PUBLIC, "");
        let head = format!("{status} Moved\r\nLocation: rtsp://other/cam");
        server.exchange(&Method::Describe, URL, &head, "");
        assert_eq!(
            server.closed(),
            &Closed::Redirected {
                location: "rtsp://other/cam".to_owned()
            }
        );
    }
    let mut server = ScriptedServer::open(URL);
    // A server that does not support OPTIONS may support the other methods.
    server.exchange(&Method::Options, URL, "501 Not Implemented", "");
    server.exchange(&Method::Describe, URL, "404 Stream Not Found", "");
    assert_eq!(
        server.closed().to_string(),
        "the server refused DESCRIBE: 404 Stream Not Found"
    );
    for (body, expected) in [
        ("<html>", "is not a session description"),
        ("v=0\r\n", "no track to play"),
    ] {
        let mut server = ScriptedServer::open(URL);
        server.exchange(&Method::Options, URL, PUBLIC, "");
        server.exchange(&Method::Describe, URL, "200 OK", body);
        assert!(server.closed().to_string().contains(expected), "{body}");
    }
}

#[test]
fn requests_of_the_server_are_answered() {
    let mut server = ScriptedServer::play(URL);
    let cases = [
        ("OPTIONS", 200),
        ("SET_PARAMETER", 200),
        ("ANNOUNCE", 200),
        ("RECORD", 501),
        ("FOO", 501),
    ];
    for (method, status) in cases {
        server.feed(format!("{method} {URL} RTSP/1.0\r\nCSeq: 9\r\n\r\n").as_bytes());
        let output = server.client.output().to_vec();
        server.client.advance(output.len());
        let Ok(Parsed::Message(Message::Response(response), _)) =
            parse(&output, &Limits::default())
        else {
            panic!("{output:?}");
        };
        assert_eq!(
            (response.status, response.headers.cseq()),
            (Status(status), Some(9))
        );
    }
    server.feed(format!("TEARDOWN {URL} RTSP/1.0\r\nCSeq: 10\r\n\r\n").as_bytes());
    assert_eq!(server.closed(), &Closed::ByServer);
    // A server that sends requests without end and reads nothing.
    let mut server = ScriptedServer::play(URL);
    let flood = format!("OPTIONS {URL} RTSP/1.0\r\nCSeq: 9\r\n\r\n").repeat(2000);
    server.feed(flood.as_bytes());
    assert_eq!(server.closed(), &Closed::ResponsesNotRead);
    assert!(server.client.output().len() < 128 << 10);
}

/// frigate#1605: FFmpeg plays such cameras, and warns.
#[test]
fn a_wrong_or_missing_number_is_that_of_the_request_under_way() {
    for number in ["CSeq: 0\r\n", "CSeq: 77\r\n", "CSeq: x\r\n", ""] {
        let mut server = ScriptedServer::open(URL);
        server.request();
        server.feed(format!("RTSP/1.0 100 Continue\r\n{number}\r\n").as_bytes());
        server.feed(format!("RTSP/1.0 200 OK\r\n{number}\r\n").as_bytes());
        assert_eq!(server.request().method, Method::Describe, "{number}");
        server.feed(
            format!("RTSP/1.0 404 Gone\r\n{number}\r\n")
                .repeat(2)
                .as_bytes(),
        );
        assert_eq!(server.events.len(), 1, "nothing waits for the second one");
        assert!(server.closed().to_string().contains("404 Gone"));
    }
}

#[test]
fn the_number_comes_first_and_the_credentials_last() {
    let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1:8554/cam");
    server.exchange(&Method::Options, URL, PUBLIC, "");
    let refuse = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"";
    server.exchange(&Method::Describe, URL, refuse, "");
    let again = server.request();
    let names: Vec<_> = again.headers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["CSeq", "User-Agent", "Accept", "Authorization"]);
    let stale = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"m\"";
    server.answer(&again, stale, "");
    let names_again = server.request().headers;
    let names_again: Vec<_> = names_again.iter().map(|(name, _)| name).collect();
    assert_eq!(names_again, names);
}

#[test]
fn silence_is_given_up() {
    let mut server = ScriptedServer::open(URL);
    server.request();
    server.wait();
    let text = server.closed().to_string();
    assert_eq!(text, "the server did not answer OPTIONS within 10s");

    let mut server = ScriptedServer::play(URL);
    server.client.leave(server.now);
    let before = server.now;
    server.wait();
    assert_eq!(
        (server.closed(), server.now - before),
        (&Closed::Left, MS * 1000)
    );
}

#[test]
fn the_end_of_the_connection_says_what_was_awaited() {
    let mut server = ScriptedServer::open(URL);
    server.client.handle_end();
    server.feed(b"");
    let text = server.closed().to_string();
    assert_eq!(
        text,
        "the server closed the connection instead of answering OPTIONS"
    );
    let mut server = ScriptedServer::play(URL);
    server.feed(&[b'$', 0, 0, 9, 1]);
    server.client.handle_end();
    let Some(Event::Closed(reason)) = server.client.poll_event() else {
        panic!("not closed");
    };
    assert_eq!(reason.to_string(), "the server closed the connection");
}

#[test]
fn commands_out_of_turn_do_nothing() {
    let mut server = ScriptedServer::open(URL);
    server.client.set_up(
        server.now,
        &[(TrackIndex(0), RequestedTransport::Interleaved)],
    );
    server.client.start(server.now);
    assert_eq!(server.request().method, Method::Options);
    assert!(server.try_request().is_none());
    server.client.leave(server.now);
    server.feed(b"RTSP/1.0 200 OK\r\n\r\n");
    assert_eq!(server.events, [Event::Closed(Closed::Left)]);
    let mut server = ScriptedServer::open(URL);
    server.describe();
    server.client.set_up(server.now, &[]);
    server.feed(b"");
    assert_eq!(server.closed(), &Closed::NothingToPlay);
}
