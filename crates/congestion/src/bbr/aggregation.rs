//! Acknowledgements in clumps (`bbr_update_ack_aggregation`).

use std::time::Instant;

use super::model::RoundMax;

/// No more than the path delivers in so many seconds (`bbr_extra_acked_max_us`).
const LONGEST: f64 = 0.1;

/// How much more than the bandwidth explains is acknowledged at once: that much more
/// must be in flight to go on sending while no acknowledgement comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    began: Option<Instant>,
    acked: f64,
    extra: RoundMax,
}

impl Aggregation {
    pub(super) fn observe(&mut self, now: Instant, acked: f64, rate: f64, window: f64, round: u64) {
        let began = *self.began.get_or_insert(now);
        let mut expected = rate * now.saturating_duration_since(began).as_secs_f64();
        if self.acked <= expected {
            // Slower than expected: a clump may begin here.
            self.restart(now);
            expected = 0.0;
        }
        self.acked += acked;
        let extra = (self.acked - expected).min(window);
        self.extra.record(extra, round);
    }

    pub(super) const fn restart(&mut self, now: Instant) {
        self.began = Some(now);
        self.acked = 0.0;
    }

    /// For the window, in bytes.
    pub(super) fn extra(&self, rate: f64) -> f64 {
        self.extra.get().min(rate * LONGEST)
    }
}
