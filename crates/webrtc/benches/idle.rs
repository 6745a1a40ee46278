//! Memory of an idle peer with one data channel.
//!
//! `cargo bench -p glassline-webrtc --bench idle`. Pairs of sessions connect in memory, open a
//! channel, exchange a message and become idle; the resident memory of the process is then
//! divided by the number of ends. Pages are counted, so memory that the allocator keeps is
//! included.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../../../benches/figure.rs"]
mod figure;
mod pair;

use std::sync::Arc;
use std::time::Instant;

use glassline_webrtc::{Certificate, DataConfig, Session};

use pair::Pair;

const PAIRS: usize = 500;

fn main() {
    let certificate = Arc::new(Certificate::generate().expect("a certificate"));
    let config = DataConfig::default();
    // Tables and pools that the first pair allocates are shared by all.
    let mut pairs = vec![Pair::connect(&certificate, &config, 0, Instant::now())];
    let before = resident_bytes();
    for number in 1..=PAIRS {
        pairs.push(Pair::connect(&certificate, &config, number, Instant::now()));
    }
    let per_end = (resident_bytes() - before) as f64 / (2 * PAIRS) as f64;
    println!(
        "{PAIRS} pairs connected, each with a channel: {:.1} kB an end",
        per_end / 1e3
    );
    figure::print("memory of an idle end", per_end / 1e3, "kB", "less", None);
    let alive = |pair: &Pair| {
        pair.ends[1]
            .channels()
            .is_some_and(|it| it.info(pair.channel).is_some())
    };
    assert!(pairs.iter().all(alive));
    assert!(
        pairs
            .iter()
            .all(|pair| pair.ends.iter().all(Session::is_connected))
    );
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number of pages");
    pages * 4096
}
