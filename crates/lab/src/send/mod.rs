//! Comparison of the ways to send the same frames to many connections.
//!
//! ```text
//! FrameSource ─ frame, paced ─► sender: a thread with its own CPU clock
//!                           Method: system calls, counted ─► loopback TCP × clients
//! gaps, delivered ◄─ frames whole, by number ─ readers: one other thread
//! for each round: every method in turn, so that noise affects all alike ─► medians
//! ```
//!
//! Every frame carries its number at both ends, so that a method that reuses its memory too early
//! is detected. A connection that does not accept a whole frame gets the rest before the next one
//! and misses frames meanwhile, as in a server that bounds its memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::machine;
use crate::timestamp;

mod frame;
mod method;
mod readers;
mod report;
mod sender;
mod svg;
#[cfg_attr(not(target_os = "linux"), path = "system_calls_portable.rs")]
mod system_calls;
mod table;

pub use method::{Method, UnknownMethod};
pub use report::{Figures, Gap, Report, Round};
pub use svg::draw;
pub use table::{columns, head, line};

/// Parameters of an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Number of connections, 1..=[`CLIENTS_MAX`].
    pub clients: usize,
    /// Bits per second of each client, including framing.
    pub bitrate_bps: u64,
    /// Frame rate of the stream, in frames per second.
    pub fps: u32,
    /// Bytes of a packet on the connection, including the four of its framing.
    pub packet_bytes: usize,
    /// Time that each method is measured for in each round.
    pub duration: Duration,
    /// Number of rounds; each method is measured once in each.
    pub rounds: usize,
    /// Methods in the order in which they are measured.
    pub methods: Vec<Method>,
}

/// Most connections: both ends are in this process, and loopback has about 28,000 ports.
pub const CLIENTS_MAX: usize = 20_000;

/// Most packets of a frame, so that one gathering system call can take all of them.
pub const FRAME_PACKETS_MAX: usize = 512;

/// Least bytes of a packet: headers and both numbers must fit.
pub const PACKET_BYTES_MIN: usize = 64;

/// Most bytes of a packet, by the length field of interleaving (RFC 2326 §10.12).
pub const PACKET_BYTES_MAX: usize = 4 + 65_535;

/// Time before each measurement in which connections grow their buffers.
const WARM_UP: Duration = Duration::from_millis(300);

/// File descriptors in addition to both ends of each connection.
const DESCRIPTORS_OTHER: usize = 64;

/// Receives the progress of an experiment.
pub trait Watcher {
    /// The measurement of a method in one round begins.
    fn begins(&mut self, _method: Method, _turn: Position) {}
    /// A method cannot be measured on this machine, for this reason.
    fn skipped(&mut self, _method: Method, _reason: &str) {}
}

/// Progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of measurements that are done.
    pub done: usize,
    /// Number of all measurements: methods × rounds.
    pub all: usize,
    /// Index of the round, from 0.
    pub round: usize,
    /// Duration of one measurement.
    pub takes: Duration,
}

/// Error that keeps an experiment from being run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its range.
    #[error("{0}")]
    Shape(String),
    /// There are too many connections for the limit on file descriptors.
    #[error(
        "{clients} connections need {needed} file descriptors, both ends being here, and this \
         process may have {limit}: raise it (`ulimit -n {needed}`) or take fewer clients"
    )]
    Descriptors {
        /// Number of connections that receive the stream.
        clients: usize,
        /// File descriptors that the connections need.
        needed: usize,
        /// File descriptors that the process may have.
        limit: usize,
    },
    /// The connections on loopback could not be opened.
    #[error("cannot connect on loopback: {0}")]
    Connect(std::io::Error),
    /// A connection failed during the measurement.
    #[error("{method}: sending on loopback failed: {error}")]
    Send {
        /// Method that was measured.
        method: Method,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The threads could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Shape of the frames of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    packets: usize,
    /// Bytes of a packet, including the four of its framing.
    packet_bytes: usize,
}

impl Shape {
    const fn frame_bytes(self) -> usize {
        self.packets * self.packet_bytes
    }
}

impl Experiment {
    /// Checks everything that can be known before the run: ranges and file descriptors.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Shape(text));
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            return refuse(format!("between 1 and {CLIENTS_MAX} clients are possible"));
        }
        if !(1..=1000).contains(&self.fps) {
            return refuse("between 1 and 1000 frames a second are possible".to_owned());
        }
        if !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&self.packet_bytes) {
            return refuse(format!(
                "a packet has between {PACKET_BYTES_MIN} and {PACKET_BYTES_MAX} bytes"
            ));
        }
        let packets = self.packets_per_frame();
        if packets > FRAME_PACKETS_MAX {
            return refuse(format!(
                "frames of {packets} packets are more than one system call gathers \
                 ({FRAME_PACKETS_MAX}): take larger packets, more frames or fewer bits a second"
            ));
        }
        if self.rounds == 0 || self.methods.is_empty() {
            return refuse("nothing to measure: no rounds or no methods".to_owned());
        }
        let limit = glassline_net::raise_descriptor_limit().unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let needed = 2 * self.clients + DESCRIPTORS_OTHER;
        if needed > limit {
            return Err(Error::Descriptors {
                clients: self.clients,
                needed,
                limit,
            });
        }
        Ok(())
    }

    /// Packets of a frame: the number that comes nearest to the bitrate, at least one.
    pub fn packets_per_frame(&self) -> usize {
        let frame_bits = self.bitrate_bps as f64 / f64::from(self.fps.max(1));
        let packets = frame_bits / 8.0 / self.packet_bytes.max(1) as f64;
        packets.round().max(1.0) as usize
    }

    fn shape(&self) -> Shape {
        Shape {
            packets: self.packets_per_frame(),
            packet_bytes: self.packet_bytes,
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.fps.max(1)
    }

    fn frames(&self, time: Duration) -> u32 {
        let frames = (time.as_secs_f64() * f64::from(self.fps)).round();
        (frames as u32).max(1)
    }
}

/// Runs the experiment, until it is over or `stop` becomes true; the report has what was measured
/// by then. [`Experiment::check`] must succeed first.
pub fn run(
    experiment: &Experiment,
    watcher: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Report, Error> {
    let machine = machine::describe();
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = experiment.methods.len();
    let mut measured: Vec<Result<Vec<Round>, String>> = vec![Ok(Vec::new()); count];
    'rounds: for round in 0..experiment.rounds {
        for turn in 0..count {
            // Each round begins with another method, so that a disadvantage of the first place is
            // shared.
            let index = (turn + round) % count;
            let method = experiment.methods[index];
            let Ok(rounds) = &mut measured[index] else {
                continue;
            };
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let turn = Position {
                done: round * count + turn,
                all: experiment.rounds * count,
                round,
                takes: experiment.duration + WARM_UP,
            };
            watcher.begins(method, turn);
            match sender::measure(experiment, method, stop)? {
                sender::Outcome::Measured(round) => rounds.push(round),
                sender::Outcome::Stopped => break 'rounds,
                sender::Outcome::Unavailable(reason) => {
                    watcher.skipped(method, &reason);
                    measured[index] = Err(reason);
                }
            }
        }
    }
    let methods = experiment.methods.iter().zip(measured);
    Ok(Report::new(
        experiment,
        machine,
        timestamp::rfc3339(started.as_secs()),
        methods.map(|(method, measured)| (*method, measured)),
    ))
}

#[cfg(test)]
mod tests;
