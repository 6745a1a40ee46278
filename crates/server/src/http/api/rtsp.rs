//! The API for operators about RTSP: its clients and their requests.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::rtsp::ClientView;

/// All clients that have a session.
#[derive(Debug, Serialize)]
pub(crate) struct Clients {
    clients: Vec<ClientView>,
}

/// Lists all RTSP clients: `GET /api/v1/rtsp/clients`.
pub(crate) async fn clients(State(app): State<App>) -> Json<Clients> {
    Json(Clients {
        clients: all(&app).await,
    })
}

/// Counts of requests by method and status, over all threads.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    requests: Vec<Answered>,
}

#[derive(Debug, Serialize)]
struct Answered {
    method: &'static str,
    status: u16,
    count: u64,
}

/// Lists the counts of RTSP requests: `GET /api/v1/rtsp/requests`.
pub(crate) async fn requests(State(app): State<App>) -> Json<Requests> {
    let threads = app.rtsp.iter().flat_map(|rtsp| rtsp.threads());
    let counted = threads.flat_map(|thread| thread.counters().requests.iter());
    let mut sums = BTreeMap::<_, u64>::new();
    for (method, status, count) in counted {
        *sums.entry((method, status.0)).or_default() += count;
    }
    let requests = sums.into_iter().map(|((method, status), count)| Answered {
        method,
        status,
        count,
    });
    Json(Requests {
        requests: requests.collect(),
    })
}

/// Returns the clients of all threads that have a session.
pub(in crate::http) async fn all(app: &App) -> Vec<ClientView> {
    let mut clients = Vec::new();
    for thread in app.rtsp.iter().flat_map(|rtsp| rtsp.threads()) {
        clients.extend(thread.clients().await.unwrap_or_default());
    }
    clients
}
