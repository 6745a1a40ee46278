//! Tests of what congestion marks (ECN-CE) do to each controller.

use std::time::{Duration, Instant};

use crate::bottleneck::PACKET;
use crate::{Algorithm, Flow};

pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Returns a flow in the middle of a transfer, with its window used up.
pub(crate) fn running(algorithm: Algorithm) -> (Flow, Instant) {
    let mut flow = Flow::new(algorithm.start(PACKET));
    let (mut now, mut next) = (Instant::now(), 0);
    for _ in 0..3 {
        let first = next;
        while flow.allowance() >= PACKET {
            flow.on_sent(now, next, PACKET);
            next += 1;
        }
        now += ROUND_TRIP;
        flow.on_acked(now, first..next, Duration::ZERO);
    }
    (flow, now)
}

#[test]
fn cubic_shrinks_less_than_for_a_loss() {
    let (mut flow, now) = running(Algorithm::Cubic);
    let before = flow.window();
    flow.on_marked(now);
    let marked = flow.window();
    assert_eq!(marked * 100 / before, 85, "RFC 8511: {marked} of {before}");
    assert!(!flow.controller().is_starting(), "it ends slow start");
}

#[test]
fn marks_count_once_in_a_round_trip() {
    let (mut flow, now) = running(Algorithm::Cubic);
    let before = flow.window();
    for ms in 0..49 {
        flow.on_marked(now + Duration::from_millis(ms));
    }
    let once = flow.window();
    assert_eq!(once * 100 / before, 85, "{once} of {before}");
    flow.on_marked(now + ROUND_TRIP * 2);
    assert!(flow.window() < once, "and again after it");
}

#[test]
fn the_study_s_controllers_do_not_know_marks() {
    for algorithm in [Algorithm::Copa, Algorithm::Bbr, Algorithm::BbrLongTerm] {
        let (mut flow, now) = running(algorithm);
        let before = (flow.window(), flow.pacing_rate());
        flow.on_marked(now);
        let after = (flow.window(), flow.pacing_rate());
        assert_eq!(after, before, "{algorithm}");
    }
}

#[test]
fn marks_neither_grow_a_window_nor_close_it() {
    for algorithm in Algorithm::ALL {
        let (mut flow, mut now) = running(algorithm);
        let before = flow.window();
        for _ in 0..100 {
            now += ROUND_TRIP * 2;
            flow.on_marked(now);
            let window = flow.window();
            assert!(window <= before, "{algorithm}: {window} of {before}");
            assert!(window >= 2 * PACKET, "{algorithm}: {window}");
        }
    }
}
