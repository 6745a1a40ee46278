//! The clock of an MPEG system stream. Its references wrap after 26.5 hours, and jump where
//! recordings were joined; here they become a continuous time from zero.

pub(crate) mod stamp;

use stamp::{CLOCK_MODULUS, CLOCK_RATE};

/// Longest step between references, in ticks of 27 MHz; a longer one is a jump. References are
/// at most 0.1 s apart in a transport stream and 0.7 s in a program stream, and farther apart
/// in slide shows.
const STEP_MAX: i64 = 10 * CLOCK_RATE;

/// Longest step where the stream announces another clock.
const ANNOUNCED_STEP_MAX: i64 = CLOCK_RATE;

/// Longest time that is assumed between the references around a jump.
const JUMP_STEP_MAX: i64 = CLOCK_RATE;

/// From a byte on, what must be added to the file's clock to get the track's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    /// Ticks of 27 MHz.
    pub(crate) correction: i64,
}

/// Converts the references of a file to times in ticks of 27 MHz, zero at the first.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Option<Reference>,
    /// Bytes and ticks between the last two references without a jump between them.
    pace: Option<(u64, i64)>,
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    offset: u64,
    raw: i64,
    time: i64,
}

/// Result of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Time at which the reference's byte is due; never falls.
    pub(crate) time: i64,
    /// Whether the clock does not continue the references before.
    pub(crate) jumped: bool,
}

impl Clock {
    /// Handles the reference `raw` of byte `offset`. `announced`: whether the stream states
    /// that its clock changes here.
    pub(crate) fn push(&mut self, offset: u64, raw: i64, announced: bool) -> Tick {
        let (time, jumped) = match self.last {
            None => (0, false),
            Some(last) => {
                let step = (raw - last.raw).rem_euclid(CLOCK_MODULUS);
                let bytes = offset.saturating_sub(last.offset);
                let limit = if announced {
                    ANNOUNCED_STEP_MAX
                } else {
                    STEP_MAX
                };
                if step <= limit {
                    if step > 0 {
                        self.pace = Some((bytes, step));
                    }
                    (last.time + step, false)
                } else {
                    (last.time + self.estimate(bytes).min(JUMP_STEP_MAX), true)
                }
            }
        };
        self.last = Some(Reference { offset, raw, time });
        let correction = time - raw;
        if self.segments.last().map(|last| last.correction) != Some(correction) {
            self.segments.push(Segment { offset, correction });
        }
        Tick { time, jumped }
    }

    /// Returns how long `bytes` take at the pace of the last references; 0 if unknown.
    pub(crate) fn estimate(&self, bytes: u64) -> i64 {
        let Some((per_bytes, ticks)) = self.pace.filter(|(bytes, _)| *bytes > 0) else {
            return 0;
        };
        let scaled = u128::from(bytes) * ticks.unsigned_abs() as u128 / u128::from(per_bytes);
        i64::try_from(scaled).unwrap_or(i64::MAX)
    }

    /// Returns the last reference: as in the file, and on the track's time.
    pub(crate) fn last(&self) -> Option<(i64, i64)> {
        self.last.map(|last| (last.raw, last.time))
    }

    /// Adds `ticks` to the times since the last jump, when the length of the jump is known
    /// better.
    pub(crate) fn shift_last_segment(&mut self, ticks: i64) {
        if let (Some(segment), Some(last)) = (self.segments.last_mut(), &mut self.last) {
            segment.correction += ticks;
            last.time += ticks;
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// Returns what must be added at byte `offset`: the correction of its segment, or of the first
/// one.
pub(crate) fn correction_at(segments: &[Segment], offset: u64) -> i64 {
    let behind = segments.partition_point(|segment| segment.offset <= offset);
    let segment = segments.get(behind.saturating_sub(1));
    segment.map_or(0, |segment| segment.correction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_wraps_runs_on() {
        let mut clock = Clock::default();
        let times = [CLOCK_MODULUS - 100, CLOCK_MODULUS - 40, 20, 80].map(|raw| {
            let tick = clock.push(0, raw, false);
            assert!(!tick.jumped);
            tick.time
        });
        assert_eq!(times, [0, 60, 120, 180]);
        assert_eq!(clock.segments().len(), 2);
    }

    #[test]
    fn a_jump_takes_as_long_as_its_bytes_did_before() {
        let mut clock = Clock::default();
        clock.push(0, 5_000, false);
        clock.push(1_000, 8_000, false);
        let tick = clock.push(1_500, 90 * CLOCK_RATE, false);
        assert_eq!((tick.time, tick.jumped), (4_500, true));
        let tick = clock.push(2_500, 90 * CLOCK_RATE + 3_000, false);
        assert_eq!((tick.time, tick.jumped), (7_500, false));
        assert_eq!(correction_at(clock.segments(), 0), -5_000);
        assert_eq!(correction_at(clock.segments(), 1_499), -5_000);
        assert_eq!(
            correction_at(clock.segments(), 1_500),
            4_500 - 90 * CLOCK_RATE
        );
    }

    #[test]
    fn an_announced_jump_may_be_short() {
        let mut clock = Clock::default();
        clock.push(0, 0, false);
        clock.push(100, 100, false);
        let tick = clock.push(200, 2 * CLOCK_RATE, true);
        assert_eq!((tick.time, tick.jumped), (200, true));
        let tick = clock.push(300, 4 * CLOCK_RATE, false);
        assert!(!tick.jumped);
    }
}
