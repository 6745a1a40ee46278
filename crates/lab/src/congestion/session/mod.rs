//! One upload: what it runs over, what runs it, and what was measured.
//!
//! ```no_run
//! # use glassline_lab::congestion::session::{Arm, Scenario, Sessions};
//! # use glassline_congestion::Algorithm;
//! # use std::time::Duration;
//! let sessions = Sessions::new();
//! let arm = Arm::new(Algorithm::Copa);
//! let measured = sessions.run(&Scenario::default(), &arm, 1, Duration::from_secs(60));
//! println!("{:.2} Mbit/s", measured.goodput_mbps);
//! ```
//!
//! [`Sessions`] is `Sync`: several threads run sessions of one at a time. The same
//! scenario, arm, seed and duration give the same [`Measured`], digest included.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassline_congestion::adaptation::Rule;
use glassline_congestion::{Algorithm, Controller};
use glassline_media::Bitrate;
use glassline_quic::Steering;
use glassline_sim::Conditions;
use glassline_sim::Scenario as Drawn;
use serde::{Deserialize, Serialize};

use super::relay;
pub use super::relay::RelayError;
use super::upload::{Credentials, Packets};
use super::virtual_time;

/// IPv4's and UDP's headers: they take their share of a link.
pub const HEADER_BYTES: usize = 28;

/// What an upload runs over: the network, who else is there, and the camera.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// From the publisher to the server; all flows share it. Its bytes count
    /// [`HEADER_BYTES`] of each datagram.
    pub up: Conditions,
    /// From the server to the publisher.
    pub down: Conditions,
    /// Bulk flows that share both ways.
    pub competitors: Vec<Competitor>,
    /// What is uploaded.
    pub source: Source,
    /// Most bytes of QUIC in a datagram; at least 1200. The publisher does not search
    /// for more.
    pub datagram_bytes: u16,
    /// What happens to the network on the way, in order of time.
    pub changes: Vec<(Duration, Change)>,
}

impl Default for Scenario {
    /// A perfect network.
    fn default() -> Self {
        Self {
            up: Conditions::default(),
            down: Conditions::default(),
            competitors: Vec::new(),
            source: Source::default(),
            datagram_bytes: 1200,
            changes: Vec::new(),
        }
    }
}

impl From<&Drawn> for Scenario {
    /// A session of a population; who competes is controlled by CUBIC.
    fn from(drawn: &Drawn) -> Self {
        let application = &drawn.application;
        let competitors = drawn.competitors.iter();
        Self {
            up: drawn.uplink.clone(),
            down: drawn.downlink.clone(),
            competitors: competitors
                .map(|competitor| Competitor {
                    algorithm: Algorithm::Cubic,
                    start: competitor.start,
                    end: competitor.end,
                })
                .collect(),
            source: Source {
                frames_per_second: application.frames_per_second,
                group: application.keyframe_interval,
                keyframe_weight: application.keyframe_weight,
                sound: Bitrate::from_bps(0),
                bitrate_min: application.bitrate_min,
                bitrate_max: application.bitrate_max,
                bitrate_start: application.bitrate_start,
                knee: application.abr_knee,
                processing: application.processing,
            },
            ..Self::default()
        }
    }
}

/// A flow that sends as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// What controls it.
    pub algorithm: Algorithm,
    /// When it connects.
    pub start: Duration,
    /// When it writes no more.
    pub end: Duration,
}

impl Competitor {
    /// How long it sends in a session of `duration`.
    pub(super) fn time_within(&self, duration: Duration) -> Duration {
        self.end.min(duration).saturating_sub(self.start)
    }
}

/// What happens to a network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The way up is like this from now on.
    Up(Conditions),
    /// The way down is.
    Down(Conditions),
    /// Datagrams with more bytes of QUIC than this vanish, both ways.
    DatagramLimit(usize),
    /// The publisher's datagrams come from another address, as behind a NAT that forgot.
    /// What is on its way down to the old one is lost.
    ClientAddress,
}

/// A live encoder, and the application around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Pictures a second.
    pub frames_per_second: f64,
    /// From keyframe to keyframe.
    pub group: Duration,
    /// Size of a keyframe, in mean pictures.
    pub keyframe_weight: f64,
    /// Of sound, beside the pictures; zero is none.
    pub sound: Bitrate,
    /// The encoder makes no less.
    pub bitrate_min: Bitrate,
    /// Nor more.
    pub bitrate_max: Bitrate,
    /// Where it starts.
    pub bitrate_start: Bitrate,
    /// See [`Config::knee`](glassline_congestion::adaptation::Config::knee).
    pub knee: Duration,
    /// What capturing, encoding and the server add to every ping's round trip.
    pub processing: Duration,
}

impl Default for Source {
    /// As in the sketch of the study's application: 30 pictures a second, keyframes every
    /// two seconds of five pictures' size, 0.5 to 3 Mbit/s, no sound of its own.
    fn default() -> Self {
        Self {
            frames_per_second: 30.0,
            group: Duration::from_secs(2),
            keyframe_weight: 5.0,
            sound: Bitrate::from_bps(0),
            bitrate_min: Bitrate::from_bps(500_000),
            bitrate_max: Bitrate::from_bps(3_000_000),
            bitrate_start: Bitrate::from_bps(1_000_000),
            knee: Duration::from_secs(3),
            processing: Duration::ZERO,
        }
    }
}

/// In what order media is sent, and whether all of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// In one stream, nothing is dropped: as the study's application did.
    InOrder,
    /// A stream for each group of pictures, the newest first, sound before all; what is
    /// late is reset.
    Groups(Groups),
}

/// When groups are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// So long after its last picture, if it has not arrived by then.
    pub late: Duration,
    /// Most bytes that may wait or be on their way; beyond it the oldest group goes, and
    /// if that is the only one, the rest of it too.
    pub queue_bytes: u64,
}

impl Default for Groups {
    /// Two seconds, one more group; 4 MiB, ten seconds at 3 Mbit/s.
    fn default() -> Self {
        Self {
            late: Duration::from_secs(2),
            queue_bytes: 4 << 20,
        }
    }
}

/// What is compared: a controller, and how the encoder and the queue follow it.
#[derive(Clone)]
pub struct Arm {
    /// Its name in reports.
    pub name: String,
    /// Makes a controller for datagrams of so many bytes.
    pub controller: Arc<dyn Fn(u64) -> Box<dyn Controller> + Send + Sync>,
    /// How the encoder follows the path.
    pub rule: Rule,
    /// How media is sent.
    pub delivery: Delivery,
}

impl Arm {
    /// A controller by name, with the study's encoder and queue.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with(algorithm.as_str(), move |mtu| algorithm.start(mtu))
    }

    /// Any controller, with the study's encoder and queue.
    pub fn with(
        name: impl Into<String>,
        controller: impl Fn(u64) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            controller: Arc::new(controller),
            rule: Rule::Study,
            delivery: Delivery::InOrder,
        }
    }

    /// The same under another name and with an encoder that follows the controller.
    #[must_use]
    pub fn coupled(mut self) -> Self {
        self.name.push_str("-coupled");
        self.rule = Rule::Coupled;
        self
    }

    /// The same, sent another way.
    #[must_use]
    pub const fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    pub(super) fn steering(&self) -> Steering {
        let controller = Arc::clone(&self.controller);
        Steering::with(move |mtu| controller(mtu))
    }
}

impl fmt::Debug for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arm")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}

/// Runs sessions. Holds what they share: a key and its certificate.
#[derive(Clone)]
pub struct Sessions {
    credentials: Credentials,
}

impl Sessions {
    /// Makes the key and the certificate.
    pub fn new() -> Self {
        Self {
            credentials: Credentials::new(Packets::Sealed),
        }
    }

    /// The same without encryption behind the handshakes, in virtual time: the figures
    /// and the digest are those of sealed packets, for three quarters of the processor's
    /// time.
    #[must_use]
    pub fn unsealed(mut self) -> Self {
        self.credentials = self.credentials.with(Packets::Open);
        self
    }

    /// One session in virtual time, `duration` from the first packet on.
    pub fn run(&self, scenario: &Scenario, arm: &Arm, seed: u64, duration: Duration) -> Measured {
        virtual_time::run(&self.credentials, scenario, arm, seed, duration, None).0
    }

    /// One session in real time over sockets of this machine, through the same links;
    /// takes `duration`. The digest is 0: no two runs are the same.
    ///
    /// # Errors
    ///
    /// When the operating system refuses sockets.
    pub fn relay(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
    ) -> Result<Measured, RelayError> {
        let credentials = self.credentials.with(Packets::Sealed);
        relay::run(&credentials, scenario, arm, seed, duration)
    }

    /// The same in virtual time as [`run`](Self::run), and a [`Sample`] each `period`.
    pub fn trace(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
        period: Duration,
    ) -> (Measured, Vec<Sample>) {
        virtual_time::run(
            &self.credentials,
            scenario,
            arm,
            seed,
            duration,
            Some(period),
        )
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// What was measured of one session. Rates are 10⁶ bits a second over the time from the
/// first picture to the session's end, a broken session's rest counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// From the first packet until the first picture; `None` if it never connected.
    pub setup_ms: Option<f64>,
    /// Why the connection broke before the end, and how long after the first packet.
    pub broken: Option<(f64, String)>,
    /// Application bytes that the server read in order; what was sent twice counts once,
    /// headers of QUIC do not count.
    pub goodput_mbps: f64,
    /// Application bytes that were given to the transport: the study's goodput.
    pub sent_mbps: f64,
    /// Mean of what the encoder was told to make.
    pub bitrate_mbps: f64,
    /// Mean over the pings, from queueing one behind the pictures to its answer, the
    /// constant processing counted in. One that is unanswered at the end enters with its
    /// age: the true mean is at least this.
    pub app_rtt_ms: f64,
    /// Pings that were answered.
    pub pings_answered: u64,
    /// Pings that were not, those included whose group was dropped: these enter
    /// `app_rtt_ms` with the time until the answer to a later one.
    pub pings_unanswered: u64,
    /// Round trips of the transport: from sending the newest packet that an
    /// acknowledgement covers first until that came, what the receiver waited counted
    /// in. Over acknowledgements.
    pub transport_rtt_ms: Spread,
    /// Stream bytes put on the wire more than once ÷ stream bytes acknowledged, 0–1 and
    /// more. Read from the packets' plaintext: exact.
    pub rtx_overhead: f64,
    /// Stream bytes that were taken for lost and arrived all the same ÷ stream bytes
    /// acknowledged: needless repeats, nearly all counted in `rtx_overhead` too.
    pub spurious_overhead: f64,
    /// Bytes of QUIC packets taken for lost ÷ bytes of packets acknowledged: what a
    /// transport that does not count repeats would show.
    pub lost_overhead: f64,
    /// The publisher's datagrams that never arrived ÷ those that were sent.
    pub loss_ratio: f64,
    /// How long its datagrams that arrived had waited in the bottleneck's queue.
    pub queue_ms: Spread,
    /// Its datagrams that found the queue full.
    pub dropped_datagrams: u64,
    /// Those that a policer dropped.
    pub policed_datagrams: u64,
    /// From the first of those until the controller took the path for policed, 0 if it
    /// did before; from the session's start if nothing was policed. `None` if it never
    /// did.
    pub policed_after_s: Option<f64>,
    /// Groups that were reset, late or too many.
    pub dropped_groups: u64,
    /// Application bytes that were dropped with them.
    pub dropped_bytes: u64,
    /// Most application bytes that were made and not acknowledged.
    pub backlog_bytes_max: u64,
    /// Packets in which frames were found that the laboratory does not know: what was in
    /// them is missing above.
    pub unread_packets: u64,
    /// Goodput of each competitor while it sent.
    pub competitors_mbps: Vec<f64>,
    /// Datagrams that arrived at either end.
    pub events: u64,
    /// Over times, sizes and decisions; the same in every run that went the same way.
    pub digest: u64,
}

/// How something is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean; 0 of nothing.
    pub mean: f64,
    /// Half are no more.
    pub p50: f64,
    /// 95 % are no more.
    pub p95: f64,
}

impl Spread {
    /// Of `micros` in microseconds, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^52")]
    pub(super) fn of_micros(mut micros: Vec<u32>) -> Self {
        if micros.is_empty() {
            return Self::default();
        }
        let sum: u64 = micros.iter().map(|it| u64::from(*it)).sum();
        let mut quantile = |percent: usize| {
            let rank = (micros.len() * percent).div_ceil(100).max(1) - 1;
            f64::from(*micros.select_nth_unstable(rank).1) / 1000.0
        };
        let (p50, p95) = (quantile(50), quantile(95));
        Self {
            mean: sum as f64 / micros.len() as f64 / 1000.0,
            p50,
            p95,
        }
    }
}

/// How a session stood at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the first packet.
    pub at_s: f64,
    /// Application bytes the server read since the sample before.
    pub goodput_mbps: f64,
    /// What waits in the bottleneck's queue.
    pub queue_bytes: u64,
    /// How long a datagram would wait there.
    pub queue_ms: f64,
    /// The publisher's congestion window.
    pub window_bytes: u64,
    /// What it has on its way.
    pub in_flight_bytes: u64,
    /// At which its packets leave.
    pub pacing_mbps: f64,
    /// What its controller believes the path carries.
    pub deliverable_mbps: f64,
    /// What the encoder is told to make.
    pub bitrate_mbps: f64,
    /// Bytes made and not acknowledged.
    pub backlog_bytes: u64,
    /// Smoothed round trip of the transport.
    pub rtt_ms: f64,
}

#[cfg(test)]
mod tests;
