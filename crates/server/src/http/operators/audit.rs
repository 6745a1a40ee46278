//! `/api/v1/audit`: who changed what.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use glassline_access::audit::RecordedChange;
use glassline_access::auth::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::Query;
use super::super::openapi::{Operation, Routes};
use super::super::paging::{Extent, Page};
use crate::app::App;

pub(super) fn routes() -> Routes {
    Routes::default().get(
        "/api/v1/audit",
        Operation::new(
            "listChanges",
            "Lists what operators changed, the newest first",
        )
        .needs(Role::Admin),
        list,
    )
}

/// Something that an operator asked for, and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
struct ChangeView {
    /// Number of the entry, without gaps. It goes on after a restart if there is a file of changes.
    number: u64,
    /// Calendar time in ms since 1970 (UTC).
    at_ms: u64,
    who: String,
    /// Role of an operator; null for a viewer, who exported a recording.
    role: Option<Role>,
    /// Address that the request came from.
    from: String,
    /// Operation of this document.
    action: &'static str,
    /// Method and path of the request.
    target: String,
    /// Status of the answer.
    status: u16,
    /// The reason why it was refused; null if it was not.
    reason: Option<String>,
    /// How often the operator asked for it within a minute; 1 for changes of users, tokens and
    /// sources, which have an entry each.
    count: u64,
}

impl From<RecordedChange> for ChangeView {
    fn from(recorded: RecordedChange) -> Self {
        let RecordedChange {
            number,
            at,
            change,
            count,
        } = recorded;
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            number,
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            who: change.who,
            role: change.role,
            from: change.from.to_string(),
            action: change.action,
            target: change.target,
            status: change.status,
            reason: change.reason,
            count,
        }
    }
}

/// A page of what operators changed.
#[derive(Debug, Serialize, JsonSchema)]
struct Changes {
    changes: Vec<ChangeView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Filters of the list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChangeFilter {
    /// Lists only what this operator asked for.
    who: Option<String>,
    /// Lists only this operation, like `putSource`.
    action: Option<String>,
}

async fn list(
    State(app): State<App>,
    Query(filter): Query<ChangeFilter>,
    page: Page,
) -> Json<Changes> {
    let mut noted = app.http.audit.newest();
    noted.retain(|RecordedChange { change, .. }| {
        let who = filter.who.as_ref();
        let action = filter.action.as_ref();
        who.is_none_or(|it| *it == change.who) && action.is_none_or(|it| it == change.action)
    });
    let (changes, extent) = page.of(noted);
    Json(Changes {
        changes: changes.into_iter().map(ChangeView::from).collect(),
        extent,
    })
}
