//! Which events of streams operators are told of.

use std::time::Instant;

use glassline_hub::{State, Status, StreamEvent, StreamName, StreamTable};

use super::log::{Event, EventKind, Severity};

/// Ways of media that are things, and no protocols.
const THINGS: [&str; 4] = ["camera", "file", "pipe", "program"];

/// Returns why a stream with a source in this `state` has the `status`, as a text for people; `None` if
/// it is live. `is_fetched`: whether the server fetches the stream itself.
pub fn status_reason(state: &State, status: Status, is_fetched: bool) -> Option<String> {
    let text = match (state, is_fetched) {
        (State::Down { detail } | State::Ended { detail }, _) => return Some(detail.clone()),
        (State::Live { .. }, _) if status == Status::Hangs => {
            "the source is connected, but no media has come for 8 s"
        }
        (State::Live { .. }, _) => return None,
        (State::Idle, _) => "connects when somebody watches",
        (State::Connecting, true) => "the server is connecting to the source",
        (State::Connecting, false) => "nobody publishes the stream yet",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Status of a stream, and since when media is published; `None` if none is.
type Seen = (Status, Option<Instant>);

/// Chooses what operators are told of streams.
#[derive(Debug)]
pub struct StreamObserver<F> {
    /// Returns whether the server fetches a stream itself.
    fetches: F,
    streams: StreamTable<Seen>,
}

impl<F: Fn(&StreamName) -> bool> StreamObserver<F> {
    /// Creates an observer; `fetches` tells whether the server fetches a stream itself.
    pub fn new(fetches: F) -> Self {
        Self {
            fetches,
            streams: StreamTable::default(),
        }
    }

    /// Returns what operators are told of what has `happened`. A new stream that waits is no event: it
    /// is as it was made.
    pub fn observe(&mut self, happened: &[StreamEvent]) -> Vec<Event> {
        let (mut told, fetches) = (Vec::new(), &self.fetches);
        for event in happened {
            self.streams.follow(event, |name, before, stream| {
                let Some(stream) = stream else {
                    told.push(gone(name));
                    return (Status::Waiting, None);
                };
                let live_since = match stream.state {
                    State::Live { since } => Some(since),
                    _ => None,
                };
                let now = (stream.status, live_since);
                if let Some(text) = text(before, now, stream.protocol) {
                    told.push(Event {
                        kind: EventKind::Stream,
                        severity: severity(stream.status),
                        subject: name.to_string(),
                        text,
                        reason: status_reason(&stream.state, stream.status, fetches(name)),
                    });
                }
                now
            });
        }
        told
    }
}

fn gone(name: &StreamName) -> Event {
    Event {
        kind: EventKind::Stream,
        severity: Severity::Neutral,
        subject: name.to_string(),
        text: "is gone".to_owned(),
        reason: None,
    }
}

/// Returns what has become of a stream, which comes by `protocol`; `None` if it is as before.
fn text(before: Option<Seen>, now: Seen, protocol: Option<&str>) -> Option<String> {
    let way = protocol.map(way).unwrap_or_default();
    match (before, now.0) {
        // Another source may have come without a pause.
        (Some((Status::Live | Status::Hangs, since)), Status::Live) if since != now.1 => {
            Some(format!("LIVE with another source{way}"))
        }
        (Some((before, _)), now) if before == now => None,
        (None, Status::Waiting) => None,
        (_, Status::Live) => Some(format!("LIVE{way}")),
        (_, Status::Hangs) => Some("HANGS".to_owned()),
        (_, Status::Unreachable) => Some("UNREACHABLE".to_owned()),
        (_, _) => Some("WAITING".to_owned()),
    }
}

/// Returns the words for the way on which the media comes.
fn way(protocol: &str) -> String {
    match protocol {
        "pull" => " from another server".to_owned(),
        thing if THINGS.contains(&thing) => format!(" from a {thing}"),
        protocol => format!(" by {protocol}"),
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
    use std::sync::Arc;
    use std::time::Duration;

    use glassline_hub::{Hub, SourceNote, Wake};
    use glassline_media::{Codec, Track};

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    #[test]
    fn changes_of_streams_are_told_once_with_their_reason() {
        let (hub, start) = (Arc::new(Hub::default()), Instant::now());
        let name = StreamName::parse("cam").expect("good");
        let cam = hub.create(name).expect("room");
        let mut events = hub.events(Arc::new(NoWake));
        let mut observer = StreamObserver::new(|_| true);
        let mut told = || {
            let mut happened = Vec::new();
            events.poll(&mut happened);
            let told = observer.observe(&happened).into_iter();
            let texts = told.map(|it| (it.text, it.reason.unwrap_or_default()));
            texts.collect::<Vec<_>>()
        };
        let one = |text: &str, reason: &str| vec![(text.to_owned(), reason.to_owned())];
        let publish = |at: u64| {
            let note = SourceNote {
                protocol: "camera",
                left_out: Vec::new(),
            };
            let tracks = vec![Track::audio(Codec::Opus, 1)];
            let begun = cam.take_over(note, tracks, start + Duration::from_secs(at));
            begun.expect("tracks")
        };
        let down = || State::Down {
            detail: "no route".to_owned(),
        };
        assert_eq!(told(), [], "it waits as it was made");
        cam.set_state(down());
        assert_eq!(told(), one("UNREACHABLE", "no route"));
        cam.set_state(down());
        assert_eq!(told(), []);
        let first = publish(1);
        assert_eq!(told(), one("LIVE from a camera", ""));
        hub.sweep(start + Duration::from_secs(9));
        let nothing = "the source is connected, but no media has come for 8 s";
        assert_eq!(told(), one("HANGS", nothing));
        let second = publish(10);
        drop(first);
        let another = "LIVE with another source from a camera";
        assert_eq!(told(), one(another, ""));
        second.finish(State::Ended {
            detail: "the publisher left".to_owned(),
        });
        assert_eq!(told(), one("WAITING", "the publisher left"));
        cam.set_state(State::Connecting);
        assert_eq!(told(), []);
        hub.remove("cam");
        assert_eq!(told(), one("is gone", ""));
    }
}
