//! Tests of losses that were none: the packets came late, after others.

use std::time::{Duration, Instant};

use crate::bottleneck::PACKET;
use crate::marks::{ROUND_TRIP, running};
use crate::{Algorithm, Flow};

/// A flow whose window is full of packets that were sent at one time.
struct Flight {
    flow: Flow,
    now: Instant,
    /// Number of its first packet, and the number after its last one.
    first: u64,
    next: u64,
    /// Window before the loss.
    window: u64,
}

impl Flight {
    fn new(algorithm: Algorithm) -> Self {
        let (mut flow, now) = running(algorithm);
        let first = flow.totals().sent / PACKET;
        let mut next = first;
        while flow.allowance() >= PACKET {
            flow.on_sent(now, next, PACKET);
            next += 1;
        }
        Self {
            flow,
            now,
            first,
            next,
            window: 0,
        }
    }

    /// All but the first `count` packets arrive after a round trip, and those are taken for
    /// lost.
    fn lose(&mut self, count: u64) {
        self.now += ROUND_TRIP;
        let arrived = self.first + count..self.next;
        self.flow.on_acked(self.now, arrived, Duration::ZERO);
        self.window = self.window();
        let lost = self.first..self.first + count;
        self.flow.on_lost(self.now, lost, false);
    }

    /// Packets arrive after all, after `late`.
    fn arrive(&mut self, numbers: std::ops::Range<u64>, late: Duration) {
        self.now += late;
        self.flow.on_acked(self.now, numbers, Duration::ZERO);
    }

    fn window(&self) -> u64 {
        self.flow.window()
    }

    fn spurious(&self) -> u64 {
        self.flow.totals().spurious
    }
}

#[test]
fn a_loss_that_was_none_is_undone() {
    for algorithm in Algorithm::ALL {
        let mut flight = Flight::new(algorithm);
        let first = flight.first;
        flight.lose(2);
        assert_eq!(flight.flow.totals().lost, 2 * PACKET, "{algorithm}");
        let cut = flight.window();
        flight.arrive(first..first + 1, Duration::from_millis(1));
        assert_eq!(flight.spurious(), PACKET, "{algorithm}");
        assert_eq!(flight.window(), cut, "{algorithm}: one is still lost");
        flight.arrive(first + 1..first + 2, Duration::from_millis(1));
        assert_eq!(flight.spurious(), 2 * PACKET, "{algorithm}");
        let (before, after) = (flight.window, flight.window());
        assert!(after >= before, "{algorithm}: {after} of {before}");
    }
}

#[test]
fn controllers_that_answer_a_loss_do_so_until_it_is_known_to_be_none() {
    let answers = [
        Algorithm::Cubic,
        Algorithm::Bbr,
        Algorithm::BbrStudy,
        Algorithm::BbrLongTerm,
        Algorithm::Rfc9260Reno,
    ];
    for algorithm in answers {
        let mut flight = Flight::new(algorithm);
        flight.lose(2);
        let (before, cut) = (flight.window, flight.window());
        assert!(cut < before, "{algorithm}: {cut} of {before}");
        // A transport that forgets numbers says so itself.
        let now = flight.now;
        flight.flow.on_spurious_loss(now);
        assert_eq!(flight.spurious(), 2 * PACKET, "{algorithm}");
        let after = flight.window();
        assert!(after >= before, "{algorithm}: {after} of {before}");
    }
}

#[test]
fn what_arrives_after_two_probe_timeouts_undoes_nothing() {
    for (late, is_undone) in [(Duration::from_millis(40), true), (ROUND_TRIP * 8, false)] {
        let mut flight = Flight::new(Algorithm::Cubic);
        let first = flight.first;
        flight.lose(2);
        flight.arrive(first..first + 2, late);
        let counted = flight.spurious() > 0;
        assert_eq!(counted, is_undone, "{late:?}");
        assert_eq!(flight.window() >= flight.window, is_undone, "{late:?}");
    }
}

#[test]
fn the_latest_1024_losses_are_remembered() {
    let mut flow = Flow::new(Algorithm::Copa.start(PACKET));
    let now = Instant::now();
    for number in 0..2_000 {
        flow.on_sent(now, number, PACKET);
    }
    flow.on_lost(now, 0..2_000, false);
    flow.on_acked(now, 0..976, Duration::ZERO);
    assert_eq!(flow.totals().spurious, 0);
    flow.on_acked(now, 976..2_000, Duration::ZERO);
    assert_eq!(flow.totals().spurious, 1024 * PACKET);
}
