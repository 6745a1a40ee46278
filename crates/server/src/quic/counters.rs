//! What happened to sessions and broadcasts, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that only rise.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    late_groups: AtomicU64,
    left_out: AtomicU64,
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

    pub(super) fn late(&self, groups: u64) {
        self.late_groups.fetch_add(groups, Ordering::Relaxed);
    }

    pub(super) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self, why: Reason) -> u64 {
        self.refused[why as usize].load(Ordering::Relaxed)
    }

    /// Groups of publishers that were passed over because newer ones were there.
    pub(crate) fn late_groups(&self) -> u64 {
        self.late_groups.load(Ordering::Relaxed)
    }

    /// Units of streams that could not be put together for readers.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}
