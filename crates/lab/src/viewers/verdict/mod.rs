//! Verdict on the bottleneck: of a step from its evidence, of a run from its steps.
//!
//! The server is named as the bottleneck only where generator and machine had processor time
//! left, because a starved generator or machine looks the same as a server that cannot keep up.

use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::step::{Step, delivered};

mod summary;
#[cfg(test)]
mod tests;

pub use summary::summary;

/// A generator thread that uses more than this share of a core is too busy: bursts make it late
/// before its mean reaches 1.
const THREAD_BUSY: f64 = 0.85;

/// A thread that uses more than this share of a core has no time left.
const THREAD_FULL: f64 = 0.95;

/// With a smaller idle share than this, the machine is the limit, whatever was delivered.
const IDLE_MIN: f64 = 0.05;

/// With a smaller idle share than this, missing packets may be the machine's fault.
const IDLE_LOW: f64 = 0.10;

/// A larger stolen share than this explains missing packets.
const STOLEN_HIGH: f64 = 0.05;

/// A generator that was ready but not running for a larger share of the time explains missing
/// packets.
const WAITED_HIGH: f64 = 0.15;

/// Observations of one step. Shares are of one core unless said otherwise; 1 is a whole core.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Number of viewers in the step.
    pub viewers: usize,
    /// Viewers that received media.
    pub connected: usize,
    /// Share of the expected media that arrived, as [`Step::delivered_of_clock`] computes it.
    pub delivered_ratio: f64,
    /// Reason why the first viewer failed.
    pub first_failure: Option<String>,
    /// Share of one core that the generator used.
    pub generator: f64,
    /// Share of one core that the generator's busiest thread used.
    pub generator_thread: f64,
    /// Share of the time that this thread was ready to run and did not run.
    pub generator_waited: f64,
    /// Number of cores of the machine.
    pub cores: usize,
    /// Idle share of all cores' time, 0–1.
    pub machine_idle: f64,
    /// Share of all cores' time that the hypervisor took, 0–1.
    pub machine_stolen: f64,
    /// Observations of the server, if it was measured.
    pub server: Option<Server>,
}

/// Observations of the server's process tree.
#[derive(Clone, Debug)]
pub struct Server {
    /// Share of one core that all its threads used.
    pub cpu: f64,
    /// Share of one core that its busiest thread used.
    pub thread: f64,
    /// Name of the busiest thread.
    pub thread_name: String,
    /// Number of cores that the server may use.
    pub cores: usize,
    /// Idle share of those cores' time, 0–1.
    pub cores_idle: f64,
}

/// Conclusion from a step's evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Side that was at its limit.
    pub bottleneck: Bottleneck,
    /// Evidence for it, in a sentence.
    pub reason: String,
}

/// Judges one step by what was seen in it.
pub fn judge(seen: &Evidence) -> Judgement {
    let fine = delivered(seen.delivered_ratio, seen.connected, seen.viewers);
    let (bottleneck, reason) = generator(seen)
        .map(|reason| (Bottleneck::Generator, reason))
        .or_else(|| machine(seen, fine).map(|reason| (Bottleneck::Machine, reason)))
        .unwrap_or_else(|| match fine {
            true => (Bottleneck::None, all_is_well(seen)),
            false => (Bottleneck::Server, server(seen)),
        });
    Judgement { bottleneck, reason }
}

fn generator(seen: &Evidence) -> Option<String> {
    (seen.generator_thread > THREAD_BUSY).then(|| {
        format!(
            "the load generator's own thread used {} of a core: what is missing may be its fault; \
             load the server from several processes or machines",
            percent(seen.generator_thread)
        )
    })
}

fn machine(seen: &Evidence, fine: bool) -> Option<String> {
    let idle_min = if fine { IDLE_MIN } else { IDLE_LOW };
    if seen.machine_idle < idle_min {
        return Some(format!(
            "the machine's {} were {} busy: {}",
            cores(seen.cores),
            percent(1.0 - seen.machine_idle),
            shares(seen)
        ));
    }
    if fine {
        return None;
    }
    if seen.machine_stolen > STOLEN_HIGH {
        return Some(format!(
            "the hypervisor gave {} of the machine's time to others",
            percent(seen.machine_stolen)
        ));
    }
    if seen.generator_waited > WAITED_HIGH {
        return Some(format!(
            "the load generator was ready but waited for a processor {} of the time; give it a \
             core of its own",
            percent(seen.generator_waited)
        ));
    }
    let server = seen.server.as_ref()?;
    let room = server.cores as f64;
    // The server's cores are full although the server uses few of them: other processes do.
    (server.cores_idle < IDLE_MIN && server.cpu < 0.7 * room).then(|| {
        format!(
            "the server's {} were busy with other processes: the server got {} of {}",
            cores(server.cores),
            percent(server.cpu),
            percent(room)
        )
    })
}

fn server(seen: &Evidence) -> String {
    if seen.delivered_ratio >= Step::DELIVERED_MIN {
        let why = match &seen.first_failure {
            Some(reason) => format!("first failure: {reason}"),
            None => "the other viewers still wait".to_owned(),
        };
        return format!(
            "{} of {} viewers have media; {why}",
            seen.connected, seen.viewers
        );
    }
    let delivered = format!(
        "the server delivered {:.3} of the media",
        seen.delivered_ratio
    );
    let Some(server) = &seen.server else {
        return format!(
            "{delivered} while machine and generator had processor time left ({})",
            shares(seen)
        );
    };
    if server.cpu >= THREAD_FULL * server.cores as f64 {
        return format!("{delivered} and used all of its {}", cores(server.cores));
    }
    if server.thread >= THREAD_FULL {
        return format!(
            "{delivered}; its thread `{}` used a whole core ({})",
            server.thread_name,
            percent(server.thread)
        );
    }
    format!(
        "{delivered} though it left processor time unused ({}): look for a lock, a queue or a \
         single sequential loop",
        shares(seen)
    )
}

fn all_is_well(seen: &Evidence) -> String {
    match &seen.server {
        Some(server) if server.thread >= THREAD_FULL => format!(
            "everything was delivered, but the server's thread `{}` is close to its limit ({} of a core)",
            server.thread_name,
            percent(server.thread)
        ),
        _ => format!("everything was delivered ({})", shares(seen)),
    }
}

/// Use of the processors by each party, in shares of one core.
fn shares(seen: &Evidence) -> String {
    let busy = (1.0 - seen.machine_idle) * seen.cores as f64;
    let generator = percent(seen.generator);
    match &seen.server {
        Some(server) => format!(
            "server {}, generator {generator}, others {} of a core",
            percent(server.cpu),
            percent((busy - server.cpu - seen.generator).max(0.0))
        ),
        None => format!("generator {generator}, all {} of a core", percent(busy)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn cores(count: usize) -> String {
    match count {
        1 => "1 core".to_owned(),
        count => format!("{count} cores"),
    }
}
