//! BBR that learns of losses only where there are more than the path's own.
//!
//! ```text
//! Loss ─┬─ a queue stands ──────────────────► Cap shrinks to 0.7, grows as CUBIC's window
//!       ├─ a burst on a short path ─────────► ReceiveBuffer shrinks and grows, too
//!       └─ more than 2 % of a round ────────► Bbr        │
//! Ack ──┬─ no queue for ten rounds ─────────► no Cap     ▼
//!       └───────────────────────────────────► Bbr ─► the smallest of the three windows
//! ```
//!
//! BBR's first version sends no more than arrives in the round trip after a loss. On a path
//! that loses one packet in a hundred whatever is sent, hardly a round trip is without a
//! loss, and neither BBR's start nor its probes ever succeed. BBR's third version
//! attributes up to 2 % of loss in a round to the path (draft-ietf-ccwg-bbr §5.3.2,
//! `BBRLossThresh`, `BBRStartupFullLossCnt`); this module puts that rule before the first
//! version.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::bbr::{self, Bbr};
use crate::cubic::{ALPHA, BETA, Curve};
use crate::receive_buffer::ReceiveBuffer;
use crate::rising::Rising;
use crate::{Ack, Controller, Loss, PathModel};

/// Share of a round's packets whose loss is tolerated.
const TOLERATED: f64 = 0.02;
/// Lost packets in a round below which the loss may be chance, up to a share of
/// [`BLATANT`]: with few packets, one is a large share.
const CHANCE_PACKETS: u64 = 6;
/// Share of a round's packets whose loss is never chance.
const BLATANT: f64 = 0.25;

/// A queue stands if no round trip of a round is shorter than this, as a multiple of the
/// smallest round trip: more than BBR's own probes add for one round in eight.
const STANDING: f64 = 1.25;
/// Rounds without a standing queue after which no other flow is assumed on the path.
const ROUNDS_ALONE: u32 = 10;

/// Initial window, in datagrams. RFC 9260 §7.2.1 has 4,404 bytes, RFC 6928 ten segments. On
/// a path of 1 Gbit/s and 100 ms, each factor of two is a round trip of a start of one
/// second. Other flows lose less by it than they gain from a start that ends at the first
/// sign of a queue.
const INITIAL_SEGMENTS: u32 = 32;

/// BBR for paths that lose packets whatever is sent; the default of SCTP's data channels.
///
/// Losses below 2 % of a round do not reach BBR. Where losses meet a standing queue, the
/// window shrinks and grows as CUBIC's does, so that other flows get their share.
#[derive(Clone, Debug)]
pub struct LossTolerantBbr {
    /// The controller whose decisions this one changes.
    inner: Bbr,
    /// Size of datagrams, in bytes.
    mtu: u64,
    /// Smoothed round-trip time of the path (RFC 6298 §2).
    round_trip: Duration,
    /// The round whose losses are being counted.
    round: Option<Round>,
    /// Detects a standing queue.
    queue: Queue,
    /// Detects the queue at the end of Startup.
    rising: Rising,
    /// Bound of the window beside other flows.
    cap: Option<Cap>,
    /// Whether the path is so short that a burst overflows the receiver's socket buffer.
    short: bool,
    /// Bound of what is in flight on a short path.
    receive_buffer: ReceiveBuffer,
}

/// Detects a standing queue.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// When the present round began.
    began: Option<Instant>,
    /// Smallest round trip of this round.
    least: Option<Duration>,
    /// Whether a queue stood in the last round.
    standing: bool,
    /// Rounds in a row without a standing queue.
    rounds_alone: u32,
}

/// Bound of the window beside other flows, which moves as CUBIC's window does.
#[derive(Clone, Copy, Debug)]
struct Cap {
    /// The bound, in bytes.
    window: f64,
    /// Curve towards the window at the latest decrease, and beyond.
    curve: Curve,
    /// When the latest decrease was.
    shrank: Instant,
    /// Window that Reno would have, in bytes.
    reno: f64,
}

impl Cap {
    /// Returns the bound after a loss at a window of `top` bytes.
    fn after(top: f64, now: Instant, mtu: f64) -> Self {
        Self {
            window: top * BETA,
            curve: Self::curve(top, mtu),
            shrank: now,
            reno: top * BETA,
        }
    }

    /// Returns CUBIC's curve after a decrease from `top` bytes.
    fn curve(top: f64, mtu: f64) -> Curve {
        Curve::new(top, top * (1.0 - BETA), mtu)
    }

    /// Grows the bound after `acked` bytes.
    fn grow(&mut self, now: Instant, mtu: f64, acked: f64) {
        let since = now.saturating_duration_since(self.shrank).as_secs_f64();
        let cubic = self.curve.at(since, mtu);
        self.reno += ALPHA * mtu * acked / self.window.max(mtu);
        self.window = cubic.max(self.reno).max(2.0 * mtu);
    }
}

/// Counters when a round of losses began.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When the round began.
    began: Instant,
    /// Bytes delivered in all before the round.
    delivered: u64,
    /// Bytes lost in all before the round.
    lost: u64,
}

impl LossTolerantBbr {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    pub fn new(mtu: u64) -> Self {
        let config = bbr::Config {
            initial_segments: INITIAL_SEGMENTS,
            ..bbr::Config::default()
        };
        Self {
            inner: Bbr::new(config, mtu),
            mtu,
            round_trip: Duration::from_millis(100),
            round: None,
            queue: Queue::default(),
            rising: Rising::default(),
            cap: None,
            short: false,
            receive_buffer: ReceiveBuffer::default(),
        }
    }

    /// Detects a standing queue, and lets the bound grow or removes it.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    fn observe(&mut self, ack: &Ack<'_>) {
        let (Some(rtt), Some(least)) = (ack.rtt, ack.round_trips.least()) else {
            return;
        };
        let queue = &mut self.queue;
        let began = *queue.began.get_or_insert(ack.now);
        let seen = queue.least.map_or(rtt, |seen| seen.min(rtt));
        queue.least = Some(seen);
        if ack.now.saturating_duration_since(began) >= self.round_trip {
            queue.standing = seen > least.mul_f64(STANDING) + Duration::from_millis(1);
            queue.rounds_alone = if queue.standing {
                0
            } else {
                queue.rounds_alone.saturating_add(1)
            };
            queue.began = Some(ack.now);
            queue.least = None;
        }
        if queue.rounds_alone >= ROUNDS_ALONE {
            self.cap = None;
        }
        if let Some(cap) = &mut self.cap {
            cap.grow(ack.now, self.mtu as f64, ack.bytes as f64);
        }
    }

    /// Ends Startup at the first sign of a queue: BBR itself waits until the rate has not
    /// grown for three rounds, in which it sends 2.9 times what the path carries.
    fn end_startup(&mut self, ack: &Ack<'_>) {
        let (Some(rtt), Some(least)) = (ack.rtt, ack.round_trips.least()) else {
            return;
        };
        if self.inner.is_starting() && self.rising.on_ack(ack.now, rtt, least) {
            self.inner.end_startup();
        }
    }

    /// Lowers the bound after a loss while a queue stands, as other flows do.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    fn make_room(&mut self, loss: &Loss) {
        let since = |cap: &Cap| loss.newest_sent <= cap.shrank;
        if !self.queue.standing || self.inner.is_starting() || self.cap.as_ref().is_some_and(since)
        {
            return;
        }
        let present = (loss.in_flight + loss.bytes) as f64;
        let top = self.cap.map_or(present, |cap| cap.window.min(present));
        self.cap = Some(Cap::after(top, loss.now, self.mtu as f64));
    }

    /// Whether more is lost in this round than the path's own loss explains.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    fn is_excessive(&mut self, loss: &Loss) -> bool {
        let begin = Round {
            began: loss.now,
            delivered: loss.delivered_total,
            lost: loss.lost_total - loss.bytes,
        };
        let over = |round: &mut Round| {
            loss.now.saturating_duration_since(round.began) > self.round_trip * 2
        };
        if self.round.as_mut().is_none_or(over) {
            self.round = Some(begin);
        }
        let round = self.round.unwrap_or(begin);
        let lost = loss.lost_total - round.lost;
        // What was delivered in the round trip before the round's first loss is not
        // counted, so at least what is in flight stands for it.
        let delivered = (loss.delivered_total - round.delivered).max(loss.in_flight);
        let share = lost as f64 / (lost + delivered) as f64;
        let chance = lost < CHANCE_PACKETS * self.mtu && share < BLATANT;
        share > TOLERATED && !chance
    }
}

impl Controller for LossTolerantBbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.receive_buffer.on_sent(in_flight);
        self.inner.on_sent(now, bytes, in_flight);
    }

    fn heeds_sending(&self) -> bool {
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(smoothed) = ack.round_trips.smoothed() {
            self.round_trip = smoothed;
        }
        self.short = ack.round_trips.least().is_some_and(ReceiveBuffer::is_short);
        self.observe(ack);
        self.receive_buffer.grow(ack.now, self.mtu as f64);
        self.end_startup(ack);
        self.inner.on_ack(ack);
    }

    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    fn on_loss(&mut self, loss: &Loss) {
        self.make_room(loss);
        if self.short {
            let bdp = self.inner.bandwidth_delay_product();
            self.receive_buffer.on_loss(loss, bdp, self.mtu as f64);
        }
        if loss.persistent || self.is_excessive(loss) {
            self.inner.on_loss(loss);
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.inner.on_spurious_loss(now);
    }

    fn on_marked(&mut self, now: Instant, in_flight: u64) {
        self.inner.on_marked(now, in_flight);
    }

    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        if let Some(cap) = &mut self.cap {
            cap.curve = Cap::curve(cap.curve.plateau, bytes as f64);
        }
        self.inner.on_mtu(bytes);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^52"
    )]
    fn window(&self) -> u64 {
        let least = 4 * self.mtu;
        let cap = self.cap.map_or(u64::MAX, |cap| cap.window as u64);
        let window = self.inner.window().min(cap.max(least));
        match self.receive_buffer.bytes() {
            Some(bytes) if self.short => window.min(bytes as u64),
            _ => window,
        }
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        self.inner.pacing_rate()
    }

    fn deliverable_rate(&self) -> Option<Bitrate> {
        self.inner.deliverable_rate()
    }

    fn is_starting(&self) -> bool {
        self.inner.is_starting()
    }

    fn is_holding_back(&self) -> bool {
        self.inner.is_holding_back()
    }

    fn path_model(&self) -> PathModel {
        self.inner.path_model()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
