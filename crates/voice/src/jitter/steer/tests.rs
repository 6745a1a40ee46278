use std::time::Duration;

use glassline_sim::Clock;

use super::super::pace::Pace;
use super::super::{Config, Packet};
use super::*;
use crate::codec::{Format, L16, Undecodable};

fn steering(pace: Pace) -> Steering {
    Steering::new(pace.parameters())
}

/// A delay that is `target` ms above the target, which is 40 ms above the floor, and
/// nowhere near where it must rise.
fn above(target: f64) -> Distances {
    Distances {
        least: target + 20.0,
        risen: target,
        target,
        waits: 40.0,
    }
}

#[test]
fn a_fit_of_0_9_is_asked_for_near_the_target_and_of_0_55_far_from_it() {
    for (error_ms, fit) in [
        (-5.0, 0.9),
        (0.0, 0.9),
        (20.0, 0.725),
        (40.0, 0.55),
        (99.0, 0.55),
    ] {
        assert!((fit_for(error_ms) - fit).abs() < 1e-6, "{error_ms}");
    }
}

#[test]
fn a_rise_begins_a_millisecond_below_the_least_margin_and_ends_at_its_own() {
    for pace in Pace::ALL {
        let mut steering = steering(pace);
        let from = |least: f64, risen: f64| Distances {
            least,
            risen,
            target: -30.0,
            waits: 40.0,
        };
        assert_eq!(steering.error(from(-1.0, -20.0)), 0.0, "not yet");
        assert_eq!(steering.error(from(-1.01, -20.0)), -20.0);
        assert_eq!(steering.adjustment, Adjustment::Rise);
        assert_eq!(steering.error(from(5.0, -1.0)), -1.0, "goes on");
        assert_eq!(steering.error(from(5.0, -0.99)), 0.0);
        assert_eq!(steering.adjustment, Adjustment::Hold);
    }
}

#[test]
fn a_fall_begins_by_the_pace_and_ends_near_the_target() {
    // Swift: half of the 40 ms, and 15 at most.
    let mut swift = steering(Pace::Swift);
    assert_eq!(swift.error(above(14.9)), 0.0);
    assert_eq!(swift.error(above(15.0)), 15.0);
    assert_eq!(swift.error(above(14.9)), 0.0);
    let short = Distances {
        waits: 10.0,
        ..above(5.0)
    };
    assert_eq!(swift.error(short), 5.0, "half of ten");
    // Even: 10 ms and twice the usual height; then down to 3 ms.
    let mut even = steering(Pace::Even);
    even.usual_ms = 8.0;
    assert_eq!(even.error(above(25.9)), 0.0);
    assert_eq!(even.error(above(26.0)), 26.0);
    assert_eq!(even.error(above(3.0)), 3.0);
    assert_eq!(even.error(above(2.9)), 0.0);
    assert_eq!(even.error(above(25.9)), 0.0);
    // Or from 3 ms on once the excess is worth it.
    even.spent = 150.0;
    assert_eq!(even.error(above(17.9)), 0.0);
    even.spent = 150.1;
    assert_eq!(even.error(above(3.0)), 3.0);
    let mut steady = steering(Pace::Steady);
    assert_eq!(steady.error(above(199.9)), 0.0);
    assert_eq!(steady.error(above(200.0)), 200.0);
}

#[test]
fn in_silence_the_delay_goes_to_the_target_at_once() {
    for (pace, quiet_ms) in [
        (Pace::Swift, 10.0),
        (Pace::Even, 150.0),
        (Pace::Steady, 150.0),
    ] {
        let mut steering = steering(pace);
        assert!(!steering.is_silence());
        steering.quiet_ms = quiet_ms - 0.1;
        assert_eq!(steering.is_silence(), pace == Pace::Swift);
        steering.quiet_ms = quiet_ms;
        assert!(steering.is_silence());
        steering.adjustment = Adjustment::Rise;
        for target in [-7.0, 0.5, 7.0] {
            assert_eq!(steering.error(above(target)), target);
            assert_eq!(steering.adjustment, Adjustment::Hold);
        }
    }
}

#[test]
fn quiet_average_and_excess_are_counted_by_the_time() {
    let mut steering = steering(Pace::Even);
    for _ in 0..4 {
        steering.update(&above(5.0), true, 10.0);
    }
    assert_eq!(steering.quiet_ms, 40.0);
    // 5 ms for 40 ms.
    assert!((steering.spent - 0.2).abs() < 1e-9, "{}", steering.spent);
    // Of 40 ms a thousandth each time: the rest shrinks.
    let usual = 40.0 * (1.0 - 0.999f64.powi(4));
    assert!((steering.usual_ms - usual).abs() < 1e-9);
    steering.update(&above(3.0), false, 20.0);
    assert_eq!((steering.quiet_ms, steering.spent), (0.0, 0.0));
    steering.update(&above(3.1), false, 1e6);
    assert_eq!(steering.usual_ms, 40.0, "no more than all");
    steering.reset();
    assert_eq!((steering.usual_ms, steering.spent), (0.0, 0.0));
}

#[test]
fn the_budget_grows_by_the_share_of_the_pace_and_of_haste() {
    for (error, share) in [
        (0.0, 0.1),
        (20.0, 0.1),
        (40.0, 0.25),
        (60.0, 0.4),
        (500.0, 0.4),
    ] {
        let mut steering = steering(Pace::Swift);
        steering.allow(100, error, 1_000.0);
        assert!((steering.shorten - 100.0 * share).abs() < 1e-9, "{error}");
        assert!((steering.lengthen - 25.0).abs() < 1e-9);
        steering.allow(100, error, 1_000.0);
        assert!((steering.shorten - 200.0 * share).abs() < 1e-9, "{error}");
        assert!((steering.lengthen - 50.0).abs() < 1e-9);
        steering.allow(100, error, 30.0);
        assert_eq!(steering.lengthen, 30.0, "no more than a period");
    }
    // Half of the time at most.
    let mut even = steering(Pace::Even);
    even.allow(100, 500.0, 1_000.0);
    assert_eq!((even.shorten, even.lengthen), (50.0, 50.0));
}

/// A path whose delay is 20 ms, and seldom 30.
fn jumping(pace: Pace) -> Buffer<L16> {
    let config = Config {
        pace,
        ..Config::default()
    };
    let mut buffer = Buffer::new(config, L16::new(Format::new(8_000, 1).expect("mono")));
    let now = Clock::new().now();
    for number in 0..1_000u16 {
        let packet = Packet {
            sequence: number,
            timestamp: u32::from(number) * 160,
            payload: L16::encode(&[0.1; 160]).into(),
        };
        let delay = if number % 20 == 7 { 30 } else { 20 };
        let at = now + Duration::from_millis(20 * u64::from(number) + delay);
        buffer.insert(packet, at).expect("in order");
        buffer.pull(at, &mut [0.0; 160]);
    }
    buffer
}

#[test]
fn a_rise_begins_with_less_than_the_reserve_and_ends_above_it() {
    for (pace, until) in [
        (Pace::Swift, 0.0),
        (Pace::Even, 0.15),
        (Pace::Steady, 5.0 / 7.0),
    ] {
        let buffer = jumping(pace);
        let now = buffer.epoch.expect("packets came") + Duration::from_secs(20);
        let from = buffer.distances(now).expect("packets came");
        let outlook = buffer.target.outlook().expect("packets came");
        let part = outlook.part(pace.parameters().rise.below);
        assert!(part > 0.2, "{pace}: {part}");
        // All distances are from places in the same margin.
        let margin = outlook.playout(1.0) - outlook.playout(0.0);
        let height = |distance: f64| (from.least - distance) / margin;
        let risen = part + until * (1.0 - part);
        assert!((height(from.risen) - (risen - part)).abs() < 1e-9, "{pace}");
        assert!((height(from.target) - (1.0 - part)).abs() < 1e-9, "{pace}");
    }
}

/// Linear samples of a codec that says that its packets depend on each other.
#[derive(Debug)]
struct Dependent(L16);

impl Decoder for Dependent {
    fn format(&self) -> Format {
        self.0.format()
    }

    fn frames(&self, payload: &[u8]) -> Option<usize> {
        self.0.frames(payload)
    }

    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), Undecodable> {
        self.0.decode(payload, out)
    }
}

/// A buffer in which five packets of 20 ms at 8 kHz wait.
fn waiting<D: Decoder>(decoder: D) -> Buffer<D> {
    let mut buffer = Buffer::new(Config::default(), decoder);
    let now = Clock::new().now();
    for number in 0..5u16 {
        let packet = Packet {
            sequence: number,
            timestamp: u32::from(number) * 160,
            payload: L16::encode(&[0.1; 160]).into(),
        };
        let at = now + Duration::from_millis(20) * u32::from(number);
        buffer.insert(packet, at).expect("in order");
    }
    buffer
}

#[test]
fn whole_packets_are_cut_as_far_as_they_fit_and_one_stays() {
    let linear = || L16::new(Format::new(8_000, 1).expect("mono"));
    for (error, cut) in [
        (0.0, 0),
        (19.9, 0),
        (20.0, 1),
        (39.9, 1),
        (40.0, 2),
        (1e3, 4),
    ] {
        let mut buffer = waiting(linear());
        buffer.cut(error);
        assert_eq!(buffer.counts.cut, cut, "{error}");
        assert_eq!(buffer.queue.len() as u64, 5 - cut, "{error}");
        assert_eq!(buffer.next, 160 * cut.cast_signed(), "{error}");
        // What follows is joined to what was.
        assert_eq!(buffer.expansion.is_some(), cut > 0, "{error}");
        assert_eq!(
            buffer.ceiling.allowed(20),
            None,
            "nothing depends on what is cut"
        );
    }
    let mut buffer = waiting(Dependent(linear()));
    buffer.ceiling.bound_decoded(&mut [0.1; 160]);
    buffer.cut(20.0);
    assert!(
        buffer.ceiling.allowed(20).is_some(),
        "the decoder has a gap"
    );
}
