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
