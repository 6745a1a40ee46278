//! The long-term model of a policer (`bbr_lt_bw_sampling`).
//!
//! A token bucket lets a burst through and then drops everything above its rate. The sender
//! sees two intervals in a row, each from loss to loss, with the same throughput and much
//! loss. What they delivered is the policer's rate.

use std::time::{Duration, Instant};

use crate::Ack;

/// Shortest interval, in rounds (`bbr_lt_intvl_min_rtts`).
const ROUNDS_MIN: u32 = 4;
/// Longest interval, in rounds.
const ROUNDS_MAX: u32 = 4 * ROUNDS_MIN;
/// Ratio of lost to delivered bytes from which an interval is lossy (`bbr_lt_loss_thresh`,
/// 50/256).
const LOSSY: f64 = 50.0 / 256.0;
/// Relative difference up to which two rates are the same (`bbr_lt_bw_ratio`).
const SAME_SHARE: f64 = 1.0 / 8.0;
/// Absolute difference up to which two rates are the same, in bytes/s (`bbr_lt_bw_diff`).
const SAME_RATE: f64 = 500.0;
/// Rounds for which the rate is used before the path is probed again
/// (`bbr_lt_bw_max_rtts`).
const USED_ROUNDS: u32 = 48;

/// State of the long-term model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTerm {
    /// The interval that is being measured.
    interval: Option<SamplingInterval>,
    /// Rate of the last interval, or the mean of both while in use, in bytes/s.
    rate: Option<f64>,
    /// Rounds for which the rate has been in use; `None` while it is not.
    used: Option<u32>,
}

/// Where a sampling interval began.
#[derive(Clone, Copy, Debug)]
struct SamplingInterval {
    /// When the interval began.
    began: Instant,
    /// Bytes delivered before the interval.
    delivered: u64,
    /// Bytes lost before the interval.
    lost: u64,
    /// Rounds of the interval so far.
    rounds: u32,
}

impl SamplingInterval {
    /// Returns an interval that begins at an acknowledgement.
    const fn at(ack: &Ack<'_>) -> Self {
        Self {
            began: ack.now,
            delivered: ack.rate.delivered_total,
            lost: ack.rate.lost_total,
            rounds: 0,
        }
    }

    /// Returns the rate of the interval in bytes/s, if it was lossy and long enough.
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
    /// Returns the policer's rate in bytes/s while it is in use.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.used.is_some())
    }

    /// Records an acknowledgement. `lost`: packets were lost since the one before. Returns
    /// `true` when the rate has been used long enough and the path is to be probed.
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
        // The bucket's first burst must not count, so an interval begins with a loss.
        if ack.rate.app_limited && self.interval.is_some() {
            self.reset();
            return false;
        }
        let Some(interval) = &mut self.interval else {
            self.interval = lost.then(|| SamplingInterval::at(ack));
            return false;
        };
        interval.rounds += u32::from(round_started);
        if interval.rounds > ROUNDS_MAX {
            self.reset();
        } else if interval.rounds >= ROUNDS_MIN && lost {
            // The interval ends with a loss, when the bucket is empty again.
            if let Some(rate) = interval.lossy_rate(ack) {
                self.compare(rate, ack);
            }
        }
        false
    }

    /// Compares the rate of a finished interval with that of the one before
    /// (`bbr_lt_bw_interval_done`).
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
        self.interval = Some(SamplingInterval::at(ack));
    }

    /// Forgets everything that was measured.
    pub(super) const fn reset(&mut self) {
        *self = Self {
            interval: None,
            rate: None,
            used: None,
        };
    }
}
