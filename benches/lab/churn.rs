//! Ten thousand viewers join and leave, in every way in which viewers leave: what remains in the
//! server?

use std::time::{Duration, Instant};

use glassline_lab::meter::{Process, Usage};
use serde_json::json;

use crate::guest::visits;
use crate::machine;
use crate::media;
use crate::process::eventually;
use crate::report::{self, Table};
use crate::server::Server;

/// Number of rounds. The first one fills pools and caches; the others should need no more memory.
const ROUNDS: usize = 5;
const VISITS_PER_ROUND: usize = 2_000;
const AT_A_TIME: usize = 16;

/// Limits of the server: all viewers have one address, and two fifths of them never finish their
/// handshake.
const LIMITS: &str = "limits: {half_open: 5000, half_open_per_address: 5000, handshake_s: 3}\n";

/// Longest time until the server has removed all viewers: one that vanished is removed after 15
/// to 20 s of silence.
const FORGET: Duration = Duration::from_secs(60);

/// Growth of memory per visit, in bytes, at which the benchmark fails if every round after the
/// first exceeds it. Allocators grow in steps, a leak grows in each round.
const BYTES_PER_VISIT_MAX: f64 = 100.0;
/// File descriptors that may remain beyond those after the first round: a kept-alive connection
/// or two.
const FDS_MORE_MAX: u64 = 4;

/// Resources of the server after a round, when all viewers are gone.
struct Left {
    rss_bytes: u64,
    open_fds: u64,
    seconds: f64,
    cpu_ms_per_visit: f64,
}

pub(crate) fn run() -> Result<(), String> {
    let machine = machine::describe();
    let media = media::audio();
    let server = Server::limited(&media, LIMITS)?;
    let url = server.url(&format!("/{}/whep", media.name));
    let mut process = server.process()?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (began, before) = (Instant::now(), look(&mut process)?);
        visits(&url, VISITS_PER_ROUND, AT_A_TIME)?;
        let took = began.elapsed();
        let cpu = look(&mut process)?.since(&before);
        eventually(FORGET, || nobody_stays(&server))?;
        rounds.push(Left {
            rss_bytes: look(&mut process)?.resident_bytes,
            open_fds: server.metric("glassline_open_fds")? as u64,
            seconds: took.as_secs_f64(),
            cpu_ms_per_visit: cpu.as_secs_f64() * 1e3 / VISITS_PER_ROUND as f64,
        });
    }
    let mut table = Table::new(&["visits", "RSS kB", "descriptors", "s", "CPU ms/visit"]);
    for (round, left) in rounds.iter().enumerate() {
        table.row(vec![
            ((round + 1) * VISITS_PER_ROUND).to_string(),
            (left.rss_bytes / 1024).to_string(),
            left.open_fds.to_string(),
            format!("{:.1}", left.seconds),
            format!("{:.2}", left.cpu_ms_per_visit),
        ]);
    }
    table.print();
    let (first, last) = (&rounds[0], &rounds[ROUNDS - 1]);
    let each = |from: &Left, to: &Left| {
        (to.rss_bytes as f64 - from.rss_bytes as f64) / VISITS_PER_ROUND as f64
    };
    let growths = rounds.windows(2).map(|pair| each(&pair[0], &pair[1]));
    let growth = growths.fold(f64::INFINITY, f64::min);
    println!(
        "{} visits, a fifth each by DELETE, by DTLS, vanished, given up in the handshake, never \
         arrived; {growth:.0} B of RSS per visit in the round that needed least; no session, \
         half-open place or viewer left",
        ROUNDS * VISITS_PER_ROUND
    );
    let results = json!({
        "visits": ROUNDS * VISITS_PER_ROUND,
        "rss_bytes": rounds.iter().map(|left| left.rss_bytes).collect::<Vec<_>>(),
        "open_fds": rounds.iter().map(|left| left.open_fds).collect::<Vec<_>>(),
        "rss_bytes_per_visit_min": growth,
        "server_cpu_ms_per_visit":
            rounds.iter().map(|left| left.cpu_ms_per_visit).collect::<Vec<_>>(),
    });
    report::write("churn", &machine, &results)?;
    if growth > BYTES_PER_VISIT_MAX {
        return Err(format!("memory leaks: {growth:.0} B per visit"));
    }
    if last.open_fds > first.open_fds + FDS_MORE_MAX {
        return Err("file descriptors leak".to_owned());
    }
    Ok(())
}

fn look(process: &mut Process) -> Result<Usage, String> {
    process.look().map_err(|error| error.to_string())
}

fn nobody_stays(server: &Server) -> Result<(), String> {
    for name in [
        "glassline_sessions",
        "glassline_sessions_half_open",
        "glassline_viewers",
    ] {
        let left = server.metric(name)?;
        if left > 0.0 {
            return Err(format!("{name} {left}"));
        }
    }
    Ok(())
}
