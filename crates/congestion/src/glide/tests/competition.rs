use std::ops::RangeInclusive;

use super::*;

#[test]
fn a_fade_during_a_probe_is_refuted_when_the_window_is_back() {
    // The rate changes at random, and one of the probes falls into a fade. Without the test
    // by the larger window, the flow would be a rival of nobody for 30 s.
    let competing = |grown| {
        let mut config = Config::default();
        config.constants.competition.grown = grown;
        let mut rng = glassline_sim::Rng::new(33);
        let path = Bottleneck {
            mbps: 4.0,
            round_trip: Duration::from_millis(90),
            queue_bytes: bytes(4.0, 0.9),
            ..PLAIN
        };
        let mut path = Path::new(path, 7);
        let mut senders = [start(config)];
        for _ in 0..300 {
            path.bottleneck.mbps = 4.0 * (0.2 + 1.2 * rng.unit() * rng.unit());
            path.run(&mut senders, Duration::from_millis(400));
        }
        let points = senders[0].curve.iter();
        points.filter(|point| point.path_model.competing).count()
    };
    let (tested, believed) = (competing(0.5), competing(5.0));
    assert!(tested < 60, "{tested} tenths of a second");
    assert!(believed > 200, "{believed} tenths of a second");
}

/// Returns a sender's rate in Mbit/s from `from` until 45 s, and when it competed first, beside
/// a CUBIC flow that comes at 15 s.
fn beside_cubic(path: Bottleneck, sender: Sender, from: f64) -> (f64, Option<f64>) {
    let mut senders = [sender, Sender::bulk(Algorithm::Cubic).active(15.0, 1e9)];
    path.run(&mut senders, 45, SEED);
    let competed = first(&senders[0], |path_model| path_model.competing);
    (goodput_between(&senders[0], from, 45.0), competed)
}

#[test]
fn a_camera_that_never_filled_the_line_keeps_its_rate_when_cubic_fills_it() {
    // The window that was enough for an empty line is a fraction of what a full queue needs.
    let path = Bottleneck {
        mbps: 7.3,
        round_trip: Duration::from_millis(33),
        queue_bytes: bytes(7.3, 0.41),
        jitter: Duration::from_millis(2),
        ..PLAIN
    };
    let camera = |lift_max| {
        let mut config = Config::default();
        config.constants.competition.lift_max = lift_max;
        // Only probes find the others.
        config.constants.cross_traffic.others_min = 2.0;
        let sender = start(config).from(TrafficSource::Camera(2.8));
        beside_cubic(path, sender, 16.0).0
    };
    let (lifted, kept) = (camera(4.0), camera(1.0));
    println!("{lifted:.2} of 2.8 Mbit/s, and {kept:.2} with the window from before");
    assert!(lifted > 0.97 * 2.8, "{lifted}");
    assert!(lifted > 1.03 * kept, "{lifted} and {kept}");
}

#[test]
fn one_probe_is_enough_on_a_line_whose_rate_was_steady() {
    // The queue is too short to be evident, and CUBIC's losses coincide with every other probe.
    let path = Bottleneck {
        mbps: 1.45,
        round_trip: Duration::from_millis(50),
        queue_bytes: bytes(1.45, 0.18),
        jitter: Duration::from_millis(2),
        ..PLAIN
    };
    let (found, competed) = beside_cubic(path, start(Config::default()), 17.0);
    println!("{found:.2} of 1.45 Mbit/s, competing from {competed:?}");
    assert!(competed.is_some_and(|at| at < 17.0), "{competed:?}");
    assert!(found > 0.7 * 1.45 / 2.0, "{found}");
}

/// Runs a sender for a minute over a path whose rate changes five times a second, by a factor of
/// up to 1 ± `spread`, within `bounds` in Mbit/s.
fn over_wandering_rates(
    path: Bottleneck,
    sender: Sender,
    seed: u64,
    spread: f64,
    bounds: RangeInclusive<f64>,
) -> Sender {
    let mut rng = glassline_sim::Rng::new(seed);
    let mut mbps = path.mbps;
    let mut path = Path::new(path, SEED);
    let mut senders = [sender];
    for _ in 0..300 {
        let factor = 1.0 + spread * (2.0 * rng.unit() - 1.0);
        mbps = (mbps * factor).clamp(*bounds.start(), *bounds.end());
        path.bottleneck.mbps = mbps;
        path.run(&mut senders, Duration::from_millis(200));
    }
    let [sender] = senders;
    sender
}

#[test]
fn the_queue_is_longer_while_data_waits_and_carries_more_of_a_path_that_varies() {
    let run = |targets, source| {
        let mut config = Config::default();
        config.constants.window.backlog_targets = targets;
        let path = Bottleneck {
            mbps: 1.0,
            round_trip: Duration::from_millis(170),
            queue_bytes: bytes(1.0, 3.0),
            ..PLAIN
        };
        let sender = start(config).from(source);
        let mut sender = over_wandering_rates(path, sender, 7, 0.4, 0.4..=1.8);
        (goodput(&sender, 60), queue_ms(&mut sender, 0.5))
    };
    let (short, long) = (run(1.0, TrafficSource::Bulk), run(1.5, TrafficSource::Bulk));
    println!("{short:?} and {long:?} Mbit/s and ms");
    assert!(
        long.0 > 1.01 * short.0 && long.1 > short.1,
        "{short:?} {long:?}"
    );
    let idle = |targets| run(targets, TrafficSource::Camera(0.2));
    assert_eq!(idle(1.0), idle(1.5), "no data waits for a second");
}

#[test]
fn the_spacing_of_a_camera_s_packets_shows_cubic_before_a_probe_would() {
    let path = Bottleneck {
        mbps: 6.0,
        round_trip: Duration::from_millis(60),
        queue_bytes: bytes(6.0, 0.35),
        jitter: Duration::from_millis(3),
        ..PLAIN
    };
    let competing = |others_min| {
        let mut config = Config::default();
        config.constants.cross_traffic.others_min = others_min;
        let sender = start(config).from(TrafficSource::Camera(2.0));
        let (found, since) = beside_cubic(path, sender, 15.0);
        (found, since.expect("CUBIC was found"))
    };
    let (by_spacing, by_probes) = (competing(0.2), competing(2.0));
    println!("{by_spacing:?} and {by_probes:?} Mbit/s and s");
    assert!(by_spacing.1 < 16.0, "{by_spacing:?}");
    assert!(
        by_spacing.1 + 0.3 < by_probes.1,
        "{by_spacing:?} {by_probes:?}"
    );
    assert!(by_spacing.0 > 1.9, "{by_spacing:?}");
}

#[test]
fn losses_of_a_radio_do_not_look_like_others_in_the_queue() {
    for seed in 1..=6 {
        let path = Bottleneck {
            mbps: 2.0,
            round_trip: Duration::from_millis(80),
            queue_bytes: bytes(2.0, 0.3),
            loss: 0.02,
            jitter: Duration::from_millis(6),
            ..PLAIN
        };
        // Repairs fill the line at times, while the camera still limits what is sent.
        let mut senders = [start(Config::default()).from(TrafficSource::Camera(1.8))];
        path.run(&mut senders, 60, seed);
        let competed = first(&senders[0], |it| it.competing);
        assert_eq!(competed, None, "seed {seed}");
    }
}

#[test]
fn probes_of_a_path_that_fades_cost_little_of_the_rate() {
    let carried = |drained, patience| {
        let mut sum = 0.0;
        for seed in 1..=4 {
            let mut config = Config::default();
            config.constants.competition.drained = drained;
            config.constants.competition.patience = patience;
            let path = Bottleneck {
                mbps: 1.0,
                round_trip: Duration::from_millis(250),
                queue_bytes: bytes(1.0, 3.0),
                ..PLAIN
            };
            let sender = over_wandering_rates(path, start(config), seed, 0.25, 0.5..=1.5);
            sum += goodput(&sender, 60) / 4.0;
        }
        sum
    };
    let (now, whole) = (carried(0.5, 2.0), carried(1.0, 1.0));
    println!("{now:.3} Mbit/s, and {whole:.3} if each probe drains the queue");
    assert!(now > 1.005 * whole, "{now} and {whole}");
}
