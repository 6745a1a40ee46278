//! The newest events of each kind.

use std::collections::{HashMap, VecDeque};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failures::shown;

/// Most events of a kind that are kept. With the bounds of texts below, all kinds together take at
/// most 1.4 MiB.
const EVENTS_OF_A_KIND_MAX: usize = 256;

/// Most bytes of each text of an event.
const SUBJECT_BYTES_MAX: usize = 96;
const TEXT_BYTES_MAX: usize = 128;
const REASON_BYTES_MAX: usize = 512;

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A stream changed its state, or another source took it over.
    Stream,
    /// A stream is recorded or not any more, loses frames of its recording, or a folder of recordings
    /// fails.
    Recording,
    /// A connection failed: equal failures of one source are one event.
    Failure,
    /// The configuration, users or certificates were read again, or could not be.
    Reload,
    /// The server, or another one of its cluster, drains, dies or comes back.
    Cluster,
    /// A certificate was renewed, or could not be.
    Certificate,
    /// An operator signed in or out, or tried to with wrong credentials.
    SignIn,
    /// The server started, or one of its threads makes no progress.
    Server,
}

impl EventKind {
    /// Number of kinds.
    const COUNT: usize = 8;
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something works, or works again.
    Good,
    /// Something waits, or changed as somebody wanted it.
    Neutral,
    /// Something does not work.
    Bad,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event, with a bound of its own.
    pub kind: EventKind,
    /// Severity of the event for an operator.
    pub severity: Severity,
    /// The stream, file, certificate, server or operator that the event is about; empty for this
    /// server.
    pub subject: String,
    /// The event in words, to be read after the subject.
    pub text: String,
    /// The reason why it happened, if anybody knows.
    pub reason: Option<String>,
}

/// An event with its place in the log; equal events that follow each other are one.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Number of the event since the server started, from 1. It stays as equal events are counted.
    pub number: u64,
    /// Rises with every event that is noted.
    order: u64,
    /// The latest of the equal events.
    pub event: Event,
    /// Number of equal events that this one stands for.
    pub count: u64,
    /// Times of the latest of them by the monotonic clock and by the calendar.
    pub at: Instant,
    /// Time of the latest event by the calendar.
    pub at_calendar: SystemTime,
}

/// The newest events of each kind.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    /// The events of each kind, the newest last.
    kinds: [VecDeque<RecordedEvent>; EventKind::COUNT],
}

impl EventLog {
    /// Notes an event that happens at `at`, which is `at_calendar` by the calendar. An event that equals the newest one of its subject and kind
    /// is counted there, and becomes the newest of all.
    pub fn note(&self, event: Event, at: Instant, at_calendar: SystemTime) {
        let event = Event {
            subject: shown(&event.subject, SUBJECT_BYTES_MAX).into(),
            text: shown(&event.text, TEXT_BYTES_MAX).into(),
            reason: event.reason.map(|it| shown(&it, REASON_BYTES_MAX).into()),
            ..event
        };
        let mut kept = self.kept.lock();
        kept.count += 1;
        let order = kept.count;
        let events = &mut kept.kinds[event.kind as usize];
        let newest = events
            .iter()
            .rposition(|it| it.event.subject == event.subject);
        let equal = newest.filter(|index| events[*index].event == event);
        let before = equal.and_then(|index| events.remove(index));
        if events.len() >= EVENTS_OF_A_KIND_MAX {
            make_room(events);
        }
        events.push_back(RecordedEvent {
            number: before.as_ref().map_or(order, |it| it.number),
            order,
            event,
            count: before.map_or(0, |it| it.count) + 1,
            at,
            at_calendar,
        });
    }

    /// Returns the events of the kinds that `wants` returns true for, the newest first.
    pub fn newest(&self, wants: impl Fn(EventKind) -> bool) -> Vec<RecordedEvent> {
        let kept = self.kept.lock();
        let events = kept.kinds.iter().flatten();
        let mut events: Vec<RecordedEvent> =
            events.filter(|it| wants(it.event.kind)).cloned().collect();
        drop(kept);
        events.sort_unstable_by_key(|it| std::cmp::Reverse(it.order));
        events
    }
}

/// Removes the oldest event of the subject that has most of them.
fn make_room(events: &mut VecDeque<RecordedEvent>) {
    let mut counts = HashMap::<&str, usize>::new();
    for recorded in &*events {
        *counts.entry(&recorded.event.subject).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or_default();
    let has_most = |it: &RecordedEvent| counts[it.event.subject.as_str()] == most;
    if let Some(index) = events.iter().position(has_most) {
        events.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(kind: EventKind, subject: &str, text: &str) -> Event {
        Event {
            kind,
            severity: Severity::Neutral,
            subject: subject.to_owned(),
            text: text.to_owned(),
            reason: None,
        }
    }

    fn now() -> (Instant, SystemTime) {
        (Instant::now(), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn a_stream_that_flaps_pushes_out_its_own_events_first() {
        let (log, (at, calendar)) = (EventLog::default(), now());
        for camera in 0..20 {
            let quiet = event(EventKind::Stream, &format!("cam{camera}"), "LIVE");
            log.note(quiet, at, calendar);
        }
        for turn in 0..1_000 {
            let text = ["LIVE", "UNREACHABLE"][turn % 2];
            log.note(event(EventKind::Stream, "flaps", text), at, calendar);
        }
        for _ in 0..1_000 {
            log.note(event(EventKind::SignIn, "", "was refused"), at, calendar);
        }
        let kept = log.newest(|kind| kind == EventKind::Stream);
        assert_eq!(kept.len(), EVENTS_OF_A_KIND_MAX);
        let quiet = kept.iter().filter(|it| it.event.subject != "flaps");
        assert_eq!(quiet.count(), 20);
        assert!(kept.is_sorted_by(|a, b| a.order > b.order));
    }

    #[test]
    fn equal_events_that_follow_each_other_are_counted() {
        let log = EventLog::default();
        let (begin, calendar) = now();
        for (second, (subject, text)) in [("a", "x"), ("b", "x"), ("a", "x"), ("b", "y")]
            .into_iter()
            .enumerate()
        {
            let at = begin + Duration::from_secs(second as u64);
            log.note(event(EventKind::Reload, subject, text), at, calendar);
        }
        let events = log.newest(|_| true);
        let told = events.iter().map(|it| {
            let Event { subject, text, .. } = &it.event;
            (it.number, subject.as_str(), text.as_str(), it.count)
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(4, "b", "y", 1), (1, "a", "x", 2), (2, "b", "x", 1)]
        );
        assert_eq!(events[1].at, begin + Duration::from_secs(2));
    }

    #[test]
    fn texts_are_short_and_do_not_write_over_others() {
        let (log, (at, calendar)) = (EventLog::default(), now());
        let mut long = event(EventKind::SignIn, "a\u{1b}[2J", &"x".repeat(10_000));
        long.reason = Some("y".repeat(10_000));
        log.note(long, at, calendar);
        let Event {
            subject,
            text,
            reason,
            ..
        } = log.newest(|_| true).remove(0).event;
        assert_eq!(subject, "a\u{fffd}[2J");
        assert!(text.len() <= TEXT_BYTES_MAX);
        assert!(reason.is_some_and(|it| it.len() <= REASON_BYTES_MAX));
    }
}
