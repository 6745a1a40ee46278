//! Guards the server against pages of strangers in a browser that reaches it, and tells browsers
//! which other sites may read the answers (Fetch standard, CORS protocol).
//!
//! A browser cannot be told apart from other programs, but what a page sends has an `Origin`, and
//! everything has the `Host` under which the browser knows the server. If reading needs no
//! credential, both must be the server's own, or configured.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use glassline_access::auth::{Access, PageRefusal};

use super::problem::Problem;
use super::redirect::RequestTarget;
use super::resource;
use super::rules::Right;
use super::shown::Shown;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Headers by which a page of a public site asks in its preflight for a server of a private network, and
/// is granted it (WICG Private Network Access). Later browsers ask their user instead.
const PRIVATE_NETWORK_REQUESTED: &str = "access-control-request-private-network";
const PRIVATE_NETWORK_ALLOWED: &str = "access-control-allow-private-network";

/// Refuses requests of strangers' pages to the listener for viewers, and allows configured web sites
/// to read the answers.
pub(super) async fn viewers(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
    next: Next,
) -> Response {
    if target.rules().right(request.method(), None) == Right::Nothing {
        return next.run(request).await;
    }
    // A page of another server of the cluster, whose viewer that one sent here.
    let is_sent = target.grant(&app, request.uri()).is_some() || target.has_session(&app);
    if !is_sent && let Err(refusal) = check(&app, connection, &request) {
        return refuse(&refusal).into_response();
    }
    let asking = Asking::of(request.headers());
    let response = match is_sent && asking.asks && request.method() == Method::OPTIONS {
        true => resource::preflight(),
        false => next.run(request).await,
    };
    asking.allowed(&app, is_sent, response)
}

/// The headers by which a page of another origin asks whether it may read an answer.
#[derive(Debug)]
pub(super) struct Asking {
    origin: Option<HeaderValue>,
    /// Whether this is a preflight, and whether it is one of a public site for a private network.
    asks: bool,
    asks_from_public: bool,
}

impl Asking {
    /// Reads the headers of a request.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self {
            origin: headers.get(header::ORIGIN).cloned(),
            asks: headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
            asks_from_public: headers.contains_key(PRIVATE_NETWORK_REQUESTED),
        }
    }

    /// Returns the answer with what the page may do, if it is one of a configured site, or `is_sent` here by
    /// another server of the cluster.
    pub(super) fn allowed(self, app: &App, is_sent: bool, mut response: Response) -> Response {
        let allows = |origin: &HeaderValue| origin.to_str().is_ok_and(|it| app.sites.allows(it));
        let allowed = self.origin.filter(|origin| is_sent || allows(origin));
        if let Some(origin) = allowed {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
            let exposed = HeaderValue::from_static(
                "Location, ETag, Link, Accept-Post, Accept-Patch, Retry-After",
            );
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
            if self.asks && self.asks_from_public {
                headers.insert(PRIVATE_NETWORK_ALLOWED, HeaderValue::from_static("true"));
            }
        }
        response
    }
}

/// Refuses requests of strangers' pages to the listener for operators, which may ask this machine for
/// no credentials, and knows browsers by a cookie.
pub(super) async fn operators(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    request: Request,
    next: Next,
) -> Response {
    let page = Shown::new(connection, request.headers(), request.uri()).page();
    if let Err(refusal) = app.sites.check_own(&page) {
        return refuse(&refusal).into_response();
    }
    // Whatever a page of another site makes a browser send, the browser says so here, even where it
    // sends no `Origin` (Fetch Metadata, W3C).
    let site = request.headers().get("sec-fetch-site");
    let is_foreign = site.is_some_and(|it| it == "cross-site" || it == "same-site");
    if is_foreign && !request.method().is_safe() {
        let detail = "a page of another site may not change this server";
        return Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail).into_response();
    }
    next.run(request).await
}

/// Checks a request to the listener for viewers. Where reading needs a credential, a page of a
/// stranger has none, and handlers refuse it. A token, which such a page cannot know either, is
/// enough elsewhere.
pub(super) fn check<B>(
    app: &App,
    connection: ConnectionAddresses,
    request: &Request<B>,
) -> Result<(), PageRefusal> {
    let shown = Shown::new(connection, request.headers(), request.uri());
    let by = shown.requester();
    if !app.users.is_open(Access::Read, &by) {
        return Ok(());
    }
    let checked = app.sites.check_reader(&shown.page());
    if checked.is_ok() {
        return checked;
    }
    let Some(token) = shown.token() else {
        return checked;
    };
    let mut login = shown.login();
    let accesses = [Access::Publish];
    let verified = app.users.verify_token(&mut login, &accesses, &token);
    let _ = app.users.conclude(login, verified.is_ok());
    match verified {
        Ok(()) => Ok(()),
        Err(_) => checked,
    }
}

/// Returns the problem for a request that a page of a stranger may have sent: 421 for the name of
/// another host (RFC 9110 §15.5.20), 403 for another origin.
pub(super) fn refuse(refusal: &PageRefusal) -> Problem {
    let (status, title) = match refusal {
        PageRefusal::Host { .. } => (StatusCode::MISDIRECTED_REQUEST, "Unknown host"),
        PageRefusal::Origin { .. } | PageRefusal::Port { .. } => {
            (StatusCode::FORBIDDEN, "Not allowed")
        }
    };
    Problem::new(status, title, refusal.to_string())
}
