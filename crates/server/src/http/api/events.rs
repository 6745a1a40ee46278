//! `/api/v1/events`: what happened to the server and its streams, and why.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::{Extension, Json};
use glassline_access::auth::Role;
use glassline_events::failures::{FailureRecord, Stage};
use glassline_events::{EventKind, RecordedEvent, Severity};
use glassline_runtime::calendar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::Query;
use super::super::openapi::{Operation, Routes};
use super::super::operators::Visitor;
use super::super::paging::{Extent, Page};
use crate::app::App;

/// Returns the route of events, for operators.
pub(super) fn routes() -> Routes {
    Routes::default().get(
        "/api/v1/events",
        Operation::new(
            "listEvents",
            "Lists what happened to the server and its streams, the newest first",
        ),
        events,
    )
}

/// Something that happened. The newest 256 of each kind are kept, and failures for an hour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub(in crate::http) struct EventView {
    /// Name of the event, which stays as equal events are counted.
    pub(in crate::http) id: String,
    pub(in crate::http) kind: EventKind,
    pub(in crate::http) severity: Severity,
    /// The stream, file, certificate, server or address that the event is about; empty for this
    /// server.
    pub(in crate::http) subject: String,
    /// The event in words, to be read after the subject.
    pub(in crate::http) text: String,
    /// The reason why it happened, if anybody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) reason: Option<String>,
    /// The remedy, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) remedy: Option<String>,
    /// Number of equal events that this one stands for.
    pub(in crate::http) count: u64,
    /// Calendar time of the latest of them, in ms since 1970 (UTC).
    pub(in crate::http) at_ms: u64,
    /// The latest of them by the monotonic clock, by which events are ordered.
    #[serde(skip)]
    pub(in crate::http) at: Instant,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
struct EventList {
    events: Vec<EventView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Filters of the list.
#[derive(Debug, Deserialize, JsonSchema)]
struct EventFilter {
    /// Lists only events of this kind.
    kind: Option<EventKind>,
    /// Lists only events about this stream, certificate, server or address.
    subject: Option<String>,
    /// Lists only events after this calendar time, in ms since 1970 (UTC).
    after_ms: Option<u64>,
}

/// Lists what happened: `GET /api/v1/events[?kind=stream&subject=NAME&after_ms=…]`. Who signed in is
/// for those with the role `admin`.
async fn events(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Query(filter): Query<EventFilter>,
    page: Page,
) -> Json<EventList> {
    let is_admin = visitor.has(Role::Admin);
    let wants = |kind| {
        (is_admin || kind != EventKind::SignIn) && filter.kind.is_none_or(|wanted| wanted == kind)
    };
    let mut events = all(&app, Instant::now(), wants);
    events.retain(|it| {
        let subject = filter.subject.as_ref();
        subject.is_none_or(|wanted| *wanted == it.subject)
            && filter.after_ms.is_none_or(|after| it.at_ms > after)
    });
    let (events, extent) = page.of(events);
    Json(EventList { events, extent })
}

/// Returns the events of the kinds that `wants` returns true for, connections that failed among them,
/// the newest first.
pub(in crate::http) fn all(
    app: &App,
    now: Instant,
    wants: impl Fn(EventKind) -> bool,
) -> Vec<EventView> {
    let (mut events, calendar) = (Vec::new(), calendar::now());
    if wants(EventKind::Failure) {
        let failures = app.failures.all(now).into_iter();
        events.extend(failures.map(|it| EventView::of_failure(it, now, calendar)));
    }
    let noted = app.http.events.newest(wants).into_iter();
    events.extend(noted.map(EventView::of));
    events.sort_by_key(|it| std::cmp::Reverse(it.at));
    events
}

impl EventView {
    fn of(recorded: RecordedEvent) -> Self {
        let RecordedEvent {
            number,
            event,
            count,
            at,
            at_calendar,
            ..
        } = recorded;
        Self {
            id: number.to_string(),
            kind: event.kind,
            severity: event.severity,
            subject: event.subject,
            text: event.text,
            reason: event.reason,
            remedy: None,
            count,
            at_ms: ms(at_calendar),
            at,
        }
    }

    fn of_failure(record: FailureRecord, now: Instant, calendar: SystemTime) -> Self {
        let (role, protocol) = (record.role.as_str(), record.protocol.as_str());
        let ago = now.saturating_duration_since(record.latest);
        let (severity, end) = match record.stage {
            Stage::Connected => (Severity::Neutral, "was disconnected"),
            _ => (Severity::Bad, "failed"),
        };
        Self {
            id: format!("f{}", record.number),
            kind: EventKind::Failure,
            severity,
            subject: record.stream.into(),
            text: format!("{role} by {protocol} from {} {end}", record.source),
            reason: Some(record.reason.into()),
            remedy: record.remedy.map(Into::into),
            count: record.count,
            at_ms: ms(calendar.checked_sub(ago).unwrap_or(UNIX_EPOCH)),
            at: record.latest,
        }
    }
}

fn ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
