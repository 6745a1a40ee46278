//! The servers that a client can go to when its own is lost: the one that the user named, which may be
//! a balancer, and then those that the cluster named.
//!
//! ```text
//! lost ─ jitter ─► own ─ failed ─► first named ─► second named ─► … ─ pause, twice as long each time ─► own
//! ```
//!
//! All clients of a server lose it at the same moment, so every pause is random.

use std::time::Duration;

/// Longest pause before the first try after a loss, and between two rounds at first.
const FIRST: Duration = Duration::from_millis(400);

/// Longest pause before another server of the same round.
const NEXT: Duration = Duration::from_millis(100);

/// Shortest pause as a share of the longest one of its turn.
const LEAST: f64 = 0.25;

/// Ways to the servers of a cluster, and the pauses between tries.
#[derive(Clone, Debug)]
pub struct Ways<T> {
    own: T,
    named: Vec<T>,
    place: usize,
    pause: Duration,
    pause_max: Duration,
}

impl<T> Ways<T> {
    /// Begins with `own`, the way that the user named. Pauses between rounds double up to `pause_max`.
    pub const fn new(own: T, pause_max: Duration) -> Self {
        Self {
            own,
            named: Vec::new(),
            place: 0,
            pause: FIRST,
            pause_max,
        }
    }

    /// Takes the ways that the cluster names; none of them changes nothing.
    pub fn name(&mut self, named: Vec<T>) {
        if !named.is_empty() {
            self.named = named;
        }
    }

    /// Returns the way of the present try.
    pub fn present(&self) -> &T {
        match self.place.checked_sub(1) {
            Some(place) => self.named.get(place).unwrap_or(&self.own),
            None => &self.own,
        }
    }

    /// Returns whether the present way is the one that the user named.
    pub const fn is_own(&self) -> bool {
        self.place == 0 || self.place > self.named.len()
    }

    /// Begins anew with the own way, because a session that worked is lost. Returns the pause before
    /// the try.
    pub fn lost(&mut self) -> Duration {
        (self.place, self.pause) = (0, FIRST);
        self.failed_round(rand::random())
    }

    /// Goes on to the next way, because the present one failed. Returns the pause before the try.
    pub fn failed(&mut self) -> Duration {
        self.next(rand::random())
    }

    /// `random`: a number from 0 to 1.
    fn next(&mut self, random: f64) -> Duration {
        self.place += 1;
        if self.place <= self.named.len() {
            return NEXT.mul_f64(random);
        }
        self.place = 0;
        self.failed_round(random)
    }

    fn failed_round(&mut self, random: f64) -> Duration {
        let longest = self.pause.min(self.pause_max);
        self.pause = (self.pause * 2).min(self.pause_max);
        longest.mul_f64(LEAST + (1.0 - LEAST) * random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(2);

    #[test]
    fn every_server_is_tried_before_a_pause() {
        let mut ways = Ways::new("own", MAX);
        ways.name(vec!["b", "c"]);
        ways.name(Vec::new());
        ways.lost();
        let mut tried = Vec::new();
        let mut waited = Duration::ZERO;
        for _ in 0..7 {
            tried.push((*ways.present(), ways.is_own()));
            waited += ways.next(1.0);
        }
        let (own, b, c) = (("own", true), ("b", false), ("c", false));
        assert_eq!(tried, [own, b, c, own, b, c, own]);
        // Two rounds of two short pauses and a long one, and one more short one.
        let long = Duration::from_millis(800 + 1_600);
        assert_eq!(waited, NEXT * 5 + long);
    }

    #[test]
    fn pauses_grow_to_the_longest_and_are_short_again_after_a_loss() {
        let mut ways = Ways::new("own", MAX);
        let pauses: Vec<_> = (0..5).map(|_| ways.next(1.0).as_millis()).collect();
        assert_eq!(pauses, [400, 800, 1_600, 2_000, 2_000]);
        assert!(ways.is_own());
        for _ in 0..100 {
            let pause = ways.lost();
            assert!(pause >= FIRST.mul_f64(LEAST) && pause <= FIRST, "{pause:?}");
        }
    }

    #[test]
    fn a_thousand_clients_of_a_lost_server_do_not_come_at_the_same_instant() {
        let mut slots = [0; 10];
        let mut ways = Ways::new("own", MAX);
        for _ in 0..1_000 {
            let pause = ways.lost();
            let first = FIRST.mul_f64(LEAST);
            let share = (pause - first).div_duration_f64(FIRST - first);
            slots[((share * 10.0) as usize).min(9)] += 1;
        }
        // 100 are expected in each tenth of 300 ms.
        assert!(
            slots.iter().all(|count| (40..200).contains(count)),
            "{slots:?}"
        );
    }
}
