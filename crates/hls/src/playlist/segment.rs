//! Segments and their parts.

use std::sync::Arc;
use std::time::Duration;

/// A Media Segment of a playlist.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Media Sequence Number, which is also its name.
    pub(super) number: u64,
    pub(super) folder: Arc<str>,
    /// Name of its initialization.
    pub(super) map: Arc<str>,
    /// Time of its first frame since 1970-01-01 UTC.
    pub(super) date: Duration,
    /// Discontinuities between the segment before and this one.
    pub(super) discontinuities: u32,
    /// Whether the source sent nothing.
    pub(super) gap: bool,
    /// Whether clients get the segment only as a whole: one of its parts is longer than parts may be,
    /// because the source paused.
    pub(super) undivided: bool,
    pub(super) duration: Duration,
    pub(super) parts: Vec<Part>,
}

/// A Partial Segment.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The number in its name.
    pub(super) number: u64,
    pub(super) folder: Arc<str>,
    pub(super) duration: Duration,
    pub(super) bytes: usize,
    pub(super) independent: bool,
}

impl Segment {
    pub(super) fn push(&mut self, part: Part) {
        self.duration += part.duration;
        self.parts.push(part);
    }

    /// Returns the parts that the playlist has.
    pub(super) fn listed_parts(&self) -> &[Part] {
        match self.undivided {
            true => &[],
            false => &self.parts,
        }
    }

    /// Returns whether both segments have one initialization, at one place.
    pub(super) fn shares_map_with(&self, other: &Self) -> bool {
        (&self.folder, &self.map) == (&other.folder, &other.map)
    }
}
