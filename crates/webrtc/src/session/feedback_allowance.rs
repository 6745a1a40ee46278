use std::time::{Duration, Instant};

/// Most transport feedbacks of one datagram that are handled. Peers send one, and a second one
/// after a pause that is longer than a delta can state.
const PER_DATAGRAM: u32 = 2;

/// Interval of transport feedback that a peer may keep up. The most eager peers send one for each
/// video frame, and receivers of 40 Mbit/s one for each 400 packets.
const INTERVAL: Duration = Duration::from_millis(4);

/// Most feedbacks that come together because the path held them back.
const BURST: u32 = 64;

/// How much more transport feedback of the peer is handled: a token bucket, and a limit for each
/// datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FeedbackAllowance {
    /// Instant at which the bucket is full again.
    full_at: Option<Instant>,
    /// Number of feedbacks of the present datagram.
    in_datagram: u32,
}

impl FeedbackAllowance {
    /// Begins another datagram.
    pub(super) const fn begin_datagram(&mut self) {
        self.in_datagram = 0;
    }

    /// Takes one token. Returns false if there is none, or the datagram has had its share.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.in_datagram += 1;
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + INTERVAL;
        let is_allowed =
            self.in_datagram <= PER_DATAGRAM && full_at.duration_since(now) <= INTERVAL * BURST;
        if is_allowed {
            self.full_at = Some(full_at);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_sim::Clock;

    #[test]
    fn a_peer_may_report_each_frame_and_catch_up_but_not_more() {
        let mut now = Clock::new().now();
        let mut allowance = FeedbackAllowance::default();
        let mut take = |now| {
            allowance.begin_datagram();
            (0..4).filter(|_| allowance.take(now)).count()
        };
        for _ in 0..1_000 {
            now += Duration::from_millis(8);
            assert_eq!(take(now), 2, "125 datagrams a second");
        }
        let burst: usize = (0..1_000).map(|_| take(now)).sum();
        assert!((60..=64).contains(&burst), "{burst}");
        now += Duration::from_millis(100);
        let later: usize = (0..1_000).map(|_| take(now)).sum();
        assert_eq!(later, 25);
    }
}
