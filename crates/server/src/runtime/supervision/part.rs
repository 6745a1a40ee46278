//! The parts of the server, and what is counted of each.

use crate::runtime::Counter;

/// Parts of the server that can panic and are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A shard, which serves WebRTC peers.
    Shard,
    /// A thread that serves RTSP clients.
    Rtsp,
    /// The thread that sends to multicast groups.
    Multicast,
    /// A thread that reads files of the media folder.
    Library,
    /// The source of a stream: a file or a camera.
    Source,
    /// The listener, the sessions and the broadcasts of QUIC.
    Quic,
    /// HTTP connections and requests.
    Http,
    /// Other tasks of the server: its periodic cleaning, and reading files again.
    Background,
}

impl Part {
    /// Every part, in the order of the metrics.
    pub(super) const ALL: [Self; 8] = [
        Self::Shard,
        Self::Rtsp,
        Self::Multicast,
        Self::Library,
        Self::Source,
        Self::Quic,
        Self::Http,
        Self::Background,
    ];

    /// Returns whether the part's threads may have to wait for a disk. One that waits delays its
    /// own streams only, and starting the server again would not help.
    pub(crate) const fn waits_for_disks(self) -> bool {
        matches!(self, Self::Library | Self::Source)
    }

    /// Returns the part's name for logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Rtsp => "rtsp",
            Self::Multicast => "multicast",
            Self::Library => "library",
            Self::Source => "source",
            Self::Quic => "quic",
            Self::Http => "http",
            Self::Background => "background",
        }
    }
}

/// Counts of one part since the server started.
#[derive(Debug, Default)]
pub(crate) struct PartCounters {
    /// Panics, whether they cost one peer or the whole part.
    pub(crate) panics: Counter,
    /// Times that the part started anew after a panic.
    pub(crate) restarts: Counter,
}
