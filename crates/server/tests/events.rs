//! What operators learn of the past: events with their reasons, and the last load test.

use std::fs;
use std::time::{Duration, Instant};

use glassline_access::auth::Name;
use glassline_config::{Config, NamedToken, Role, Secret};
use serde_json::{Value, json};

use crate::reload::Folder;
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source};

const VIEWER: &str = "viewer-0123456789";
const OPERATOR: &str = "operator-0123456789";
const ADMIN: &str = "admin-0123456789";

/// Time limit for events that take a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(30);

fn guard(config: &mut Config) {
    let token = |name: &str, token: &str, role| NamedToken {
        name: Name::parse(name).expect("a name"),
        token: Secret::new(token).expect("a token"),
        role,
    };
    config.auth.tokens = vec![
        token("look", VIEWER, Role::Viewer),
        token("shift", OPERATOR, Role::Operator),
        token("deploy", ADMIN, Role::Admin),
    ];
}

fn send(running: &Running, token: &str, method: &str, path: &str, body: &Value) -> Response {
    let authorization = format!("Bearer {token}");
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", authorization.as_str()),
    ];
    running.admin_send(method, path, &headers, &body.to_string())
}

/// Returns subject, text and reason of the events that a query of the list finds, the newest first.
fn events(running: &Running, token: &str, query: &str) -> Vec<[String; 3]> {
    let authorization = format!("Bearer {token}");
    let path = format!("/api/v1/events{query}");
    let answer = running.admin_with(&path, &[("Authorization", &authorization)]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let list = answer.json();
    let events = list["events"].as_array().expect("a list").iter();
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let told = events.map(|it| ["subject", "text", "reason"].map(|name| text(it, name)));
    told.collect()
}

#[track_caller]
fn await_events(running: &Running, query: &str, texts: &[&str]) -> Vec<[String; 3]> {
    let begin = Instant::now();
    loop {
        let found = events(running, ADMIN, query);
        if found
            .iter()
            .map(|it| it[1].as_str())
            .eq(texts.iter().copied())
        {
            return found;
        }
        assert!(begin.elapsed() < SOON, "{query}: {found:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_happened_to_a_stream_is_told_later_with_its_reason() {
    let running = Running::with(1, guard);
    let source = Source::start(&running.stream(), Film::default());
    let of_stream = format!("?subject={STREAM}&kind=stream");
    await_events(&running, &of_stream, &["LIVE"]);
    drop(source);
    let told = await_events(&running, &of_stream, &["UNREACHABLE", "LIVE"]);
    let reason = "the source stopped";
    assert_eq!(told[0], [STREAM, "UNREACHABLE", reason]);
    // A connection that failed is an event, too.
    let headers = [("Content-Type", "application/sdp")];
    running.request("POST", "/nowhere/whep", &headers, "v=0\r\n");
    let failed = events(&running, VIEWER, "?kind=failure");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0][1].contains("viewer by webrtc"), "{failed:?}");
    assert!(!failed[0][2].is_empty(), "{failed:?}");
    assert_eq!(events(&running, VIEWER, "")[0], failed[0], "the newest");
    let second = events(&running, VIEWER, "?limit=1&page=2");
    assert_eq!(second, [told[0].clone()]);
    let unknown = "/api/v1/events?kind=weather";
    let refused = send(&running, VIEWER, "GET", unknown, &Value::Null);
    refused.problem(400);
}

#[test]
fn who_signed_in_is_told_to_admins_alone() {
    let running = Running::with(1, guard);
    for (token, status) in [("wrong-0123456789", 401), (OPERATOR, 200)] {
        let body = json!({"token": token}).to_string();
        let headers = [("Content-Type", "application/json")];
        let answer = running.admin_send("POST", "/api/v1/session", &headers, &body);
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let told = events(&running, ADMIN, "?kind=sign_in");
    let texts: Vec<&str> = told.iter().map(|it| it[1].as_str()).collect();
    assert_eq!(
        texts,
        ["signed in as shift, operator", "was refused a sign-in"]
    );
    assert_eq!(told[0][0], "127.0.0.1");
    assert!(told[1][2].contains("wrong"), "{told:?}");
    for token in [VIEWER, OPERATOR] {
        assert!(events(&running, token, "?kind=sign_in").is_empty());
        let all = events(&running, token, "");
        assert!(all.iter().all(|it| !it[1].contains("sign")), "{all:?}");
    }
}

#[test]
fn the_last_load_test_is_kept_across_restarts_and_operators_replace_it() {
    let folder = Folder::new("load-test");
    let start = || {
        Running::with(1, |config| {
            guard(config);
            config.admin.state_file = Some(folder.0.join("api.json"));
        })
    };
    let path = "/api/v1/load-test";
    let report = |cpu: f64| {
        json!({"label": "mine", "protocol": "whep", "started": "2026-11-27T08:00:00Z",
            "url": "ignored", "verdict": "fine", "steps": [{"viewers": 25, "server_cpu_percent": cpu,
            "delivered_ratio": 1.0, "stages": {"more": [1]}}]})
    };
    let running = start();
    send(&running, VIEWER, "GET", path, &Value::Null).problem(404);
    send(&running, VIEWER, "PUT", path, &report(1.0)).problem(403);
    let empty = json!({"steps": [{"viewers": 25}]});
    let refused = send(&running, OPERATOR, "PUT", path, &empty).problem(422);
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("--server-pid"), "{refused}");
    send(&running, OPERATOR, "PUT", path, &json!({"steps": 1})).problem(400);
    for cpu in [1.0, 2.5] {
        let put = send(&running, OPERATOR, "PUT", path, &report(cpu));
        assert_eq!(put.status, 204, "{}", put.body);
    }
    running.stop(Duration::from_secs(5));
    let running = start();
    let kept = send(&running, VIEWER, "GET", path, &Value::Null).json();
    let steps = json!([{"viewers": 25, "server_cpu_percent": 2.5, "delivered_ratio": 1.0}]);
    assert_eq!((&kept["label"], &kept["steps"]), (&json!("mine"), &steps));
    assert_eq!(
        send(&running, OPERATOR, "DELETE", path, &Value::Null).status,
        204
    );
    send(&running, OPERATOR, "DELETE", path, &Value::Null).problem(404);
    let files = fs::read_dir(&folder.0).expect("the folder");
    let mut left: Vec<_> = files.map(|it| it.expect("a file").file_name()).collect();
    left.sort_unstable();
    assert_eq!(
        left,
        ["api.audit.jsonl", "api.moq.json"],
        "changes and the certificate of MoQ are kept, and nothing else"
    );
}
