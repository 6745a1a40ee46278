//! Which messages go before the media of the same connection.

use std::time::Instant;

/// Rate of messages that may go before media for as long as they come, in bytes a second: 0.5 Mbit/s.
const RATE: f64 = 64.0 * 1024.0;

/// Bytes of messages above that rate with which they begin to go behind media.
const BEHIND_ABOVE: f64 = 32.0 * 1024.0;

/// The bytes waiting with which they go before media again.
const BEFORE_BELOW: f64 = 16.0 * 1024.0;

/// Most bytes above the rate that are remembered, so that bulk is forgotten 0.75 s after its end.
const REMEMBERED_MAX: f64 = 64.0 * 1024.0;

/// Decides whether the messages of one stream go before media: a leaky bucket with two thresholds.
///
/// Commands of cameras, chat and cursors are small, and people notice their delay. Files and other bulk
/// would delay every frame of the connection instead, so bulk goes behind media. Two thresholds keep
/// bulk there: at a single one, each message that fits would lift all that wait before it.
#[derive(Debug)]
pub(super) struct Urgency {
    /// Bytes above [`RATE`] that were written lately.
    excess: f64,
    counted: Instant,
    is_urgent: bool,
}

impl Urgency {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            excess: 0.0,
            counted: now,
            is_urgent: true,
        }
    }

    /// Counts `bytes` of messages that are about to be written. Returns whether all that waits goes
    /// before media from now on, or behind; `None` if that stays as it was. At first, messages go before.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) -> Option<bool> {
        let elapsed = now.saturating_duration_since(self.counted);
        self.counted = now;
        let drained = (self.excess - elapsed.as_secs_f64() * RATE).max(0.0);
        self.excess = (drained + bytes as f64).min(REMEMBERED_MAX);
        let limit = if self.is_urgent {
            BEHIND_ABOVE
        } else {
            BEFORE_BELOW
        };
        let is_urgent = self.excess <= limit;
        let has_changed = is_urgent != self.is_urgent;
        self.is_urgent = is_urgent;
        has_changed.then_some(is_urgent)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Messages of one stream, in a time of the test's own.
    struct Stream {
        urgency: Urgency,
        now: Instant,
        is_urgent: bool,
    }

    impl Stream {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                urgency: Urgency::new(now),
                now,
                is_urgent: true,
            }
        }

        /// Writes messages of `size`, one each `every`, for `time`; returns how many went before media.
        fn write(&mut self, size: usize, every: Duration, time: Duration) -> usize {
            let end = self.now + time;
            let mut before = 0;
            while self.now < end {
                if let Some(is_urgent) = self.urgency.count(size, self.now) {
                    self.is_urgent = is_urgent;
                }
                before += usize::from(self.is_urgent);
                self.now += every;
            }
            before
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn small_messages_always_go_before_media() {
        let before = Stream::new().write(500, Duration::from_millis(10), MINUTE);
        assert_eq!(before, 6_000);
    }

    #[test]
    fn bulk_goes_behind_media_and_stays_there_while_it_lasts() {
        for (size, every) in [(1_000, 5), (16_000, 100), (60_000, 500), (1 << 20, 1_000)] {
            let mut stream = Stream::new();
            let before = stream.write(size, Duration::from_millis(every), MINUTE);
            assert!(before * size <= 256 << 10, "{size}: {before} before media");
            assert!(!stream.is_urgent, "{size}");
        }
    }

    #[test]
    fn a_command_goes_before_media_again_a_second_after_bulk() {
        let mut stream = Stream::new();
        stream.write(16_000, Duration::from_millis(1), Duration::from_secs(1));
        assert!(!stream.is_urgent);
        stream.now += Duration::from_secs(1);
        assert_eq!(stream.write(100, MINUTE, MINUTE), 1);
    }
}
