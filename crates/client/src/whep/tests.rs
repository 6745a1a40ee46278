use std::io::Write;
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::test_http::{Seen, read_request, response};

/// Answers one connection per response, each response as written, and gives
/// back what it saw.
fn serve(responses: Vec<String>) -> (Url, JoinHandle<Vec<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("bound").port();
    let url = Url::parse(&format!("http://127.0.0.1:{port}/demo/whep")).expect("a URL");
    let server = std::thread::spawn(move || {
        responses
            .into_iter()
            .map(|response| {
                let (mut stream, _) = listener.accept().expect("a client");
                let seen = read_request(&stream);
                stream.write_all(response.as_bytes()).expect("a reader");
                seen
            })
            .collect()
    });
    (url, server)
}

const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\n";
const ANSWER: &str = "v=0\r\no=- 2 1 IN IP4 0.0.0.0\r\n";

#[test]
fn an_offer_is_answered_and_the_session_is_left() {
    let headers = [
        "Content-Type: application/sdp",
        "Location: /demo/whep/7",
        "ETag: \"abc\"",
    ];
    let (url, server) = serve(vec![
        response("201 Created", &headers, ANSWER),
        response("200 OK", &[], ""),
    ]);
    let answer = post_offer(&url, OFFER, Some("secret"), Trust::System).expect("accepted");
    assert_eq!(answer.sdp, ANSWER);
    assert_eq!(answer.etag.as_deref(), Some("\"abc\""));
    let location = answer.location.expect("a session URL");
    assert_eq!(location, url.join("/demo/whep/7").expect("a URL"));
    delete(&location, Some("secret"), Trust::System).expect("gone");

    let seen = server.join().expect("no panic");
    assert_eq!(seen[0].line, "POST /demo/whep HTTP/1.1");
    assert_eq!(seen[0].body, OFFER);
    assert!(seen[0].has("content-type: application/sdp"), "{seen:?}");
    assert!(seen[0].has("authorization: Bearer secret"), "{seen:?}");
    assert_eq!(seen[1].line, "DELETE /demo/whep/7 HTTP/1.1");
    assert!(seen[1].has("authorization: Bearer secret"), "{seen:?}");
}

#[test]
fn the_reference_load_tests_signalling_is_json() {
    let body = serde_json::json!({"type": "answer", "sdp": ANSWER}).to_string();
    let (url, server) = serve(vec![response("200 OK", &[], &body)]);
    let url = url.join("/doSignaling?stream=demo").expect("a URL");
    let answer = post_offer(&url, OFFER, None, Trust::System).expect("accepted");
    assert_eq!((answer.sdp.as_str(), answer.location), (ANSWER, None));
    let seen = server.join().expect("no panic");
    assert_eq!(seen[0].line, "POST /doSignaling?stream=demo HTTP/1.1");
    let sent: serde_json::Value = serde_json::from_str(&seen[0].body).expect("JSON");
    assert_eq!(sent["type"], "offer");
    assert_eq!(sent["sdp"], OFFER);
}

#[test]
fn a_redirect_repeats_the_offer_but_keeps_the_token_home() {
    let (other, other_server) = serve(vec![response("201 Created", &[], ANSWER)]);
    let to = format!("Location: {other}");
    let (url, server) = serve(vec![response("307 Temporary Redirect", &[&to], "")]);
    let answer = post_offer(&url, OFFER, Some("secret"), Trust::System).expect("accepted");
    assert_eq!(answer.sdp, ANSWER);
    assert!(server.join().expect("no panic")[0].has("authorization: Bearer secret"));
    let seen = other_server.join().expect("no panic");
    assert_eq!(seen[0].body, OFFER);
    assert!(!seen[0].has("authorization: Bearer secret"));
}

#[test]
fn a_refusal_says_who_why_and_whether_to_try_again() {
    let problem = r#"{"type":"about:blank","title":"Not Acceptable","status":406,"detail":"the offer has VP8 only; this stream is H264"}"#;
    for (status, body, code, detail, transient) in [
        ("406 Not Acceptable", problem, 406, "VP8 only", false),
        (
            "404 Not Found",
            "no such stream\nat all",
            404,
            "no such stream",
            false,
        ),
        (
            "503 Service Unavailable",
            "",
            503,
            "Service Unavailable",
            true,
        ),
    ] {
        let (url, server) = serve(vec![response(status, &[], body)]);
        let error = post_offer(&url, OFFER, None, Trust::System).expect_err(status);
        assert!(
            matches!(error, Error::Refused { status, .. } if status == code),
            "{error}"
        );
        assert!(error.to_string().contains(detail), "{error}");
        assert!(error.to_string().contains(url.as_str()), "{error}");
        assert_eq!(error.is_transient(), transient);
        server.join().expect("no panic");
    }
}

#[test]
fn a_page_instead_of_an_answer_is_named() {
    let (url, server) = serve(vec![response("200 OK", &[], "<!doctype html>")]);
    let error = post_offer(&url, OFFER, None, Trust::System).expect_err("HTML");
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(error.to_string().contains("<!doctype html>"), "{error}");
    server.join().expect("no panic");
}

#[test]
fn nobody_there_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let url = Url::parse(&format!("http://127.0.0.1:{port}/x/whep")).expect("a URL");
    let error = post_offer(&url, OFFER, None, Trust::System).expect_err("closed");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.is_transient());
}

#[test]
fn only_http_urls_are_dialled() {
    for text in ["rtsp://127.0.0.1/x", "127.0.0.1:8889/x", "", "data:,x"] {
        let error = parse_url(text).expect_err(text);
        assert!(matches!(error, Error::Url { .. }), "{error}");
    }
    assert!(parse_url("https://example.com/demo/whep").is_ok());
}

#[test]
fn long_bodies_are_cut_between_characters() {
    let text = "é".repeat(150);
    assert_eq!(beginning(&text).len(), 200);
    assert_eq!(beginning(&format!("x{text}")).len(), 199);
    assert_eq!(beginning("one\ntwo"), "one");
}
