//! The parts of the server, and what is counted of each.

use crate::Counter;

/// Parts of the server that can panic and are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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
    /// A thread that transcodes audio.
    Transcoder,
    /// The listener, the sessions and the broadcasts of QUIC.
    Quic,
    /// HTTP connections and requests.
    Http,
    /// Other tasks of the server: its periodic cleaning, the watchdog, and reading files again.
    Background,
    /// The threads that record streams, and those that write recordings to disks.
    Recording,
    /// The threads that write the log.
    Log,
}

/// A task of a part, with the name that the log and the reason of a failure have for it.
#[derive(Clone, Copy, Debug)]
pub struct NamedTask {
    /// Part that the task's panics count for.
    pub part: Part,
    /// Name of the task in English.
    pub name: &'static str,
}

impl Part {
    /// Returns the task of this part that is called `name`.
    pub const fn task(self, name: &'static str) -> NamedTask {
        NamedTask { part: self, name }
    }

    /// Every part, in the order of the metrics.
    pub(super) const ALL: [Self; 11] = [
        Self::Shard,
        Self::Rtsp,
        Self::Multicast,
        Self::Library,
        Self::Source,
        Self::Transcoder,
        Self::Quic,
        Self::Http,
        Self::Background,
        Self::Recording,
        Self::Log,
    ];

    /// Returns whether the part's threads may have to wait for something outside of the server: a
    /// disk, or the reader of the log. A thread that waits delays its own streams or lines only, and
    /// starting the server again would not help.
    pub const fn waits_for_others(self) -> bool {
        matches!(
            self,
            Self::Library | Self::Source | Self::Recording | Self::Log
        )
    }

    /// Returns the part's name for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Rtsp => "rtsp",
            Self::Multicast => "multicast",
            Self::Library => "library",
            Self::Source => "source",
            Self::Transcoder => "transcoder",
            Self::Quic => "quic",
            Self::Http => "http",
            Self::Background => "background",
            Self::Recording => "recording",
            Self::Log => "log",
        }
    }
}

/// Counts of one part since the server started.
#[derive(Debug, Default)]
pub struct PartCounters {
    /// Panics, whether they cost one peer or the whole part.
    pub panics: Counter,
    /// Times that the part started anew after a panic.
    pub restarts: Counter,
}
