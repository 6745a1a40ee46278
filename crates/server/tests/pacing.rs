//! Viewers under congestion control.

use std::time::Instant;

use glassline_config::Pacing;
use glassline_congestion::Algorithm;
use glassline_media::Kind;
use serde_json::Value;

use crate::peer::{Peer, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

fn paced(algorithm: Algorithm) -> Running {
    Running::with(2, |config| {
        config.webrtc.pacing = Pacing::By(algorithm);
        config.webrtc.lag_ms = None;
    })
}

/// Returns the paths to viewers that the API shows.
fn paths(running: &Running) -> Vec<Value> {
    let latency = running.get(&format!("/api/v1/streams/{STREAM}/latency"));
    let paths = latency.json()["paths"].as_array().cloned();
    paths.expect("a list")
}

fn frames(peer: &Peer<'_>) -> usize {
    peer.of(Kind::Video).filter(|it| it.marker).count()
}

#[test]
fn a_paced_viewer_gets_every_frame_and_its_path_is_shown() {
    for algorithm in Algorithm::ALL {
        let running = paced(algorithm);
        let _source = Source::start(&running.stream(), Film::default());
        let mut peer = Peer::joined(&running);
        let enough = |peer: &Peer<'_>| frames(peer) > 60 && !paths(peer.running).is_empty();
        assert!(
            peer.run_until(SOON, enough),
            "{algorithm}: no path or frame"
        );
        assert!(peer.of(Kind::Audio).count() > 50, "{algorithm}");
        let shown = &paths(&running)[0];
        assert_eq!(shown["pacing"], algorithm.as_str());
        for figure in ["rtt_ms", "rtt_min_ms", "pacing_bps"] {
            let value = shown[figure].as_f64();
            assert!(value.is_some_and(|value| value > 0.0), "{figure}: {shown}");
        }
        assert!(shown["sent_bytes"].as_u64() > Some(1000), "{shown}");
        let received = peer.in_order(Kind::Video);
        let gaps = received
            .windows(2)
            .filter(|it| it[1].sequence != it[0].sequence + 1);
        assert_eq!(gaps.count(), 0, "{algorithm}: packets are missing");
        assert!(
            shown["viewer"]
                .as_str()
                .is_some_and(|name| peer.location.contains(name))
        );
    }
}

#[test]
fn the_path_of_a_viewer_that_left_is_not_shown() {
    let running = paced(Algorithm::Copa);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    assert!(peer.run_until(SOON, |peer| !paths(peer.running).is_empty()));
    peer.delete();
    running.await_sessions(0, SOON);
    assert_eq!(paths(&running), Vec::<Value>::new());
}

#[test]
fn operators_see_which_way_each_viewer_is_reached() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    let known = |peer: &Peer<'_>| {
        let told = peer.running.admin("/api/v1/webrtc/viewers").json();
        told["viewers"][0]["path"]["rtt_ms"].is_f64()
    };
    assert!(peer.run_until(SOON, known), "the viewer reports");
    let told = running.admin("/api/v1/webrtc/viewers").json();
    let viewer = &told["viewers"][0];
    assert_eq!(viewer["stream"], STREAM);
    let path = &viewer["path"];
    assert_eq!(
        (&path["relayed"], &path["local"]["type"]),
        (&Value::from(false), &Value::from("host"))
    );
    for end in ["local", "remote"] {
        let address = path[end]["address"].as_str().unwrap_or_default();
        assert!(address.starts_with("127.0.0.1:"), "{path}");
        assert_eq!(path[end]["protocol"], "udp");
    }
    let metrics = running.admin("/metrics").body;
    let line = format!("glassline_webrtc_paths{{stream=\"{STREAM}\",path=\"direct\"}} 1");
    assert!(metrics.contains(&line), "{metrics}");
    // Viewers do not see each other's addresses.
    assert_eq!(running.get("/api/v1/webrtc/viewers").status, 404);
    peer.delete();
    running.await_sessions(0, SOON);
    let told = running.admin("/api/v1/webrtc/viewers").json();
    assert_eq!(told["viewers"], Value::Array(Vec::new()));
}

#[test]
fn viewers_are_not_paced_unless_it_is_asked_for() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    assert!(peer.run_until(SOON, |peer| frames(peer) > 60));
    assert_eq!(paths(&running), Vec::<Value>::new());
}

#[test]
fn a_paced_viewer_that_falls_silent_is_sent_little_but_audio() {
    let running = paced(Algorithm::Bbr);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    assert!(peer.run_until(SOON, |peer| frames(peer) > 60));
    // Frames are 300 packets a second, audio is 50. It neither reads nor answers until everything on its way is given up.
    let sent = || running.total("egress_packets_total");
    let end = Instant::now() + SOON;
    let mut before = sent();
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let now = sent();
        if now - before < 90 {
            break;
        }
        before = now;
        assert!(Instant::now() < end, "it is sent everything all the same");
    }
    assert!(running.total("queue_dropped_frames_total") > 0);
}
