//! Notes offers that were refused among the failed connections.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, MatchedPath, RawPathParams, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;

use crate::app::App;
use crate::failures::{ClientRole, ConnectionFailure, Protocol, Stage};
use crate::sessions::ConnectionAddresses;

use super::{query_stream, stream_in_path};

/// Title and detail of an error response, left with the response for this module.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) title: &'static str,
    pub(super) detail: String,
}

/// Notes the refusal of an offer, whichever layer refuses it.
pub(super) async fn note(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    matched: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let role = match route {
        "/{stream}/whep" | "/doSignaling" | "/call/{room}/{session}/hear/{id}" => {
            ClientRole::Viewer
        }
        "/{stream}/whip" | "/whip" | "/{stream}/talk" => ClientRole::Publisher,
        "/call/{room}" => ClientRole::Participant,
        _ => return next.run(request).await,
    };
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let named = params.as_ref().ok().and_then(|params| {
        let room = || params.iter().find(|(key, _)| *key == "room");
        stream_in_path(params).or_else(|| room().map(|(_, name)| name.to_owned()))
    });
    let stream = named.or_else(|| query_stream(request.uri()));
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    if let Some(Refusal { title, detail }) = response.extensions_mut().remove::<Refusal>() {
        let failure = ConnectionFailure {
            stream: stream.unwrap_or_default(),
            protocol: Protocol::WebRtc,
            role,
            stage: Stage::of_status(status),
            from: connection.peer.ip(),
            session: None,
            reason: format!("{title} ({status}): {detail}"),
            remedy: None,
        };
        app.failures.note(failure, Instant::now());
    }
    response
}
