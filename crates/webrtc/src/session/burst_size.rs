//! The bytes that may leave together.
//!
//! A path that is much wider than the stream takes a whole frame at once without a queue, and each timer and
//! system call less counts where there are hundreds of viewers. On a path that is hardly wider than the stream,
//! or that loses packets, small bursts leave.

use std::time::{Duration, Instant};

use glassline_congestion::PathSigns;
use glassline_media::Bitrate;

/// Longest queue that a burst may make, if the path carries what its trains say. libwebrtc lets 40 ms at its
/// pacing rate leave together.
const QUEUE_MAX: Duration = Duration::from_millis(4);
/// Smallest burst, two packets: feedback measures the path by those that leave together.
const BYTES_MIN: u64 = 2_400;
/// Largest burst: a chunk of a frame without congestion control is as large.
const BYTES_MAX: u64 = 32 << 10;
/// Standing queue from which on the path counts as busy.
const BUSY: Duration = Duration::from_millis(15);
/// Time without losses before larger bursts leave again. Each further loss doubles the time.
const HELD: Duration = Duration::from_secs(10);
/// Doublings of that time.
const DOUBLINGS_MAX: u32 = 4;

/// The size of bursts by the signs of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstSize {
    /// Bytes that may leave together.
    bytes: u64,
    /// When larger bursts may leave again after losses.
    held_until: Option<Instant>,
    /// Losses among larger bursts, one soon after the other.
    failures: u32,
}

impl Default for BurstSize {
    fn default() -> Self {
        Self {
            bytes: BYTES_MIN,
            held_until: None,
            failures: 0,
        }
    }
}

impl BurstSize {
    /// Takes the signs of the latest feedback. `is_policed`: whether a policer drops what is faster than the
    /// path's rate.
    pub(super) fn note(&mut self, signs: &PathSigns, is_policed: bool, now: Instant) {
        if signs.lost > 0 {
            if self.is_large() {
                self.fail(now);
            }
            self.held_until = Some(now + self.held());
        }
        let is_held = self.held_until.is_some_and(|until| until > now);
        let is_busy = is_held || is_policed || signs.standing >= BUSY;
        let train = signs.train.filter(|_| !is_busy);
        let bytes = train.map_or(0, |it| bytes_in(QUEUE_MAX, it.rate));
        self.bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
    }

    /// Returns the bytes that may leave together.
    pub(super) const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns whether more than the least may leave together.
    pub(super) const fn is_large(self) -> bool {
        self.bytes > BYTES_MIN
    }

    /// Notes that packets were lost while larger bursts left.
    fn fail(&mut self, now: Instant) {
        let lasted = |until: Instant| now.saturating_duration_since(until);
        let is_soon = self
            .held_until
            .is_some_and(|until| lasted(until) < self.held() * 2);
        self.failures = match is_soon {
            true => (self.failures + 1).min(DOUBLINGS_MAX),
            false => 0,
        };
    }

    /// Returns the time without losses before larger bursts leave again.
    fn held(self) -> Duration {
        HELD * (1 << self.failures)
    }
}

/// Returns the bytes of `time` at `rate`.
pub(super) fn bytes_in(time: Duration, rate: Bitrate) -> u64 {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    (rate.bps() / 8).saturating_mul(us) / 1_000_000
}

#[cfg(test)]
mod tests {
    use glassline_congestion::TrainRate;

    use super::*;

    fn signs(mbps: u64, standing_ms: u64, lost: u64) -> PathSigns {
        let rate = Bitrate::from_bps(mbps * 1_000_000);
        PathSigns {
            newest: 9,
            train: Some(TrainRate {
                rate,
                best: rate,
                bytes: 9_000,
            }),
            burst: None,
            carried: rate,
            has_gap: false,
            standing: Duration::from_millis(standing_ms),
            queue: Duration::from_millis(standing_ms),
            packets: 30,
            lost,
            lost_runs: lost,
            queue_at_losses: Duration::ZERO,
        }
    }

    /// Bursts of one viewer, and the bytes after each sign.
    struct Scene {
        burst: BurstSize,
        start: Instant,
    }

    impl Scene {
        #[expect(clippy::disallowed_methods, reason = "virtual time may begin anywhere")]
        fn new() -> Self {
            Self {
                burst: BurstSize::default(),
                start: Instant::now(),
            }
        }

        fn note(&mut self, seconds: u64, signs: &PathSigns) -> u64 {
            let now = self.start + Duration::from_secs(seconds);
            self.burst.note(signs, false, now);
            self.burst.bytes()
        }
    }

    #[test]
    fn as_much_leaves_together_as_the_path_carries_in_4_ms() {
        let mut scene = Scene::new();
        assert_eq!(scene.note(0, &signs(2, 0, 0)), BYTES_MIN);
        assert_eq!(scene.note(1, &signs(20, 0, 0)), 10_000);
        assert_eq!(scene.note(2, &signs(1_000, 0, 0)), BYTES_MAX);
        assert_eq!(
            scene.note(3, &signs(20, 15, 0)),
            BYTES_MIN,
            "a queue stands"
        );
        let unmeasured = PathSigns {
            train: None,
            ..signs(20, 0, 0)
        };
        assert_eq!(scene.note(4, &unmeasured), BYTES_MIN);
        scene.burst.note(&signs(20, 0, 0), true, scene.start);
        assert_eq!(scene.burst.bytes(), BYTES_MIN, "a policer");
    }

    #[test]
    fn bursts_that_lose_packets_come_again_after_longer_and_longer_times() {
        let (mut scene, clean, lossy) = (Scene::new(), signs(20, 0, 0), signs(20, 0, 3));
        scene.note(0, &clean);
        let mut now = 1;
        for held in [10, 20, 40, 80, 160, 160] {
            assert_eq!(scene.note(now, &lossy), BYTES_MIN);
            assert_eq!(scene.note(now + held - 1, &clean), BYTES_MIN, "{held}");
            assert_eq!(scene.note(now + held, &clean), 10_000, "{held}");
            now += held + 1;
        }
        assert_eq!(scene.note(now + 400, &lossy), BYTES_MIN, "long after");
        assert_eq!(scene.note(now + 410, &clean), 10_000);
    }

    #[test]
    fn losses_of_small_bursts_hold_larger_ones_back_no_longer_than_before() {
        let (mut scene, lossy) = (Scene::new(), signs(20, 0, 1));
        for now in 0..300 {
            assert_eq!(scene.note(now, &lossy), BYTES_MIN);
        }
        assert_eq!(scene.note(309, &signs(20, 0, 0)), 10_000);
    }
}
