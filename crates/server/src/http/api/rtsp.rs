//! The API for operators about RTSP: its clients and their requests.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use glassline_rtsp_listener::{ClientView, RtspService};

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::OfStream;
use crate::app::App;

/// A page of the list of clients that have a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RtspClients")]
pub(crate) struct Clients {
    clients: Vec<ClientView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the RTSP clients: `GET /api/v1/rtsp/clients`.
pub(in crate::http) async fn clients(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<Clients> {
    let mut clients = match app.services.get::<RtspService>() {
        Some(rtsp) => rtsp.clients().await,
        None => Vec::new(),
    };
    clients.retain(|it| filter.wants(&it.stream));
    clients.sort_by_key(|it| it.address);
    let (clients, extent) = page.of(clients);
    Json(Clients { clients, extent })
}

/// Counts of requests by method and status, over all threads.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RtspRequests")]
pub(crate) struct Requests {
    requests: Vec<Answered>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answered {
    method: &'static str,
    status: u16,
    count: u64,
}

/// Lists the counts of RTSP requests: `GET /api/v1/rtsp/requests`.
pub(crate) async fn requests(State(app): State<App>) -> Json<Requests> {
    let rtsp = app.services.get::<RtspService>();
    let threads = rtsp.into_iter().flat_map(RtspService::threads);
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
