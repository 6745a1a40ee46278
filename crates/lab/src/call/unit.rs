//! What the delays of a stage are told in.

use serde::Serialize;

/// What the rows of a table count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds, rounded down.
    Ms,
    /// Microseconds, rounded down to whole milliseconds, which is what the clock of
    /// the study could tell: 0, 1000, 2000.
    Us,
    /// Milliseconds in eight ranges, from `(0-5]` to `(100-...]`.
    Bins,
}

impl Unit {
    /// The name in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Bins => "bins",
        }
    }

    /// What people read.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ms | Self::Bins => "ms",
            Self::Us => "µs",
        }
    }
}
