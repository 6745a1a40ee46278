//! Units of the delays in tables.

use serde::Serialize;

/// Unit of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Values are in milliseconds, rounded down.
    Ms,
    /// Microseconds, rounded down to whole milliseconds (0, 1000, 2000), the resolution of the
    /// study's clock.
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

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ms | Self::Bins => "ms",
            Self::Us => "µs",
        }
    }
}
