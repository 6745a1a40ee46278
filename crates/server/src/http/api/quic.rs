//! The API for operators about QUIC: its sessions.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use glassline_quic_listener::{MoqService, SessionView};

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::OfStream;
use crate::app::App;

/// A page of the list of QUIC sessions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QuicSessions")]
pub(crate) struct Sessions {
    /// SHA-256 of the certificate, for clients that pin it.
    certificate_sha256: Option<String>,
    /// SHA-256 of the certificate that replaces it within three days; null before.
    next_certificate_sha256: Option<String>,
    sessions: Vec<SessionView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the QUIC sessions, of a stream those that publish it: `GET /api/v1/quic/sessions`.
pub(in crate::http) async fn sessions(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<Sessions> {
    let now = Instant::now();
    let moq = app.services.get::<MoqService>();
    let mut sessions = moq.map_or_else(Vec::new, |moq| moq.sessions(now));
    sessions.retain(|it| {
        filter
            .stream
            .as_ref()
            .is_none_or(|name| it.publishes.contains(name))
    });
    sessions.sort_by_key(|it| it.id);
    let (sessions, extent) = page.of(sessions);
    Json(Sessions {
        certificate_sha256: moq.and_then(MoqService::fingerprint),
        next_certificate_sha256: moq.and_then(MoqService::next_fingerprint),
        sessions,
        extent,
    })
}
