//! A path that became much narrower: what it carries is measured before the controller follows.
//!
//! A controller takes a second or two to forget the rate of a path that a stream used a small part of. What
//! leaves meanwhile, and what is sent again of it, only fills the queue.

use std::time::{Duration, Instant};

use glassline_congestion::{PathSigns, TrainRate};
use glassline_media::Bitrate;

/// Standing queue from which on the path is overrun.
const QUEUE_MIN: Duration = Duration::from_millis(60);
/// Queue below which the next one is another one.
const QUEUE_OVER: Duration = Duration::from_millis(30);
/// Bytes behind each other whose rate is the path's.
const TRAIN_MIN: u64 = 4_000;
/// Part of the rate that empties the queue, in percent.
const PERCENT: u64 = 90;
/// Time after which the controller knows more: beside other flows the queue stands for longer.
const FOLLOWED: Duration = Duration::from_secs(2);

/// The bound on the pacing rate of a path that became narrow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Narrowing {
    /// When the queue began to stand.
    since: Option<Instant>,
    bound: Option<Bitrate>,
}

impl Narrowing {
    /// Takes the signs of the latest feedback.
    pub(super) fn note(&mut self, signs: &PathSigns, now: Instant) {
        if signs.standing < QUEUE_OVER {
            *self = Self::default();
            return;
        }
        if signs.standing < QUEUE_MIN && self.since.is_none() {
            return;
        }
        let since = *self.since.get_or_insert(now);
        let train = signs.train.filter(|it| it.bytes >= TRAIN_MIN);
        let of = |it: TrainRate| Bitrate::from_bps(it.rate.bps() * PERCENT / 100);
        self.bound = match now.saturating_duration_since(since) < FOLLOWED {
            true => train.map(of).or(self.bound),
            false => None,
        };
    }

    /// Returns the pacing rate of a controller that paces at `rate`.
    pub(super) fn bounded(&self, rate: Option<Bitrate>) -> Option<Bitrate> {
        let bound = self.bound;
        rate.map(|it| bound.map_or(it, |bound| it.min(bound)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(standing_ms: u64, kbps: u64) -> PathSigns {
        let rate = Bitrate::from_bps(kbps * 1_000);
        PathSigns {
            newest: 9,
            train: Some(TrainRate {
                rate,
                best: rate,
                bytes: TRAIN_MIN,
            }),
            carried: rate,
            has_gap: false,
            burst: None,
            standing: Duration::from_millis(standing_ms),
            queue: Duration::from_millis(standing_ms),
            packets: 30,
            lost: 0,
            lost_runs: 0,
            queue_at_losses: Duration::ZERO,
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "virtual time may begin anywhere")]
    fn the_rate_follows_the_path_while_a_queue_stands_and_for_two_seconds() {
        let (start, fast) = (Instant::now(), Some(Bitrate::from_bps(9_000_000)));
        let at = |ms| start + Duration::from_millis(ms);
        let mut narrowing = Narrowing::default();
        let mut bounded = |standing, kbps, ms| {
            narrowing.note(&signs(standing, kbps), at(ms));
            narrowing.bounded(fast).map(|it| it.bps() / 1_000)
        };
        assert_eq!(bounded(50, 300, 0), Some(9_000));
        assert_eq!(bounded(60, 300, 100), Some(270));
        assert_eq!(bounded(40, 200, 200), Some(180));
        assert_eq!(bounded(20, 200, 300), Some(9_000), "it is empty");
        assert_eq!(bounded(90, 200, 400), Some(180));
        assert_eq!(bounded(90, 200, 2_400), Some(9_000), "of others");
        assert_eq!(bounded(90, 200, 9_000), Some(9_000));
        assert_eq!(narrowing.bounded(None), None, "nothing is known");
        let slow = Some(Bitrate::from_bps(100_000));
        narrowing.note(&signs(0, 200), at(9_100));
        narrowing.note(&signs(90, 200), at(9_200));
        assert_eq!(narrowing.bounded(slow), slow);
    }
}
