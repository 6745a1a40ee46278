use glassline_sim::Loss;

use glassline_congestion::Algorithm;
use glassline_media::Bitrate;
use glassline_sim::Conditions;

use super::*;

const MBPS: u64 = 1_000_000;

fn link(bps: u64, delay_ms: u64, queue_ms: u64) -> Conditions {
    Conditions::limited(
        Bitrate::from_bps(bps),
        Duration::from_millis(delay_ms),
        Duration::from_millis(queue_ms),
    )
}

fn scenario(up: Conditions) -> Scenario {
    let down = link(20 * MBPS, 20, 500);
    Scenario {
        up,
        down,
        ..Scenario::default()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_wide_path_carries_all_that_the_encoder_makes_without_repeats() {
    let sessions = Sessions::new();
    for algorithm in Algorithm::ALL {
        let wide = scenario(link(20 * MBPS, 20, 100));
        let measured = sessions.run(&wide, &Arm::new(algorithm), 1, seconds(40));
        assert!(measured.goodput_mbps > 2.0, "{algorithm}: {measured:?}");
        assert!(measured.app_rtt_ms < 100.0, "{algorithm}: {measured:?}");
        assert_eq!(measured.rtx_overhead, 0.0, "{algorithm}: {measured:?}");
        assert_eq!(measured.broken, None, "{algorithm}");
        assert!(measured.pings_answered >= 39, "{algorithm}: {measured:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_session_and_another_one_another() {
    let sessions = (Sessions::new(), Sessions::new());
    let lossy = scenario(link(2 * MBPS, 20, 300).with_loss(Loss::Random(0.01)));
    let arm = Arm::new(Algorithm::Cubic);
    let first = sessions.0.run(&lossy, &arm, 7, seconds(20));
    assert_eq!(first, sessions.1.run(&lossy, &arm, 7, seconds(20)));
    assert_ne!(
        first.digest,
        sessions.0.run(&lossy, &arm, 8, seconds(20)).digest
    );
    assert_eq!(
        first,
        Sessions::new().unsealed().run(&lossy, &arm, 7, seconds(20))
    );
    let (traced, samples) = sessions
        .0
        .trace(&lossy, &arm, 7, seconds(20), seconds(1) / 10);
    assert_eq!(first, traced, "looking changes nothing");
    assert!((199..=200).contains(&samples.len()), "{}", samples.len());
}

#[test]
fn ends_that_wake_late_wait_no_longer_than_that_and_repeat_themselves() {
    let clean = scenario(link(20 * MBPS, 20, 100));
    let arm = Arm::new(Algorithm::Copa);
    let on_time = Sessions::new().run(&clean, &arm, 7, seconds(20));
    let late = Sessions::new().waking_late(Duration::from_millis(2));
    let first = late.run(&clean, &arm, 7, seconds(20));
    assert_eq!(first, late.run(&clean, &arm, 7, seconds(20)));
    assert_ne!(first.digest, on_time.digest);
    // Each way has a wake at its end.
    let longer = first.transport_rtt_ms.mean - on_time.transport_rtt_ms.mean;
    assert!((0.5..4.0).contains(&longer), "{longer} ms");
}

/// A camera of 800 kbit/s: the tests do not depend on the rate, and fewer packets take less time.
fn small_camera() -> Source {
    Source {
        bitrate_min: Bitrate::from_bps(100_000),
        bitrate_start: Bitrate::from_bps(400_000),
        bitrate_max: Bitrate::from_bps(800_000),
        knee: Duration::from_secs(1),
        ..Source::default()
    }
}

/// Every delivery under each controller.
fn arms() -> impl Iterator<Item = Arm> {
    let groups = Delivery::Groups(Groups::default());
    let ways = [Delivery::InOrder, groups];
    Algorithm::ALL.into_iter().flat_map(move |algorithm| {
        ways.map(|delivery| {
            let arm = Arm::new(algorithm);
            let arm = match delivery {
                Delivery::InOrder => arm,
                Delivery::Groups(_) => arm.coupled(),
            };
            arm.delivered(delivery)
        })
    })
}

/// Runs `scenario` under every arm for `length` seconds: the connection must survive, and frames
/// must arrive in the last five seconds.
fn survives(scenario: &Scenario, length: u64, least_mbps: f64) {
    let sessions = Sessions::new();
    for arm in arms() {
        let (measured, samples) = sessions.trace(scenario, &arm, 3, seconds(length), seconds(5));
        let last = samples.last().map_or(0.0, |sample| sample.goodput_mbps);
        let goodput: Vec<f64> = samples.iter().map(|it| it.goodput_mbps).collect();
        let seen = format!("{arm:?}: {goodput:.2?} Mbit/s, {measured:#?}");
        assert_eq!(measured.broken, None, "{seen}");
        assert!(last > least_mbps, "{seen}");
    }
}

#[test]
fn a_connection_survives_half_a_minute_without_a_network() {
    let mut up = link(4 * MBPS, 20, 300);
    up.outages = vec![seconds(8)..seconds(38)];
    let mut scenario = scenario(up);
    scenario.down.outages = scenario.up.outages.clone();
    scenario.source = small_camera();
    survives(&scenario, 55, 0.1);
}

#[test]
fn a_connection_survives_the_loss_of_every_other_datagram() {
    let up = link(4 * MBPS, 20, 300);
    let mut scenario = scenario(up.clone());
    scenario.source = small_camera();
    let lossy = up.clone().with_loss(Loss::Random(0.5));
    let down = scenario.down.clone().with_loss(Loss::Random(0.5));
    scenario.changes = vec![
        (seconds(5), Change::Up(lossy)),
        (seconds(5), Change::Down(down)),
        (seconds(20), Change::Up(up)),
        (seconds(20), Change::Down(scenario.down.clone())),
    ];
    survives(&scenario, 45, 0.1);
}

#[test]
fn a_connection_survives_steps_between_ten_megabits_and_two_hundred_kilobits() {
    let (wide, narrow) = (link(10 * MBPS, 20, 200), link(200_000, 20, 2000));
    let mut scenario = scenario(wide.clone());
    scenario.source = small_camera();
    let steps = [(8, &narrow), (20, &wide), (28, &narrow), (40, &wide)];
    scenario.changes = steps
        .map(|(at, up)| (seconds(at), Change::Up(up.clone())))
        .to_vec();
    survives(&scenario, 55, 0.1);
}

#[test]
fn a_connection_survives_a_path_that_takes_smaller_datagrams_only() {
    let mut scenario = scenario(link(4 * MBPS, 20, 300));
    scenario.source = small_camera();
    scenario.datagram_bytes = 1400;
    scenario.changes = vec![(seconds(8), Change::DatagramLimit(1250))];
    survives(&scenario, 45, 0.1);
}

#[test]
fn a_connection_survives_a_new_address() {
    let mut scenario = scenario(link(4 * MBPS, 20, 300));
    scenario.source = small_camera();
    scenario.changes = vec![
        (seconds(6), Change::ClientAddress),
        (seconds(12), Change::ClientAddress),
    ];
    survives(&scenario, 25, 0.1);
}

#[test]
fn a_queue_that_nobody_takes_from_stays_bounded_and_loses_its_oldest_groups() {
    let limits = Groups {
        late: seconds(60),
        queue_bytes: 500_000,
    };
    let mut up = link(4 * MBPS, 20, 300);
    up.outages = vec![seconds(10)..seconds(60)];
    let mut scenario = scenario(up);
    scenario.source = Source {
        bitrate_min: Bitrate::from_bps(800_000),
        audio: Bitrate::from_bps(64_000),
        ..small_camera()
    };
    let arm = Arm::new(Algorithm::Cubic).delivered(Delivery::Groups(limits));
    let measured = Sessions::new().run(&scenario, &arm, 1, seconds(40));
    // 3 MB are made in this time; a group has 200 kB, so that two groups fit.
    assert!(
        measured.backlog_bytes_max <= limits.queue_bytes + 40_000,
        "{measured:#?}"
    );
    assert!(
        (10..=20).contains(&measured.dropped_groups),
        "{measured:#?}"
    );
    assert!(measured.dropped_bytes > 2_000_000, "{measured:#?}");
}

#[test]
fn late_groups_make_way_so_that_what_arrives_is_fresh() {
    let mut scenario = scenario(link(400_000, 20, 500));
    // Under Copa, which wants more packets in this queue than fit, all media would be late.
    scenario.source = Source {
        bitrate_min: Bitrate::from_bps(800_000),
        audio: Bitrate::from_bps(48_000),
        ..small_camera()
    };
    let arm = Arm::new(Algorithm::Cubic);
    let sessions = Sessions::new();
    let queued = sessions.run(&scenario, &arm, 1, seconds(40));
    let groups = arm.delivered(Delivery::Groups(Groups::default()));
    let fresh = sessions.run(&scenario, &groups, 1, seconds(40));
    assert!(queued.app_rtt_ms > 8_000.0, "{queued:#?}");
    assert!(fresh.app_rtt_ms < 5_000.0, "{fresh:#?}");
    assert!(fresh.dropped_groups > 5, "{fresh:#?}");
    assert_eq!(queued.dropped_groups, 0);
}

#[test]
fn a_bulk_flow_takes_what_it_can_get_from_its_start_to_its_end() {
    let mut scenario = scenario(link(5 * MBPS, 20, 200));
    scenario.source = small_camera();
    scenario.competitors = vec![Competitor {
        algorithm: Algorithm::Cubic,
        start: seconds(5),
        end: seconds(25),
    }];
    let (measured, samples) = Sessions::new().trace(
        &scenario,
        &Arm::new(Algorithm::Cubic),
        1,
        seconds(40),
        seconds(1),
    );
    assert!(measured.competitors_mbps[0] > 3.0, "{measured:#?}");
    let queue = |from: usize, to: usize| {
        let part = &samples[from..to];
        part.iter().map(|sample| sample.queue_ms).sum::<f64>() / (to - from) as f64
    };
    assert!(queue(10, 25) > 50.0, "{samples:#?}");
    assert!(queue(28, 40) < 20.0, "{samples:#?}");
}

#[test]
fn every_frame_on_the_wire_is_understood_and_repeats_agree_with_losses() {
    let up = link(3 * MBPS, 20, 100).with_loss(Loss::Random(0.02));
    let measured = Sessions::new().run(&scenario(up), &Arm::new(Algorithm::Copa), 5, seconds(20));
    assert_eq!(measured.unread_packets, 0);
    // Packets are not reordered, so that every packet declared lost was lost, and is repeated.
    // The transport's count and ours differ by headers and by the bytes in flight at the end.
    let difference = (measured.rtx_overhead - measured.lost_overhead).abs();
    assert!(measured.rtx_overhead > 0.01, "{measured:#?}");
    assert!(difference < 0.1 * measured.lost_overhead, "{measured:#?}");
    assert_eq!(measured.spurious_overhead, 0.0);
}

#[test]
fn what_was_only_late_is_repeated_needlessly_and_told() {
    let mut up = link(4 * MBPS, 20, 1000);
    up.reorder = 0.02;
    up.reorder_delay = Duration::from_millis(60);
    let measured = Sessions::new().run(&scenario(up), &Arm::new(Algorithm::Copa), 5, seconds(20));
    assert!(measured.spurious_overhead > 0.005, "{measured:#?}");
    assert!(measured.rtx_overhead > 0.005, "{measured:#?}");
    assert_eq!(measured.loss_ratio, 0.0);
}
