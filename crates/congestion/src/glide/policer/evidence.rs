//! The evidence for a policer in what was lost, without a test.

use std::time::{Duration, Instant};

use super::replay::{Explanation, Replay};
use super::{Bucket, LossCount, Phase, Policer, PolicerInputs, TrialBaseline};

/// Shortest time between two replays, each of which takes up to a millisecond of a processor.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// The latest packets, and the bucket that explains their losses best.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The latest packets.
    replay: Replay,
    /// When the packets were replayed last.
    replayed: Option<Instant>,
    /// The finding of the last replay.
    found: Option<Explanation>,
    /// Whether something was lost since the last replay.
    has_new: bool,
}

impl Evidence {
    /// Returns a record without packets.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            replay: Replay::new(now),
            replayed: None,
            found: None,
            has_new: false,
        }
    }

    /// Records that a packet of `bytes` arrived that was sent at `sent`.
    pub(super) fn on_arrived(&mut self, sent: Instant, bytes: f64, of: &PolicerInputs) {
        self.replay.on_arrived(sent, bytes, of.queue);
    }

    /// Records the loss of `bytes`, the newest of which were sent at `sent`.
    pub(super) fn on_lost(&mut self, sent: Instant, bytes: f64, of: &PolicerInputs) {
        // The end of a long queue drops packets by the rule of a bucket, too.
        if is_short(of) {
            self.replay.on_lost(sent, bytes, of);
            self.has_new = true;
        }
    }

    /// Returns the bucket that explains the losses until now best.
    pub(super) fn explain(&mut self, of: &PolicerInputs) -> Option<Explanation> {
        if self.has_new || self.replayed.is_none() {
            self.replayed = Some(of.now);
            self.found = self.replay.explain(of.mtu);
            self.has_new = false;
        }
        self.found
    }

    /// Returns the bucket that explains the losses best if there were new ones, at most
    /// twice in a round trip.
    pub(super) fn explain_new(&mut self, of: &PolicerInputs) -> Option<Explanation> {
        let period = (of.smoothed / 2).max(PERIOD_MIN);
        let is_due = |at: Instant| of.now.saturating_duration_since(at) >= period;
        let due = self.has_new && is_short(of) && self.replayed.is_none_or(is_due);
        due.then(|| self.explain(of)).flatten()
    }
}

impl Policer {
    /// Whether a bucket explains the losses, so that they may confirm what a test found.
    pub(super) fn is_evident(&mut self, of: &PolicerInputs) -> bool {
        let found = self.evidence.explain(of);
        found.map_or(0.0, |it| it.evidence) >= self.test.evidence_least
    }

    /// Concludes that there is a policer without a test, or without the rest of one, if a
    /// bucket explains the losses far better than chance.
    pub(super) fn recognize(&mut self, of: &PolicerInputs) {
        let full = self.count.full_queue(of.variation, &self.test);
        if self.is_policed() || full.is_some() {
            return;
        }
        let least = self.test.evidence;
        let found = self.evidence.explain_new(of);
        let Some(found) = found.filter(|it| it.is_conclusive(least)) else {
            return;
        };
        self.confirmed = true;
        if self.rate().is_some() {
            return;
        }
        // The best rate may be the best of many as good; what arrived is carried surely, and
        // probes find out what else is.
        let rate = found.rate.min(found.arrived);
        let count = match self.phase {
            Phase::Trial { before, .. } => before.count,
            _ => self.count,
        };
        self.before = Some(TrialBaseline { rate, count });
        self.held = LossCount::new(of.now);
        self.rest = self.policed.rest_first;
        self.rest(Bucket::new(rate, found.burst, of.now), of);
    }
}

/// Whether the queue is too short for its end to be the cause of a loss.
fn is_short(of: &PolicerInputs) -> bool {
    of.queue <= of.target * 3 / 2
}
