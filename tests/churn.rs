//! Viewers that join and leave leave nothing behind: no session, no half-open entry, no file
//! descriptor, no memory.

use std::time::Duration;

use libtest_mimic::Failed;

use crate::guest::visits;
use crate::peers::Test;
use crate::process::eventually;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&viewers_leave_in_every_way_and_nothing_stays),
    Test::of(&a_thousand_viewers_leave_in_every_way_and_nothing_stays).soak(),
];

/// All viewers have one address. Unfinished handshakes end before vanished viewers are forgotten,
/// and no finished one takes this time beside other tests.
const LIMITS: &str = "limits: {half_open_per_address: 1000, half_open: 1000, handshake_s: 10}";

/// Most rounds; more than two run only if the second needed more memory than the first.
const ROUNDS_MAX: usize = 4;
const AT_A_TIME: usize = 16;

/// Longest wait: a viewer that vanished is removed after 15 to 20 s of silence.
const FORGET: Duration = Duration::from_secs(60);

/// Tolerance for kept-alive HTTP connections; a leak would be hundreds of descriptors.
const FDS_MORE_MAX: u64 = 10;
/// Tolerance for memory; 500 sessions of 4 kB each would exceed it, and 100 of 20 kB.
const GROWTH_MAX_BYTES: u64 = 2 << 20;

fn viewers_leave_in_every_way_and_nothing_stays() -> Result<(), Failed> {
    nothing_stays_of_rounds(100)
}

fn a_thousand_viewers_leave_in_every_way_and_nothing_stays() -> Result<(), Failed> {
    nothing_stays_of_rounds(500)
}

/// Compares two rounds of `visits_per_round` viewers. The first round fills caches, pools and tables as
/// far as the second needs them.
fn nothing_stays_of_rounds(visits_per_round: usize) -> Result<(), Failed> {
    let server = Server::configured(LIMITS, &["demo"])?;
    server.wait_for_state("demo", "live")?;
    let url = server.url("/demo/whep");
    visits(&url, visits_per_round, AT_A_TIME)?;
    nobody_stays(&server)?;
    let (mut before, mut rounds) = (Footprint::of(&server)?, 1);
    let after = loop {
        visits(&url, visits_per_round, AT_A_TIME)?;
        nobody_stays(&server)?;
        rounds += 1;
        let after = Footprint::of(&server)?;
        println!("before {before:?}, after {after:?}");
        // Allocators grow in steps; a leak grows in each round.
        if after.rss_bytes <= before.rss_bytes + GROWTH_MAX_BYTES || rounds == ROUNDS_MAX {
            break after;
        }
        before = after;
    };
    if after.open_fds > before.open_fds + FDS_MORE_MAX {
        return Err(format!("file descriptors leak: {before:?}, {after:?}").into());
    }
    if after.rss_bytes > before.rss_bytes + GROWTH_MAX_BYTES {
        return Err(format!("memory leaks: {before:?}, {after:?}").into());
    }
    // Every way of leaving was used, and is counted where it is a failure.
    let joins = server.metric("glassline_joins_total")?;
    let all = (rounds * visits_per_round) as f64;
    if joins != all * 3.0 / 5.0 {
        return Err(format!("{joins} joins, three of five of {all} expected").into());
    }
    Ok(())
}

/// Waits until no session, no half-open entry and no viewer of the stream remains.
fn nobody_stays(server: &Server) -> Result<(), String> {
    eventually(FORGET, || {
        let (status, stream) = (server.status()?, server.stream("demo")?);
        if status["sessions"] == 0 && status["half_open"] == 0 && stream["viewers"] == 0 {
            Ok(())
        } else {
            Err(format!("sessions stay: {status} {stream}"))
        }
    })
}

/// Resources that the server uses.
#[derive(Debug)]
struct Footprint {
    open_fds: u64,
    rss_bytes: u64,
}

impl Footprint {
    fn of(server: &Server) -> Result<Footprint, String> {
        let status = server.status()?;
        let number = |name: &str| {
            let value = status[name].as_u64();
            value.ok_or_else(|| format!("the server does not tell its {name}: {status}"))
        };
        Ok(Footprint {
            open_fds: number("open_fds")?,
            rss_bytes: number("rss_bytes")?,
        })
    }
}
