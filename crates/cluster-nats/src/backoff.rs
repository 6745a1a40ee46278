//! Waiting times between attempts, doubled from one to the next and drawn at random, so that a
//! fleet that lost its engine at once does not return at once.

use std::time::Duration;

use rand::Rng;

/// Waiting times between attempts.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins at `least` and doubles up to `most`.
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            next: least,
        }
    }

    /// Returns the next waiting time: between half of and all of the doubled time.
    pub(crate) fn next(&mut self, random: &mut impl Rng) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.most);
        full.mul_f64(random.random_range(0.5..=1.0))
    }

    /// Begins at the least time again, after an attempt that lasted.
    pub(crate) fn reset(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_are_scattered() {
        let mut random = StdRng::seed_from_u64(1);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let mut full = Duration::from_secs(1);
        let mut waits = Vec::new();
        for _ in 0..20 {
            let wait = backoff.next(&mut random);
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
            waits.push(wait);
            full = (full * 2).min(Duration::from_secs(30));
        }
        let last = &waits[10..];
        assert!(
            last.iter().any(|wait| *wait != last[0]),
            "no jitter: {last:?}"
        );
        backoff.reset();
        assert!(backoff.next(&mut random) <= Duration::from_secs(1));
    }
}
