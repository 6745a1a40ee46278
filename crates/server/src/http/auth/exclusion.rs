//! Clients that an operator keeps away.

use std::time::Instant;

use axum::http::StatusCode;
use glassline_access::auth::{Guest, Users};

use super::{Problem, Shown};

/// Returns the name whose right a request has, unless an operator keeps the client away from `stream`.
pub(super) fn not_excluded(
    users: &Users,
    shown: &Shown<'_>,
    user: Result<Option<String>, Problem>,
    stream: &str,
) -> Result<Option<String>, Problem> {
    let user = user?;
    check_excluded(users, shown, user.as_deref(), Some(stream))?;
    Ok(user)
}

/// Refuses a client that an operator keeps away from `stream`, or from all streams.
pub(in crate::http) fn check_excluded(
    users: &Users,
    shown: &Shown<'_>,
    user: Option<&str>,
    stream: Option<&str>,
) -> Result<(), Problem> {
    let (now, address) = (Instant::now(), shown.requester().address());
    let guest = Guest { address, user };
    let until = users
        .exclusions()
        .until(guest, |it| Some(it) == stream, now);
    let Some(until) = until else {
        return Ok(());
    };
    let minutes = until.saturating_duration_since(now).as_secs().div_ceil(60);
    let detail = format!("an operator of this server keeps you away for another {minutes} min");
    Err(Problem::new(StatusCode::FORBIDDEN, "Kept away", detail))
}
