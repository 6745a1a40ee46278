//! Acknowledgement aggregation (`bbr_update_ack_aggregation`): acknowledgements that come
//! in clumps.

use std::time::Instant;

use super::model::RoundMax;

/// Bound of the extra window, in seconds at the bandwidth (`bbr_extra_acked_max_us`).
const LONGEST: f64 = 0.1;

/// Estimates how much more is acknowledged at once than the bandwidth explains. That much
/// more must be in flight so that sending continues while no acknowledgement comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    /// When the present aggregation epoch began.
    began: Option<Instant>,
    /// Bytes acknowledged in the present epoch.
    acked: f64,
    /// Largest excess of recent rounds, in bytes.
    extra: RoundMax,
}

impl Aggregation {
    /// Records an acknowledgement of `acked` bytes. `rate`: bandwidth in bytes/s; `window`:
    /// congestion window in bytes; `round`: count of rounds.
    pub(super) fn observe(&mut self, now: Instant, acked: f64, rate: f64, window: f64, round: u64) {
        let began = *self.began.get_or_insert(now);
        let mut expected = rate * now.saturating_duration_since(began).as_secs_f64();
        if self.acked <= expected {
            // Slower than expected: a new epoch begins.
            self.restart(now);
            expected = 0.0;
        }
        self.acked += acked;
        let extra = (self.acked - expected).min(window);
        self.extra.record(extra, round);
    }

    /// Begins a new epoch.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.began = Some(now);
        self.acked = 0.0;
    }

    /// Returns what the window is to be larger by, in bytes. `rate`: bandwidth in bytes/s.
    pub(super) fn extra(&self, rate: f64) -> f64 {
        self.extra.get().min(rate * LONGEST)
    }
}
