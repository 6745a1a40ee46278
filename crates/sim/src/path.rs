use std::time::Instant;

use crate::{Conditions, Link, Rng};

/// One of the two ends of a [`Path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// End A, the first.
    A,
    /// End B, the second.
    B,
}

impl End {
    /// Returns the opposite end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Two links that join two ends; `T` is what they carry.
#[derive(Debug)]
pub struct Path<T> {
    /// Link from end A to end B.
    a_to_b: Link<T>,
    /// Link from end B to end A.
    b_to_a: Link<T>,
}

impl<T> Path<T> {
    /// Returns a path with its own conditions each way; `seed` decides both directions'
    /// random decisions, independently of each other.
    pub fn new(a_to_b: Conditions, b_to_a: Conditions, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self {
            a_to_b: Link::new(a_to_b, rng.fork(0).next_u64()),
            b_to_a: Link::new(b_to_a, rng.fork(1).next_u64()),
        }
    }

    /// Returns a path with the same conditions each way.
    pub fn symmetric(conditions: Conditions, seed: u64) -> Self {
        Self::new(conditions.clone(), conditions, seed)
    }

    /// Sends a datagram, which counts as `bytes`, from end `from` to the other end.
    pub fn send(&mut self, from: End, now: Instant, bytes: usize, datagram: T) {
        self.link_mut(from).send(now, bytes, datagram);
    }

    /// Returns the next datagram that has arrived by `now`, and its end, in the order of
    /// arrival at both ends. To be called until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<(End, T)> {
        let at_b = self.a_to_b.next_arrival();
        let at_a = self.b_to_a.next_arrival();
        let first = match (at_b, at_a) {
            (Some(b), Some(a)) if a < b => End::A,
            (Some(_), _) => End::B,
            (None, _) => End::A,
        };
        let arrival = self.link_mut(first.other()).poll(now)?;
        Some((first, arrival.datagram))
    }

    /// Returns when [`Self::poll`] will have a datagram; `None` while nothing is in flight
    /// either way.
    pub fn next_arrival(&self) -> Option<Instant> {
        let arrivals = [self.a_to_b.next_arrival(), self.b_to_a.next_arrival()];
        arrivals.into_iter().flatten().min()
    }

    /// Returns the link on which `from` sends.
    pub const fn link(&self, from: End) -> &Link<T> {
        match from {
            End::A => &self.a_to_b,
            End::B => &self.b_to_a,
        }
    }

    /// Returns the link on which `from` sends, to change its conditions.
    pub const fn link_mut(&mut self, from: End) -> &mut Link<T> {
        match from {
            End::A => &mut self.a_to_b,
            End::B => &mut self.b_to_a,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Loss};
    use std::time::Duration;

    #[test]
    fn datagrams_reach_the_other_end_in_order_of_arrival() {
        let ms = Duration::from_millis;
        let mut clock = Clock::new();
        let (slow, fast) = (Conditions::delayed(ms(30)), Conditions::delayed(ms(10)));
        let mut path = Path::new(slow, fast, 1);
        path.send(End::A, clock.now(), 4, b"ping");
        path.send(End::B, clock.now(), 4, b"pong");
        assert_eq!(path.poll(clock.now()), None);
        let mut seen = Vec::new();
        while clock.advance_to_earliest([path.next_arrival()]) {
            while let Some((end, bytes)) = path.poll(clock.now()) {
                seen.push((clock.elapsed(), end, bytes));
            }
        }
        assert_eq!(seen, [(ms(10), End::A, b"pong"), (ms(30), End::B, b"ping")]);
        assert_eq!(path.link(End::A).counts().delivered, 1);
    }

    #[test]
    fn both_ways_have_their_own_luck() {
        let lossy = Conditions::default().with_loss(Loss::Random(0.5));
        let clock = Clock::new();
        let mut path = Path::symmetric(lossy, 9);
        let mut fates = [Vec::new(), Vec::new()];
        for number in 0..64u8 {
            for (index, end) in [End::A, End::B].into_iter().enumerate() {
                let before = path.link(end).counts().lost;
                path.send(end, clock.now(), 1, number);
                fates[index].push(path.link(end).counts().lost > before);
            }
        }
        assert_ne!(fates[0], fates[1]);
    }
}
