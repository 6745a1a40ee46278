//! A connection that carries bytes in order, as TCP does, in virtual time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Rng;

/// How a [`ByteStream`] delays its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamConditions {
    /// Time that every segment takes.
    pub delay: Duration,
    /// Longest additional time; each segment draws its own.
    pub jitter: Duration,
    /// Probability that a segment is lost. The connection sends it again.
    pub loss: f64,
    /// Time that a lost segment takes in addition. Everything behind the segment waits for it.
    pub repair: Duration,
    /// Most bytes of a segment; each segment draws its size, from one byte on.
    pub segment_max: usize,
    /// Most bytes that are under way. What is written beyond is not taken.
    pub window: usize,
}

/// One direction of a TCP connection: bytes arrive in order and whole, in pieces that have nothing
/// to do with those in which they were written. A lost segment shows as a delay of all bytes behind
/// it.
///
/// ```
/// use std::time::Duration;
/// use glassline_sim::{ByteStream, Clock, StreamConditions};
///
/// let conditions = StreamConditions {
///     delay: Duration::from_millis(20),
///     jitter: Duration::ZERO,
///     loss: 0.0,
///     repair: Duration::ZERO,
///     segment_max: 4,
///     window: 100,
/// };
/// let mut clock = Clock::new();
/// let mut stream = ByteStream::new(conditions, 1);
/// assert_eq!(stream.write(clock.now(), b"segments"), 8);
/// clock.advance_to(stream.last_arrival().expect("bytes are under way"));
/// let mut arrived = Vec::new();
/// while let Some(piece) = stream.read(clock.now()) {
///     arrived.extend(piece);
/// }
/// assert_eq!(arrived, b"segments");
/// ```
#[derive(Debug)]
pub struct ByteStream {
    conditions: StreamConditions,
    rng: Rng,
    /// Segments under way with their arrival times, which never decrease.
    segments: VecDeque<(Instant, Vec<u8>)>,
    in_flight: usize,
    /// Until when the receiver reads nothing.
    stalled: Option<Instant>,
}

impl ByteStream {
    /// Creates a stream. Every decision follows from `seed`.
    pub fn new(conditions: StreamConditions, seed: u64) -> Self {
        Self {
            conditions,
            rng: Rng::new(seed),
            segments: VecDeque::new(),
            in_flight: 0,
            stalled: None,
        }
    }

    /// Returns how many bytes [`write`](Self::write) takes now.
    pub fn room(&self) -> usize {
        self.conditions.window.saturating_sub(self.in_flight)
    }

    /// Sends `bytes` at `now`, as far as the window has room. Returns how many were taken.
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        let mut rest = &bytes[..taken];
        while !rest.is_empty() {
            let longest = self.conditions.segment_max.clamp(1, rest.len());
            let cut = 1 + self.rng.below(longest as u64);
            let cut = usize::try_from(cut).map_or(longest, |cut| cut.min(longest));
            let (segment, behind) = rest.split_at(cut);
            let mut took = self.conditions.delay + self.conditions.jitter.mul_f64(self.rng.unit());
            if self.rng.chance(self.conditions.loss) {
                took += self.conditions.repair;
            }
            let before = self.segments.back().map_or(now, |(at, _)| *at);
            self.segments
                .push_back(((now + took).max(before), segment.to_vec()));
            rest = behind;
        }
        self.in_flight += taken;
        taken
    }

    /// Has the receiver read nothing until `until`. Bytes that have arrived take up the window.
    pub fn stall(&mut self, until: Instant) {
        self.stalled = Some(until);
    }

    /// Returns when the next bytes can be read.
    pub fn next_arrival(&self) -> Option<Instant> {
        let (at, _) = self.segments.front()?;
        Some(self.stalled.map_or(*at, |until| until.max(*at)))
    }

    /// Returns when everything that is under way can be read.
    pub fn last_arrival(&self) -> Option<Instant> {
        let (at, _) = self.segments.back()?;
        Some(self.stalled.map_or(*at, |until| until.max(*at)))
    }

    /// Reads the next segment that has arrived by `now`.
    pub fn read(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        let (_, segment) = self.segments.pop_front()?;
        self.in_flight -= segment.len();
        Some(segment)
    }

    /// Breaks the connection: what is under way is lost. Returns how many bytes that were. The
    /// stream may then serve as the next connection.
    pub fn reset(&mut self) -> usize {
        self.segments.clear();
        self.stalled = None;
        std::mem::take(&mut self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn conditions() -> StreamConditions {
        StreamConditions {
            delay: 10 * MS,
            jitter: 30 * MS,
            loss: 0.1,
            repair: 200 * MS,
            segment_max: 50,
            window: 10_000,
        }
    }

    /// Writes 300 times 40 bytes, 1 ms apart, and returns what arrives when, in steps of 1 ms.
    fn run(seed: u64, stall: Option<Duration>) -> Vec<(Duration, Vec<u8>)> {
        let start = Instant::now();
        let mut stream = ByteStream::new(conditions(), seed);
        let (mut written, mut arrived) = (0_u8, Vec::new());
        for tick in 0..4_000_u32 {
            let now = start + MS * tick;
            if tick == 50
                && let Some(stall) = stall
            {
                stream.stall(now + stall);
            }
            if tick < 300 && stream.room() >= 40 {
                written = written.wrapping_add(1);
                assert_eq!(stream.write(now, &[written; 40]), 40);
            }
            while let Some(piece) = stream.read(now) {
                arrived.push((now - start, piece));
            }
        }
        assert_eq!((stream.next_arrival(), stream.room()), (None, 10_000));
        arrived
    }

    #[test]
    fn bytes_arrive_in_order_and_whole_whatever_is_lost() {
        for seed in 0..50 {
            let arrived = run(seed, None);
            let bytes: Vec<u8> = arrived
                .iter()
                .flat_map(|(_, piece)| piece.clone())
                .collect();
            assert_eq!(bytes.len() % 40, 0, "seed {seed}");
            let in_order = bytes.chunks(40).enumerate();
            for (number, chunk) in in_order {
                let expected = u8::try_from((number + 1) % 256).expect("a byte");
                assert_eq!(chunk, [expected; 40], "seed {seed}");
            }
            assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let (first, _) = arrived[0];
            assert!(first >= 10 * MS, "seed {seed}: {first:?}");
            assert_eq!(arrived, run(seed, None), "seed {seed} twice");
        }
    }

    #[test]
    fn a_receiver_that_stalls_fills_the_window_and_gets_everything_later() {
        let arrived = run(7, Some(500 * MS));
        let in_the_stall = |at: Duration| at >= 50 * MS && at < 550 * MS;
        assert!(!arrived.iter().any(|(at, _)| in_the_stall(*at)));
        let later = arrived.iter().filter(|(at, _)| *at >= 550 * MS);
        let later: usize = later.map(|(_, piece)| piece.len()).sum();
        assert!((9_961..=10_000).contains(&later), "{later}");
    }

    #[test]
    fn a_broken_connection_loses_what_is_under_way() {
        let now = Instant::now();
        let mut stream = ByteStream::new(conditions(), 3);
        assert_eq!(stream.write(now, &[1; 12_000]), 10_000, "the window");
        assert_eq!(stream.reset(), 10_000);
        assert_eq!(stream.read(now + 1_000 * MS), None);
        assert_eq!(stream.write(now, &[2; 10]), 10);
        let at = stream.last_arrival().expect("under way");
        assert_eq!(stream.read(at).map(|piece| piece[0]), Some(2));
    }
}
