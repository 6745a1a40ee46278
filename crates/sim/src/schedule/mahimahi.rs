//! Mahimahi's text: one whole number a line, the millisecond of an opportunity, from
//! which the trace begins again after the last.

use thiserror::Error;

use super::Schedule;

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A line is not a number of milliseconds.
    #[error("line {line}: `{text}` is not a whole number of milliseconds below 2^32")]
    Number {
        /// Counted from 1.
        line: usize,
        /// The beginning of what stands there.
        text: String,
    },
    /// Time goes back.
    #[error("line {line}: {at_ms} ms comes after {before_ms} ms; a trace must not go back")]
    Order {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        at_ms: u32,
        /// What stands before.
        before_ms: u32,
    },
    /// Nothing could ever pass, or all at once.
    #[error("a trace needs an opportunity after 0 ms")]
    Empty,
    /// More lines than [`Schedule::OPPORTUNITIES_MAX`].
    #[error("more than {} opportunities", Schedule::OPPORTUNITIES_MAX)]
    TooLong,
}

impl Schedule {
    /// Reads Mahimahi's text. Empty lines and lines that begin with `#` are passed over.
    ///
    /// # Errors
    ///
    /// Names the line of what is no trace.
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
