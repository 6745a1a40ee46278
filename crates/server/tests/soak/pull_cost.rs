//! What a pull costs the server that has the stream.

#[cfg(target_os = "linux")]
#[path = "../../../../benches/figure.rs"]
mod figure;

use std::time::Duration;

use crate::cluster::node;
use crate::peer::Peer;
use crate::running::STREAM;
use crate::source::{Film, Source};

/// Most viewers that a pull may cost as much as: twice what it did in separate processes, since the
/// tests' profile does not optimise what a pull alone needs.
#[cfg(target_os = "linux")]
const PULL_VIEWERS_MAX: u32 = 44;

/// CPU time of this process's threads, in clock ticks, by thread.
#[cfg(target_os = "linux")]
fn thread_ticks() -> std::collections::HashMap<String, u64> {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let ticks = threads.flatten().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<u64>().ok();
        let spent = next()? + next()?;
        Some((thread.file_name().to_string_lossy().into_owned(), spent))
    });
    ticks.collect()
}

/// Prints what a viewer and what a pull costs the server that has the stream, and what a hop adds to
/// the delay: `cargo test -p glassline-server --test tests -- --ignored --nocapture cost_of_a_pull`.
#[test]
#[ignore = "measures for a minute and needs a quiet machine: `cargo xtask soak` runs it"]
#[cfg(target_os = "linux")]
fn cost_of_a_pull() {
    const TIME: Duration = Duration::from_secs(10);
    const VIEWERS: usize = 10;
    let before = thread_ticks();
    let origin = node("origin", &[]);
    let own: Vec<String> = thread_ticks()
        .into_keys()
        .filter(|thread| !before.contains_key(thread))
        .collect();
    let _source = Source::start(&origin.stream(), Film::default());
    let spent = || -> u64 {
        let ticks = thread_ticks();
        own.iter().filter_map(|thread| ticks.get(thread)).sum()
    };
    // 100 ticks a second, so a tick over the time is a millisecond a second.
    let cost = |work: &mut dyn FnMut()| {
        let begun = spent();
        work();
        (spent() - begun) as f64 * 10.0 / TIME.as_secs_f64()
    };
    let idle = cost(&mut || std::thread::sleep(TIME));
    let mut viewers: Vec<_> = (0..VIEWERS)
        .map(|_| Peer::of_stream(&origin, STREAM).expect("an answer"))
        .collect();
    crate::peer::live(&mut viewers, Duration::from_secs(2));
    let watched = cost(&mut || crate::peer::live(&mut viewers, TIME));
    for viewer in &viewers {
        viewer.delete();
    }
    drop(viewers);
    let edge = node("edge", &[&origin]);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_for(Duration::from_secs(2));
    let pulled = cost(&mut || peer.run_for(TIME));
    let latency = edge.get("/api/v1/streams/cam/latency").json();
    let rows = latency["stages"].as_array().expect("rows");
    let relay = rows
        .iter()
        .find(|row| row["stage"] == "relay")
        .expect("pulled");
    println!("idle {idle:.1} ms/s");
    println!("relay {relay}");
    let (viewer, pull) = ((watched - idle) / VIEWERS as f64, pulled - idle);
    figure::print("a viewer", viewer, "ms/s", "less", None);
    let beside = Some(("a viewer", viewer));
    figure::print("a pull", pull, "ms/s", "less", beside);
    let most = f64::from(PULL_VIEWERS_MAX) * viewer;
    assert!(
        pull <= most,
        "a pull costs {pull:.2} ms/s, more than {PULL_VIEWERS_MAX} viewers ({most:.2} ms/s)"
    );
}
