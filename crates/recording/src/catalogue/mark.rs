//! Marks: spans with a label, which may be kept longer than the rest. The file `marks.jsonl` of a day has
//! one a line, and the index can be made anew from it.

use std::time::SystemTime;

use glassline_hub::StreamName;
use serde::{Deserialize, Serialize};

use crate::utc;

/// A span of a stream that somebody marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the mark in its folder.
    pub number: i64,
    /// Stream that the mark is of.
    pub stream: StreamName,
    /// Text for people; may be empty.
    pub label: String,
    /// Instant at which it begins.
    pub from: SystemTime,
    /// First instant after the span.
    pub to: SystemTime,
    /// Whether the span is kept for ever, and not only as long as events are.
    pub is_for_ever: bool,
}

/// A mark that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMark {
    /// Stream that the mark is of.
    pub stream: StreamName,
    /// Text for people; may be empty.
    pub label: String,
    /// Instant at which it begins.
    pub from: SystemTime,
    /// First instant after the span.
    pub to: SystemTime,
    /// Whether the span is kept for ever.
    pub is_for_ever: bool,
}

/// A mark as its line has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MarkLine {
    from_us: i64,
    to_us: i64,
    #[serde(default)]
    label: String,
    #[serde(default)]
    for_ever: bool,
}

impl MarkLine {
    pub(super) fn of(mark: &NewMark) -> Self {
        Self {
            from_us: utc::micros(mark.from),
            to_us: utc::micros(mark.to),
            label: mark.label.clone(),
            for_ever: mark.is_for_ever,
        }
    }

    /// Returns the mark of `stream`.
    pub(super) fn into_mark(self, stream: &StreamName) -> NewMark {
        NewMark {
            stream: stream.clone(),
            label: self.label,
            from: utc::from_micros(self.from_us),
            to: utc::from_micros(self.to_us),
            is_for_ever: self.for_ever,
        }
    }
}
