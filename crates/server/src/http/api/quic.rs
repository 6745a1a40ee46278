//! The API for operators about QUIC: its sessions.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::quic::SessionView;

/// Body of the list of all QUIC sessions.
#[derive(Debug, Serialize)]
pub(crate) struct Sessions {
    /// SHA-256 of the certificate, for clients that pin it.
    certificate_sha256: Option<String>,
    sessions: Vec<SessionView>,
}

/// Lists all QUIC sessions: `GET /api/v1/quic/sessions`.
pub(crate) async fn sessions(State(app): State<App>) -> Json<Sessions> {
    let now = Instant::now();
    let quic = app.quic.as_ref();
    Json(Sessions {
        certificate_sha256: quic.map(|quic| quic.fingerprint().to_string()),
        sessions: quic.map_or_else(Vec::new, |quic| quic.sessions(now)),
    })
}
