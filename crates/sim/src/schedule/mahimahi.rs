//! Mahimahi's text format: each line has the millisecond of an opportunity; after the last
//! one, the trace repeats.

use thiserror::Error;

use super::Schedule;

/// The reason why a text could not be parsed as a trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A line is not a number of milliseconds.
    #[error("line {line}: `{text}` is not a whole number of milliseconds below 2^32")]
    Number {
        /// Number of the line, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
    /// An opportunity is before the previous one.
    #[error("line {line}: {at_ms} ms comes after {before_ms} ms; times must not decrease")]
    Order {
        /// Number of the line, from 1.
        line: usize,
        /// Time on the line, in ms.
        at_ms: u32,
        /// Time on the line before, in ms.
        before_ms: u32,
    },
    /// The trace has no opportunity after 0 ms, so that nothing could ever pass, or
    /// everything at once.
    #[error("a trace needs an opportunity after 0 ms")]
    Empty,
    /// The trace has more opportunities than [`Schedule::OPPORTUNITIES_MAX`].
    #[error(
        "the trace has more than {} opportunities; cut it",
        Schedule::OPPORTUNITIES_MAX
    )]
    TooLong,
}

impl Schedule {
    /// Parses Mahimahi's text. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    ///
    /// [`ScheduleError`] names the first invalid line.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut at_ms = Vec::new();
        let mut before_ms = 0;
        for (index, entry) in text.lines().enumerate() {
            let entry = entry.trim();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let Ok(at) = entry.parse::<u32>() else {
                let text = entry.chars().take(40).collect();
                return Err(ScheduleError::Number { line, text });
            };
            if at < before_ms {
                return Err(ScheduleError::Order {
                    line,
                    at_ms: at,
                    before_ms,
                });
            }
            if at_ms.len() == Self::OPPORTUNITIES_MAX {
                return Err(ScheduleError::TooLong);
            }
            before_ms = at;
            at_ms.push(at);
        }
        Self::new(at_ms, before_ms).ok_or(ScheduleError::Empty)
    }
}
