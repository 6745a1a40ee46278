//! Every error of the API is a problem (RFC 9457), whichever layer answers.

use super::running::{Response, Running};

fn assert_problem(answer: &Response, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.body);
    let kind = answer.header("content-type");
    assert_eq!(kind, Some("application/problem+json"), "{what}");
    let json = answer.json();
    assert_eq!(json["status"], u64::from(status), "{what}");
    for member in ["type", "title", "detail"] {
        assert!(json[member].is_string(), "{what}: {member} of {json}");
    }
}

#[test]
fn errors_of_both_listeners_are_problems_even_those_of_the_router() {
    let running = Running::start(1);
    let long = format!("/api/v1/streams/{}", "x".repeat(300));
    let refused = [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/streams/nobody", 404),
        ("GET", &long, 404),
        ("PATCH", "/api/v1/streams", 405),
        ("POST", "/api/v1/clock", 405),
        // A path that is not UTF-8.
        ("GET", "/api/v1/streams/%ff", 400),
        ("GET", "/api/v1/streams/%ff/latency", 400),
    ];
    for (method, path, status) in refused {
        let what = format!("{method} {path}");
        assert_problem(&running.request(method, path, &[], ""), status, &what);
        let operator = running.admin_request(method, path, &[("Content-Length", "0")]);
        assert_problem(&operator, status, &format!("admin: {what}"));
    }
    for (path, allowed) in [
        ("/cam/publish", "GET,HEAD"),
        ("/cam/snapshot.jpg", "GET,HEAD"),
    ] {
        let answer = running.request("PUT", path, &[], "");
        assert_problem(&answer, 405, path);
        assert_eq!(answer.header("allow"), Some(allowed), "{path}");
    }
    let twice = "/api/v1/failures?stream=a&stream=b";
    assert_problem(&running.admin(twice), 400, twice);
}
