use std::time::{Duration, Instant};

use glassline_media::Bitrate;

/// Length of a burst at the pacing rate: what a timer of one millisecond and one system
/// call produce anyway.
const BURST: Duration = Duration::from_millis(2);
/// Smallest burst, in datagrams, however slow the rate: acknowledgements come for every
/// other datagram.
const BURST_DATAGRAMS: f64 = 2.0;
/// Longest time for which later packets make up for packets that were sent without regard
/// to pacing (audio).
const DEBT: Duration = Duration::from_millis(50);

/// Spreads packets over time: a token bucket filled at the flow's pacing rate, for
/// transports that do not pace by themselves.
///
/// The rate is an argument of each call, as it changes with every acknowledgement; time
/// that passed counts at the rate of the call that follows it.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Smallest capacity of the bucket, in bytes.
    burst_min: f64,
    /// Bytes that may leave; below zero if packets left too early.
    tokens: f64,
    /// When the tokens were last counted.
    filled: Option<Instant>,
}

impl Pacer {
    /// Returns a full bucket. `bytes`: largest size of datagrams.
    #[expect(clippy::cast_precision_loss, reason = "datagrams are small")]
    pub const fn new(bytes: u64) -> Self {
        Self {
            burst_min: BURST_DATAGRAMS * bytes as f64,
            tokens: BURST_DATAGRAMS * bytes as f64,
            filled: None,
        }
    }

    /// Sets the bytes that may leave together at least, whatever the rate.
    #[expect(clippy::cast_precision_loss, reason = "bursts are small")]
    pub const fn set_burst(&mut self, bytes: u64) {
        self.burst_min = bytes as f64;
    }

    /// Returns the bytes that may leave at `now`. Without a rate, before the first round
    /// trip, the window alone decides.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few datagrams, not below zero"
    )]
    pub fn allowance(&mut self, now: Instant, rate: Option<Bitrate>) -> u64 {
        let Some(rate) = rate else {
            self.filled = Some(now);
            return u64::MAX;
        };
        self.fill(now, rate);
        self.tokens.max(0.0) as u64
    }

    /// Records that `bytes` left, whether or not the allowance covered them.
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    pub const fn sent(&mut self, bytes: u64) {
        self.tokens -= bytes as f64;
    }

    /// Returns when `bytes` (at most a burst) may leave together; `None` if they may leave
    /// at `now`, or without a rate.
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    pub fn deadline(&mut self, now: Instant, rate: Option<Bitrate>, bytes: u64) -> Option<Instant> {
        let rate = rate?;
        self.fill(now, rate);
        let missing = (bytes as f64).min(self.burst(rate)) - self.tokens;
        let seconds = missing / bytes_per_second(rate);
        (missing > 0.0).then(|| now + Duration::from_secs_f64(seconds.min(LONGEST)))
    }

    /// Adds tokens for the time since the last call.
    fn fill(&mut self, now: Instant, rate: Bitrate) {
        let before = self.filled.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(before).as_secs_f64();
        let debt = DEBT.as_secs_f64() * bytes_per_second(rate);
        let tokens = self.tokens.max(-debt) + passed * bytes_per_second(rate);
        self.tokens = tokens.min(self.burst(rate));
    }

    /// Returns the capacity of the bucket in bytes.
    fn burst(&self, rate: Bitrate) -> f64 {
        let timed = BURST.as_secs_f64() * bytes_per_second(rate);
        timed.max(self.burst_min)
    }
}

/// Longest deadline in seconds, for rates near zero.
const LONGEST: f64 = 1.0;

/// Returns the rate in bytes/s, at least one, so that nothing is divided by zero.
#[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
fn bytes_per_second(rate: Bitrate) -> f64 {
    (rate.bps() as f64 / 8.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: u64 = 1200;
    const MS: Duration = Duration::from_millis(1);

    fn mbps(mbps: u64) -> Option<Bitrate> {
        Some(Bitrate::from_bps(mbps * 1_000_000))
    }

    /// Returns the packets that leave in `time` when as many as may leave do so every
    /// millisecond.
    fn leave(rate: Option<Bitrate>, time: Duration) -> Vec<u64> {
        let (start, mut pacer) = (Instant::now(), Pacer::new(PACKET));
        let mut left = Vec::new();
        let mut now = start;
        while now < start + time {
            let mut count = 0;
            while pacer.allowance(now, rate) >= PACKET {
                pacer.sent(PACKET);
                count += 1;
            }
            left.push(count);
            now += MS;
        }
        left
    }

    #[test]
    fn packets_leave_at_the_rate_and_in_bursts_of_two() {
        let slow = leave(mbps(1), Duration::from_secs(10));
        assert!(
            (1040..=1046).contains(&slow.iter().sum::<u64>()),
            "1041.7 packets"
        );
        assert_eq!(slow.iter().max(), Some(&2));
        let fast = leave(mbps(96), Duration::from_secs(1));
        assert!(
            (9_990..=10_020).contains(&fast.iter().sum::<u64>()),
            "10,000"
        );
        assert_eq!(fast.iter().max(), Some(&10), "a millisecond of them");
    }

    #[test]
    fn silence_saves_up_two_milliseconds_and_no_more() {
        let (now, rate) = (Instant::now(), mbps(96));
        let mut pacer = Pacer::new(PACKET);
        pacer.allowance(now, rate);
        assert_eq!(pacer.allowance(now + MS * 1000, rate), 20 * PACKET);
    }

    #[test]
    fn without_a_rate_nothing_holds_back() {
        let mut pacer = Pacer::new(PACKET);
        let now = Instant::now();
        pacer.sent(100 * PACKET);
        assert_eq!(pacer.allowance(now, None), u64::MAX);
        assert_eq!(pacer.deadline(now, None, PACKET), None);
    }

    #[test]
    fn the_deadline_is_when_the_next_may_leave() {
        let (now, rate) = (Instant::now(), mbps(12));
        let mut pacer = Pacer::new(PACKET);
        assert_eq!(pacer.deadline(now, rate, PACKET), None, "at once");
        let full = pacer.allowance(now, rate);
        pacer.sent(full);
        let at = pacer.deadline(now, rate, PACKET).expect("later");
        assert_eq!(
            at - now,
            Duration::from_micros(800),
            "1200 bytes at 12 Mbit/s"
        );
        assert!(pacer.allowance(at, rate) >= PACKET);
        let never = Some(Bitrate::from_bps(0));
        pacer.sent(PACKET);
        let looked_at_again = pacer.deadline(at, never, PACKET).expect("later");
        assert!(looked_at_again <= at + Duration::from_secs(1));
    }

    #[test]
    fn a_full_bucket_lets_a_burst_leave_at_once() {
        let (now, rate) = (Instant::now(), mbps(12));
        let mut pacer = Pacer::new(PACKET);
        // 2 ms at 12 Mbit/s are 3000 bytes.
        pacer.allowance(now, rate);
        let full = now + MS * 10;
        assert_eq!(pacer.allowance(full, rate), 3_000);
        assert_eq!(pacer.deadline(full, rate, 3_000), None);
        assert_eq!(pacer.deadline(full, rate, 100_000), None, "a burst at most");
        pacer.sent(1);
        assert!(pacer.deadline(full, rate, 3_000).is_some());
    }

    #[test]
    fn what_left_without_asking_is_made_up_for_a_while_only() {
        let (now, rate) = (Instant::now(), mbps(8));
        let mut pacer = Pacer::new(PACKET);
        pacer.allowance(now, rate);
        pacer.sent(10_000_000);
        let at = pacer.deadline(now, rate, PACKET).expect("later") - now;
        assert!((MS * 50..MS * 60).contains(&at), "{at:?}");
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_a_burst(
            steps in prop::collection::vec((0u64..20_000, 0u64..3000), 1..200),
            kbps in 10u64..100_000,
        ) {
            let rate = Bitrate::from_bps(kbps * 1000);
            let start = Instant::now();
            let mut now = start;
            let mut pacer = Pacer::new(1500);
            let mut sent = 0;
            for (us, bytes) in steps {
                now += Duration::from_micros(us);
                let bytes = bytes.min(pacer.allowance(now, Some(rate)));
                pacer.sent(bytes);
                sent += bytes;
            }
            let seconds = (now - start).as_secs_f64();
            let most = seconds * bytes_per_second(rate) + pacer.burst(rate) + 1.0;
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let sent = sent as f64;
            prop_assert!(sent <= most, "{sent} of {most}");
        }
    }
}
