use std::time::{Duration, Instant};

/// A virtual clock, which stands still until it is moved.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Where the clock started.
    start: Instant,
    /// The time of the clock.
    now: Instant,
}

impl Clock {
    /// Returns a clock that shows an arbitrary instant; only distances from it have a
    /// meaning.
    #[cfg_attr(
        not(test),
        expect(
            clippy::disallowed_methods,
            reason = "an Instant can only be had from the system; this is the one anchor of virtual time"
        )
    )]
    pub fn new() -> Self {
        Self::starting_at(Instant::now())
    }

    /// Returns a clock that shows `start`.
    pub const fn starting_at(start: Instant) -> Self {
        Self { start, now: start }
    }

    /// Returns the instant that the clock shows.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns how far the clock was moved altogether. Traces should hold this value,
    /// because instants differ from run to run.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Moves the clock forward.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// Moves the clock forward to `at`; an instant in the past leaves it where it is.
    pub fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// Moves the clock to the earliest of the deadlines; false if there is none, so that
    /// nothing will ever happen again.
    pub fn advance_to_earliest(
        &mut self,
        deadlines: impl IntoIterator<Item = Option<Instant>>,
    ) -> bool {
        let earliest = deadlines.into_iter().flatten().min();
        if let Some(at) = earliest {
            self.advance_to(at);
        }
        earliest.is_some()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_only_when_moved_and_never_back() {
        let mut clock = Clock::new();
        let start = clock.now();
        let late = start + Duration::from_millis(30);
        assert!(clock.advance_to_earliest([None, Some(late), Some(late + Duration::from_secs(1))]));
        assert_eq!(clock.elapsed(), Duration::from_millis(30));
        clock.advance_to(start);
        assert_eq!(clock.now(), late);
        assert!(!clock.advance_to_earliest([None, None]));
        clock.advance(Duration::from_millis(1));
        assert_eq!(clock.elapsed(), Duration::from_millis(31));
    }
}
