//! Tests of throughput, by loss and round trip, and beside other flows.

use glassline_congestion::Algorithm;
use glassline_media::Bitrate;
use glassline_sim::{Case, Loss};

use super::*;
use crate::Report;

/// Results of a bulk transfer.
#[derive(Debug)]
struct Figures {
    /// Rate of user data after the warm-up, in Mbit/s.
    mbps: f64,
    /// Longest time without a message after the warm-up.
    gap: Duration,
    /// Retransmitted packets per lost packet.
    again: f64,
    report: Report,
}

pub(super) fn link(mbps: u64, round_trip: Duration, queue: Duration, loss: f64) -> Conditions {
    Conditions {
        loss: if loss > 0.0 {
            Loss::Random(loss)
        } else {
            Loss::None
        },
        ..Conditions::limited(Bitrate::from_bps(mbps * 1_000_000), round_trip / 2, queue)
    }
}

/// Seed of runs that are not rows of a table.
const SEED: u64 = 11;

fn bulk(
    config: &Config,
    conditions: Conditions,
    seed: u64,
    after: Duration,
    time: Duration,
) -> Figures {
    let mut world = World::new(config, conditions, seed).connected();
    world.a.bulk = Some((64 * 1024, 4 << 20));
    world.b.keeps = false;
    if std::env::var("SCTP_TRACE").is_ok() {
        for step in 0..20 {
            trace(&world, step);
            world.run_for(after / 20);
        }
    } else {
        world.run_for(after);
    }
    world.b.measure();
    let before = world.network.link(End::A).counts();
    let data_before = world.a.association.report();
    world.run_for(time);
    let counts = world.network.link(End::A).counts();
    let report = world.a.association.report();
    let lost = counts.lost + counts.dropped - before.lost - before.dropped;
    let again = report.retransmitted - data_before.retransmitted;
    let per_packet = (config.mtu - 32) as u64;
    Figures {
        mbps: world.b.received as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        gap: world.b.gap,
        again: again as f64 / (lost * per_packet).max(1) as f64,
        report,
    }
}

/// Prints one line of the progress of a transfer.
pub(super) fn trace(world: &World, step: u32) {
    let (a, b) = (world.a.association.report(), world.b.association.report());
    println!(
        "{step} {:.0} Mbit/s so far, cwnd {} in flight {} pace {:?} rtt {:?} lost {} again {} spurious {} window {} of {} unassembled {}",
        world.b.received as f64 * 8e-6 / world.network.elapsed().as_secs_f64(),
        a.cwnd,
        a.in_flight,
        a.pacing_rate,
        a.rtt_latest,
        a.lost,
        a.retransmitted,
        a.spurious,
        a.peer_rwnd,
        b.own_window_limit,
        b.unassembled,
    );
}

/// Returns our share of what both flows carry, 1 being half, beside a bulk transfer under
/// CUBIC.
fn share(config: &Config, mbps: u64, round_trip: Duration, queue: Duration, time: Duration) -> f64 {
    let cubic = Config {
        congestion: Algorithm::Cubic,
        ..config.clone()
    };
    let mut world = World::new(config, link(mbps, round_trip, queue, 0.0), 5).connected();
    world.add_rivals(&cubic);
    for side in [&mut world.a, &mut world.b] {
        side.keeps = false;
    }
    world.a.bulk = Some((16 * 1024, 4 << 20));
    for side in world.rivals.as_deref_mut().expect("there") {
        side.keeps = false;
        side.bulk = Some((16 * 1024, 4 << 20));
    }
    world.rivals.as_deref_mut().expect("there")[1].bulk = None;
    world.run_for(Duration::from_secs(5));
    world.b.measure();
    world.rivals.as_deref_mut().expect("there")[1].measure();
    world.run_for(time);
    let ours = world.b.received as f64;
    let theirs = world.rivals.as_deref().expect("there")[1].received as f64;
    2.0 * ours / (ours + theirs)
}

/// Prints what each controller reaches: `SCTP_MATRIX=all cargo test --release -p
/// glassline-sctp --lib matrix -- --nocapture`. Runs one small cell otherwise.
#[test]
fn matrix_of_controllers() {
    let Ok(wanted) = std::env::var("SCTP_MATRIX") else {
        let figures = bulk(
            &Config::default(),
            link(20, MS * 20, MS * 20, 0.0),
            SEED,
            Duration::from_secs(1),
            Duration::from_secs(1),
        );
        assert!(figures.mbps > 17.0, "{figures:?}");
        return;
    };
    for congestion in Algorithm::ALL {
        let name = congestion.as_str();
        if wanted != "all" && !wanted.split(',').any(|it| name.contains(it)) {
            continue;
        }
        let config = Config {
            congestion,
            ..Config::default()
        };
        for round_trip in [20, 100] {
            for loss in [0.0, 0.001, 0.01] {
                if let Ok(cell) = std::env::var("SCTP_CELL")
                    && cell != format!("{round_trip}/{loss}")
                {
                    continue;
                }
                let trip = MS * round_trip;
                let started = Instant::now();
                let after = Duration::from_secs(3);
                let time = Duration::from_secs(4);
                let figures = bulk(&config, link(1000, trip, trip, loss), SEED, after, time);
                println!(
                    "{name} {round_trip} ms {} %: {:.0} Mbit/s, gap {:?}, again {:.2}, {:?} of CPU; timeouts {} probes {} spurious {}",
                    loss * 100.0,
                    figures.mbps,
                    figures.gap,
                    figures.again,
                    started.elapsed(),
                    figures.report.timeouts,
                    figures.report.probes,
                    figures.report.spurious,
                );
            }
        }
        if wanted.contains("alone") {
            continue;
        }
        for mbps in [10, 50] {
            let trip = MS * 20;
            let share = share(&config, mbps, trip, trip, Duration::from_secs(30));
            println!("{name} beside CUBIC, {mbps} Mbit/s, 20 ms, 1 BDP: {share:.2} of fair");
        }
    }
}

#[test]
fn a_path_that_loses_packets_is_filled_all_the_same() {
    /// Round trip and queue of a path of 50 Mbit/s that loses 1 %, and the least rate to be
    /// used, in Mbit/s.
    type Row = Case<Duration, f64>;
    let cases: [Row; 2] = [
        Case {
            description: "a short path",
            path: MS * 20,
            seed: SEED,
            expected: 42.0,
        },
        Case {
            description: "a long path",
            path: MS * 100,
            seed: SEED,
            expected: 38.0,
        },
    ];
    for case in cases {
        let lossy = link(50, case.path, case.path, 0.01);
        let (config, second) = (Config::default(), Duration::from_secs(1));
        let figures = bulk(&config, lossy, case.seed, second * 3, second * 4);
        assert!(figures.mbps > case.expected, "{case}: {figures:?}");
        assert!(figures.gap < case.path * 3, "{case}: {figures:?}");
        assert!(figures.again < 1.3, "{case}: {figures:?}");
        assert_eq!(figures.report.timeouts, 0, "{case}: {figures:?}");
    }
}

#[test]
fn a_flow_under_cubic_keeps_its_share() {
    let trip = MS * 20;
    let time = Duration::from_secs(20);
    let share = share(&Config::default(), 10, trip, trip, time);
    assert!((0.5..1.5).contains(&share), "{share} of fair");
}
