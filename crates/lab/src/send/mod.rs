//! Which way to send the same frames to many connections costs least.
//!
//! ```text
//! Source ─ frame, paced ─► sender: a thread with its own CPU clock
//!                           Method: system calls, counted ─► loopback TCP × clients
//! gaps, delivered ◄─ frames whole, by number ─ readers: one other thread
//! for each round: every method in turn, so that noise hits all alike ─► medians
//! ```
//!
//! Every frame carries its number at both ends, so that a way that lets go of its
//! memory too early is found out. A connection that does not take a whole frame
//! gets the rest before the next one and misses frames meanwhile, as a server that
//! bounds its memory does it.

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
mod table;

pub use method::{Method, UnknownMethod};
pub use report::{Figures, Gap, Report, Round};
pub use svg::draw;
pub use table::{columns, head, line};

/// What is sent, to how many, by which ways.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Connections, 1..=[`CLIENTS_MAX`].
    pub clients: usize,
    /// Bits a second and client, framing included.
    pub bitrate_bps: u64,
    /// Frames a second.
    pub fps: u32,
    /// Bytes of a packet on the connection, the four of its frame (`$`) included.
    pub packet_bytes: usize,
    /// How long each method is measured in each round.
    pub duration: Duration,
    /// How often every method has its turn.
    pub rounds: usize,
    /// In this order.
    pub methods: Vec<Method>,
}

/// Most connections: both ends are here, and loopback has about 28,000 ports.
pub const CLIENTS_MAX: usize = 20_000;

/// Packets of a frame that one gathering system call takes.
pub const FRAME_PACKETS_MAX: usize = 512;

/// Headers and the two numbers have to fit.
pub const PACKET_BYTES_MIN: usize = 64;

/// What the length field of interleaving can say (RFC 2326 §10.12).
pub const PACKET_BYTES_MAX: usize = 4 + 65_535;

/// Before each measurement: connections grow their buffers.
const WARM_UP: Duration = Duration::from_millis(300);

/// Descriptors beside both ends of each connection.
const DESCRIPTORS_BESIDE: usize = 64;

/// Who watches an experiment.
pub trait Watcher {
    /// A method's turn begins.
    fn turn(&mut self, _method: Method, _turn: Turn) {}
    /// A method cannot be measured on this machine.
    fn skipped(&mut self, _method: Method, _reason: &str) {}
}

/// How far an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// From 0.
    pub done: usize,
    /// Methods × rounds.
    pub all: usize,
    /// From 0.
    pub round: usize,
    /// How long one takes.
    pub takes: Duration,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A quantity outside its range.
    #[error("{0}")]
    Shape(String),
    /// Too many connections.
    #[error(
        "{clients} connections need {needed} file descriptors, both ends being here, and this \
         process may have {limit}: raise it (`ulimit -n {needed}`) or take fewer clients"
    )]
    Descriptors {
        /// Connections.
        clients: usize,
        /// What they need.
        needed: usize,
        /// What there is.
        limit: usize,
    },
    /// No connections on loopback.
    #[error("cannot connect on loopback: {0}")]
    Connect(std::io::Error),
    /// A connection broke.
    #[error("{method}: sending on loopback failed: {error}")]
    Send {
        /// While measuring which.
        method: Method,
        /// What the system said.
        error: std::io::Error,
    },
    /// No threads.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The frames of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    packets: usize,
    /// With its four bytes of framing.
    packet_bytes: usize,
}

impl Shape {
    const fn frame_bytes(self) -> usize {
        self.packets * self.packet_bytes
    }
}

impl Experiment {
    /// Checks all that can be known before: ranges, descriptors.
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
        let needed = 2 * self.clients + DESCRIPTORS_BESIDE;
        if needed > limit {
            return Err(Error::Descriptors {
                clients: self.clients,
                needed,
                limit,
            });
        }
        Ok(())
    }

    /// The whole number of packets that comes nearest to the bitrate, at least one.
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

/// Measures, or stops when `stop` becomes true; what was measured by then is in the
/// report. [`Experiment::check`] comes first.
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
            // Another one begins each round: what the first one pays is shared.
            let index = (turn + round) % count;
            let method = experiment.methods[index];
            let Ok(rounds) = &mut measured[index] else {
                continue;
            };
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let turn = Turn {
                done: round * count + turn,
                all: experiment.rounds * count,
                round,
                takes: experiment.duration + WARM_UP,
            };
            watcher.turn(method, turn);
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
