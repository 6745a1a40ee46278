//! Which events lie between two looks at the streams.

use std::collections::BTreeMap;
use std::time::Instant;

use glassline_hub::{State, Status, Stream};

use super::log::{Event, EventKind, Severity};

/// Returns why a stream has the status that it has, as a text for people; `None` if it is live.
/// `is_fetched`: whether the server fetches the stream itself.
pub(crate) fn status_reason(stream: &Stream, is_fetched: bool, now: Instant) -> Option<String> {
    let text = match (stream.state(), is_fetched) {
        (State::Down { detail } | State::Ended { detail }, _) => return Some(detail),
        (State::Live { .. }, _) if stream.status(now) == Status::Hangs => {
            "the source is connected, but no media has come for 8 s"
        }
        (State::Live { .. }, _) => return None,
        (State::Idle, _) => "the source is fetched when somebody watches",
        (State::Connecting, true) => "the server is connecting to the source",
        (State::Connecting, false) => "nobody publishes the stream yet",
        _ => return None,
    };
    Some(text.to_owned())
}

/// A stream at one look.
#[derive(Clone, Debug)]
pub(crate) struct ObservedStream {
    pub(crate) name: String,
    pub(crate) status: Status,
    /// How the media comes, like `whip`; `None` without a source.
    pub(crate) source: Option<&'static str>,
    /// Since when media is published; `None` if none is.
    pub(crate) live_since: Option<Instant>,
    /// Why the stream has the state that it has, if anybody knows.
    pub(crate) reason: Option<String>,
}

/// Finds the events between two looks.
#[derive(Debug, Default)]
pub(crate) struct StreamObserver {
    streams: BTreeMap<String, (Status, Option<Instant>)>,
}

impl StreamObserver {
    /// Returns what has happened since the last look. A new stream that waits is no event: it is as
    /// it was made.
    pub(crate) fn look(&mut self, streams: Vec<ObservedStream>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut left = std::mem::take(&mut self.streams);
        for stream in streams {
            let before = left.remove(&stream.name);
            let now = (stream.status, stream.live_since);
            self.streams.insert(stream.name.clone(), now);
            if let Some(text) = text(before, &stream) {
                events.push(Event {
                    kind: EventKind::Stream,
                    severity: severity(stream.status),
                    subject: stream.name,
                    text,
                    reason: stream.reason,
                });
            }
        }
        events.extend(left.into_keys().map(|name| Event {
            kind: EventKind::Stream,
            severity: Severity::Neutral,
            subject: name,
            text: "is gone".to_owned(),
            reason: None,
        }));
        events
    }
}

/// Returns what has become of a stream; `None` if it is as before.
fn text(before: Option<(Status, Option<Instant>)>, stream: &ObservedStream) -> Option<String> {
    let by = stream.source.map(|it| format!(" by {it}"));
    let by = by.unwrap_or_default();
    match (before, stream.status) {
        // Another source may have come between two looks.
        (Some((Status::Live | Status::Hangs, since)), Status::Live)
            if since != stream.live_since =>
        {
            Some(format!("LIVE with another source{by}"))
        }
        (Some((before, _)), now) if before == now => None,
        (None, Status::Waiting) => None,
        (_, Status::Live) => Some(format!("LIVE{by}")),
        (_, Status::Hangs) => Some("HANGS".to_owned()),
        (_, Status::Unreachable) => Some("UNREACHABLE".to_owned()),
        (_, _) => Some("WAITING".to_owned()),
    }
}

const fn severity(status: Status) -> Severity {
    match status {
        Status::Live => Severity::Good,
        Status::Hangs | Status::Unreachable => Severity::Bad,
        _ => Severity::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn changes_of_streams_are_told_once_with_their_reason() {
        let start = Instant::now();
        let stream = |status, since: Option<u64>, reason: Option<&str>| ObservedStream {
            name: "cam".to_owned(),
            status,
            source: since.map(|_| "camera"),
            live_since: since.map(|at| start + Duration::from_secs(at)),
            reason: reason.map(str::to_owned),
        };
        let mut observer = StreamObserver::default();
        let mut look = |streams| {
            let events = observer.look(streams).into_iter();
            let told = events.map(|it| (it.text, it.reason.unwrap_or_default()));
            told.collect::<Vec<_>>()
        };
        let told = |text: &str, reason: &str| vec![(text.to_owned(), reason.to_owned())];
        assert_eq!(look(vec![stream(Status::Waiting, None, None)]), []);
        let down = stream(Status::Unreachable, None, Some("no route"));
        assert_eq!(look(vec![down.clone()]), told("UNREACHABLE", "no route"));
        assert_eq!(look(vec![down]), []);
        let live = stream(Status::Live, Some(1), None);
        assert_eq!(look(vec![live.clone()]), told("LIVE by camera", ""));
        assert_eq!(look(vec![live.clone()]), []);
        let hangs = stream(Status::Hangs, Some(1), Some("nothing came"));
        assert_eq!(look(vec![hangs]), told("HANGS", "nothing came"));
        assert_eq!(look(vec![live]), told("LIVE by camera", ""));
        let other = stream(Status::Live, Some(9), None);
        assert_eq!(
            look(vec![other]),
            told("LIVE with another source by camera", "")
        );
        let ended = stream(Status::Waiting, None, Some("the publisher left"));
        assert_eq!(look(vec![ended]), told("WAITING", "the publisher left"));
        assert_eq!(look(vec![]), told("is gone", ""));
        assert_eq!(look(vec![]), []);
    }
}
