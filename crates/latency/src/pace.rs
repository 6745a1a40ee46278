//! How often pages report.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Pages up to which each one reports every second.
const EVERY_SECOND: usize = 200;

/// Longest interval, in seconds: the egress keeps its stamps of 256 frames for a page that reports.
const LONGEST_S: u64 = 3;

/// Time between two counts of the pages.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// The interval of reports, which grows with the number of pages: an answer costs as much for few frames
/// as for many.
#[derive(Debug, Default)]
pub(super) struct ReportPace(Mutex<Option<Counted>>);

/// The interval by the latest count.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Instant,
    interval_s: u64,
}

impl ReportPace {
    /// Returns the seconds from one report of a page to its next. `pages` counts the pages.
    pub(super) fn interval_s(&self, now: Instant, pages: impl FnOnce() -> usize) -> u64 {
        let mut counted = self.0.lock();
        let is_fresh = |it: &Counted| now.saturating_duration_since(it.at) < COUNTED_EVERY;
        let latest = counted.filter(is_fresh).unwrap_or_else(|| Counted {
            at: now,
            interval_s: interval_s(pages()),
        });
        *counted = Some(latest);
        latest.interval_s
    }
}

fn interval_s(pages: usize) -> u64 {
    let seconds = u64::try_from(pages.div_ceil(EVERY_SECOND)).unwrap_or(LONGEST_S);
    seconds.clamp(1, LONGEST_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pages_report_less_often() {
        let expected = [(0, 1), (1, 1), (200, 1), (201, 2), (401, 3), (1_000_000, 3)];
        for (pages, seconds) in expected {
            assert_eq!(interval_s(pages), seconds, "{pages} pages");
        }
    }

    #[test]
    fn pages_are_counted_once_a_second() {
        let (pace, begun) = (ReportPace::default(), Instant::now());
        assert_eq!(pace.interval_s(begun, || 1), 1);
        let soon = begun + Duration::from_millis(999);
        assert_eq!(pace.interval_s(soon, || panic!("counted again")), 1);
        assert_eq!(pace.interval_s(begun + COUNTED_EVERY, || 1_000), 3);
    }
}
