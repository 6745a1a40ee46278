//! Which events of streams hooks are told of.

use std::time::Instant;

use glassline_hub::{State, StreamEvent, StreamName, StreamSummary, StreamTable};
use glassline_rooms as rooms;
use glassline_runtime::calendar;

use super::event::{Event, EventKind};

/// A stream as hooks see it.
#[derive(Clone, Debug)]
struct Observed {
    name: String,
    /// Whether the server fetches the stream itself.
    is_source: bool,
    /// Since when media is published; `None` if none is.
    live_since: Option<Instant>,
    /// The reason why the source is down; `None` if it is not.
    reason: Option<String>,
    viewers: usize,
}

/// The state that hooks were told of a stream.
#[derive(Debug, Default)]
struct Reported {
    live_since: Option<Instant>,
    /// Whether a source that the server fetches was up the last time; `None` before anything was told.
    is_up: Option<bool>,
    has_viewers: bool,
}

/// Chooses what hooks are told.
#[derive(Debug)]
pub(super) struct Observer<F> {
    /// Returns whether the server fetches a stream itself.
    fetches: F,
    streams: StreamTable<Reported>,
}

impl<F: Fn(&StreamName) -> bool> Observer<F> {
    pub(super) fn new(fetches: F) -> Self {
        Self {
            fetches,
            streams: StreamTable::default(),
        }
    }

    /// Forgets what hooks were told.
    pub(super) fn forget(&mut self) {
        self.streams = StreamTable::default();
    }

    /// Returns what hooks are told of what has `happened`.
    pub(super) fn observe(&mut self, happened: &[StreamEvent]) -> Vec<Event> {
        let (mut told, fetches) = (Vec::new(), &self.fetches);
        for event in happened {
            self.streams.follow(event, |name, reported, stream| {
                let mut reported = reported.unwrap_or_default();
                // Voices of rooms are private.
                if !rooms::is_voice(name.as_str()) {
                    // A source that is being replaced is fetched all the same.
                    let is_source = reported.is_up.is_some() || stream.is_some() && fetches(name);
                    reported.look(&Observed::new(name, is_source, stream), &mut told);
                }
                reported
            });
        }
        told
    }
}

impl Observed {
    /// Describes `stream`, which is `None` if there is none of this name any more.
    fn new(name: &StreamName, is_source: bool, stream: Option<&StreamSummary>) -> Self {
        let (live_since, reason) = match stream.map(|it| &it.state) {
            Some(State::Live { since }) => (Some(*since), None),
            Some(State::Down { detail } | State::Ended { detail }) => (None, Some(detail.clone())),
            _ => (None, None),
        };
        Self {
            name: name.to_string(),
            is_source,
            live_since,
            reason,
            viewers: stream.map_or(0, |it| it.viewers),
        }
    }
}

impl Reported {
    fn look(&mut self, stream: &Observed, events: &mut Vec<Event>) {
        let mut tell = |kind, reason: Option<String>| {
            events.push(Event {
                reason,
                viewers: stream.viewers,
                ..Event::new(kind, &stream.name, calendar::now())
            });
        };
        if stream.is_source {
            // A source that is fetched on demand rests in between, which is no failure.
            let is_up = match (&stream.live_since, &stream.reason) {
                (Some(_), _) => Some(true),
                (None, Some(_)) => Some(false),
                (None, None) => self.is_up,
            };
            if is_up != self.is_up {
                self.is_up = is_up;
                match is_up {
                    Some(true) => tell(EventKind::SourceUp, None),
                    _ => tell(EventKind::SourceDown, stream.reason.clone()),
                }
            }
        } else if self.live_since != stream.live_since {
            // Another publisher may have come between two looks.
            if self.live_since.is_some() {
                tell(EventKind::Unpublish, None);
            }
            if stream.live_since.is_some() {
                tell(EventKind::Publish, None);
            }
            self.live_since = stream.live_since;
        }
        let has_viewers = stream.viewers > 0;
        if has_viewers != self.has_viewers {
            self.has_viewers = has_viewers;
            match has_viewers {
                true => tell(EventKind::FirstViewer, None),
                false => tell(EventKind::LastViewer, None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
