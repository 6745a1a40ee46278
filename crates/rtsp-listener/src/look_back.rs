//! Requests whose URL names an instant of a stream's recordings.

use std::time::{SystemTime, UNIX_EPOCH};

use glassline_playback::time_text::time;
use glassline_rtsp::server::Answer;

use super::past_playback::refused;
use super::pending_request::PendingRequest;

/// A request for the recordings of the stream `path` from an instant on.
#[derive(Debug)]
pub(super) struct LookBack {
    pub(super) path: String,
    pub(super) at: NamedInstant,
    pub(super) request: PendingRequest,
}

/// The instant of a stream's recordings that a URL names: `rtsp://HOST/cam?at=2026-11-30T10:15:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedInstant {
    At(SystemTime),
    /// The URL names none, and the client wants what was recorded: from the beginning on.
    Oldest,
    /// The text is no time.
    Unreadable,
}

impl NamedInstant {
    /// Reads the query of a URL; `None` if it names no instant, unless the client wants what is `of_past`.
    pub(super) fn of(query: Option<&str>, of_past: bool) -> Option<Self> {
        let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        match pairs.find(|(name, _)| name == "at") {
            Some((_, text)) => Some(time(&text).map_or(Self::Unreadable, Self::At)),
            None => of_past.then_some(Self::Oldest),
        }
    }

    /// Returns the instant that the URL names.
    ///
    /// # Errors
    /// Returns the answer to a text that is no time.
    pub(super) fn get(self) -> Result<SystemTime, Answer> {
        match self {
            Self::At(at) => Ok(at),
            Self::Oldest => Ok(UNIX_EPOCH),
            Self::Unreadable => Err(refused(
                "at= is no time: write a time as 2026-11-30T10:15:00Z, with any zone, or as seconds since \
                 1970",
            )),
        }
    }
}
