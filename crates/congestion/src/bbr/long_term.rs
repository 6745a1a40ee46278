//! The policer behind constant loss (`bbr_lt_bw_sampling`).
//!
//! A token bucket lets a burst through and then drops all above its rate. Seen from
//! here: two stretches in a row, each from loss to loss, of the same throughput and
//! much loss. What they delivered is the policer's rate.

use std::time::{Duration, Instant};

use crate::Ack;

/// A stretch is at least so many rounds (`bbr_lt_intvl_min_rtts`), and at most four
/// times as many.
const ROUNDS_MIN: u32 = 4;
const ROUNDS_MAX: u32 = 4 * ROUNDS_MIN;
/// Lost of delivered that makes a stretch lossy (`bbr_lt_loss_thresh`, 50/256).
const LOSSY: f64 = 50.0 / 256.0;
/// Rates as close as this, by share or in bytes a second, are the same
/// (`bbr_lt_bw_ratio`, `bbr_lt_bw_diff`).
const SAME_SHARE: f64 = 1.0 / 8.0;
const SAME_RATE: f64 = 500.0;
/// Rounds that the rate is used before the path is tried again
/// (`bbr_lt_bw_max_rtts`).
const USED_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTerm {
    stretch: Option<Stretch>,
    /// Bytes a second of the last stretch, or of both if in use.
    rate: Option<f64>,
    /// Rounds since it is in use.
    used: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    began: Instant,
    delivered: u64,
    lost: u64,
    rounds: u32,
}

impl Stretch {
    const fn at(ack: &Ack<'_>) -> Self {
        Self {
            began: ack.now,
            delivered: ack.rate.delivered_total,
            lost: ack.rate.lost_total,
            rounds: 0,
        }
    }

    /// Its rate, if it was lossy and long enough to tell.
    #[expect(clippy::cast_precision_loss, reason = "bytes stay far below 2^52")]
    fn lossy_rate(&self, ack: &Ack<'_>) -> Option<f64> {
        let lost = (ack.rate.lost_total - self.lost) as f64;
        let delivered = (ack.rate.delivered_total - self.delivered) as f64;
        let elapsed = ack.now.saturating_duration_since(self.began);
        let lossy = delivered > 0.0 && lost >= LOSSY * delivered;
        let long = elapsed >= Duration::from_millis(1);
        (lossy && long).then(|| delivered / elapsed.as_secs_f64())
    }
}

impl LongTerm {
    /// The policer's rate in bytes a second, while it is believed.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.used.is_some())
    }

    /// An acknowledgement; `lost`: packets were found lost since the one before.
    /// `true` when the rate has been used long enough, and the path is to be tried.
    pub(super) fn observe(
        &mut self,
        ack: &Ack<'_>,
        lost: bool,
        round_started: bool,
        probing: bool,
    ) -> bool {
        if let Some(used) = &mut self.used {
            *used += u32::from(probing && round_started);
            let over = *used >= USED_ROUNDS;
            if over {
                self.reset();
            }
            return over;
        }
        // The bucket's first burst must not count: it begins with a loss.
        if ack.rate.app_limited && self.stretch.is_some() {
            self.reset();
            return false;
        }
        let Some(stretch) = &mut self.stretch else {
            self.stretch = lost.then(|| Stretch::at(ack));
            return false;
        };
        stretch.rounds += u32::from(round_started);
        if stretch.rounds > ROUNDS_MAX {
            self.reset();
        } else if stretch.rounds >= ROUNDS_MIN && lost {
            // It ends with a loss, when the bucket is empty again.
            if let Some(rate) = stretch.lossy_rate(ack) {
                self.compare(rate, ack);
            }
        }
        false
    }

    /// `bbr_lt_bw_interval_done`.
    fn compare(&mut self, rate: f64, ack: &Ack<'_>) {
        if let Some(before) = self.rate {
            let difference = (rate - before).abs();
            if difference <= before * SAME_SHARE || difference <= SAME_RATE {
                self.rate = Some(f64::midpoint(rate, before));
                self.used = Some(0);
                return;
            }
        }
        self.rate = Some(rate);
        self.stretch = Some(Stretch::at(ack));
    }

    pub(super) const fn reset(&mut self) {
        *self = Self {
            stretch: None,
            rate: None,
            used: None,
        };
    }
}
