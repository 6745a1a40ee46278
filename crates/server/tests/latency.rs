//! A viewer reports when it had each frame; the server joins that with its own stamps.

use std::time::{Duration, Instant};

use glassline_media::Kind;
use serde_json::{Value, json};

use crate::peer::{Peer, SOON};
use crate::running::{Response, Running};
use crate::source::{Film, Source};

const STAGES: [&str; 8] = [
    "ingest",
    "hub",
    "pace",
    "send",
    "network",
    "jitter_buffer",
    "decode",
    "render",
];

fn report(peer: &Peer<'_>, body: &str) -> Response {
    let path = format!("{}/report", peer.location);
    let json = ("Content-Type", "application/json");
    peer.running.request("POST", &path, &[json], body)
}

/// Server time minus the test's time since `zero`, and half the round trip, in ns.
fn offset(running: &Running, zero: Instant) -> (f64, f64) {
    let mut best = (0.0, f64::MAX);
    for _ in 0..5 {
        let asked = zero.elapsed().as_secs_f64() * 1e9;
        let clock = running.get("/api/v1/clock").json();
        let answered = zero.elapsed().as_secs_f64() * 1e9;
        let [received, sent] =
            ["received_ns", "sent_ns"].map(|name| clock[name].as_f64().expect("a time"));
        let error = ((answered - asked) - (sent - received)) / 2.0;
        if error < best.1 {
            best = (((received - asked) + (sent - answered)) / 2.0, error);
        }
    }
    best
}

fn row<'a>(latency: &'a Value, stage: &str) -> &'a Value {
    let rows = latency["stages"].as_array().expect("rows");
    rows.iter()
        .find(|row| row["stage"] == stage)
        .unwrap_or_else(|| panic!("no {stage} in {latency}"))
}

#[test]
fn reported_frames_are_joined_with_the_servers_stamps() {
    let running = Running::start(2);
    let zero = Instant::now();
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    peer.run_until(SOON, |peer| {
        peer.of(Kind::Video).filter(|it| it.marker).count() > 60
    });

    let (offset_ns, error_ns) = offset(&running, zero);
    let ms = |at: Instant| (at - zero).as_secs_f64() * 1e3;
    // The last frame of the squeezed past and those before have no stamps.
    let shown: Vec<_> = peer.of(Kind::Video).filter(|it| it.marker).collect();
    let shown = &shown[shown.len() - 20..];
    let mut frames: Vec<Value> = shown
        .iter()
        .map(|it| {
            json!({"rtp_timestamp": it.timestamp, "received_ms": ms(it.at),
                   "presented_ms": ms(it.at) + 25.0, "decode_ms": 3.0,
                   "jitter_buffer_ms": 12.0, "code": null})
        })
        .collect();
    let foreign = shown[0].timestamp.wrapping_add(1);
    frames.push(json!({"rtp_timestamp": foreign, "received_ms": 1.0, "presented_ms": 2.0}));
    let body = json!({"offset_ns": offset_ns, "error_ns": error_ns, "frames": frames,
                      "unmatched": 2, "lost": 4});
    let response = report(&peer, &body.to_string());
    assert_eq!(response.status, 200, "{}", response.body);
    let mine = response.json();
    for stage in STAGES {
        let row = row(&mine, stage);
        assert_eq!(row["count"], 20, "{stage}: {row}");
        assert_eq!(
            row["unmatched"], 3,
            "the foreign timestamp and two of the page's own"
        );
        assert_eq!(row["lost"], 4);
    }
    // Figures are those of a bucket; the lines of frames are exact.
    let near = |stage, expected: f64| {
        let p50 = row(&mine, stage)["p50_ms"].as_f64().expect("ms");
        (p50 - expected).abs() <= expected / 100.0
    };
    assert!(near("decode", 3.0) && near("jitter_buffer", 12.0) && near("render", 10.0));
    let close =
        |value: &Value, expected: f64| (value.as_f64().expect("ms") - expected).abs() < 0.01;
    let network = row(&mine, "network")["p50_ms"].as_f64().expect("ms");
    let bound = error_ns / 1e6 + 0.01;
    assert!(
        (-bound..100.0).contains(&network),
        "{network} ms over loopback"
    );
    for frame in mine["frames"].as_array().expect("frames") {
        let stages = frame["stages"].as_object().expect("stages");
        let sum: f64 = stages.values().map(|it| it.as_f64().expect("ms")).sum();
        assert!(close(&frame["sum_ms"], sum), "{frame}");
        // The network's part is as uncertain as the clocks are apart.
        assert!(sum > 25.0 - bound && sum < 1000.0, "{frame}");
    }

    let everyone = running.get("/api/v1/streams/cam/latency").json();
    for stage in STAGES {
        assert!(
            row(&everyone, stage)["count"].as_u64().expect("a count") >= 20,
            "{stage}"
        );
    }
    assert_eq!(everyone["viewers"].as_array().expect("viewers").len(), 1);
    assert_eq!(everyone["total"], 1);
    let second = running
        .get("/api/v1/streams/cam/latency?page=2&limit=1")
        .json();
    assert_eq!(
        (&second["viewers"], &second["total"]),
        (&json!([]), &json!(1))
    );

    let mut brief = body.clone();
    brief["details"] = json!(false);
    brief["frames"] = columns(shown.iter().map(|it| (it.timestamp, ms(it.at))));
    let brief = report(&peer, &brief.to_string()).json();
    assert_eq!(brief["frames"], json!([]), "nobody looks at them");
    let render = row(&brief, "render");
    assert_eq!(render["count"], 20, "the same frames in columns: {brief}");
    assert_eq!(render["unmatched"], 5, "the page's own again: {brief}");

    // A page that repeats its report, or reports without end, changes no figure.
    let statuses: Vec<u16> = (0..20)
        .map(|_| report(&peer, &body.to_string()).status)
        .collect();
    assert!(
        statuses.contains(&200) && statuses.contains(&429),
        "{statuses:?}"
    );
    let again = running.get("/api/v1/streams/cam/latency").json();
    assert!(row(&again, "render")["count"].as_u64() <= Some(20));
    let name = everyone["viewers"][0]["viewer"].as_str().expect("a name");
    assert!(peer.location.contains(name) && name.len() < 10, "{name}");

    assert_eq!(peer.delete().status, 200);
    report(&peer, &body.to_string()).problem(404);
    running.await_sessions(0, SOON);
    std::thread::sleep(Duration::from_millis(50));
    let after = running.get("/api/v1/streams/cam/latency").json();
    assert_eq!(after["viewers"], json!([]), "who left is forgotten");
}

/// Returns frames, each with its timestamp and the time of its arrival in ms, in columns.
fn columns(frames: impl Iterator<Item = (u32, f64)>) -> Value {
    let (mut timestamps, mut received, mut before) = (Vec::new(), Vec::new(), (0, 0));
    for (timestamp, ms) in frames {
        let now = (i64::from(timestamp), (ms * 1e3) as i64);
        timestamps.push(now.0 - before.0);
        received.push(now.1 - before.1);
        before = now;
    }
    let mut presented = received.clone();
    presented[0] += 25_000;
    json!({"rtp_timestamp": timestamps, "received_us": received, "presented_us": presented})
}

#[test]
fn malformed_and_absurd_reports_are_refused_or_survived() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::joined(&running);
    let problem = report(&peer, "{\n\"offset_ns\": }").problem(400);
    assert_eq!(problem["line"], 2, "{problem}");
    for bad in [
        "",
        "[]",
        r#"{"offset_ns":0,"error_ns":0}"#,
        r#"{"offset_ns":1e999,"error_ns":0,"frames":[]}"#,
        r#"{"offset_ns":0,"error_ns":0,"frames":[{"rtp_timestamp":-1,"presented_ms":0}]}"#,
        r#"{"offset_ns":0,"error_ns":0,"frames":[{"rtp_timestamp":4294967296,"presented_ms":0}]}"#,
        r#"{"offset_ns":0,"error_ns":0,"frames":{"rtp_timestamp":[1],"presented_us":[]}}"#,
    ] {
        report(&peer, bad).problem(400);
    }
    let frame = json!({"rtp_timestamp": 1, "presented_ms": 0});
    let many = json!({"offset_ns": 0, "error_ns": 0, "frames": vec![frame.clone(); 1001]});
    report(&peer, &many.to_string()).problem(400);
    let huge = json!({"offset_ns": 1e300, "error_ns": -1e300, "frames": [frame],
                      "unmatched": u64::MAX, "lost": u64::MAX});
    for _ in 0..3 {
        assert_eq!(report(&peer, &huge.to_string()).status, 200);
    }
    let latency = running.get("/api/v1/streams/cam/latency");
    assert_eq!(latency.status, 200);
    let unknown = format!(
        "/other/whep/{}/report",
        peer.location.rsplit('/').next().expect("a name")
    );
    running.request("POST", &unknown, &[], "{}").problem(404);
}
