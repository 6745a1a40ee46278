//! Answers of devices that mean harm, or are broken.

use std::time::{Duration, Instant};

use super::fake_camera::{Behaviour, FakeCamera, Raw, envelope, matches};
use super::{UUID, address, connect, user};
use crate::call::fuzz_responses;
use crate::discovery::answers;
use crate::{Error, HttpError};

/// Longest time for what costs a machine next to nothing, in a debug build beside others.
const SOON: Duration = Duration::from_secs(4);

async fn asked(raw: Raw) -> Error {
    let fake = FakeCamera::start(Behaviour {
        raw: Some(raw),
        ..Behaviour::default()
    });
    let asked = connect(&fake, Some(user("secret"))).await;
    asked.expect_err("no camera")
}

fn ok(body: &str) -> Raw {
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Raw::Bytes(text.into_bytes())
}

#[tokio::test]
async fn an_answer_without_an_end_is_left_at_its_bound() {
    let error = asked(Raw::Endless).await;
    let is_bound = matches!(
        &error,
        Error::Unreachable {
            source: HttpError::TooLong,
            ..
        }
    );
    assert!(is_bound, "{error}");
}

#[tokio::test]
async fn a_camera_that_says_nothing_is_left_in_time() {
    let error = asked(Raw::Silence).await;
    let is_late = matches!(
        &error,
        Error::Unreachable {
            source: HttpError::Late,
            ..
        }
    );
    assert!(is_late, "{error}");
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let other = FakeCamera::start(Behaviour::default());
    let head = format!(
        "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
        other.url()
    );
    let error = asked(Raw::Bytes(head.into_bytes())).await;
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("302")),
        "{error}"
    );
    assert!(other.seen.try_recv().is_err(), "nobody asked the other");
}

#[tokio::test]
async fn what_is_no_onvif_is_named() {
    for (raw, told) in [
        (ok("hello"), "no usable response"),
        (
            ok("<!DOCTYPE a [<!ENTITY b \"cc\">]><a>&b;</a>"),
            "GetCapabilities: XML with DTD",
        ),
        (
            Raw::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
            "no response of HTTP",
        ),
        (Raw::Bytes(Vec::new()), "no response of HTTP"),
        (
            Raw::Bytes(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "404",
        ),
    ] {
        let error = asked(raw).await.to_string();
        assert!(error.contains(told), "{error}");
        assert!(error.contains("/onvif/device_service"), "{error}");
    }
}

/// Documents whose reading takes the parser long, or that name the same thing in each other.
fn bombs() -> Vec<(&'static str, String)> {
    let repeated = |part: &str, times: usize| part.repeat(times);
    let numbered =
        |make: &dyn Fn(usize) -> String, times: usize| -> String { (0..times).map(make).collect() };
    let attributes = numbered(&|it| format!("a{it}='' "), 50_000);
    let namespaces = numbered(&|it| format!("<b xmlns:n{it}='n{it}'>"), 20_000);
    let entities = numbered(
        &|it| format!("<!ENTITY e{} '&e{it};&e{it};&e{it};'>", it + 1),
        60,
    );
    vec![
        ("attributes", format!("<a {attributes}/>")),
        ("namespaces", namespaces),
        (
            "entities",
            format!("<!DOCTYPE a [<!ENTITY e0 'x'>{entities}]><a>&e60;</a>"),
        ),
        ("depth", repeated("<a>", 150_000)),
        (
            "deep profiles",
            repeated("<Profiles token='a'>", 19_000) + &repeated("</Profiles>", 19_000),
        ),
        (
            "matches",
            repeated("<ProbeMatch>", 19_000) + &repeated("</ProbeMatch>", 19_000),
        ),
        ("text", repeated("=", 400_000)),
    ]
}

#[test]
fn no_document_costs_much() {
    for (name, document) in bombs() {
        let begun = Instant::now();
        fuzz_responses(document.as_bytes());
        fuzz_responses(envelope(&document).as_bytes());
        let answer = matches(UUID, "", "").replace("<wsdd:ProbeMatches>", &document);
        assert!(answers(answer.as_bytes(), address("192.0.2.20:3702"), UUID).len() <= 1);
        let took = begun.elapsed();
        assert!(took < SOON, "{name}: {took:?}");
    }
}

#[test]
fn a_stranger_cannot_answer_for_a_camera() {
    let from = address("192.0.2.20:3702");
    let right = format!("urn:uuid:{UUID}");
    for relates in [
        "",
        "urn:uuid:6f5b8c5e",
        "urn:uuid:",
        &right.to_ascii_uppercase(),
    ] {
        let answer = matches(relates, "", "http://192.0.2.20/");
        assert_eq!(answers(answer.as_bytes(), from, UUID), [], "{relates}");
    }
    // The address of another machine is not asked.
    let answer = matches(&right, "", "http://169.254.169.254/latest");
    let found = answers(answer.as_bytes(), from, UUID);
    assert_eq!(found[0].service.as_str(), "http://192.0.2.20/latest");
}
