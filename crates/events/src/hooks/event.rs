use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// Somebody began to publish the stream.
    Publish,
    /// Somebody stopped publishing the stream.
    Unpublish,
    /// The first viewer came.
    FirstViewer,
    /// The last viewer left.
    LastViewer,
    /// A source of the configuration sends media, for the first time or again.
    SourceUp,
    /// A source of the configuration failed or ended.
    SourceDown,
    /// The stream is recorded from now on.
    RecordingStarted,
    /// The stream is not recorded any more.
    RecordingStopped,
    /// The recording of the stream loses frames.
    RecordingFailed,
    /// A recording that lost frames goes on.
    RecordingResumed,
}

impl EventKind {
    /// Every kind, in the order of metrics.
    pub const ALL: [Self; 10] = [
        Self::Publish,
        Self::Unpublish,
        Self::FirstViewer,
        Self::LastViewer,
        Self::SourceUp,
        Self::SourceDown,
        Self::RecordingStarted,
        Self::RecordingStopped,
        Self::RecordingFailed,
        Self::RecordingResumed,
    ];

    /// Returns the name in the configuration, in events and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Unpublish => "unpublish",
            Self::FirstViewer => "first_viewer",
            Self::LastViewer => "last_viewer",
            Self::SourceUp => "source_up",
            Self::SourceDown => "source_down",
            Self::RecordingStarted => "recording_started",
            Self::RecordingStopped => "recording_stopped",
            Self::RecordingFailed => "recording_failed",
            Self::RecordingResumed => "recording_resumed",
        }
    }
}

/// Something that happened to a stream, as hooks are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Kind of the event, by which hooks choose.
    #[serde(rename = "event")]
    pub(super) kind: EventKind,
    /// Name of the stream.
    pub(super) stream: String,
    /// The reason why a source is down, or a recording loses frames; `None` of other events.
    pub(super) reason: Option<String>,
    /// Number of viewers after the event.
    pub(super) viewers: usize,
    /// Time of the event, in ms since 1970 (UTC).
    pub(super) time_ms: u64,
}

impl Event {
    /// Returns an event that happens at the time `at`, without a reason or viewers.
    pub(super) fn new(kind: EventKind, stream: &str, at: SystemTime) -> Self {
        let since = at.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or(Duration::ZERO);
        Self {
            kind,
            stream: stream.to_owned(),
            reason: None,
            viewers: 0,
            time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
