//! How much of its time a disk works: the share that tells of a slow disk before anything is lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time over which the share is taken.
const WINDOW: Duration = Duration::from_secs(10);

/// The share of the last ten seconds in which a thread waited for its disk.
#[derive(Debug)]
pub(crate) struct DiskMeter {
    began: Instant,
    /// Ends and lengths of the waits, the newest last.
    waits: VecDeque<(Instant, Duration)>,
    /// Beginning of the present wait.
    waiting_since: Option<Instant>,
    /// Sum of all waits.
    total: Duration,
}

impl DiskMeter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            waits: VecDeque::new(),
            waiting_since: None,
            total: Duration::ZERO,
        }
    }

    /// Notes that the thread waits for its disk from `now` on.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.waiting_since = Some(now);
    }

    /// Notes that the disk answered at `now`.
    pub(crate) fn end(&mut self, now: Instant) {
        let Some(since) = self.waiting_since.take() else {
            return;
        };
        let length = now.saturating_duration_since(since);
        self.total += length;
        self.forget_before(now);
        // Waits that follow each other closely are one, so that the list stays short.
        match self.waits.back_mut() {
            Some((end, sum)) if now.saturating_duration_since(*end) < WINDOW / 100 => {
                *end = now;
                *sum += length;
            }
            _ => self.waits.push_back((now, length)),
        }
    }

    /// Returns the part of the last ten seconds, of 1, in which the disk worked.
    pub(crate) fn share(&mut self, now: Instant) -> f64 {
        self.forget_before(now);
        let present = self
            .waiting_since
            .map(|it| now.saturating_duration_since(it));
        let sum = self
            .waits
            .iter()
            .map(|(_, length)| *length)
            .sum::<Duration>();
        let sum = (sum + present.unwrap_or_default()).min(WINDOW);
        let age = now.saturating_duration_since(self.began);
        // A disk that has just begun is measured over a second at least.
        let window = age.clamp(Duration::from_secs(1), WINDOW);
        (sum.as_secs_f64() / window.as_secs_f64()).min(1.0)
    }

    /// Returns the sum of all waits, with the present one.
    pub(crate) fn total(&self, now: Instant) -> Duration {
        let present = self
            .waiting_since
            .map(|it| now.saturating_duration_since(it));
        self.total + present.unwrap_or_default()
    }

    fn forget_before(&mut self, now: Instant) {
        let is_old = |end: Instant| now.saturating_duration_since(end) > WINDOW;
        while self.waits.front().is_some_and(|(end, _)| is_old(*end)) {
            self.waits.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_last_ten_seconds_and_a_disk_that_hangs_has_all_of_it() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut meter = DiskMeter::new(start);
        for second in 0..20 {
            meter.begin(at(second * 1000));
            meter.end(at(second * 1000 + 800));
        }
        let share = meter.share(at(20_000));
        assert!((0.75..=0.85).contains(&share), "{share}");
        assert_eq!(meter.total(at(20_000)), Duration::from_secs(16));
        assert!(meter.share(at(40_000)) < 0.01);
        meter.begin(at(40_000));
        assert!(meter.share(at(60_000)) > 0.99);
        assert!(meter.waits.len() < 120);
    }
}
