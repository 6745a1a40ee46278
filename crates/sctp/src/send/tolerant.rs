//! BBR that hears of losses only where they are more than a path's own.
//!
//! BBR's first version lets no more leave than arrives in the round trip after a loss.
//! On a path that loses one packet in a hundred whatever is sent, hardly a round trip
//! is without one, and neither its start nor its probes ever get through. BBR's third
//! version takes up to 2 % of loss in a round for the path's
//! (draft-ietf-ccwg-bbr §5.3.2, `BBRLossThresh`, `BBRStartupFullLossCnt`); this puts
//! that before the first one.

use std::time::{Duration, Instant};

use glassline_congestion::{Ack, Algorithm, Controller, Loss, Verdict};
use glassline_media::Bitrate;

/// Of a round's packets.
const TOLERATED: f64 = 0.02;
/// Losses in a round that may be chance, as long as they are no more than
/// [`BLATANT`] of it: with few packets, one is a large share.
const CHANCE_PACKETS: u64 = 6;
const BLATANT: f64 = 0.25;

/// The filter and what it stands before.
#[derive(Clone, Debug)]
pub(crate) struct Tolerant {
    inner: Box<dyn Controller>,
    mtu: u64,
    round_trip: Duration,
    round: Option<Round>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    delivered: u64,
    lost: u64,
}

impl Tolerant {
    pub(crate) fn new(mtu: u64) -> Self {
        Self {
            inner: Algorithm::Bbr.start(mtu),
            mtu,
            round_trip: Duration::from_millis(100),
            round: None,
        }
    }

    /// There is more loss in this round than the path may have of its own.
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

impl Controller for Tolerant {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.inner.on_sent(now, bytes, in_flight);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(smoothed) = ack.round_trips.smoothed() {
            self.round_trip = smoothed;
        }
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss) {
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

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        self.inner.on_mtu(bytes);
    }

    fn window(&self) -> u64 {
        self.inner.window()
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

    fn verdict(&self) -> Verdict {
        self.inner.verdict()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
