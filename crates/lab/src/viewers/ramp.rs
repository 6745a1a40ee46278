//! Ramp: the number of viewers, step by step.

use std::str::FromStr;

/// A ramp of viewers: `START:END:STEP`, as in `0:300:25`.
///
/// A start of 0 has no step of its own: the server without viewers is always measured first, and
/// the steps begin with the first viewers. The last step is always `END`, whether or not it is a
/// multiple of the stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{start}:{end}:{stride}")]
pub struct Ramp {
    start: usize,
    end: usize,
    stride: usize,
}

/// Most viewers of a ramp: one address has not many more ports.
pub const VIEWERS_MAX: usize = 60_000;

/// Most steps of a ramp: each takes seconds and a line.
pub const STEPS_MAX: usize = 1_000;

/// Error for a text that is no ramp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not one number, or three with colons between.
    #[error("'{0}' is no ramp: give START:END:STEP like 0:300:25, or one number of viewers")]
    Shape(String),
    /// The ramp has no viewers.
    #[error("a ramp to 0 viewers measures nothing; END is at least 1")]
    Empty,
    /// The end is below the start.
    #[error("a ramp goes up: END ({end}) is below START ({start})")]
    Down {
        /// Viewers of the first step.
        start: usize,
        /// Viewers of the last step.
        end: usize,
    },
    /// The stride is zero, so the ramp never reaches its end.
    #[error("a STEP of 0 never gets from {start} to {end}")]
    NoStride {
        /// Viewers of the first step.
        start: usize,
        /// Viewers of the last step.
        end: usize,
    },
    /// More viewers than one machine has ports for.
    #[error("{0} viewers are more than one address has ports for; END is at most {VIEWERS_MAX}")]
    TooMany(usize),
    /// More than [`STEPS_MAX`] steps.
    #[error("{0} steps are more than {STEPS_MAX}; take a larger STEP")]
    TooLong(usize),
}

impl Ramp {
    /// A ramp from `start` to `end` viewers, with `stride` more at each step.
    pub fn new(start: usize, end: usize, stride: usize) -> Result<Self, Error> {
        let ramp = Self { start, end, stride };
        if end == 0 {
            return Err(Error::Empty);
        }
        if end < start {
            return Err(Error::Down { start, end });
        }
        if end > VIEWERS_MAX {
            return Err(Error::TooMany(end));
        }
        if stride == 0 && start != end {
            return Err(Error::NoStride { start, end });
        }
        let steps = (end - start).div_ceil(stride.max(1)) + 1;
        if steps > STEPS_MAX {
            return Err(Error::TooLong(steps));
        }
        Ok(ramp)
    }

    /// Viewers of each step, ascending, none of them 0.
    pub fn steps(&self) -> Vec<usize> {
        let strides = (self.start..self.end).step_by(self.stride.max(1));
        let mut steps: Vec<usize> = strides.filter(|viewers| *viewers > 0).collect();
        steps.push(self.end);
        steps
    }

    /// Viewers of the last step.
    pub const fn end(&self) -> usize {
        self.end
    }
}

impl FromStr for Ramp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let shape = || Error::Shape(text.to_owned());
        let numbers: Result<Vec<usize>, _> = text.split(':').map(str::parse).collect();
        match numbers.map_err(|_| shape())?[..] {
            [viewers] => Self::new(viewers, viewers, 0),
            [start, end, stride] => Self::new(start, end, stride),
            _ => Err(shape()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<usize> {
        text.parse::<Ramp>().expect(text).steps()
    }

    #[test]
    fn steps_rise_to_the_end_and_leave_nobody_out() {
        assert_eq!(steps("0:100:25"), [25, 50, 75, 100]);
        assert_eq!(steps("0:100:30"), [30, 60, 90, 100]);
        assert_eq!(steps("10:30:10"), [10, 20, 30]);
        assert_eq!(steps("1:3:1"), [1, 2, 3]);
        assert_eq!(steps("0:5:10"), [5]);
        assert_eq!(steps("0:6:3"), [3, 6]);
        assert_eq!(steps("300"), [300]);
        assert_eq!(steps("7:7:0"), [7]);
    }

    #[test]
    fn what_is_no_ramp_says_why() {
        let cases = [
            ("", "START:END:STEP"),
            ("a:b:c", "START:END:STEP"),
            ("0:100", "START:END:STEP"),
            ("0:100:25:1", "START:END:STEP"),
            ("-1:100:25", "START:END:STEP"),
            ("99999999999999999999999:1:1", "START:END:STEP"),
            ("0", "measures nothing"),
            ("0:0:5", "measures nothing"),
            ("100:50:10", "goes up"),
            ("0:100:0", "never gets"),
            ("0:70000:1000", "ports"),
            ("0:60000:1", "larger STEP"),
        ];
        for (text, wanted) in cases {
            let error = text.parse::<Ramp>().expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_ramp_ends_at_its_end_and_only_rises(
            start in 0usize..500, more in 0usize..500, stride in 1usize..100
        ) {
            proptest::prop_assume!(start + more > 0);
            let ramp = Ramp::new(start, start + more, stride).expect("a ramp");
            let steps = ramp.steps();
            proptest::prop_assert_eq!(steps.last(), Some(&(start + more)));
            proptest::prop_assert!(steps.is_sorted() && steps[0] > 0);
            proptest::prop_assert!(steps.windows(2).all(|pair| pair[1] - pair[0] <= stride));
            proptest::prop_assert_eq!(ramp.to_string().parse::<Ramp>(), Ok(ramp));
        }

        #[test]
        fn no_text_panics(text in "[0-9:a-]{0,24}") {
            if let Ok(ramp) = text.parse::<Ramp>() {
                proptest::prop_assert!(!ramp.steps().is_empty());
            }
        }
    }
}
