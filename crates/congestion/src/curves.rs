//! The curve of each controller on one path, kept as text beside the code: a change of an
//! algorithm shows as a readable difference. Columns: milliseconds, window and bytes in
//! flight, pacing rate in kbit/s, the longest queueing delay of the last tenth of a second
//! in ms, and packets lost so far.
//!
//! After an intended change: `UPDATE_CURVES=1 cargo test -p glassline-congestion`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::Algorithm;
use crate::bottleneck::{Bottleneck, PLAIN, Path, Sender};

/// A home's uplink: 5 Mbit/s, 40 ms, 200 ms of queue.
const PATH: Bottleneck = Bottleneck {
    mbps: 5.0,
    round_trip: Duration::from_millis(40),
    queue_bytes: 125_000,
    loss: 0.0,
    policer: None,
    ..PLAIN
};

/// Draws bulk for ten seconds: 2 Mbit/s for five seconds from second four on, and some loss
/// in the last two.
fn draw(algorithm: Algorithm) -> String {
    let mut path = Path::new(PATH, 7);
    let mut senders = [Sender::bulk(algorithm)];
    let mut text = String::from("    ms   window   flight     kbps  queue  lost\n");
    for tick in 1..=100 {
        path.bottleneck.mbps = if (40..90).contains(&tick) { 2.0 } else { 5.0 };
        path.bottleneck.loss = if tick > 80 { 0.02 } else { 0.0 };
        path.run(&mut senders, Duration::from_millis(100));
        let [sender] = &mut senders;
        let queue = sender.queued.drain(..).max().unwrap_or_default();
        let flow = &sender.flow;
        let pacing = flow.pacing_rate().map_or(0, |rate| rate.bps() / 1000);
        writeln!(
            text,
            "{:6}  {:7}  {:7}  {pacing:7}  {:5}  {:4}",
            tick * 100,
            flow.controller().window(),
            flow.in_flight(),
            queue.as_millis(),
            flow.totals().lost / 1200,
        )
        .expect("a string takes all");
    }
    text
}

#[test]
fn the_curves_are_those_beside_the_code() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("curves");
    let update = std::env::var_os("UPDATE_CURVES").is_some();
    let mut changed = Vec::new();
    for algorithm in Algorithm::ALL {
        let file = folder.join(format!("{algorithm}.txt"));
        let drawn = draw(algorithm);
        if update {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&file, &drawn).expect("written");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = kept.lines().zip(drawn.lines()).find(|(a, b)| a != b);
        if let Some((before, after)) = differs {
            changed.push(format!("{algorithm}\n  - {before}\n  + {after}"));
        } else if kept.lines().count() != drawn.lines().count() {
            changed.push(format!("{algorithm}: no curve in {}", file.display()));
        }
    }
    assert!(
        changed.is_empty(),
        "curves changed (UPDATE_CURVES=1 keeps the new ones): {changed:#?}"
    );
}
