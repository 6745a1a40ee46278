//! Which events lie between two looks at the streams.

use std::collections::BTreeMap;
use std::time::Instant;

use super::event::{Event, EventKind};
use crate::runtime::calendar;

/// A stream at one look.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) name: String,
    /// Whether the server fetches the stream itself.
    pub(super) is_source: bool,
    /// Since when media is published; `None` if none is.
    pub(super) live_since: Option<Instant>,
    /// Why the source is down; `None` if it is not.
    pub(super) reason: Option<String>,
    pub(super) viewers: usize,
}

/// What hooks were told of a stream.
#[derive(Debug, Default)]
struct Reported {
    live_since: Option<Instant>,
    /// Whether a source that the server fetches was up the last time; `None` before anything was told.
    is_up: Option<bool>,
    has_viewers: bool,
}

/// Finds the events between two looks.
#[derive(Debug, Default)]
pub(super) struct Observer {
    streams: BTreeMap<String, Reported>,
}

impl Observer {
    /// Returns what has happened since the last look.
    pub(super) fn look(&mut self, streams: Vec<Observed>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut left = std::mem::take(&mut self.streams);
        for stream in streams {
            let mut reported = left.remove(&stream.name).unwrap_or_default();
            reported.look(&stream, &mut events);
            self.streams.insert(stream.name, reported);
        }
        for (name, mut reported) in left {
            let gone = Observed {
                name,
                is_source: reported.is_up.is_some(),
                live_since: None,
                reason: None,
                viewers: 0,
            };
            reported.look(&gone, &mut events);
        }
        events
    }
}

impl Reported {
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
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn stream(live: Option<u64>, reason: Option<&str>, viewers: usize) -> Observed {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        Observed {
            name: "cam".to_owned(),
            is_source: false,
            live_since: live.map(|at| *START + Duration::from_secs(at)),
            reason: reason.map(str::to_owned),
            viewers,
        }
    }

    fn kinds(events: &[Event]) -> Vec<EventKind> {
        events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn publishers_and_viewers_come_and_go() {
        use EventKind::{FirstViewer, LastViewer, Publish, Unpublish};
        let mut observer = Observer::default();
        let mut look = |streams| kinds(&observer.look(streams));
        assert_eq!(look(vec![stream(None, None, 0)]), []);
        assert_eq!(look(vec![stream(Some(1), None, 2)]), [Publish, FirstViewer]);
        assert_eq!(look(vec![stream(Some(1), None, 3)]), []);
        // Another publisher came between two looks.
        assert_eq!(look(vec![stream(Some(2), None, 3)]), [Unpublish, Publish]);
        assert_eq!(look(vec![stream(None, Some("left"), 3)]), [Unpublish]);
        assert_eq!(look(vec![]), [LastViewer], "the stream is gone");
        assert_eq!(look(vec![stream(Some(3), None, 0)]), [Publish]);
        assert_eq!(look(vec![]), [Unpublish]);
    }

    #[test]
    fn sources_are_up_and_down_with_a_reason_and_rest_unnoticed() {
        use EventKind::{SourceDown, SourceUp};
        let mut observer = Observer::default();
        let source = |live, reason| Observed {
            is_source: true,
            ..stream(live, reason, 0)
        };
        assert_eq!(observer.look(vec![source(None, None)]), []);
        let down = observer.look(vec![source(None, Some("no route"))]);
        assert_eq!(kinds(&down), [SourceDown]);
        assert_eq!(down[0].reason.as_deref(), Some("no route"));
        let mut look = |live, reason| kinds(&observer.look(vec![source(live, reason)]));
        assert_eq!(look(None, Some("refused")), [], "it is still down");
        assert_eq!(look(Some(1), None), [SourceUp]);
        assert_eq!(look(None, None), [], "it is fetched on demand");
        assert_eq!(look(Some(2), None), []);
        assert_eq!(look(None, Some("away")), [SourceDown]);
    }

    proptest! {
        #[test]
        fn events_of_a_stream_take_turns(
            looks in prop::collection::vec((any::<bool>(), 0..3_u64, 0..3_usize), 0..40)
        ) {
            let mut observer = Observer::default();
            let (mut is_live, mut is_watched) = (false, false);
            for (exists, live, viewers) in looks {
                let live = (live > 0).then_some(live);
                let streams = exists.then(|| stream(live, None, viewers));
                for event in observer.look(streams.into_iter().collect()) {
                    let (state, becomes) = match event.kind {
                        EventKind::Publish => (&mut is_live, true),
                        EventKind::Unpublish => (&mut is_live, false),
                        EventKind::FirstViewer => (&mut is_watched, true),
                        EventKind::LastViewer => (&mut is_watched, false),
                        other => return Err(TestCaseError::fail(other.as_str())),
                    };
                    prop_assert_ne!(*state, becomes, "{:?} twice", event.kind);
                    *state = becomes;
                }
                prop_assert_eq!(is_live, exists && live.is_some());
                prop_assert_eq!(is_watched, exists && viewers > 0);
            }
        }
    }
}
