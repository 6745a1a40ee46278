use std::time::Instant;

/// Lateness of a device's call, in ms, that counts as normal: devices ask late now and then
/// and make up for it by asking again at once.
const LATE_MS: f64 = 30.0;
/// Time that the device has to make up for a late call, in ms.
const GRACE_MS: f64 = 60.0;
/// Share by which the device's clock may be slower than ours.
const SLOWER: f64 = 0.002;

/// Detects stalls of the playback device. A stalled device never asks for the audio of that
/// time, so without a correction everything later would be played late.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceStallDetector {
    /// Instant of the device's first call.
    begun: Option<Instant>,
    /// Audio that the device has asked for, in ms.
    pulled_ms: f64,
    /// Lateness of calls that are on time, up to a constant, in ms.
    usual: f64,
    /// The current run of late calls.
    late_calls: Option<LateCalls>,
}

/// A run of late calls that the device may still make up for.
#[derive(Clone, Copy, Debug)]
struct LateCalls {
    /// When the run began, in ms from the first call.
    since: f64,
    /// Least lateness in the run, in ms.
    least: f64,
}

impl DeviceStallDetector {
    /// Notes that the device asks for `ms` of audio. Returns the length of audio that it lost
    /// since the previous call, in ms.
    pub(super) fn on_pull(&mut self, now: Instant, ms: f64) -> f64 {
        let begun = *self.begun.get_or_insert(now);
        let at = now.saturating_duration_since(begun).as_secs_f64() * 1e3;
        let late = at - self.pulled_ms;
        self.pulled_ms += ms;
        self.usual = (self.usual + SLOWER * ms).min(late);
        let over = late - self.usual;
        if over < LATE_MS {
            self.late_calls = None;
            return 0.0;
        }
        let mut late_calls = self.late_calls.unwrap_or(LateCalls {
            since: at,
            least: over,
        });
        late_calls.least = late_calls.least.min(over);
        self.late_calls = Some(late_calls);
        if at - late_calls.since < GRACE_MS {
            return 0.0;
        }
        self.late_calls = None;
        self.usual += late_calls.least;
        late_calls.least
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_sim::Clock;

    use super::*;

    /// The loss of a device of 10 ms whose call number n is so many ms late.
    fn lost(late_ms: impl Fn(u32) -> u32) -> f64 {
        let start = Clock::new().now();
        let mut stall_detector = DeviceStallDetector::default();
        let at = |call: u32| start + Duration::from_millis(u64::from(10 * call + late_ms(call)));
        (0..1_000)
            .map(|call| stall_detector.on_pull(at(call), 10.0))
            .sum()
    }

    #[test]
    fn who_makes_good_for_being_late_lost_nothing() {
        assert_eq!(lost(|_| 0), 0.0);
        // 400 ms, then forty calls at once.
        assert_eq!(lost(|call| 400u32.saturating_sub(10 * (call % 100))), 0.0);
        // By a clock that is a thousandth slow.
        assert_eq!(lost(|call| call / 100), 0.0);
    }

    #[test]
    fn what_is_not_asked_for_is_lost_once() {
        let never = lost(|call| if call < 500 { 0 } else { 400 });
        assert!((never - 400.0).abs() < 2.0, "{never}");
        // Fifty of it come late, the rest never.
        let partly = |call: u32| match call {
            0..500 => 0,
            500..505 => 400 - 10 * (call - 500),
            _ => 350,
        };
        let partly = lost(partly);
        assert!((partly - 350.0).abs() < 2.0, "{partly}");
    }

    #[test]
    fn thirty_ms_are_usual_and_60_ms_are_time_enough() {
        let start = Clock::new().now();
        let at = |ms: f64| start + Duration::from_secs_f64(ms / 1e3);
        // Calls of 10 ms; from the second on they are so many ms late.
        let told = |late_ms: f64, calls: u32| {
            let mut detector = DeviceStallDetector::default();
            let first = detector.on_pull(start, 10.0);
            let rest = (1..calls).map(|call| {
                let due = f64::from(call) * 10.0;
                detector.on_pull(at(due + late_ms), 10.0)
            });
            std::iter::once(first).chain(rest).collect::<Vec<_>>()
        };
        // A fiftieth of a ms is added to what is usual with each call.
        assert!(told(29.9, 60).iter().all(|it| *it == 0.0));
        let lost = told(31.0, 12);
        let (index, ms) = lost
            .iter()
            .enumerate()
            .find(|it| *it.1 > 0.0)
            .expect("lost");
        // The first late one is number 1; 60 ms later is number 7.
        assert_eq!(index, 7);
        // The last of the seven is the least late, by what is usual then.
        assert!((ms - (31.0 - 7.0 * 0.02)).abs() < 1e-6, "{ms}");
        assert!(lost[8..].iter().all(|it| *it == 0.0), "{lost:?}");
        // Another length of the calls.
        let mut detector = DeviceStallDetector::default();
        let told: Vec<_> = (0..10u32)
            .map(|call| {
                let late = if call > 0 { 50.0 } else { 0.0 };
                detector.on_pull(at(f64::from(call) * 40.0 + late), 40.0)
            })
            .collect();
        // 80 ms after the first late call is the first one that is 60 ms later.
        assert_eq!(told.iter().position(|it| *it > 0.0), Some(3), "{told:?}");
        assert!((told[3] - (50.0 - 3.0 * 0.08)).abs() < 1e-6, "{told:?}");
        // A device that is early from then on has that as usual.
        assert_eq!(detector.on_pull(at(300.0), 10.0), 0.0);
        assert!(
            (detector.usual - (300.0 - 400.0)).abs() < 1e-6,
            "{}",
            detector.usual
        );
    }
}
