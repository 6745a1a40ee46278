use std::time::{Duration, Instant};

use glassline_media::Bitrate;

/// Bytes of the last whole second or two.
#[derive(Debug, Default)]
pub(super) struct Rate {
    current: Option<(Instant, u64)>,
    previous: Bitrate,
}

impl Rate {
    const SPAN: Duration = Duration::from_secs(2);

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
