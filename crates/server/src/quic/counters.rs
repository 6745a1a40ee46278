//! What happened to sessions and broadcasts, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::Counter;

/// Counts that only rise.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    /// Groups of publishers that were passed over because newer ones were there.
    late_groups: Arc<Counter>,
    /// Units of streams that could not be sent to readers.
    left_out: Arc<Counter>,
}

/// Why somebody was sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The handshake was none.
    Handshake,
    /// Token, user or right.
    Unauthorised,
    /// As many as there may be.
    Full,
    /// No stream can have the name.
    Name,
    /// The stream has a source.
    Busy,
    /// The catalog is nonsense, or nothing in it can be carried.
    Catalog,
    /// Frames are not what the catalog says.
    Frame,
    /// No keyframe, or nothing at all.
    Silent,
}

impl Reason {
    pub(crate) const ALL: [Self; 8] = [
        Self::Handshake,
        Self::Unauthorised,
        Self::Full,
        Self::Name,
        Self::Busy,
        Self::Catalog,
        Self::Frame,
        Self::Silent,
    ];

    /// The name in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Unauthorised => "unauthorised",
            Self::Full => "full",
            Self::Name => "name",
            Self::Busy => "busy",
            Self::Catalog => "catalog",
            Self::Frame => "frame",
            Self::Silent => "silent",
        }
    }
}

impl Counters {
    pub(super) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, why: Reason) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self, why: Reason) -> u64 {
        self.refused[why as usize].load(Ordering::Relaxed)
    }

    /// Groups of publishers that were passed over because newer ones were there.
    pub(crate) fn late_groups(&self) -> &Arc<Counter> {
        &self.late_groups
    }

    /// Units of streams that could not be sent to readers.
    pub(crate) fn left_out(&self) -> &Arc<Counter> {
        &self.left_out
    }
}
