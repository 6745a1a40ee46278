//! A model of a player's buffer: what is played when, and when it stands still.

use std::time::{Duration, Instant};

/// Media that must be there again before a player goes on.
const RESUMES_WITH: Duration = Duration::from_millis(100);

/// Pauses up to this length are no stall: nobody sees them.
const STALL_MIN: Duration = Duration::from_millis(20);

/// The buffer of a player with several tracks. It plays what all of them have, in real time.
#[derive(Debug)]
pub(super) struct Playback {
    /// Media of each track since the first item.
    buffered: Vec<Duration>,
    position: Duration,
    /// Time of `position`.
    at: Instant,
    state: State,
    stalls: u64,
    stalled: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not every track has media.
    Filling,
    Playing,
    /// There was media, and there is none, since this time.
    Stalled(Instant),
}

impl Playback {
    pub(super) fn new(tracks: usize, now: Instant) -> Self {
        Self {
            buffered: vec![Duration::ZERO; tracks],
            position: Duration::ZERO,
            at: now,
            state: State::Filling,
            stalls: 0,
            stalled: Duration::ZERO,
        }
    }

    /// Adds media to a track; playing begins or goes on if there is enough.
    pub(super) fn add(&mut self, now: Instant, track: usize, duration: Duration) {
        self.advance(now);
        if let Some(buffered) = self.buffered.get_mut(track) {
            *buffered += duration;
        }
        let ahead = self.end().saturating_sub(self.position);
        match self.state {
            State::Filling if !ahead.is_zero() => self.state = State::Playing,
            State::Stalled(since) if ahead >= RESUMES_WITH => {
                let lasted = now.saturating_duration_since(since);
                if lasted > STALL_MIN {
                    self.stalls += 1;
                    self.stalled += lasted;
                }
                self.state = State::Playing;
            }
            _ => {}
        }
    }

    /// Plays up to a moment.
    pub(super) fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.at = self.at.max(now);
        if self.state != State::Playing {
            return;
        }
        self.position += passed;
        let missing = self.position.saturating_sub(self.end());
        if !missing.is_zero() {
            self.position = self.end();
            self.state = State::Stalled(now.checked_sub(missing).unwrap_or(now));
        }
    }

    /// Media played since the first item.
    pub(super) const fn position(&self) -> Duration {
        self.position
    }

    pub(super) const fn is_filling(&self) -> bool {
        matches!(self.state, State::Filling)
    }

    /// Number of stalls, one that lasts included.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls + u64::from(self.present_stall() > STALL_MIN)
    }

    /// Time without media after the beginning.
    pub(super) fn stalled(&self) -> Duration {
        match self.present_stall() {
            present if present > STALL_MIN => self.stalled + present,
            _ => self.stalled,
        }
    }

    fn present_stall(&self) -> Duration {
        match self.state {
            State::Stalled(since) => self.at.saturating_duration_since(since),
            _ => Duration::ZERO,
        }
    }

    /// Media that all tracks have.
    fn end(&self) -> Duration {
        self.buffered.iter().min().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Duration = Duration::from_millis(500);

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn parts_in_time_play_without_a_stall() {
        let start = Instant::now();
        let mut playback = Playback::new(1, start);
        for index in 0..10 {
            // Each is up to 200 ms late, and the first two are there at once.
            let due = 500 * u64::max(index, 1) - 500 + index * 37 % 200;
            playback.add(at(start, due), 0, PART);
        }
        playback.advance(at(start, 4500));
        assert_eq!((playback.stalls(), playback.stalled()), (0, Duration::ZERO));
        assert_eq!(playback.position(), Duration::from_millis(4500));
    }

    #[test]
    fn a_late_part_is_a_stall_until_it_comes() {
        let start = Instant::now();
        let mut playback = Playback::new(1, start);
        playback.add(start, 0, PART);
        playback.advance(at(start, 900));
        assert_eq!(
            (playback.stalls(), playback.stalled()),
            (1, Duration::from_millis(400))
        );
        playback.add(at(start, 1100), 0, PART);
        playback.advance(at(start, 1300));
        assert_eq!(
            (playback.stalls(), playback.stalled()),
            (1, Duration::from_millis(600))
        );
        assert_eq!(playback.position(), Duration::from_millis(700));
    }

    #[test]
    fn the_track_with_the_least_media_decides() {
        let start = Instant::now();
        let mut playback = Playback::new(2, start);
        playback.add(start, 0, PART);
        playback.advance(at(start, 300));
        assert!(playback.is_filling() && playback.stalls() == 0);
        playback.add(at(start, 300), 1, PART / 2);
        playback.advance(at(start, 700));
        assert_eq!((playback.stalls(), playback.position()), (1, PART / 2));
    }
}
