//! The guard of requests whose handlers check passes themselves: those of HLS, of which each viewer asks
//! for twenty files a second.
//!
//! It does what other routes get from a dozen layers, as far as such a request needs it: pages of strangers are
//! kept away, configured sites may read the answers, errors are for people, and a panic costs one request.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::page_guard::{self, Asking};
use super::problem_page::{self, wants_page};
use super::{escaped, panics};
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// The guard as a layer around routes.
pub(super) async fn guard(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    request: Request,
    next: Next,
) -> Response {
    guarded(&app, connection, request, |request| next.run(request)).await
}

/// Lets requests of pages pass to `answer` that may be here, and adapts the answer to whoever asks.
pub(crate) async fn guarded<B, F: Future<Output = Response>>(
    app: &App,
    connection: ConnectionAddresses,
    request: Request<B>,
    answer: impl FnOnce(Request<B>) -> F,
) -> Response {
    let is_head = request.method() == Method::HEAD;
    let (asking, is_for_page) = (Asking::of(request.headers()), wants_page(&request));
    let response = match page_guard::check(app, connection, &request) {
        Ok(()) => {
            let answered = panics::contained(app, answer(request)).await;
            asking.allowed(app, false, answered)
        }
        Err(refusal) => page_guard::refuse(&refusal).into_response(),
    };
    match response.status().is_success() || is_head {
        true => response,
        false => problem_page::shown(is_for_page, Box::pin(escaped::escape_body(response)).await),
    }
}
