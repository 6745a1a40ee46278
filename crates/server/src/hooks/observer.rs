//! Which events of streams hooks are told of.

use std::collections::BTreeMap;
use std::time::Instant;

use glassline_hub::{State, StreamChange, StreamEvent, StreamName, StreamSummary};

use super::event::{Event, EventKind};
use crate::rooms;
use crate::runtime::calendar;

/// A stream as hooks see it.
#[derive(Clone, Debug)]
struct Observed {
    name: String,
    /// Whether the server fetches the stream itself.
    is_source: bool,
    /// Since when media is published; `None` if none is.
    live_since: Option<Instant>,
    /// Why the source is down; `None` if it is not.
    reason: Option<String>,
    viewers: usize,
}

/// What hooks were told of a stream.
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
    streams: BTreeMap<String, Reported>,
}

impl<F: Fn(&StreamName) -> bool> Observer<F> {
    pub(super) const fn new(fetches: F) -> Self {
        Self {
            fetches,
            streams: BTreeMap::new(),
        }
    }

    /// Forgets what hooks were told.
    pub(super) fn forget(&mut self) {
        self.streams.clear();
    }

    /// Returns what hooks are told of what has `happened`.
    pub(super) fn observe(&mut self, happened: &[StreamEvent]) -> Vec<Event> {
        let mut told = Vec::new();
        for event in happened {
            match event {
                StreamEvent::Present(streams) => {
                    let mut left = std::mem::take(&mut self.streams);
                    for stream in streams {
                        let name = stream.name.as_str();
                        if let Some(reported) = left.remove(name) {
                            self.streams.insert(name.to_owned(), reported);
                        }
                        self.look(stream, &mut told);
                    }
                    for (name, reported) in left {
                        reported.end(name, &mut told);
                    }
                }
                StreamEvent::Changed { change, stream } => match change {
                    StreamChange::Removed => {
                        let name = stream.name.to_string();
                        let reported = self.streams.remove(&name);
                        reported.unwrap_or_default().end(name, &mut told);
                    }
                    _ => self.look(stream, &mut told),
                },
            }
        }
        told
    }

    fn look(&mut self, stream: &StreamSummary, told: &mut Vec<Event>) {
        // Voices of rooms are private.
        if rooms::is_voice(stream.name.as_str()) {
            return;
        }
        let (live_since, reason) = match &stream.state {
            State::Live { since } => (Some(*since), None),
            State::Down { detail } | State::Ended { detail } => (None, Some(detail.clone())),
            _ => (None, None),
        };
        let name = stream.name.to_string();
        let reported = self.streams.entry(name.clone()).or_default();
        let observed = Observed {
            // A source that is being replaced is fetched all the same.
            is_source: reported.is_up.is_some() || (self.fetches)(&stream.name),
            name,
            live_since,
            reason,
            viewers: stream.viewers,
        };
        reported.look(&observed, told);
    }
}

impl Reported {
    /// Tells the end of a stream that is no more.
    fn end(mut self, name: String, events: &mut Vec<Event>) {
        let gone = Observed {
            name,
            is_source: self.is_up.is_some(),
            live_since: None,
            reason: None,
            viewers: 0,
        };
        self.look(&gone, events);
    }

    fn look(&mut self, stream: &Observed, events: &mut Vec<Event>) {
        let mut tell = |kind, reason: Option<String>| {
            let seen = (reason, stream.viewers);
            events.push(Event::new(kind, &stream.name, seen, calendar::now()));
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
