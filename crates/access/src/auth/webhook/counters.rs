use std::time::Duration;

use glassline_runtime::Counter;

/// Upper bounds of the buckets of answer times, in milliseconds.
const BUCKETS_MS: [u64; 8] = [5, 10, 25, 50, 100, 250, 1000, 5000];

/// Questions to the webhook since the server started.
#[derive(Debug, Default)]
pub struct WebhookCounters {
    /// Answers that allowed what was asked for.
    pub allowed: Counter,
    /// Answers that refused it.
    pub denied: Counter,
    /// Questions without an answer, or with one that decides nothing.
    pub failed: Counter,
    /// Questions that an earlier answer, or one under way, served.
    pub cached: Counter,
    /// Questions not sent because too many waited, or came from one address.
    pub crowded: Counter,
    /// Questions not sent because the webhook did not answer others.
    pub held_back: Counter,
    /// Questions that were sent, by the time until the answer: one count for each bucket.
    buckets: [Counter; BUCKETS_MS.len()],
    /// Sum of these times, in microseconds.
    sum_us: Counter,
    sent: Counter,
}

impl WebhookCounters {
    pub(super) fn note_time(&self, time: Duration) {
        self.sent.add(1);
        self.sum_us
            .add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let bucket = BUCKETS_MS
            .iter()
            .position(|it| time <= Duration::from_millis(*it));
        if let Some(counter) = bucket.and_then(|it| self.buckets.get(it)) {
            counter.add(1);
        }
    }

    /// Returns the buckets of answer times as Prometheus counts them: the upper bound in seconds, and
    /// how many questions took at most that long.
    pub fn times(&self) -> impl Iterator<Item = (f64, u64)> + use<'_> {
        let counts = self.buckets.iter().scan(0, |sum, it| {
            *sum += it.get();
            Some(*sum)
        });
        let bounds = BUCKETS_MS
            .iter()
            .map(|it| Duration::from_millis(*it).as_secs_f64());
        bounds.zip(counts)
    }

    /// Returns the number of questions that were sent, and the sum of their times.
    pub fn sent(&self) -> (u64, Duration) {
        (self.sent.get(), Duration::from_micros(self.sum_us.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_what_took_at_most_their_time() {
        let counters = WebhookCounters::default();
        for ms in [1, 5, 6, 90, 9000] {
            counters.note_time(Duration::from_millis(ms));
        }
        let counts: Vec<u64> = counters.times().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 4, 4, 4, 4]);
        assert_eq!(counters.sent(), (5, Duration::from_millis(9102)));
    }
}
