use super::super::pace::Pace;
use super::*;

fn settled(delay: impl Fn(u32) -> f64) -> Target {
    let mut target = Target::new(0.001, Pace::Swift.parameters());
    for packet in 0..3_000 {
        target.arrived(f64::from(packet) * 20.0 + delay(packet), delay(packet));
        target.passed(20.0);
    }
    target
}

#[test]
fn a_steady_path_costs_next_to_nothing() {
    let target = settled(|packet| 500.0 + f64::from(packet % 3) * 0.5);
    let above = target.outlook().expect("packets came").playout(1.0) - 500.0;
    assert!((1.0..5.0).contains(&above), "{above}");
}

#[test]
fn a_queue_is_answered_by_more_than_itself() {
    let calm = |packet: u32| 25.0 + 5.0 * (f64::from(packet) / 25.0).sin();
    let mut target = settled(calm);
    let before = target.outlook().expect("packets came").playout(1.0);
    target.arrived(60_100.0, 80.0);
    let after = target.outlook().expect("packets came").playout(1.0);
    assert!(before < 60.0 && after > 80.0 + 20.0, "{before} {after}");
}

#[test]
fn a_packet_that_is_missing_counts_as_far_as_one_delay_predicts_the_next() {
    let playout = |target: &Target, overdue| {
        let outlook = target.outlook_beside(overdue);
        outlook.expect("packets came").playout(1.0)
    };
    let swinging = settled(|packet| 25.0 + 5.0 * (f64::from(packet) / 25.0).sin());
    let before = playout(&swinging, f64::NEG_INFINITY);
    assert_eq!(playout(&swinging, 20.0), before, "it is not late yet");
    assert!(playout(&swinging, 80.0) > 100.0);
    // Where delays scatter, a missing packet says nothing about the others.
    let scattered = settled(|packet| f64::from(packet.wrapping_mul(2_654_435_761) >> 29) * 10.0);
    let before = playout(&scattered, f64::NEG_INFINITY);
    assert!((playout(&scattered, 80.0) - before).abs() < 3.0);
}

#[test]
fn a_path_that_begins_to_swing_is_followed_soon() {
    // Noise so far: nothing follows from anything.
    let mut target = settled(|packet| f64::from(packet.wrapping_mul(2_654_435_761) >> 31));
    assert!(target.follows < 0.1, "{}", target.follows);
    for packet in 0..10 {
        target.arrived(60_000.0 + 20.0 * f64::from(packet), 80.0);
    }
    let after = target.outlook().expect("packets came").playout(1.0);
    assert!(target.follows > 0.9 && after > 80.0, "{after}");
}

#[test]
fn delays_that_scatter_are_not_chased() {
    // Eight values in an order that repeats only after long.
    let scattered = |packet: u32| f64::from(packet.wrapping_mul(2_654_435_761) >> 29) * 10.0;
    let mut target = settled(scattered);
    assert!(target.follows < 0.1, "{}", target.follows);
    let before = target.outlook().expect("packets came").playout(1.0);
    target.arrived(60_020.0, 0.0);
    target.arrived(60_040.0, 70.0);
    let after = target.outlook().expect("packets came").playout(1.0);
    assert!((after - before).abs() < 3.0, "{before} {after}");
    let swinging = |packet: u32| 30.0 + 30.0 * (f64::from(packet) / 20.0).sin();
    assert_eq!(settled(swinging).follows, 1.0);
}

#[test]
fn failures_widen_the_margin_and_time_narrows_it_within_bounds() {
    let mut target = settled(|packet| f64::from(packet * 7 % 11));
    let narrow = target.outlook().expect("packets came").playout(1.0);
    // One event does not do that, whatever comes late of it.
    for _ in 0..1_000 {
        target.was_late(1_000.0);
    }
    let once = target.outlook().expect("packets came").playout(1.0);
    assert!(once < narrow + 5.0, "{narrow} {once}");
    for _ in 0..100 {
        target.was_late(1_000.0);
        target.passed(1_000.0);
    }
    let wide = target.outlook().expect("packets came").playout(1.0);
    assert!(wide > narrow + 5.0 && wide < 60.0, "{narrow} {wide}");
    target.passed(1e9);
    let again = target.outlook().expect("packets came").playout(1.0);
    assert!(again <= narrow, "{again} {narrow}");
}

#[test]
fn a_path_that_begins_evenly_is_soon_trusted_and_another_is_not() {
    // How far delays may yet spread after 600 ms of packets of 10 ms.
    let begun = |delay: fn(u32) -> f64| {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..60 {
            target.arrived(f64::from(packet) * 10.0 + delay(packet), delay(packet));
        }
        target.spread_first()
    };
    let even = begun(|packet| 20.0 + f64::from(packet % 4) * 0.5);
    assert!(even < 2.0, "{even}");
    let uneven = begun(|packet| 26.0 + 6.0 * (f64::from(packet) / 8.0).sin());
    assert!(uneven > 9.0, "{uneven}");
    // Nothing can be known of it by the first.
    let mut target = Target::new(0.001, Pace::Even.parameters());
    target.arrived(20.0, 20.0);
    let first = target.outlook().expect("a packet came").playout(1.0);
    assert!(first > 35.0, "{first}");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut target = Target::new(0.001, Pace::Even.parameters());
    for packet in 0..100_000 {
        target.arrived(f64::from(packet) * 0.01, 5.0);
    }
    assert!(target.long.len() <= LONG_PACKETS && target.recent.len() <= RECENT_PACKETS_MAX);
}

/// A target after packets every 20 ms with these delays, in ms.
fn after(pace: Pace, delays: &[f64]) -> Target {
    let mut target = Target::new(0.001, pace.parameters());
    for (number, delay) in delays.iter().enumerate() {
        target.arrived(number as f64 * 20.0 + delay, *delay);
    }
    target
}

#[test]
fn floor_middle_tail_and_spread_are_quantiles() {
    // 0 to 100, in an order in which none is a neighbor of the next.
    let delays: Vec<f64> = (0..101).map(|it| f64::from(it * 37 % 101)).collect();
    let mut target = Target::new(0.001, Pace::Even.parameters());
    for (number, delay) in (0u32..).zip(&delays) {
        target.arrived(f64::from(number) * 20.0, *delay);
    }
    target.review(3_000.0);
    assert_eq!(
        (target.floor, target.middle, target.tail),
        (2.0, 50.0, 98.0)
    );
    assert_eq!((target.most, target.spread), (100.0, 45.0));
    assert_eq!(target.floor(), 2.0);
    assert_eq!(target.reviewed, 3_000.0);
}

#[test]
fn reviews_come_each_tenth_of_a_second_once_there_are_ten_packets() {
    let mut target = Target::new(0.001, Pace::Even.parameters());
    for packet in 0..10 {
        target.arrived(f64::from(packet) * 10.0, 20.0 + f64::from(packet));
    }
    // The ninth is at 80; the tenth waits for 180.
    assert_eq!((target.reviewed, target.most), (80.0, 28.0));
    target.arrived(179.9, 50.0);
    assert_eq!((target.reviewed, target.most), (80.0, 28.0));
    target.arrived(180.0, 40.0);
    assert_eq!(
        (target.reviewed, target.most),
        (180.0, 40.0),
        "of a queue the last"
    );
}

#[test]
fn of_a_queue_that_empties_within_5_ms_only_the_last_counts() {
    for (apart_ms, kept) in [(4.9, 1), (5.0, 2), (5.1, 2)] {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        target.arrived(100.0, 60.0);
        target.arrived(100.0 + apart_ms, 40.0);
        assert_eq!(
            (target.recent.len(), target.long.len()),
            (kept, kept),
            "{apart_ms}"
        );
    }
    // Neither is one that waited longer, or as long.
    for delay in [60.0, 61.0] {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        target.arrived(100.0, 60.0);
        target.arrived(101.0, delay);
        assert_eq!(target.recent.len(), 2);
    }
}

#[test]
fn windows_have_their_lengths() {
    let target = after(Pace::Even, &[20.0; 500]);
    // 120 ms before the last, both ends included; eight seconds, too.
    assert_eq!((target.recent.len(), target.long.len()), (7, 401));
    // Of packets of 60 ms at least three.
    let mut target = Target::new(0.001, Pace::Even.parameters());
    for packet in 0..10 {
        target.arrived(f64::from(packet) * 100.0, 20.0);
    }
    assert_eq!(target.recent.len(), 3);
    // Of a flood at most 512, and 3,200.
    let mut target = Target::new(0.001, Pace::Even.parameters());
    for packet in 0..4_000 {
        target.arrived(f64::from(packet) * 0.01, 5.0);
    }
    assert_eq!((target.recent.len(), target.long.len()), (512, 3_200));
}

#[test]
fn lateness_widens_the_margin_by_the_ms_up_to_100_and_time_forgives() {
    let mut target = Target::new(0.01, Pace::Even.parameters());
    assert_eq!(target.log_margin, 0.8f64.ln());
    let near = |target: &Target, wanted: f64| {
        let moved = target.log_margin - 0.8f64.ln();
        assert!((moved - wanted).abs() < 1e-9, "{moved} {wanted}");
    };
    target.was_late(40.0);
    near(&target, 0.1);
    // Of the next 100 only 60 count.
    target.was_late(100.0);
    near(&target, 0.25);
    target.was_late(1.0);
    near(&target, 0.25);
    assert_eq!(target.charged, 100.0);
    // A tenth of the time is forgiven, and a hundredth may be late.
    target.passed(200.0);
    assert_eq!(target.charged, 80.0);
    near(&target, 0.25 - 0.005);
    target.passed(1_000.0);
    assert_eq!(target.charged, 0.0);
    near(&target, 0.25 - 0.03);
    for _ in 0..100 {
        target.was_late(100.0);
        target.passed(1_000.0);
    }
    assert!((target.log_margin - 2.5f64.ln()).abs() < 0.03);
    target.passed(1e9);
    assert_eq!(target.log_margin, 0.15f64.ln());
}

#[test]
fn the_outlook_is_the_highest_delay_and_a_margin_of_level_and_spread() {
    // 25 after 20: a calm path of a hundred packets and more.
    let mut delays = vec![20.0; 300];
    for delay in delays.iter_mut().step_by(10) {
        *delay = 22.0;
    }
    delays.extend([24.0, 26.0, 24.0]);
    for (pace, of_level, of_spread) in [(Pace::Swift, 0.85, 0.15), (Pace::Even, 0.3, 0.9)] {
        let target = after(pace, &delays);
        let outlook = target.outlook().expect("packets came");
        let first = target.spread_first();
        let spread = of_spread * target.spread.max(0.3);
        let mix = |swings: f64, scatters: f64| {
            target.follows * swings + (1.0 - target.follows) * scatters
        };
        assert_eq!(outlook.base, mix(26.0, target.middle));
        let level = mix(26.0, target.tail) - 20.0;
        let height = of_level * level + spread.max(0.15 * first) + first;
        let margin = target.log_margin.exp() * height;
        assert!((outlook.margin - margin).abs() < 1e-9);
        for part in [0.0, 0.5, 1.0] {
            let playout = outlook.base + part * margin + 1.0;
            assert!((outlook.playout(part) - playout).abs() < 1e-9, "{part}");
        }
        // A path without any queue has a spread of 0.3 ms at least.
        let calm = after(pace, &[20.0; 2_000]);
        let outlook = calm.outlook().expect("packets came");
        assert_eq!((outlook.base, outlook.jump), (20.0, 0.0));
        let least = 0.8 * of_spread * 0.3;
        assert!((outlook.margin - least).abs() < 1e-3, "{outlook:?}");
    }
    let target = Target::new(0.001, Pace::Even.parameters());
    assert!(target.outlook().is_none());
}

#[test]
fn a_jump_is_what_two_of_a_hundred_steps_exceed() {
    // A hundred steps, of which three go up by 30 and two by 5, and every one comes back.
    let jump_of = |delays: &[f64]| {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for (number, delay) in (0u32..).zip(delays) {
            target.arrived(f64::from(number) * 20.0, *delay);
        }
        target.review(3_000.0);
        target.jump
    };
    let jumps = |up: &[(usize, f64)]| {
        let mut delays = vec![20.0; 101];
        for (place, height) in up {
            delays[*place] += height;
        }
        jump_of(&delays)
    };
    assert_eq!(jumps(&[]), 0.0);
    let three = [(10, 30.0), (20, 30.0), (30, 30.0)];
    assert_eq!(jumps(&three), 30.0);
    assert_eq!(jumps(&three[..2]), 0.0);
    assert_eq!(jumps(&[three[0], three[1], (40, 5.0), (50, 5.0)]), 5.0);
    // What falls is no jump, however often.
    let down: Vec<f64> = (0..101).map(|it| 900.0 - 9.0 * f64::from(it)).collect();
    assert_eq!(jump_of(&down), 0.0);
}

#[test]
fn a_reserve_is_a_part_of_the_margin_or_a_jump_up_to_such_a_part() {
    let outlook = |jump| Outlook {
        base: 20.0,
        margin: 40.0,
        jump,
    };
    assert_eq!(outlook(10.0).part(Reserve::Part(0.3)), 0.3);
    for (jump, part) in [(0.0, 0.0), (10.0, 0.25), (32.0, 0.8), (90.0, 0.8)] {
        assert_eq!(outlook(jump).part(Reserve::Jump(0.8)), part, "{jump}");
    }
    let none = Outlook {
        margin: 0.0,
        ..outlook(5.0)
    };
    assert_eq!(none.part(Reserve::Jump(0.8)), 0.8);
}

#[test]
fn the_first_spread_fades_by_200_ms_or_a_second() {
    // Ranges of 3, 6.5 and 10 ms: even, half way, uneven.
    for (range, constant) in [
        (0.0, 200.0),
        (3.0, 200.0),
        (6.5, 600.0),
        (10.0, 1_000.0),
        (30.0, 1_000.0),
    ] {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..26 {
            let delay = if packet % 2 == 0 { 20.0 } else { 20.0 + range };
            // Late enough after the one before to be no burst.
            target.arrived(f64::from(packet) * 20.0, delay);
        }
        let elapsed: f64 = 25.0 * 20.0;
        let wanted = 20.0 * (-elapsed / constant).exp();
        let found = target.spread_first();
        assert!((found - wanted).abs() < 1e-6, "{range}: {found} {wanted}");
    }
    assert_eq!(
        Target::new(0.001, Pace::Even.parameters()).spread_first(),
        20.0
    );
}

#[test]
fn correlation_is_that_of_neighbors_or_of_those_apart() {
    // A wave of 16 packets: a quarter of it is four of them, 80 ms.
    let wave = |it: u32| 50.0 + 20.0 * (f64::from(it) * std::f64::consts::TAU / 16.0).sin();
    let delays: Vec<f64> = (0..320).map(wave).collect();
    let target = {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for (number, delay) in delays.iter().enumerate() {
            target.arrived(number as f64 * 20.0, *delay);
        }
        target
    };
    for (apart_ms, packets) in [(0.0, 1), (20.0, 1), (80.0, 4), (160.0, 8)] {
        // That of a sine with itself, later.
        let wanted = (f64::from(packets) * std::f64::consts::TAU / 16.0).cos();
        let found = target.correlation(apart_ms);
        assert!(
            (found - wanted).abs() < 0.03,
            "{apart_ms}: {found} {wanted}"
        );
    }
    // Judged between 0.4 and 0.7; cos 22.5° is 0.92.
    assert_eq!(target.follows, 1.0);
    // Below a hundred packets nothing is known of it.
    let scattered: Vec<f64> = (0..100u32)
        .map(|it| f64::from(it.wrapping_mul(2_654_435_761) >> 29) * 10.0)
        .collect();
    let apart = |count: usize| {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for (number, delay) in scattered[..count].iter().enumerate() {
            target.arrived(number as f64 * 20.0, *delay);
        }
        target.review(5_000.0);
        target.follows
    };
    assert_eq!(apart(99), 1.0);
    assert!(apart(100) < 0.1, "{}", apart(100));
}
