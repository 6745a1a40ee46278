use glassline_sim::Loss;

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
    let (traced, samples) = sessions
        .0
        .trace(&lossy, &arm, 7, seconds(20), seconds(1) / 10);
    assert_eq!(first, traced, "looking changes nothing");
    assert!((199..=200).contains(&samples.len()), "{}", samples.len());
}
