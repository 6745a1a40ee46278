//! Sources that are not always there: the words for their state.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use glassline_server::ingest::SourceSpec;
use serde_json::Value;

use crate::running::Running;

/// Longest wait for something that takes some hundred milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(60);

/// Waits until `done` is true of the API's view of a stream, and returns the view.
fn await_view(running: &Running, stream: &str, done: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let view = running.get(&format!("/api/v1/streams/{stream}")).json();
        if done(&view) {
            return view;
        }
        assert!(Instant::now() < end, "{view}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn source(text: &str) -> SourceSpec {
    SourceSpec::parse(text).expect("a source")
}

#[test]
fn a_camera_that_refuses_connections_is_unreachable_and_says_why() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = taken.local_addr().expect("bound");
    drop(taken);
    let running = Running::with_sources(vec![source(&format!("door=rtsp://{address}/"))]);
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    let detail = view["detail"].as_str().expect("a reason");
    assert!(detail.contains("cannot connect"), "{detail}");
    assert_eq!(view["silent_s"], Value::Null);
    let rows = running.metric("stream_status");
    let of = |status: &str| format!("stream=\"door\",status=\"{status}\"");
    for (status, value) in [("live", 0), ("hangs", 0), ("waiting", 0), ("unreachable", 1)] {
        let row = rows.iter().find(|(labels, _)| *labels == of(status));
        assert_eq!(row.map(|row| row.1), Some(value), "{status}: {rows:?}");
    }
}
