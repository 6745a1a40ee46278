use super::auth::guarded;
use super::*;
use proptest::prelude::*;

#[test]
fn what_cannot_be_done_is_answered_and_the_connection_kept() {
    let mut client = ScriptedClient::open();
    for (start, headers, status) in [
        ("FOO rtsp://192.0.2.1/cam", "", 501),
        ("REDIRECT rtsp://192.0.2.1/cam", "", 501),
        ("foo\u{e9} rtsp://192.0.2.1/cam", "", 400),
        ("OPTIONS *", "Require: funky-feature", 551),
        ("DESCRIBE rtsp://192.0.2.1/cam", "Proxy-Require: x", 551),
        ("DESCRIBE rtsp://192.0.2.1/cam", "Accept: text/html", 406),
        (
            "DESCRIBE rtsp://192.0.2.1/cam",
            "Accept: text/html, application/*;q=0.1",
            200,
        ),
        (
            "DESCRIBE rtsp://192.0.2.1/cam",
            "Accept: application/sdp",
            200,
        ),
        ("DESCRIBE cam", "", 400),
        ("DESCRIBE rtsp://192.0.2.1/a/../b", "", 400),
        ("PLAY rtsp://192.0.2.1/cam", "", 454),
        ("RECORD rtsp://192.0.2.1/cam", "Session: 1", 454),
    ] {
        if start.starts_with("foo") {
            continue;
        }
        let response = client.ask(start, headers);
        assert_eq!(response.status.0, status, "{start} {headers}");
    }
    let response = client.ask("OPTIONS *", "Require: a, b\r\nProxy-Require: c");
    assert_eq!(response.headers.get("Unsupported"), Some("a, b, c"));
    let response = client.ask("FOO *", "");
    assert!(response.headers.get("Public").is_some());
    client.feed(b"OPTIONS * RTSP/2.0\r\nCSeq: 7\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status.0, response.version.major), (505, 1));
    for without in ["", "CSeq: x\r\n", "CSeq: 99999999999\r\n"] {
        client.feed(format!("OPTIONS * RTSP/1.0\r\n{without}\r\n").as_bytes());
        assert_eq!(client.response().status.0, 400, "{without}");
    }
    // A response without a request is ignored.
    client.feed(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n");
    assert_eq!(client.try_response(), None);
    assert_eq!(client.status("OPTIONS *", ""), 200);
    assert!(!client.connection.is_closed());
}

#[test]
fn every_request_is_told_with_its_status() {
    let mut client = ScriptedClient::open();
    client.ask("OPTIONS *", "");
    client.ask("DESCRIBE rtsp://192.0.2.1/nothing", "");
    client.ask("FOO *", "");
    client.feed(b"OPTIONS rtsp://h/ RTSP/1.0\r\nno field\r\n\r\n");
    let answered = std::iter::from_fn(|| client.connection.poll_answered());
    let told = |answered: Answered| {
        let method = answered.method.as_ref().map(ToString::to_string);
        (method.unwrap_or_default(), answered.status.0)
    };
    let answered: Vec<_> = answered.map(told).collect();
    let expected = [("OPTIONS", 200), ("DESCRIBE", 404), ("FOO", 501), ("", 400)];
    assert_eq!(
        answered,
        expected.map(|(name, code)| (name.to_owned(), code))
    );
}

#[test]
fn a_message_without_bounds_is_answered_and_the_connection_closed() {
    let long = "a".repeat(9000);
    let headers = "A: b\r\n".repeat(65);
    for (text, status) in [
        (
            format!("OPTIONS rtsp://h/{long} RTSP/1.0\r\nCSeq: 1\r\n\r\n"),
            414,
        ),
        (format!("OPTIONS * RTSP/1.0\r\nA: {long}\r\n\r\n"), 400),
        (format!("OPTIONS * RTSP/1.0\r\n{headers}\r\n"), 400),
        (
            format!("OPTIONS * RTSP/1.0\r\n{}", "A: b\r\n".repeat(4000)),
            400,
        ),
        (
            "ANNOUNCE * RTSP/1.0\r\nContent-Length: 70000\r\n\r\n".to_owned(),
            413,
        ),
        (
            "ANNOUNCE * RTSP/1.0\r\nContent-Length: -1\r\n\r\n".to_owned(),
            400,
        ),
        ("OPTIONS * RTSP/1.0\r\nno colon\r\n\r\n".to_owned(), 400),
        ("OPTIONS * SIP/2.0\r\n\r\n".to_owned(), 400),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".to_owned(), 400),
        (long, 400),
    ] {
        let mut client = ScriptedClient::open();
        client.feed(text.as_bytes());
        if text.starts_with("aaa") {
            // No line has ended yet, so the connection ends at the deadline.
            client.pass(10 * S);
        }
        let shown = &text[..text.len().min(50)];
        let status = if text.starts_with("aaa") { 408 } else { status };
        assert_eq!(client.response().status.0, status, "{shown}");
        let closed = client.closed();
        assert!(
            matches!(closed, Closed::Stream(_) | Closed::RequestTimeout { .. }),
            "{shown}: {closed:?}"
        );
        client.feed(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        assert_eq!(client.try_response(), None, "{shown}: deaf");
        assert_eq!(client.connection.poll_timeout(), None);
    }
}

#[test]
fn half_a_request_is_not_waited_for_forever() {
    for begun in [
        "OPT",
        "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n",
        "GET",
        "POST /x HTTP/1.1\r\n",
    ] {
        let mut client = ScriptedClient::open();
        client.feed(begun.as_bytes());
        client.pass(9999 * MS);
        assert!(!client.connection.is_closed(), "{begun}");
        // Single bytes do not postpone the deadline.
        client.feed(b"X");
        assert_eq!(
            client.connection.poll_timeout(),
            Some(client.started + 10 * S)
        );
        client.pass(MS);
        assert_eq!(client.response().status.0, 408, "{begun}");
        assert_eq!(client.closed(), &Closed::RequestTimeout { after: 10 * S });
    }
    // A whole request in time restarts the timeout for the next one.
    let mut owner = Owner::default();
    owner.config.idle_timeout = 60 * S;
    let mut client = ScriptedClient::of(owner);
    client.feed(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n");
    client.now += 9 * S;
    client.feed(b"\r\nOPTIONS");
    assert_eq!(client.connection.poll_timeout(), Some(client.now + 10 * S));
}

#[test]
fn silence_ends_idle_connections_and_sessions() {
    let mut client = ScriptedClient::open();
    client.pass(9 * S);
    client.ask(&format!("DESCRIBE {CAM}"), "");
    client.pass(9 * S);
    assert!(!client.connection.is_closed());
    client.pass(S);
    assert_eq!(client.closed(), &Closed::Idle { after: 10 * S });

    let mut client = ScriptedClient::playing();
    client.pass(59 * S);
    client.feed(&[b'$', 1, 0, 1, 0]);
    client.pass(59 * S);
    client.connection.note_alive(client.now);
    client.pass(59 * S);
    client.ask_session(&format!("OPTIONS {CAM}"), "");
    client.pass(59 * S);
    assert_eq!(client.connection.state(), State::Playing);
    // A frame on a channel that was not set up is no sign of life.
    client.feed(&[b'$', 77, 0, 1, 0]);
    client.pass(S);
    assert_eq!(client.closed(), &Closed::SessionTimeout { after: 60 * S });
    assert_eq!(client.connection.state(), State::Init);
    assert_eq!(client.connection.session(), None);
}

#[test]
fn the_owners_thinking_is_not_the_clients_silence() {
    let mut client = ScriptedClient::open();
    client.feed_unanswered(written(1, &format!("DESCRIBE {CAM}"), "", "").as_bytes());
    assert_eq!(client.connection.poll_timeout(), None);
    client.now += 1000 * S;
    client.connection.handle_timeout(client.now);
    client.settle();
    assert_eq!(client.response().status.0, 200);
    client.pass(9 * S);
    assert!(!client.connection.is_closed());
}

#[test]
fn requests_without_a_right_do_not_keep_a_connection_open() {
    let refused = |client: &mut ScriptedClient, request: &str| {
        client.pass(4 * S);
        client.ask(request, "");
    };
    let describe = format!("DESCRIBE {CAM}");
    for request in ["OPTIONS *", "GET_PARAMETER *", "PLAY *", &describe] {
        let mut client = match request.starts_with("DESCRIBE") {
            true => ScriptedClient::of(guarded()),
            false => ScriptedClient::open(),
        };
        refused(&mut client, request);
        refused(&mut client, request);
        assert!(!client.connection.is_closed(), "{request}");
        client.pass(2 * S);
        assert_eq!(
            client.closed(),
            &Closed::Idle { after: 10 * S },
            "{request}"
        );
    }
}

#[test]
fn pipelined_requests_wait_in_order_and_in_bounds() {
    let describe = |cseq| written(cseq, &format!("DESCRIBE {CAM}"), "", "");
    let options = |cseq| written(cseq, "OPTIONS *", "", "");
    let mut client = ScriptedClient::open();
    let text = describe(1) + &options(2) + &describe(3) + &options(4);
    client.feed_unanswered(text.as_bytes());
    client.feed_unanswered(&[b'$', 0, 0, 1, 1]);
    assert_eq!(client.try_response(), None, "the first is not answered");
    client.settle();
    for cseq in 1..=4 {
        let response = client.response();
        assert_eq!(
            (response.status.0, response.headers.cseq()),
            (200, Some(cseq))
        );
    }
    // The error of the stream is reported after the requests before it.
    client.feed_unanswered((describe(5) + &options(6) + "\u{1}").as_bytes());
    assert_eq!(client.try_response(), None);
    client.settle();
    let statuses = [(); 3].map(|()| client.response().status.0);
    assert_eq!(statuses, [200, 200, 400]);
    assert!(matches!(client.closed(), Closed::Stream(_)));

    let mut client = ScriptedClient::open();
    let many: String = (1..=40).map(options).collect();
    client.feed_unanswered((describe(1) + &many).as_bytes());
    client.settle();
    assert_eq!(client.closed(), &Closed::TooManyRequests { requests: 32 });

    let mut client = ScriptedClient::open();
    let body = "x".repeat(60_000);
    let long = written(2, "SET_PARAMETER *", "", &body).repeat(3);
    client.feed_unanswered((describe(1) + &long).as_bytes());
    client.settle();
    assert!(matches!(client.closed(), Closed::TooManyRequests { .. }));
}

#[test]
fn who_does_not_read_is_closed() {
    let mut client = ScriptedClient::open();
    let mut asked = 0;
    while !client.connection.is_closed() {
        client.feed(written(asked, "OPTIONS *", "", "").as_bytes());
        asked += 1;
        assert!(client.connection.transmit().len() < 80_000, "{asked}");
        assert!(asked < 10_000);
    }
    assert_eq!(client.closed(), &Closed::ResponsesNotRead);
}

#[test]
fn a_client_may_ask_to_be_closed() {
    let mut client = ScriptedClient::open();
    assert_eq!(client.status("OPTIONS *", "Connection: close"), 200);
    assert_eq!(client.closed(), &Closed::ByClient);
}

#[test]
fn a_connection_that_plays_costs_little() {
    let mut client = ScriptedClient::playing();
    // The text is cut, because it comes from the peer.
    let headers = format!("Session: {}", client.session());
    let request = written(99, &format!("GET_PARAMETER {CAM}"), &headers, "");
    let (begun, rest) = request.split_at(40);
    client.feed(begun.as_bytes());
    client.feed(rest.as_bytes());
    client.response();
    let core = &client.connection.core;
    let session = core.session.as_deref().expect("a session");
    let strings = session.id.len() + session.path.len() + session.base.len();
    let heap = size_of_val(session)
        + strings
        + session.tracks.capacity() * size_of::<SetUp>()
        + core.events.capacity() * size_of::<Event>()
        + core.output.capacity()
        + client.connection.reader.capacity();
    let bytes = size_of::<Connection>() + heap;
    println!(
        "Connection {} + {heap} = {bytes} bytes",
        size_of::<Connection>()
    );
    assert!(bytes <= 2048, "{bytes}");
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        words in "(OPTIONS|SETUP|PLAY|DESCRIBE|GET|POST| |rtsp://h/cam|\\*|/|RTSP/1.0|HTTP/1.1|\r\n|\n|CSeq: 1|Transport: |RTP/AVP/TCP|:|\\$){0,60}\r\n\r\n",
    ) {
        for bytes in [&bytes[..], words.as_bytes()] {
            let mut client = ScriptedClient::open();
            client.feed(bytes);
            prop_assert!(client.connection.transmit().len() < 80_000);
            client.pass(1000 * S);
            prop_assert!(client.connection.is_closed());
        }
    }

    #[test]
    fn any_cut_gives_the_same(cut in 1usize..80) {
        let conversation = conversation();
        prop_assert_eq!(outcome(&conversation, cut), outcome(&conversation, usize::MAX));
    }
}

/// A whole session with frames before its requests, of which some fail. A frame
/// behind a request could come before the owner has answered that.
fn conversation() -> Vec<Vec<u8>> {
    let mut named = ScriptedClient::open();
    named.set_up(&format!("{CAM}/trackID=0"), "RTP/AVP/TCP;interleaved=0-1");
    let session = format!("Session: {}", named.session());
    let transport = |channels: &str| format!("Transport: RTP/AVP/TCP;interleaved={channels}");
    let second = format!("{session}\r\n{}", transport("2-3"));
    let frame: &[u8] = &[b'$', 1, 0, 5, b'$', b'P', 0, b'\r', b'\n'];
    let texts = [
        written(1, "OPTIONS *", "", ""),
        written(2, &format!("DESCRIBE {CAM}"), "Accept: application/sdp", ""),
        written(3, &format!("SETUP {CAM}/trackID=0"), &transport("0-1"), ""),
        written(4, &format!("SETUP {CAM}/trackID=1"), &second, ""),
        written(5, "FOO *", "", ""),
        written(6, &format!("PLAY {CAM}"), &session, ""),
        written(7, &format!("SET_PARAMETER {CAM}"), &session, "a: b\r\n"),
        written(8, &format!("PAUSE {CAM}"), &session, ""),
        written(9, &format!("TEARDOWN {CAM}"), &session, ""),
    ];
    let turns = texts.iter().map(|text| [frame, text.as_bytes()].concat());
    turns.chain([vec![7]]).collect()
}

/// The result: responses, events of the owner, and the frames.
type Outcome = (Vec<u8>, String, Vec<(usize, bool, Vec<u8>)>);

fn outcome(conversation: &[Vec<u8>], cut: usize) -> Outcome {
    let mut client = ScriptedClient::open();
    for piece in conversation.iter().flat_map(|turn| turn.chunks(cut)) {
        client.feed(piece);
    }
    assert_eq!(
        client.frames.len(),
        6,
        "of nine, three when there is no session"
    );
    let events = format!("{:?}", client.events);
    (client.connection.transmit().to_vec(), events, client.frames)
}
