//! What a server has recorded, as viewers list it, play it and save it.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use glassline_access::auth::{Account, Name, Pattern};
use glassline_config::{Config, RecordRule};
use glassline_ingest::SourceSpec;
use serde_json::Value;

use crate::cluster::eventually;
use crate::running::Running;

/// `guard:pw` and `viewer:pw`.
const GUARD: (&str, &str) = ("Authorization", "Basic Z3VhcmQ6cHc=");
const VIEWER: (&str, &str) = ("Authorization", "Basic dmlld2VyOnB3");

/// A server that records the demo into a folder of its own.
struct Recording {
    running: Running,
    folder: PathBuf,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Recording {
    fn start(name: &str, change: impl FnOnce(&mut Config)) -> Self {
        let name = format!("glassline-playback-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let demo = SourceSpec::parse("demo").expect("the clip");
        let running = Running::with_sources_and(vec![demo], |config| {
            config.recordings.folder = Some(folder.clone());
            config.recordings.free_gib = 0;
            config.recordings.record = vec![RecordRule {
                streams: vec![Pattern::parse("**").expect("a pattern")],
                ..RecordRule::default()
            }];
            change(config);
        });
        Self { running, folder }
    }

    /// Waits until so many seconds are recorded. Returns the start of the first stretch.
    fn await_seconds(&self, seconds: f64, shown: &[(&str, &str)]) -> String {
        let mut start = None;
        eventually("the demo is recorded", || {
            let list = "/-/playback/list?path=demo";
            let list = self.running.request("GET", list, shown, "");
            let list = match list.status {
                200 => list.json(),
                _ => Value::Null,
            };
            let has_enough = list[0]["duration"].as_f64() >= Some(seconds);
            start = list[0]["start"].as_str().map(str::to_owned);
            has_enough
        });
        start.expect("a time")
    }

    /// Returns status, headers and body of a request.
    fn bytes(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String, Vec<u8>) {
        let mut stream = self.running.connect_http(Ipv4Addr::LOCALHOST);
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        stream
            .write_all(format!("{text}\r\n").as_bytes())
            .expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let at = answer
            .windows(4)
            .position(|it| it == b"\r\n\r\n")
            .expect("headers")
            + 4;
        let head = String::from_utf8_lossy(&answer[..at]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("a status"), head, answer[at..].to_vec())
    }
}

#[test]
fn a_recording_is_listed_and_read_by_range_as_by_the_whole() {
    let recording = Recording::start("range", |_| {});
    let start = recording.await_seconds(3.0, &[]);
    for form in ["fmp4", "mp4"] {
        let path = format!("/-/playback/get?path=demo&start={start}&duration=1.5&format={form}");
        let (status, head, whole) = recording.bytes("GET", &path, &[]);
        assert_eq!(status, 200, "{head}");
        assert!(
            head.contains("content-type: video/mp4; codecs=\"avc1."),
            "{head}"
        );
        assert!(
            head.contains(&format!("content-length: {}\r\n", whole.len())),
            "{head}"
        );
        assert!(head.contains("glassline-span: 2"), "{head}");
        assert_eq!(&whole[4..8], b"ftyp");
        let (status, head_alone, nothing) = recording.bytes("HEAD", &path, &[]);
        assert_eq!((status, nothing.len()), (200, 0));
        assert!(head_alone.contains(&format!("content-length: {}\r\n", whole.len())));
        let length = whole.len();
        for (range, expected) in [
            ("bytes=0-99".to_owned(), 0..100),
            (format!("bytes={}-", length - 70), length - 70..length),
            (
                format!("bytes=-{}", length / 2),
                length - length / 2..length,
            ),
            (format!("bytes=1000-{}", length - 1000), 1000..length - 999),
        ] {
            let (status, head, part) = recording.bytes("GET", &path, &[("Range", &range)]);
            assert_eq!(status, 206, "{head}");
            let (first, last) = (expected.start, expected.end - 1);
            assert!(
                head.contains(&format!("content-range: bytes {first}-{last}/{length}\r\n")),
                "{head}"
            );
            assert!(part == whole[expected], "{form} {range}");
        }
        let (status, head, _) = recording.bytes("GET", &path, &[("Range", "bytes=999999999-")]);
        assert_eq!(status, 416, "{head}");
        let tag = head_alone
            .lines()
            .find_map(|it| it.strip_prefix("etag: "))
            .expect("a tag");
        let (status, head, body) = recording.bytes("GET", &path, &[("If-None-Match", tag)]);
        assert_eq!((status, body.len()), (304, 0), "{head}");
    }
    let (status, head, jpeg) = recording.bytes(
        "GET",
        &format!("/-/playback/thumbnail?path=demo&at={start}&width=160"),
        &[],
    );
    assert_eq!(status, 200, "{head}");
    assert!(jpeg.starts_with(&[0xff, 0xd8]));
    assert_eq!(
        recording.running.get("/-/playback/marks?path=demo").json(),
        Value::Array(Vec::new())
    );
}

#[test]
fn what_cannot_be_played_is_a_problem_that_says_why() {
    let recording = Recording::start("problems", |_| {});
    let start = recording.await_seconds(1.0, &[]);
    for (query, status, told) in [
        ("list", 400, "path"),
        ("list?path=a//b", 400, "path"),
        ("list?path=nothing", 404, "nothing"),
        ("list?path=demo&start=5&end=4", 400, "end"),
        ("list?path=demo&end=2000-01-01T00:00:00Z", 404, "recorded"),
        ("get?path=demo", 400, "start"),
        (&format!("get?path=demo&start={start}"), 400, "duration"),
        ("get?path=demo&start=yesterday&duration=1", 400, "yesterday"),
        (
            &format!("get?path=demo&start={start}&duration=0"),
            400,
            "more than nothing",
        ),
        (
            &format!("get?path=demo&start={start}&duration=1e99"),
            400,
            "duration",
        ),
        (
            &format!("get?path=demo&start={start}&duration=99999999999h"),
            400,
            "at most a day",
        ),
        (
            &format!("get?path=demo&start={start}&duration=1&format=avi"),
            400,
            "fmp4",
        ),
        (
            &format!("get?path=demo&start={start}&duration=1&gaps=fill"),
            400,
            "cut",
        ),
        (
            "get?path=demo&start=2999-01-01T00:00:00Z&duration=1",
            404,
            "future",
        ),
        (
            "get?path=demo&start=1000&duration=1h",
            404,
            "nothing of 'demo'",
        ),
        (
            &format!("get?path=demo&start={start}&duration=1&layer=none"),
            404,
            "recorded",
        ),
        ("thumbnail?path=demo", 400, "at"),
        ("thumbnail?path=demo&at=1000", 404, "recorded"),
        (
            &format!("thumbnail?path=demo&at={start}&width=1"),
            400,
            "width",
        ),
    ] {
        let problem = recording
            .running
            .get(&format!("/-/playback/{query}"))
            .problem(status);
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(told), "{query}: {detail}");
    }
}

#[test]
fn readers_have_no_past_and_exports_are_audited() {
    let account = |name: &str, playback: &[&str], export: &[&str]| {
        let patterns = |texts: &[&str]| {
            texts
                .iter()
                .map(|it| Pattern::parse(it).expect("a pattern"))
                .collect()
        };
        Account {
            read: patterns(&["**"]),
            playback: patterns(playback),
            export: patterns(export),
            ..Account::new(Name::parse(name).expect("a name"), "pw", &[1; 16])
        }
    };
    let recording = Recording::start("rights", |config| {
        config.auth.users = vec![
            account("viewer", &["other"], &["demo"]),
            account("guard", &["demo"], &["demo"]),
        ];
    });
    let start = recording.await_seconds(3.0, &[GUARD]);
    let get = |path: &str, by| recording.running.request("GET", path, &[by], "").status;
    for path in [
        "list?path=demo",
        "marks?path=demo",
        "get?path=demo&start=1&duration=1",
        "thumbnail?path=demo&at=1",
    ] {
        assert_eq!(get(&format!("/-/playback/{path}"), VIEWER), 403, "{path}");
        assert_eq!(
            recording.running.get(&format!("/-/playback/{path}")).status,
            401,
            "{path}"
        );
    }
    assert_eq!(get("/demo/timeline", VIEWER), 403);
    assert_eq!(get("/demo/timeline", GUARD), 200);
    let path =
        format!("/api/v1/streams/demo/export?start={start}&duration=1.5&cut=exact&token=secret");
    let (status, head, file) = recording.bytes("GET", &path, &[GUARD]);
    assert_eq!(status, 200, "{head}");
    assert!(
        head.contains("content-disposition: attachment; filename=\"demo-"),
        "{head}"
    );
    assert!(
        head.contains(&format!("content-length: {}\r\n", file.len())),
        "{head}"
    );
    let audit = recording.running.admin_json("/api/v1/audit").json();
    let exported = &audit["changes"][0];
    assert_eq!(exported["action"], "exportRecording", "{audit}");
    assert_eq!(
        (&exported["who"], &exported["role"]),
        (&"guard".into(), &Value::Null)
    );
    let target = exported["target"].as_str().expect("a path");
    assert!(
        target.contains("/demo/export?start=") && !target.contains("secret"),
        "{target}"
    );
    let query = format!("start={start}&end=1");
    let refused = recording.running.request(
        "GET",
        &format!("/api/v1/streams/demo/export?{query}"),
        &[GUARD],
        "",
    );
    refused.problem(400);
}
