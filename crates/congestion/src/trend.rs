//! Detects that the path is the limit although the application does not fill it.
//!
//! A live source is nearly always limited by itself, so that its samples say nothing by the
//! rules of delivery rates (draft-cheng §3.4). But when round trips keep growing, or much
//! is lost, the path was the limit, whatever the source had to send; then what came through
//! is what the path carries.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Totals;

/// Length of a slot of the history.
const SLOT: Duration = Duration::from_millis(100);
/// Length of the history. Its two halves are compared, each of 15 frames of a camera.
const SPAN: Duration = Duration::from_secs(1);
/// Shortest history that allows a conclusion.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// Growth of the smallest round trip from one half to the next, per time: a queue that
/// grows by 50 ms per second. The queue of a competing CUBIC flow grows slower between its
/// losses, and is no reason to send less.
const GROWTH: f64 = 0.05;
/// Ratio of lost to sent bytes that random loss on radio links stays below and that
/// policers exceed.
const LOSS: f64 = 0.1;
/// Lost bytes below which the ratio does not count.
const LOSS_BYTES: u64 = 5 * 1200;

/// History of the last second of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trend {
    /// The slots of the window, the oldest first.
    slots: VecDeque<Slot>,
}

/// A slot of the history.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// When the slot began.
    began: Instant,
    /// Bytes delivered in all when the slot began.
    delivered: u64,
    /// Bytes lost in all when the slot began.
    lost: u64,
    /// Smallest round trip of the slot.
    least_rtt: Duration,
}

impl Trend {
    /// Records an acknowledgement at `now` with its round trip; `totals` include it.
    /// Returns the bytes/s that the path carried lately, if the path was the limit.
    pub(crate) fn observe(&mut self, now: Instant, rtt: Duration, totals: &Totals) -> Option<f64> {
        let old = |slot: &Slot| now.saturating_duration_since(slot.began) > SPAN;
        while self.slots.front().is_some_and(old) {
            self.slots.pop_front();
        }
        let due = |slot: &Slot| now.saturating_duration_since(slot.began) >= SLOT;
        if self.slots.back().is_none_or(due) {
            self.slots.push_back(Slot {
                began: now,
                delivered: totals.delivered,
                lost: totals.lost,
                least_rtt: rtt,
            });
        } else if let Some(slot) = self.slots.back_mut() {
            slot.least_rtt = slot.least_rtt.min(rtt);
        }
        self.judge(now, totals)
    }

    /// Returns the delivery rate of the later half, if the path was the limit.
    #[expect(clippy::cast_precision_loss, reason = "bytes stay far below 2^52")]
    fn judge(&self, now: Instant, totals: &Totals) -> Option<f64> {
        let first = self.slots.front()?;
        if now.saturating_duration_since(first.began) < SPAN_MIN {
            return None;
        }
        let middle = *self.slots.get(self.slots.len() / 2)?;
        let elapsed = now.saturating_duration_since(middle.began).as_secs_f64();
        if elapsed <= 0.0 || !(self.queue_grows(middle.began) || lossy(first, totals)) {
            return None;
        }
        Some((totals.delivered - middle.delivered) as f64 / elapsed)
    }

    /// Whether the queue of the half since `middle` never fell to its length before.
    fn queue_grows(&self, middle: Instant) -> bool {
        let least = |late: bool| {
            let half = self
                .slots
                .iter()
                .filter(|slot| (slot.began >= middle) == late);
            half.map(|slot| slot.least_rtt).min()
        };
        let (Some(before), Some(after)) = (least(false), least(true)) else {
            return false;
        };
        let Some(first) = self.slots.front() else {
            return false;
        };
        let apart = middle.saturating_duration_since(first.began);
        after.saturating_sub(before) > apart.mul_f64(GROWTH)
    }
}

/// Whether much was lost since the first slot.
#[expect(clippy::cast_precision_loss, reason = "bytes stay far below 2^52")]
fn lossy(first: &Slot, totals: &Totals) -> bool {
    let lost = totals.lost - first.lost;
    let delivered = totals.delivered - first.delivered;
    lost >= LOSS_BYTES && lost as f64 > (lost + delivered) as f64 * LOSS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs acknowledgements every 10 ms for two seconds; returns the last result, in
    /// bytes/s.
    fn run(rtt_ms: impl Fn(u64) -> u64, lost: impl Fn(u64) -> u64) -> Option<f64> {
        let start = Instant::now();
        let mut trend = Trend::default();
        let mut totals = Totals::default();
        let mut found = None;
        for step in 0..200 {
            totals.delivered += 1200;
            totals.lost += lost(step);
            let rtt = Duration::from_millis(rtt_ms(step));
            found = trend.observe(start + Duration::from_millis(10 * step), rtt, &totals);
            assert!(trend.slots.len() <= 12, "{}", trend.slots.len());
        }
        found
    }

    #[test]
    fn a_steady_path_says_nothing() {
        assert_eq!(run(|_| 40, |_| 0), None);
        assert_eq!(run(|step| 40 + step % 30, |_| 0), None, "jitter");
        assert_eq!(run(|step| 400 - step, |_| 0), None, "a queue that drains");
        assert_eq!(run(|step| 40 + step / 4, |_| 0), None, "25 ms a second");
        assert_eq!(run(|_| 40, |step| 1200 * u64::from(step % 25 == 0)), None);
    }

    #[test]
    fn a_growing_queue_or_much_loss_tells_the_rate() {
        let near = |found: Option<f64>| found.is_some_and(|rate| (rate / 120e3 - 1.0).abs() < 0.05);
        assert!(near(run(|step| 40 + step, |_| 0)), "100 ms a second");
        let policed = run(|_| 40, |step| 1200 * (step % 4));
        assert!(near(policed), "{policed:?}");
    }

    #[test]
    fn silence_is_not_averaged_in() {
        let start = Instant::now();
        let mut trend = Trend::default();
        let mut totals = Totals::default();
        let ms = Duration::from_millis;
        for step in 0..100 {
            totals.delivered += 1200;
            trend.observe(start + ms(10 * step), ms(40), &totals);
        }
        totals.delivered += 1200;
        assert_eq!(trend.observe(start + ms(4000), ms(3000), &totals), None);
    }
}
