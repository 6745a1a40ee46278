//! Counters of QUIC sessions and broadcasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glassline_runtime::Counter;

/// Counts since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    /// Groups of publishers that were given up because newer ones had arrived.
    late_groups: Arc<Counter>,
    /// Units of streams that could not be sent to readers.
    left_out: Arc<Counter>,
}

/// The reason why a session was refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The handshake of QUIC, TLS or WebTransport failed.
    Handshake,
    /// Token, user or right were missing or wrong.
    Unauthorized,
    /// The server had as many sessions as configured.
    Full,
    /// The name of a broadcast is not a valid stream name.
    Name,
    /// The stream has another source.
    Busy,
    /// The catalog is malformed, or the server can carry nothing in it.
    Catalog,
    /// Frames are not what the catalog says.
    Frame,
    /// No keyframe came, or no data at all.
    Silent,
}

impl Reason {
    pub(crate) const ALL: [Self; 8] = [
        Self::Handshake,
        Self::Unauthorized,
        Self::Full,
        Self::Name,
        Self::Busy,
        Self::Catalog,
        Self::Frame,
        Self::Silent,
    ];

    /// Returns the name in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Unauthorized => "unauthorised",
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

    /// Returns the counter of publishers' groups that were given up because newer ones had arrived.
    pub(crate) fn late_groups(&self) -> &Arc<Counter> {
        &self.late_groups
    }

    /// Returns the counter of units that could not be sent to readers.
    pub(crate) fn left_out(&self) -> &Arc<Counter> {
        &self.left_out
    }
}
