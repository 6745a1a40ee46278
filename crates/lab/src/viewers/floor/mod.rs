//! The floor: the least that sending a stream to many viewers costs on this machine. It copies
//! and
//! seals packets with the cipher library, sends segments for several viewers in one system call,
//! and does nothing else: no sessions, timers, pacing, feedback or statistics.
//!
//! ```text
//! Traffic (a run's shape, or files) ─► sender: a thread with its own CPU clock
//!                                       seal, sendmmsg + UDP_SEGMENT ─► loopback
//! delivered ◄─ count ─ sink: a thread that empties every socket 50 times a second
//! ```
//!
//! Everything is delivered at the stream's pace, so that the figure is a bound for a server on
//! the same machine and not that of a busy loop.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use glassline_net::{Options, Transmit, UdpSocket, gso_supported, thread_cpu};
use serde::{Deserialize, Serialize};

mod sealer;
mod sink;
mod traffic;

pub use sealer::{HEADER_BYTES, Sealer, TAG_BYTES};
pub use traffic::{Shape, Traffic, Unit};

use sink::Sink;

/// Number of viewers whose sends share a system call.
const VIEWERS_PER_CALL: usize = 16;

/// Time before the processor clock is read.
const WARM_UP: Duration = Duration::from_millis(1000);

/// Lateness at which a sender gives up, since that is no live stream any more.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Cost of a run's traffic on this machine without a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Origin of the packets' sizes and times: `run` or `files`.
    pub source: String,
    /// Packets per second of one viewer.
    pub packets_per_viewer_second: f64,
    /// Mean bytes of a datagram, with header and tag.
    pub datagram_bytes_mean: f64,
    /// Whether the kernel segmented the packets (`UDP_SEGMENT`).
    pub segmentation: bool,
    /// Cost for each step's number of viewers.
    pub steps: Vec<Cost>,
}

/// Cost of the floor for a number of viewers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Number of sockets that received packets.
    pub viewers: usize,
    /// Time of the measurement, in seconds.
    pub duration_s: f64,
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// Packets received ÷ packets that were due.
    pub delivered_ratio: f64,
    /// Processor time of the sending thread per viewer and second, user and system, in ms.
    pub cpu_ms_per_viewer_second: f64,
    /// Processor time of the sending thread per packet, in µs.
    pub cpu_us_per_packet: f64,
}

/// Error that keeps the floor from being measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket could not be opened.
    #[error("cannot open the sockets for the floor: {0}")]
    Bind(#[from] glassline_net::BindError),
    /// A thread could not be started.
    #[error("cannot start the threads for the floor: {0}")]
    Thread(std::io::Error),
    /// The files are no media that can be read.
    #[error("the floor's media: {0}")]
    Files(#[from] glassline_demux::Error),
    /// There are no packets to send.
    #[error(
        "there are no packets to send for the floor: nothing was received, or the files are empty"
    )]
    Empty,
}

/// Sends `traffic` to `viewers` sockets on loopback for about `time`. Stops early when `stop`
/// becomes true, and then returns no figures.
///
/// The sender runs on the cores of process `like`, the receiver on those of this process: a
/// packet that is freed on another processor costs more than one that stays.
pub fn measure(
    traffic: &Traffic,
    viewers: usize,
    like: Option<u32>,
    time: Duration,
    stop: &AtomicBool,
) -> Result<Option<Cost>, Error> {
    let sink = Sink::open(viewers)?;
    let sender = Sender::new(sink.addresses())?;
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("floor".to_owned())
            .spawn_scoped(scope, || {
                if let Some(Err(error)) = like.map(glassline_net::run_where) {
                    tracing::warn!(%error, "cannot run the floor's sender on the server's cores; it runs on any core");
                }
                sender.run(traffic, &sink, time, stop)
            })
            .map_err(Error::Thread)?;
        // A panic of the thread was printed already.
        Ok(thread.join().ok().flatten())
    })
}

/// Whether the kernel segments packets on this machine.
pub fn segmentation() -> bool {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    UdpSocket::bind(any, &Options::default()).is_ok_and(|socket| gso_supported(&socket))
}

struct Sender {
    socket: UdpSocket,
    viewers: Vec<Target>,
    scratch: Vec<u8>,
}

struct Target {
    to: SocketAddr,
    sealer: Sealer,
}

impl Sender {
    fn new(addresses: &[SocketAddr]) -> Result<Self, Error> {
        let options = Options {
            send_buffer: Some(8 << 20),
            ..Options::default()
        };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let targets = addresses.iter().enumerate();
        Ok(Self {
            socket: UdpSocket::bind(any, &options)?,
            viewers: targets
                .map(|(number, to)| Target {
                    to: *to,
                    sealer: Sealer::new(number as u64, 256),
                })
                .collect(),
            scratch: Vec::new(),
        })
    }

    fn run(
        mut self,
        traffic: &Traffic,
        sink: &Sink,
        time: Duration,
        stop: &AtomicBool,
    ) -> Option<Cost> {
        self.scratch = vec![0; VIEWERS_PER_CALL * traffic.unit_bytes_max()];
        let start = Instant::now();
        let end = WARM_UP + time;
        let mut begun: Option<(Instant, Duration, u64)> = None;
        let (mut accepted, mut wanted) = (0, 0);
        for (due, unit) in traffic.endless() {
            let left = (start + due).saturating_duration_since(Instant::now());
            if !left.is_zero() {
                thread::sleep(left);
            }
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if begun.is_none() && due >= WARM_UP {
                begun = Some((Instant::now(), thread_cpu(), sink.received()));
            }
            if due >= end || start.elapsed() > end + LATE_MAX {
                break;
            }
            let some = self.send_unit(unit);
            if begun.is_some() {
                accepted += some;
                wanted += (unit.payloads.len() * self.viewers.len()) as u64;
            }
        }
        let (began, cpu, received) = begun?;
        let (cpu, took) = (thread_cpu().saturating_sub(cpu), began.elapsed());
        sink.settle();
        let delivered = sink.received().saturating_sub(received);
        let viewer_seconds = self.viewers.len() as f64 * took.as_secs_f64();
        Some(Cost {
            viewers: self.viewers.len(),
            duration_s: took.as_secs_f64(),
            packets: accepted,
            delivered_ratio: (delivered as f64 / wanted.max(1) as f64).min(1.0),
            cpu_ms_per_viewer_second: cpu.as_secs_f64() * 1e3 / viewer_seconds,
            cpu_us_per_packet: cpu.as_secs_f64() * 1e6 / accepted.max(1) as f64,
        })
    }

    /// Seals and sends one access unit to every viewer; returns the number of packets that the
    /// kernel accepted.
    fn send_unit(&mut self, unit: &Unit) -> u64 {
        let mut accepted = 0;
        let mut transmits = Vec::with_capacity(4 * VIEWERS_PER_CALL);
        for viewers in self.viewers.chunks_mut(VIEWERS_PER_CALL) {
            let mut rest = &mut self.scratch[..];
            // Packets of equal size with one shorter at the end become one message.
            let mut packets = Vec::with_capacity(transmits.capacity());
            for viewer in viewers {
                for run in unit.runs() {
                    let (mut used, mut segment) = (0, 0);
                    for payload in run {
                        let len = viewer.sealer.seal(payload, &mut rest[used..]);
                        segment = segment.max(len);
                        used += len;
                    }
                    let (sealed, remaining) = rest.split_at_mut(used);
                    rest = remaining;
                    transmits.push(Transmit::new(sealed, viewer.to).segmented(segment));
                    packets.push(run.len() as u64);
                }
            }
            let sent = self.socket.send_batch(&transmits);
            accepted += packets[..sent.transmits].iter().sum::<u64>();
            transmits = Vec::new();
        }
        accepted
    }
}

#[cfg(test)]
pub(crate) fn example() -> Floor {
    Floor {
        source: "run".to_owned(),
        packets_per_viewer_second: 411.0,
        datagram_bytes_mean: 955.0,
        segmentation: true,
        steps: vec![Cost {
            viewers: 100,
            duration_s: 3.0,
            packets: 123_300,
            delivered_ratio: 1.0,
            cpu_ms_per_viewer_second: 0.6,
            cpu_us_per_packet: 1.46,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_delivers_what_it_sends_and_costs_time() {
        let shape = Shape {
            frames_per_second: 30.0,
            video_packets_per_second: 90.0,
            video_datagram_bytes: 800.0,
            audio_packets_per_second: 50.0,
            audio_datagram_bytes: 180.0,
        };
        let traffic = Traffic::like(&shape).expect("there is traffic");
        let stop = AtomicBool::new(false);
        let cost = measure(&traffic, 20, None, Duration::from_millis(700), &stop)
            .expect("loopback takes it")
            .expect("nobody stops it");
        assert!(cost.packets > 20 * 140 / 4, "{cost:?}");
        assert!(cost.delivered_ratio > 0.5, "{cost:?}");
        assert!(
            cost.cpu_us_per_packet > 0.1 && cost.cpu_us_per_packet < 1_000.0,
            "{cost:?}"
        );
        stop.store(true, Ordering::Relaxed);
        let stopped = measure(
            &traffic,
            1,
            Some(std::process::id()),
            Duration::from_secs(60),
            &stop,
        );
        assert!(stopped.expect("loopback takes it").is_none());
    }
}
