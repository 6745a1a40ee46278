//! `POST /doSignaling`: answers a JSON offer with a JSON answer, the protocol of the clients of
//! well-known load tests.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use glassline_events::failures::ClientRole;
use glassline_hub::Stream;
use serde::{Deserialize, Serialize};

use super::auth::Reader;
use super::extract::Query;
use super::problem::Problem;
use super::rules::Right;
use super::server::Waiter;
use super::viewer_routes::ViewerRoutes;
use super::{api, body, resource};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, Offer};

/// Returns the route of such clients.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default().route(
        "/doSignaling",
        Right::Read.offers_of(ClientRole::Viewer),
        post(exchange).options(resource::options),
    )
}

/// A session description as browsers' `JSON.stringify` writes it.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    #[serde(rename = "type")]
    kind: String,
    sdp: String,
}

/// The name of the wanted stream; it may be missing if there is only one stream.
#[derive(Debug, Deserialize)]
struct StreamQuery {
    stream: Option<String>,
}

async fn exchange(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    reader: Option<Extension<Reader>>,
    Query(query): Query<StreamQuery>,
    body: Body,
) -> Result<Response, Problem> {
    let body = body::read(body).await?;
    let offer: Description = serde_json::from_slice(&body).map_err(|error| {
        let line = error.line();
        Problem::bad_request(format!(
            "the body is not a JSON session description: {error}"
        ))
        .with("line", line)
    })?;
    if offer.kind != "offer" {
        return Err(Problem::bad_request(format!(
            "`type` is '{}', an offer is expected",
            offer.kind
        )));
    }
    let name = match query.stream {
        Some(name) => name,
        None => only_stream(&api::visible(&app, reader.as_deref()))?,
    };
    let sdp = &offer.sdp;
    let watching = app.sessions.watch(&name, Offer::new(sdp, connection));
    let answered = waiter.during(watching).await??;
    let answer = Description {
        kind: "answer".to_owned(),
        sdp: answered.answer,
    };
    let mut response = axum::Json(answer).into_response();
    response.extensions_mut().insert(answered.record);
    Ok(response)
}

fn only_stream(streams: &[Arc<Stream>]) -> Result<String, Problem> {
    match streams {
        [only] => Ok(only.name().to_string()),
        [] => Err(Problem::no_stream("")),
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|stream| stream.name().to_string())
                .collect();
            let detail = format!("say which with ?stream=NAME: {}", names.join(", "));
            Err(Problem::bad_request(detail).with("streams", names))
        }
    }
}
