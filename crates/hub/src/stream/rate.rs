use std::time::{Duration, Instant};

use glassline_media::Bitrate;

/// Payload bitrate of a stream, measured over spans of 2 s.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Beginning of the current span, and bytes since then.
    current: Option<(Instant, u64)>,
    /// Bitrate of the previous span; zero before the first span has ended.
    previous: Bitrate,
}

impl Rate {
    /// Least length of a span.
    const SPAN: Duration = Duration::from_secs(2);

    /// Counts `bytes` that were published at `now`.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) {
        let (since, sum) = self.current.unwrap_or((now, 0));
        let elapsed = now.saturating_duration_since(since);
        self.current = if elapsed >= Self::SPAN {
            self.previous = Bitrate::over(sum, elapsed);
            Some((now, bytes))
        } else {
            Some((since, sum + bytes))
        };
    }

    /// Returns the bitrate of the previous span; of the current one if there was none before,
    /// or if nothing was published for a while.
    pub(super) fn read(&self, now: Instant) -> Bitrate {
        match self.current {
            Some((since, sum)) if now.saturating_duration_since(since) > Self::SPAN * 2 => {
                Bitrate::over(sum, now.saturating_duration_since(since))
            }
            Some((since, sum)) if self.previous == Bitrate::default() => Bitrate::over(
                sum,
                now.saturating_duration_since(since)
                    .max(Duration::from_millis(200)),
            ),
            _ => self.previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ends_after_two_seconds_and_the_next_one_counts_from_there() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rate = Rate::default();
        assert_eq!(rate.read(start).bps(), 0, "nothing was published");
        rate.add(1_000, start);
        assert_eq!(rate.read(at(0)).bps(), 40_000, "over 200 ms at least");
        assert_eq!(rate.read(at(1_000)).bps(), 8_000);
        rate.add(1_000, at(1_999));
        assert_eq!(rate.read(at(2_000)).bps(), 8_000, "still the first span");
        // The span ends: its 2,000 bytes, without those that begin the next one.
        rate.add(500, at(2_000));
        assert_eq!(rate.read(at(2_000)).bps(), 8_000);
        rate.add(500, at(3_000));
        assert_eq!(rate.read(at(3_500)).bps(), 8_000, "the span before");
        rate.add(9_000, at(4_000));
        assert_eq!(rate.read(at(4_000)).bps(), 4_000, "1,000 bytes in 2 s");
    }

    #[test]
    fn after_a_pause_the_bitrate_falls() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rate = Rate::default();
        rate.add(4_000, start);
        rate.add(1_000, at(2_000));
        assert_eq!(rate.read(at(6_000)).bps(), 16_000, "4 s may pass");
        assert_eq!(rate.read(at(6_001)).bps(), 1_999, "1,000 bytes in 4,001 ms");
        assert_eq!(rate.read(at(10_000)).bps(), 1_000);
    }
}
