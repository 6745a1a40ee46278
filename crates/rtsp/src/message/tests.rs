use super::*;
use proptest::prelude::*;

/// Returns the message and its length in bytes.
fn whole(bytes: &[u8]) -> (Message, usize) {
    match parse(bytes, &Limits::default()) {
        Ok(Parsed::Message(message, consumed)) => (message, consumed),
        other => panic!("{other:?}"),
    }
}

fn response(text: &str) -> Response {
    match whole(text.as_bytes()) {
        (Message::Response(response), _) => response,
        (other, _) => panic!("{other:?}"),
    }
}

fn request(text: &str) -> Request {
    match whole(text.as_bytes()) {
        (Message::Request(request), _) => request,
        (other, _) => panic!("{other:?}"),
    }
}

fn failure(text: &str) -> ParseError {
    parse(text.as_bytes(), &Limits::default()).expect_err(text)
}

#[test]
fn a_response_of_live555_is_read() {
    let text = "RTSP/1.0 200 OK\r\nCSeq: 2\r\nDate: Sat, Nov 21 2026 03:00:00 GMT\r\n\
        Content-Base: rtsp://127.0.0.1:8554/t.264/\r\nContent-Type: application/sdp\r\n\
        Content-Length: 5\r\n\r\nv=0\r\n$\0";
    let (message, consumed) = whole(text.as_bytes());
    assert_eq!(consumed, text.len() - 2);
    let Message::Response(response) = message else {
        panic!("{message:?}");
    };
    assert_eq!(
        (response.status, response.reason.as_str()),
        (Status::OK, "OK")
    );
    assert_eq!(response.headers.cseq(), Some(2));
    assert_eq!(
        response.headers.get("content-BASE"),
        Some("rtsp://127.0.0.1:8554/t.264/")
    );
    assert_eq!(response.body, b"v=0\r\n");
}

#[test]
fn what_implementations_do_beside_the_rfc_is_read() {
    let odd = response(
        "rtsp/1.0  454\nCSEQ:7;\nSession :  abc \r\nno colon at all\nX-Long: one\r\n\t two\n\n",
    );
    assert_eq!(
        (odd.status, odd.reason.as_str()),
        (Status::SESSION_NOT_FOUND, "")
    );
    assert_eq!(odd.headers.cseq(), Some(7));
    assert_eq!(odd.headers.get("Session"), Some("abc"));
    assert_eq!(odd.headers.get("X-Long"), Some("one two"));
    let nothing = response("RTSP/1.0 200 OK\r\nA: b\r\n\t\u{1}\r\n\r\n");
    assert_eq!(nothing.headers.get("A"), Some("b"), "nothing was folded on");
    let spaced = request("DESCRIBE rtsp://h/my camera  RTSP/1.0\r\n\r\n");
    assert_eq!(spaced.uri, "rtsp://h/my camera");
    let latin = response("RTSP/1.0 404 Gibt's nicht\r\nServer: K\u{fc}che\r\n\r\n");
    assert_eq!(latin.headers.get("server"), Some("Küche"));
    let two = request("FOO * RTSP/2.0\r\n\r\n");
    assert_eq!(
        (two.version.major, &two.method),
        (2, &Method::Other("FOO".to_owned()))
    );
}

#[test]
fn a_tunnel_leaves_its_stream_in_the_input() {
    let text = b"POST /cam HTTP/1.1\r\nContent-Length: 32767\r\n\r\nT1BUSU9OUw==";
    let (message, consumed) = whole(text);
    assert_eq!(consumed, text.len() - 12);
    let Message::Request(post) = &message else {
        panic!("{message:?}");
    };
    assert!(post.version.http && post.method == Method::Post && post.body.is_empty());
    let mut written = Vec::new();
    message.write(&mut written);
    assert_eq!(written, &text[..consumed]);
}

#[test]
fn what_is_malformed_is_named() {
    for start in [
        "",
        "RTSP/1.0 abc",
        "RTSP/1.0 20 OK",
        "PLAY RTSP/1.0",
        "PL{AY * RTSP/1.0",
        "PLAY * RTSP/1",
        "PLAY * RTSP/1.0 x",
    ] {
        let error = failure(&format!("{start}\r\n\r\n"));
        assert!(
            matches!(error, ParseError::StartLine(_)),
            "{start}: {error}"
        );
    }
    let error = failure("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nwhat is this\r\n\r\n");
    assert_eq!(
        error.to_string(),
        "line 3 of a request is not a header field: `what is this`"
    );
    for length in ["-1", "+5", "5, 5", "five", ""] {
        let error = failure(&format!(
            "OPTIONS * RTSP/1.0\r\nContent-Length: {length}\r\n\r\n"
        ));
        assert!(
            matches!(error, ParseError::ContentLength(_)),
            "{length}: {error}"
        );
    }
    let twice = "OPTIONS * RTSP/1.0\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    assert!(matches!(failure(twice), ParseError::ContentLength(_)));
}

#[test]
fn everything_has_a_bound() {
    let limits = Limits {
        head_bytes_max: 200,
        line_bytes_max: 60,
        headers_max: 3,
        body_bytes_max: 10,
    };
    let attempt = |text: &str| parse(text.as_bytes(), &limits);
    let long = "a".repeat(61);
    let cases = [
        (
            format!("PLAY {long} RTSP/1.0\r\n\r\n"),
            Status::REQUEST_URI_TOO_LONG,
        ),
        (
            format!("PLAY * RTSP/1.0\r\nA: {long}\r\n\r\n"),
            Status::BAD_REQUEST,
        ),
        (
            format!("PLAY * RTSP/1.0\r\n{}\r\n", "A: b\r\n".repeat(4)),
            Status::BAD_REQUEST,
        ),
        (
            "PLAY * RTSP/1.0\r\nContent-Length: 11\r\n\r\n".to_owned(),
            Status::REQUEST_ENTITY_TOO_LARGE,
        ),
        (
            "PLAY * RTSP/1.0\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned(),
            Status::REQUEST_ENTITY_TOO_LARGE,
        ),
        ("a".repeat(200), Status::BAD_REQUEST),
    ];
    for (text, status) in cases {
        let error = attempt(&text).expect_err(&text);
        assert_eq!(error.status(), status, "{error}");
    }
    assert_eq!(
        attempt(&"a".repeat(199)),
        Ok(Parsed::Incomplete { needed: 200 })
    );
    let just = format!(
        "PLAY * RTSP/1.0\r\n{}Content-Length: 10\r\n\r\n",
        "A: b\r\n".repeat(2)
    );
    let expected = Parsed::Incomplete {
        needed: just.len() + 10,
    };
    assert_eq!(attempt(&just), Ok(expected));
}

#[test]
fn a_value_from_elsewhere_adds_no_header() {
    let mut request = Request::new(Method::Setup, "rtsp://h/x\r\nEvil: 1", 3);
    request.headers.push("X\r\n-Y", "a\r\nEvil: 2");
    let mut response = Response::to(&request, Status::OK);
    response.reason = "OK\r\nEvil: 3".to_owned();
    for message in [Message::Request(request), Message::Response(response)] {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        assert_eq!(whole(&bytes).0.headers().get("Evil"), None);
    }
}

fn any_headers() -> impl Strategy<Value = Headers> {
    let field = ("[A-Za-z][A-Za-z0-9-]{0,12}", "([!-~é][ -~é]{0,30}[!-~é])?");
    prop::collection::vec(field, 0..8).prop_map(|fields| {
        let mut headers = Headers::new();
        for (name, value) in fields {
            if !name.eq_ignore_ascii_case("Content-Length") {
                headers.push(&name, &value);
            }
        }
        headers
    })
}

pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let body = prop::collection::vec(any::<u8>(), 0..60);
    let method = prop_oneof![
        Just(Method::Play),
        Just(Method::GetParameter),
        "[A-Z][A-Z_]{0,8}".prop_map(|name| Method::parse(&name).expect("a token")),
    ];
    (
        any::<bool>(),
        method,
        "rtsp://[a-z/?=&:]{1,20}",
        100u16..1000,
        "([a-z]([a-z ]{0,9}[a-z])?)?",
        any_headers(),
        body,
    )
        .prop_map(
            |(is_request, method, uri, status, reason, mut headers, body)| {
                if !body.is_empty() {
                    headers.push("Content-Length", &body.len().to_string());
                }
                let version = Version::RTSP_1_0;
                if is_request {
                    Message::Request(Request {
                        method,
                        uri,
                        version,
                        headers,
                        body,
                    })
                } else {
                    let status = Status(status);
                    Message::Response(Response {
                        version,
                        status,
                        reason,
                        headers,
                        body,
                    })
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(message in any_message()) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        prop_assert_eq!(whole(&bytes), (message, bytes.len()));
        for cut in 0..bytes.len() {
            let parsed = parse(&bytes[..cut], &Limits::default());
            let needs_more = matches!(parsed, Ok(Parsed::Incomplete { needed }) if needed > cut && needed <= bytes.len());
            prop_assert!(needs_more, "{} of {}: {:?}", cut, bytes.len(), parsed);
        }
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_is_stable(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        text in "(PLAY|RTSP/1.0|HTTP/1.1| |\\*|200|\r\n|\n|:|[A-z]|Content-Length: 3){0,40}\n\n",
    ) {
        let _ = parse(&bytes, &Limits::default());
        if let Ok(Parsed::Message(message, consumed)) = parse(text.as_bytes(), &Limits::default()) {
            prop_assert!(consumed <= text.len());
            let mut written = Vec::new();
            message.write(&mut written);
            let (again, _) = whole(&written);
            let mut rewritten = Vec::new();
            again.write(&mut rewritten);
            prop_assert_eq!(written, rewritten);
        }
    }
}

/// A response with any of these lengths was the end of the session.
#[test]
fn a_response_has_the_length_that_its_last_field_begins_with() {
    for (fields, bytes) in [
        ("Content-Length: 3", 3),
        ("Content-Length:", 0),
        ("Content-Length: -1", 0),
        ("Content-Length: 3;", 3),
        ("Content-Length: 9\r\nContent-Length: 2", 2),
        ("Content-Length: none", 0),
    ] {
        let text = format!("RTSP/1.0 200 OK\r\nCSeq: 2\r\n{fields}\r\n\r\nabcdefghijk");
        match parse(text.as_bytes(), &Limits::default()) {
            Ok(Parsed::Message(Message::Response(response), _)) => {
                assert_eq!(response.body.len(), bytes, "{fields}");
            }
            other => panic!("{fields}: {other:?}"),
        }
    }
    let text = "RTSP/1.0 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n";
    let refused = parse(text.as_bytes(), &Limits::default());
    assert!(matches!(refused, Err(ParseError::BodyTooLong { .. })));
}
