use glassline_congestion::Algorithm;
use glassline_sim::{Capacity, Fading, Loss, Rng, Schedule};

use super::*;
use crate::congestion::session::{Arm, Measured, Sessions, Source};

const SESSION: Duration = Duration::from_secs(40);

fn link(mbps: f64, delay_ms: u64, queue_ms: u64) -> Conditions {
    Conditions::limited(
        Bitrate::from_bps((mbps * 1e6) as u64),
        Duration::from_millis(delay_ms),
        Duration::from_millis(queue_ms),
    )
}

/// An encoder that always makes more than `up` carries.
fn overloaded(up: Conditions) -> Scenario {
    Scenario {
        up,
        down: link(20.0, 20, 500),
        source: Source {
            bitrate_min: Bitrate::from_bps(4_000_000),
            bitrate_max: Bitrate::from_bps(4_000_000),
            ..Source::default()
        },
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario, arm: &Arm) -> Measured {
    let sessions = Sessions::new().unsealed();
    sessions.run(scenario, arm, 1, SESSION)
}

/// Goodput as a share of what the link carries during the session.
fn used(scenario: &Scenario, measured: &Measured) -> f64 {
    let carried = scenario.up.carried_within(Duration::ZERO..SESSION);
    let carried = carried.expect("a limited link") as f64 * 8e-6 / SESSION.as_secs_f64();
    measured.goodput_mbps / carried
}

/// A link whose rate wanders around `mbps`, with outages.
fn fading(mbps: f64) -> Conditions {
    let fading = Fading {
        mean: Bitrate::from_bps((mbps * 1e6) as u64),
        sigma: 0.6,
        correlation: 0.92,
        step: Duration::from_millis(200),
        outage: 0.01,
        outage_steps: 3..=15,
        outage_share: 0.05,
    };
    let schedule = Schedule::fading(&fading, SESSION, &mut Rng::new(3));
    Conditions {
        capacity: Capacity::Trace {
            schedule: Arc::new(schedule),
            offset: Duration::from_secs(7),
        },
        ..link(mbps, 30, 2000)
    }
}

#[test]
fn the_oracle_keeps_a_link_just_full() {
    let scenario = overloaded(link(2.0, 20, 1000));
    let measured = run(&scenario, &Arm::oracle());
    // Headers of QUIC, UDP and IP take 5 %.
    let used = used(&scenario, &measured);
    assert!(used > 0.93, "{used}: {measured:?}");
    assert!(measured.queue_ms.p95 < 60.0, "{measured:?}");
    assert_eq!(measured.rtx_overhead, 0.0, "{measured:?}");
}

#[test]
fn the_oracle_uses_a_rate_that_wanders_better_than_any_controller_with_a_queue_as_short() {
    let scenario = overloaded(fading(2.0));
    let oracle = run(&scenario, &Arm::oracle());
    let share = used(&scenario, &oracle);
    assert!(share > 0.9, "{share}: {oracle:?}");
    for algorithm in [Algorithm::Glide, Algorithm::Copa, Algorithm::Bbr] {
        let other = run(&scenario, &Arm::new(algorithm));
        let seen = format!("{algorithm}: {other:?}\noracle: {oracle:?}");
        assert!(other.goodput_mbps < oracle.goodput_mbps * 1.01, "{seen}");
        assert!(
            other.transport_rtt_ms.mean > oracle.transport_rtt_ms.mean,
            "{seen}"
        );
    }
}

#[test]
fn the_oracle_takes_no_loss_for_a_sign() {
    let scenario = overloaded(link(2.0, 20, 1000).with_loss(Loss::Random(0.02)));
    let used = used(&scenario, &run(&scenario, &Arm::oracle()));
    assert!(used > 0.9, "{used}");
}

#[test]
fn the_oracle_spends_a_policer_s_tokens_and_no_more() {
    let rate = Bitrate::from_bps(1_500_000);
    let up = Conditions {
        policer: Some(Policer {
            rate,
            burst_bytes: 30_000,
        }),
        ..link(4.0, 20, 200)
    };
    let measured = run(&overloaded(up), &Arm::oracle());
    assert!(measured.goodput_mbps > 1.35, "{measured:?}");
    assert!(measured.rtx_overhead < 0.002, "{measured:?}");
}

#[test]
fn the_oracle_has_its_share_beside_another_flow() {
    let mut scenario = overloaded(link(5.0, 30, 240));
    scenario.competitors.push(Competitor {
        algorithm: Algorithm::Cubic,
        start: Duration::ZERO,
        end: SESSION,
    });
    let measured = run(&scenario, &Arm::oracle());
    let fair = 2.5;
    assert!(
        (0.75 * fair..1.3 * fair).contains(&measured.goodput_mbps),
        "{measured:?}"
    );
}

#[test]
fn the_oracle_foresees_a_change_of_the_link() {
    let mut scenario = overloaded(link(2.0, 20, 1000));
    scenario
        .changes
        .push((SESSION / 2, Change::Up(link(0.5, 20, 1000))));
    let foresight = Foresight::new(&scenario, Instant::now());
    assert_eq!(foresight.carried(Duration::ZERO..SESSION), 6_250_000.0);
    let measured = run(&scenario, &Arm::oracle());
    assert!(measured.goodput_mbps > 0.93 * 1.25, "{measured:?}");
    assert!(measured.queue_ms.p95 < 120.0, "{measured:?}");
}
