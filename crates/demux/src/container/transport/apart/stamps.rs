//! Time stamps of 33 bits as a continuous time.

use super::pes::RawStamps;
use crate::system_clock::stamp::{STAMP_MODULUS, ahead};

/// Ticks per second of time stamps.
pub(super) const STAMP_RATE: i64 = 90_000;

/// Longest step between stamps that continue each other, of any two streams.
const STEP_MAX: i64 = 10 * STAMP_RATE;

/// Time from the latest stamp before a jump of the clock to the first one behind it.
const JUMP_STEP: i64 = STAMP_RATE / 25;

/// Time stamps in ticks of 90 kHz since the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) presented: i64,
    pub(super) decoded: i64,
}

/// The clock that all streams of a program share. Stamps wrap after 26.5 hours, and jump where
/// recordings were joined.
#[derive(Debug, Default)]
pub(super) struct StampClock {
    /// The current clock and the one before: packets of the other streams may still refer to it.
    eras: [Option<Era>; 2],
    highest: i64,
    /// Number of jumps.
    pub(super) jumps: u64,
}

/// A time at which a stamp was read.
#[derive(Clone, Copy, Debug)]
struct Era {
    raw: i64,
    time: i64,
}

impl StampClock {
    /// Converts the stamps of a PES packet.
    pub(super) fn convert(&mut self, raw: RawStamps) -> Stamps {
        let decoded = self.time_of(raw.decoded);
        let later = ahead(raw.decoded, raw.presented, STAMP_MODULUS);
        // A frame is not presented before it is decoded, nor long after.
        let later = if later > STEP_MAX { 0 } else { later.max(0) };
        self.highest = self.highest.max(decoded + later);
        Stamps {
            presented: decoded + later,
            decoded,
        }
    }

    fn time_of(&mut self, raw: i64) -> i64 {
        for era in self.eras.iter_mut().flatten() {
            let step = ahead(era.raw, raw, STAMP_MODULUS);
            if step.abs() <= STEP_MAX {
                let time = era.time + step;
                if step > 0 {
                    *era = Era { raw, time };
                }
                return time;
            }
        }
        let [current, before] = &mut self.eras;
        *before = current.take();
        let time = match before {
            None => 0,
            Some(_) => {
                self.jumps += 1;
                self.highest + JUMP_STEP
            }
        };
        *current = Some(Era { raw, time });
        time
    }
}

/// Converts ticks of 90 kHz to ns.
pub(super) fn ns(ticks: i64) -> i64 {
    let nanos = i128::from(ticks) * 100_000 / 9;
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(presented: i64, decoded: i64) -> RawStamps {
        RawStamps { presented, decoded }
    }

    #[test]
    fn times_go_on_where_stamps_wrap() {
        let mut clock = StampClock::default();
        clock.convert(stamps(STAMP_MODULUS - 3600, STAMP_MODULUS - 3600));
        let next = clock.convert(stamps(3600, 0));
        assert_eq!((next.decoded, next.presented), (3600, 7200));
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn times_go_on_where_the_clock_jumps_also_for_a_stream_that_is_behind() {
        let mut clock = StampClock::default();
        for at in 0..10 {
            clock.convert(stamps(at * 3600, at * 3600));
        }
        let jumped = clock.convert(stamps(90_000_000, 90_000_000));
        assert_eq!(jumped.decoded, 10 * 3600);
        let late = clock.convert(stamps(9 * 3600 + 100, 9 * 3600 + 100));
        assert_eq!(late.decoded, 9 * 3600 + 100);
        let next = clock.convert(stamps(90_003_600, 90_003_600));
        assert_eq!(next.decoded, 11 * 3600);
        assert_eq!(clock.jumps, 1);
        assert_eq!(ns(90_000), 1_000_000_000);
    }
}
