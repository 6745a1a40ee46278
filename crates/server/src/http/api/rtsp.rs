//! What operators see of RTSP: its clients and their requests.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::rtsp::ClientView;

/// Every client that has a session.
#[derive(Debug, Serialize)]
pub(crate) struct Clients {
    clients: Vec<ClientView>,
}

/// `GET /api/v1/rtsp/clients`
pub(crate) async fn clients(State(app): State<App>) -> Json<Clients> {
    Json(Clients {
        clients: all(&app).await,
    })
}

/// How often a method got a status, over all threads.
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

/// `GET /api/v1/rtsp/requests`
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

/// Every client that has a session, of all threads.
pub(in crate::http) async fn all(app: &App) -> Vec<ClientView> {
    let mut clients = Vec::new();
    for thread in app.rtsp.iter().flat_map(|rtsp| rtsp.threads()) {
        clients.extend(thread.clients().await.unwrap_or_default());
    }
    clients
}
