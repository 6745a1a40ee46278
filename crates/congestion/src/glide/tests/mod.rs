mod competition;

use glassline_sim::Case;

use super::*;
use crate::Algorithm;
use crate::bottleneck::{
    Bottleneck, PACKET, PLAIN, Path, Policer, Sender, TrafficSource, goodput, goodput_between,
    loss_ratio, queue_ms,
};

fn start(config: Config) -> Sender {
    Sender::with(Box::new(Glide::new(config, PACKET)))
}

/// Seed of runs with one sender.
const SEED: u64 = 7;

fn alone(path: Bottleneck, sender: Sender, seconds: u64) -> Sender {
    let mut senders = [sender];
    path.run(&mut senders, seconds, SEED);
    let [sender] = senders;
    sender
}

/// Returns a policer with a rate in Mbit/s and a buffer in seconds, behind a queue of 250
/// ms.
fn policed(mbps: f64, seconds: f64, access: f64) -> Bottleneck {
    Bottleneck {
        mbps: access,
        round_trip: Duration::from_millis(60),
        queue_bytes: bytes(access, 0.25),
        policer: Some(Policer {
            mbps,
            bucket_bytes: mbps * 125_000.0 * seconds,
        }),
        ..PLAIN
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]
fn bytes(mbps: f64, seconds: f64) -> u64 {
    (mbps * 125_000.0 * seconds) as u64
}

/// Returns when a conclusion was first drawn, in seconds.
fn first(sender: &Sender, is_it: impl Fn(&PathModel) -> bool) -> Option<f64> {
    let mut points = sender.curve.iter();
    let point = points.find(|point| is_it(&point.path_model));
    point.map(|point| point.seconds)
}

#[test]
fn the_queue_is_as_long_as_the_target_says_whatever_the_rate() {
    let case = |description, mbps, round_trip| Case {
        description,
        path: Bottleneck {
            mbps,
            round_trip: Duration::from_millis(round_trip),
            queue_bytes: bytes(mbps, 1.0),
            ..PLAIN
        },
        seed: SEED,
        // Copa's queue swings to 2.5 times its target, which is half as long again for a
        // source that always has data; slow paths have longer ones.
        expected: 2.5 * 1.5 * 60.0 * (2.0 / mbps).sqrt().clamp(0.5, 2.0),
    };
    let cases = [
        case("1 Mbit/s, 100 ms", 1.0, 100),
        case("2 Mbit/s, 40 ms", 2.0, 40),
        case("5 Mbit/s, 60 ms", 5.0, 60),
        case("10 Mbit/s, 40 ms", 10.0, 40),
        case("20 Mbit/s, 20 ms", 20.0, 20),
    ];
    for case in cases {
        let mbps = case.path.mbps;
        let mut sender = alone(case.path, start(Config::default()), 30);
        let (found, queue) = (goodput(&sender, 30), queue_ms(&mut sender, 0.95));
        println!("{case}: {found:.2} Mbit/s, 95 % of the queue below {queue} ms");
        assert!(found > 0.93 * mbps, "{case}: {found}");
        assert!((queue as f64) < case.expected, "{case}: {queue} ms");
        assert_eq!(sender.flow.totals().lost, 0, "{case}");
    }
}

#[test]
fn a_policer_is_found_and_its_rate_is_used() {
    let path = policed(1.5, 0.1, 4.0);
    let sender = alone(path, start(Config::default()), 60);
    let cubic = alone(path, Sender::bulk(Algorithm::Cubic), 60);
    let (found, lost) = (goodput(&sender, 60), loss_ratio(&sender));
    let at = first(&sender, |path_model| path_model.policed).expect("found");
    println!("{found:.2} Mbit/s, {lost:.4} lost, found after {at} s");
    assert!(at < 3.0, "found after {at} s");
    assert!(found > 1.4, "{found}");
    assert!(lost < loss_ratio(&cubic), "{lost}");
}

#[test]
fn an_encoder_hears_a_policer_s_rate_while_it_sends_less() {
    let mut path = Path::new(policed(1.5, 0.1, 4.0), SEED);
    let mut senders = [start(Config::default())];
    path.run(&mut senders, Duration::from_secs(10));
    let known = senders[0].flow.deliverable_rate();
    assert!(
        (1.4..1.55).contains(&known.expect("measured").mbps()),
        "{known:?}"
    );
    senders[0].source = TrafficSource::Camera(1.0);
    for second in 0..20 {
        path.run(&mut senders, Duration::from_secs(1));
        assert_eq!(
            senders[0].flow.deliverable_rate(),
            known,
            "after {second} s"
        );
    }
}

#[test]
fn a_policer_that_becomes_slower_is_followed_at_once() {
    let mut path = Path::new(
        Bottleneck {
            round_trip: Duration::from_millis(150),
            ..policed(2.4, 0.1, 6.0)
        },
        7,
    );
    let mut senders = [start(Config::default())];
    path.run(&mut senders, Duration::from_secs(15));
    let before = senders[0].flow.totals();
    assert!(senders[0].flow.controller().path_model().policed);
    path.bottleneck.policer = path.bottleneck.policer.map(|policer| Policer {
        mbps: 1.7,
        ..policer
    });
    path.run(&mut senders, Duration::from_secs(15));
    let after = senders[0].flow.totals();
    let lost = (after.lost - before.lost) as f64 / (after.sent - before.sent) as f64;
    let found = (after.delivered - before.delivered) as f64 / 125_000.0 / 15.0;
    println!("{found:.2} of 1.7 Mbit/s, {lost:.4} lost");
    assert!(lost < 0.06, "{lost}");
    assert!(found > 0.9 * 1.7, "{found}");
}

#[test]
fn random_loss_is_not_taken_for_a_policer() {
    let case = |description, loss_burst| Case {
        description,
        path: Bottleneck {
            mbps: 4.0,
            round_trip: Duration::from_millis(80),
            loss: 0.02,
            loss_burst,
            ..PLAIN
        },
        seed: SEED,
        expected: 0.9 * 4.0,
    };
    let cases = [
        case("2 % lost, one by one", 1.0),
        case("2 % lost, three at a time", 3.0),
    ];
    for case in cases {
        let sender = alone(case.path, start(Config::default()), 60);
        let found = goodput(&sender, 60);
        assert_eq!(
            first(&sender, |path_model| path_model.policed),
            None,
            "{case}"
        );
        let begun = sender.curve[0].path_model.loss_floor;
        assert!(begun.abs() < f64::EPSILON, "{case}: {begun} of nothing");
        let floor = sender.flow.controller().path_model().loss_floor;
        assert!((0.01..0.03).contains(&floor), "{case}: {floor} is lost");
        assert!(found > case.expected, "{case}: {found} Mbit/s");
    }
}

#[test]
fn beside_cubic_it_takes_its_share_and_leaves_the_other_s() {
    let case = |description, buffer| Case {
        description,
        path: Bottleneck {
            queue_bytes: bytes(10.0, 0.04 * buffer),
            ..PLAIN
        },
        seed: 3,
        expected: 0.7..=1.4,
    };
    let cases = [
        case("a buffer of half a BDP", 0.5),
        case("a buffer of a BDP", 1.0),
        case("a buffer of four BDP", 4.0),
    ];
    for case in cases {
        let mut senders = [start(Config::default()), Sender::bulk(Algorithm::Cubic)];
        case.path.run(&mut senders, 90, case.seed);
        let share = |sender| goodput_between(sender, 10.0, 90.0) / 5.0;
        let (ours, theirs) = (share(&senders[0]), share(&senders[1]));
        println!("{case}: {ours:.2} of fair beside {theirs:.2}");
        assert!(case.expected.contains(&ours), "{case}: {ours}");
        assert!(theirs > 0.8, "{case}: {theirs}");
    }
}

#[test]
fn a_flow_that_must_not_compete_keeps_to_its_target() {
    let alone_in_mind = Config {
        competes: false,
        ..Config::default()
    };
    let path = Bottleneck {
        queue_bytes: bytes(10.0, 0.16),
        ..PLAIN
    };
    let share = |config| {
        let mut senders = [start(config), Sender::bulk(Algorithm::Cubic)];
        path.run(&mut senders, 45, 3);
        let competed = first(&senders[0], |path_model| path_model.competing);
        (goodput_between(&senders[0], 10.0, 45.0), competed)
    };
    let (meek, competed) = share(alone_in_mind);
    assert_eq!(competed, None);
    let (equal, competed) = share(Config::default());
    assert!(competed.is_some());
    println!("beside CUBIC on 10 Mbit/s: {equal:.2}, and {meek:.2} without competing");
    assert!(meek < 0.7 * equal, "{meek} and {equal}");
}

#[test]
fn the_competitive_mode_ends_with_the_competition() {
    let mut senders = [
        start(Config::default()),
        Sender::bulk(Algorithm::Cubic).active(10.0, 30.0),
    ];
    PLAIN.run(&mut senders, 45, 1);
    let competing = |from: f64, until: f64| {
        let points = senders[0].curve.iter();
        let mut points = points.filter(|point| (from..until).contains(&point.seconds));
        points.any(|point| point.path_model.competing)
    };
    assert!(!competing(0.0, 10.0), "nobody there");
    assert!(competing(10.0, 30.0));
    assert!(!competing(38.0, 45.0), "they left at 30 s");
}

#[test]
fn two_of_them_share() {
    let mut senders = [
        start(Config::default()),
        start(Config::default()).active(10.0, 1e9),
    ];
    PLAIN.run(&mut senders, 60, 5);
    let share = |sender| goodput_between(sender, 30.0, 60.0);
    let (one, two) = (share(&senders[0]), share(&senders[1]));
    assert!(one.min(two) / one.max(two) > 0.7, "{one} and {two}");
}

/// Returns when the deliverable rate was first below `mbps` after `from`, in seconds.
fn first_below(sender: &Sender, from: f64, mbps: f64) -> f64 {
    let mut points = sender.curve.iter();
    let is_it = |rate: f64| rate < mbps;
    let point = points.find(|it| it.seconds > from && it.deliverable.is_some_and(is_it));
    point.map_or(f64::INFINITY, |it| it.seconds)
}

#[test]
fn an_encoder_hears_of_a_fall_within_a_second() {
    let mut path = Path::new(Bottleneck { mbps: 6.0, ..PLAIN }, 7);
    let mut senders = [start(Config::default())];
    for mbps in [6.0, 1.0, 6.0] {
        path.bottleneck.mbps = mbps;
        path.run(&mut senders, Duration::from_secs(10));
    }
    let [sender] = senders;
    let at = |seconds: f64| {
        let mut points = sender.curve.iter();
        let point = points.find(|point| point.seconds >= seconds);
        point.and_then(|point| point.deliverable).expect("measured")
    };
    assert!((5.0..6.5).contains(&at(9.5)), "{}", at(9.5));
    // A probe lets older rates count once more, for less than a second.
    let fallen = first_below(&sender, 10.0, 1.4);
    assert!(fallen < 11.0, "{fallen}");
    assert!((0.7..1.4).contains(&at(12.0)), "{}", at(12.0));
    assert!(at(23.0) > 5.0, "{}", at(23.0));
}

#[test]
fn a_camera_below_the_path_keeps_its_window_and_still_learns_what_there_is() {
    let sender = alone(
        PLAIN,
        start(Config::default()).from(TrafficSource::Camera(3.0)),
        30,
    );
    let last = sender.curve.last().expect("it ran");
    assert!(last.window < 200_000, "{} bytes", last.window);
    assert!(last.deliverable.is_some_and(|mbps| mbps > 6.0), "{last:?}");
    assert!(goodput(&sender, 30) > 2.95);
}

#[test]
fn an_encoder_that_follows_is_not_led_down_by_our_own_pacing() {
    // A live source keeps the pacer busy nearly always, and the transport then says that it
    // was the limit: what comes through is what the pacer let out, and says nothing about
    // the path.
    let mut path = Path::new(Bottleneck { mbps: 6.0, ..PLAIN }, 7);
    let mut senders = [start(Config::default())];
    path.run(&mut senders, Duration::from_secs(5));
    for _ in 0..80 {
        let deliverable = senders[0].curve.last().and_then(|point| point.deliverable);
        let mbps = 0.85 * deliverable.expect("measured");
        senders[0].source = TrafficSource::Unmarked(mbps);
        path.run(&mut senders, Duration::from_millis(500));
    }
    let [sender] = senders;
    let found = goodput_between(&sender, 25.0, 45.0);
    assert!(found > 0.8 * 6.0, "{found} Mbit/s");
}

#[test]
fn a_camera_beside_cubic_in_a_long_queue_is_not_starved() {
    // The foreign queue is longer than any of ours within a second, and every probe takes
    // several of its round trips: the window must not stay at a few datagrams meanwhile.
    for (mbps, round_trip, queue, camera, least) in
        [(1.0, 200, 3.0, 0.5, 0.3), (1.5, 150, 1.6, 0.6, 0.55)]
    {
        for seed in 1..=3 {
            let path = Bottleneck {
                mbps,
                round_trip: Duration::from_millis(round_trip),
                queue_bytes: bytes(mbps, queue),
                jitter: Duration::from_millis(5),
                ..PLAIN
            };
            let mut senders = [
                start(Config::default()).from(TrafficSource::Camera(camera)),
                Sender::bulk(Algorithm::Cubic).active(15.0, 1e9),
            ];
            path.run(&mut senders, 45, seed);
            let begun = first(&senders[0], |it| it.competing);
            let delivered = goodput_between(&senders[0], 25.0, 45.0) / camera;
            assert!(
                begun.is_some_and(|at| at < 25.0) && delivered > least,
                "{mbps} Mbit/s, seed {seed}: competing from {begun:?}, {delivered} of the camera"
            );
        }
    }
}
