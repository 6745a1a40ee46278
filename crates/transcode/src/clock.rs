//! Holds the transcoded audio to the timeline of the source.

use std::time::Duration;

use glassline_media::MediaTime;

use crate::RATE;
use crate::resample::CORRECTION_MAX;

/// Errors of the latest frames, of which the median decides. Timestamps of cameras vary from frame
/// to frame; three frames that agree are no variation.
const ERRORS: usize = 5;

/// Error in seconds from which samples are inserted or left out. Below it, the resampler makes up
/// for the error without being heard.
const STEP_S: f64 = 0.020;

/// Error in seconds from which a gap is filled at once: no timestamps vary that much.
const GAP_S: f64 = 0.120;

/// Error in seconds from which a gap is left open instead of being filled with silence.
const RESTART_S: f64 = 0.500;

/// Error in seconds beyond which times that went back are followed instead of being waited for.
const BACKWARD_S: f64 = 5.0;

/// Share of the smoothed error that is corrected in a second. With clocks that differ by 100 ppm an
/// error of 2 ms remains.
const CORRECTED_PER_S: f64 = 0.05;

/// Time over which the error is smoothed, in seconds.
const SMOOTHED_S: f64 = 1.0;

/// The action that keeps the output aligned with the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Alignment {
    /// Make the output longer by this share of its length, or shorter if it is negative.
    Correct(f64),
    /// Insert this many samples of silence before the frame.
    Insert(usize),
    /// Leave out this many samples, beginning with the frame.
    Skip(usize),
    /// Begin again at the time of the frame.
    Restart,
}

/// Counts the samples at [`RATE`] that were made, and compares them with the times of the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputClock {
    /// Time of the first sample since the latest start; `None` before it.
    anchor: Option<MediaTime>,
    /// Samples of each channel since the latest start.
    made: u64,
    /// Errors of the latest frames in seconds, newest last. Positive: the output is too short.
    errors: Vec<f64>,
    smoothed: f64,
}

impl OutputClock {
    /// Decides about a frame at `time` that lasts `duration` seconds. Its first sample will be
    /// sample number `made + delay`.
    pub(crate) fn align(&mut self, time: MediaTime, duration: f64, delay: f64) -> Alignment {
        let Some(anchor) = self.anchor else {
            return Alignment::Restart;
        };
        let expected = (self.made as f64 + delay) / f64::from(RATE);
        let error = seconds_between(anchor, time) - expected;
        if error >= RESTART_S || error <= -BACKWARD_S {
            return Alignment::Restart;
        }
        if self.errors.len() == ERRORS {
            self.errors.remove(0);
        }
        self.errors.push(error);
        let median = median(&self.errors);
        let step = match error >= GAP_S {
            true => Some(error),
            false => (self.errors.len() == ERRORS && median.abs() > STEP_S).then_some(median),
        };
        if let Some(step) = step {
            self.forget();
            let samples = (step.abs() * f64::from(RATE)).round() as usize;
            return match step.is_sign_positive() {
                true => Alignment::Insert(samples),
                false => Alignment::Skip(samples),
            };
        }
        let weight = duration / (duration + SMOOTHED_S);
        self.smoothed += weight * (median - self.smoothed);
        let correction = CORRECTED_PER_S * self.smoothed;
        Alignment::Correct(correction.clamp(-CORRECTION_MAX, CORRECTION_MAX))
    }

    /// Begins at `time`, which the sample number `delay` will have, but not before `floor`. Returns
    /// how many samples must be left out for that.
    pub(crate) fn restart(
        &mut self,
        time: MediaTime,
        delay: f64,
        floor: Option<MediaTime>,
    ) -> usize {
        let anchor = time - Duration::from_secs_f64(delay.max(0.0) / f64::from(RATE));
        self.forget();
        self.made = 0;
        let late = floor.map_or(0.0, |floor| seconds_between(anchor, floor));
        if late <= 0.0 || late >= BACKWARD_S {
            self.anchor = Some(anchor);
            return 0;
        }
        self.anchor = floor;
        (late * f64::from(RATE)).round() as usize
    }

    /// Counts `samples` more of each channel.
    pub(crate) fn add(&mut self, samples: usize) {
        self.made += samples as u64;
    }

    /// Returns the time of the sample that lies `back` samples before the next one; `None` before
    /// the start.
    pub(crate) fn time(&self, back: usize) -> Option<MediaTime> {
        let samples = i64::try_from(self.made.saturating_sub(back as u64)).ok()?;
        let since = MediaTime::from_ticks(samples, RATE).saturating_since(MediaTime::ZERO);
        Some(self.anchor? + since)
    }

    fn forget(&mut self) {
        self.errors.clear();
        self.smoothed = 0.0;
    }
}

fn seconds_between(from: MediaTime, to: MediaTime) -> f64 {
    to.nanos().saturating_sub(from.nanos()) as f64 / 1e9
}

/// Returns the middle one of at most [`ERRORS`] values; of two, the one nearer to zero.
fn median(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ if sorted[middle].abs() < sorted[middle - 1].abs() => sorted[middle],
        _ => sorted[middle - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    /// A clock that has taken `frames` frames of 20 ms from time zero on.
    fn running(frames: usize) -> OutputClock {
        let mut clock = OutputClock::default();
        assert_eq!(clock.align(ms(0), 0.02, 0.0), Alignment::Restart);
        assert_eq!(clock.restart(ms(0), 0.0, None), 0);
        clock.add(960);
        for frame in 1..frames {
            let aligned = clock.align(ms(20 * frame as i64), 0.02, 0.0);
            assert_eq!(aligned, Alignment::Correct(0.0));
            clock.add(960);
        }
        clock
    }

    #[test]
    fn a_frame_that_varies_alone_moves_nothing() {
        let mut clock = running(10);
        for (frame, by) in [(10, 0), (11, 60), (12, -60), (13, 0), (14, 0)] {
            let aligned = clock.align(ms(20 * frame + by), 0.02, 0.0);
            let Alignment::Correct(correction) = aligned else {
                panic!("{aligned:?}");
            };
            assert!(correction.abs() < 1e-4);
            clock.add(960);
        }
    }

    #[test]
    fn a_lost_frame_is_made_up_for_when_three_frames_agree() {
        let mut clock = running(10);
        let mut steps = Vec::new();
        for frame in 0..5 {
            let aligned = clock.align(ms(221 + 20 * frame), 0.02, 0.0);
            if let Alignment::Insert(samples) = aligned {
                steps.push((frame, samples));
                clock.add(samples);
            }
            clock.add(960);
        }
        assert_eq!(steps, [(2, 48 * 21)]);
    }

    #[test]
    fn a_gap_is_filled_at_once_and_a_long_one_is_left_open() {
        let mut clock = running(3);
        assert_eq!(
            clock.align(ms(60 + 300), 0.02, 0.0),
            Alignment::Insert(14_400)
        );
        let mut clock = running(3);
        assert_eq!(clock.align(ms(60 + 500), 0.02, 0.0), Alignment::Restart);
        assert_eq!(clock.restart(ms(560), 0.0, clock.time(0)), 0);
        assert_eq!(clock.time(0), Some(ms(560)));
    }

    #[test]
    fn times_that_went_back_are_waited_for_unless_they_went_far() {
        let mut clock = running(10);
        let mut aligned = Alignment::Correct(0.0);
        for frame in 0..3 {
            aligned = clock.align(ms(20 * frame), 0.02, 0.0);
            clock.add(960);
        }
        assert_eq!(aligned, Alignment::Skip(9_600));
        let mut clock = running(10);
        assert_eq!(clock.align(ms(-6_000), 0.02, 0.0), Alignment::Restart);
        assert_eq!(clock.restart(ms(-6_000), 0.0, clock.time(0)), 0);
        assert_eq!(clock.time(0), Some(ms(-6_000)));
    }

    #[test]
    fn a_restart_overlaps_nothing_that_was_made() {
        let mut clock = running(10);
        let floor = clock.time(0);
        assert_eq!(
            clock.restart(ms(190), 0.0, floor),
            480,
            "10 ms were made already"
        );
        assert_eq!(clock.time(0), Some(ms(200)));
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, -9.0, 1.0]), 1.0);
        assert_eq!(median(&[5.0, 1.0]), 1.0);
        assert_eq!(median(&[-5.0, -1.0]), -1.0);
    }

    /// Takes frames of 20 ms whose errors are these, in milliseconds, and returns the alignments.
    fn aligned(errors: &[i64]) -> Vec<Alignment> {
        let mut clock = running(1);
        let frames = (1..).zip(errors);
        frames
            .map(|(frame, error)| {
                let aligned = clock.align(ms(20 * frame + error), 0.02, 0.0);
                clock.add(960);
                aligned
            })
            .collect()
    }

    #[test]
    fn steps_are_taken_from_the_thresholds_on() {
        for (errors, expected) in [
            (vec![119], None),
            (vec![120], Some(Alignment::Insert(5_760))),
            (vec![499], Some(Alignment::Insert(23_952))),
            (vec![500], Some(Alignment::Restart)),
            (vec![-4_999], None),
            (vec![-5_000], Some(Alignment::Restart)),
            (vec![20; 5], None),
            (vec![-20; 5], None),
            (vec![21; 4], None),
            (vec![21; 5], Some(Alignment::Insert(1_008))),
            (vec![-21; 5], Some(Alignment::Skip(1_008))),
            (vec![-400; 5], Some(Alignment::Skip(19_200))),
            // The median of five decides, and the oldest are forgotten.
            (vec![0, 0, 10, 31, 32], None),
            (vec![0, 0, 0, 30, 31, 32], Some(Alignment::Insert(1_440))),
            (vec![0, 0, 0, 0, 31, 32, 33], Some(Alignment::Insert(1_488))),
            (vec![0, 0, 30, 0, 32, 33], Some(Alignment::Insert(1_440))),
            // A step begins the errors anew.
            (vec![21, 21, 21, 21, 21, 21], None),
            (vec![150, 21, 21, 21, 21], None),
            (
                vec![150, 21, 21, 21, 21, 21],
                Some(Alignment::Insert(1_008)),
            ),
        ] {
            let aligned = aligned(&errors);
            let last = aligned.last().copied();
            let step = last.filter(|it| !matches!(it, Alignment::Correct(_)));
            assert_eq!(step, expected, "{errors:?}");
        }
    }

    #[test]
    fn small_errors_are_corrected_smoothly() {
        let weight = 0.02 / 1.02;
        let (mut smoothed, mut corrections) = (0.0, Vec::new());
        // The medians of the errors: of two, the one nearer to zero.
        for median in [0.010, 0.004, 0.006, 0.004, 0.006, 0.006, -0.001] {
            smoothed += weight * (median - smoothed);
            corrections.push(0.05 * smoothed);
        }
        let aligned = aligned(&[10, 4, 6, -2, 15, 12, -1, -9]);
        for (aligned, expected) in aligned.iter().zip(corrections.iter().take(6)) {
            let Alignment::Correct(correction) = aligned else {
                panic!("{aligned:?}");
            };
            assert!(
                (correction - expected).abs() < 1e-12,
                "{aligned:?} {expected}"
            );
        }
    }

    #[test]
    fn corrections_are_limited() {
        for (error, limit) in [(119, CORRECTION_MAX), (-4_999, -CORRECTION_MAX)] {
            let mut clock = running(1);
            // A frame of an hour has the whole weight.
            let aligned = clock.align(ms(20 + error), 3_600.0, 0.0);
            assert_eq!(aligned, Alignment::Correct(limit), "{error}");
        }
    }

    #[test]
    fn the_delay_counts_as_made() {
        let mut clock = running(1);
        // 20 ms are made and 10 ms wait.
        assert_eq!(clock.align(ms(30), 0.02, 480.0), Alignment::Correct(0.0));
        assert_eq!(clock.align(ms(150), 0.02, 480.0), Alignment::Insert(5_760));
        assert_eq!(clock.align(ms(10), 0.02, -480.0), Alignment::Correct(0.0));
    }

    #[test]
    fn a_restart_begins_at_its_time_or_at_the_floor() {
        // Time and floor in milliseconds, samples of delay; samples to leave out, and the begin.
        for (time, delay, floor, skipped, begin) in [
            (100, 0.0, None, 0, 100),
            (100, 480.0, None, 0, 90),
            (100, -480.0, None, 0, 100),
            (100, 0.0, Some(100), 0, 100),
            (100, 0.0, Some(99), 0, 100),
            (100, 0.0, Some(101), 48, 101),
            (100, 480.0, Some(101), 528, 101),
            (100, 0.0, Some(5_099), 239_952, 5_099),
            (100, 0.0, Some(5_100), 0, 100),
        ] {
            let mut clock = running(4);
            let _ = clock.align(ms(85), 0.02, 0.0);
            let left_out = clock.restart(ms(time), delay, floor.map(ms));
            assert_eq!(left_out, skipped, "{time} {delay} {floor:?}");
            assert_eq!(clock.time(0), Some(ms(begin)), "{time} {delay} {floor:?}");
            assert_eq!((clock.errors.len(), clock.smoothed), (0, 0.0));
        }
    }

    #[test]
    fn samples_have_times() {
        assert_eq!(OutputClock::default().time(0), None);
        let clock = running(3);
        assert_eq!(clock.time(0), Some(ms(60)));
        assert_eq!(clock.time(480), Some(ms(50)));
        assert_eq!(clock.time(9_999), Some(ms(0)), "none is before the first");
    }

    #[test]
    fn medians_of_more_values() {
        for (values, expected) in [
            (&[7.0][..], 7.0),
            (&[1.0, 5.0], 1.0),
            (&[-1.0, 5.0], -1.0),
            (&[-5.0, 1.0], 1.0),
            (&[2.0, -2.0], -2.0),
            (&[4.0, 1.0, 3.0, 2.0], 2.0),
            (&[-4.0, -1.0, -3.0, -2.0], -2.0),
            (&[5.0, 1.0, 4.0, 2.0, 3.0], 3.0),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }
}
