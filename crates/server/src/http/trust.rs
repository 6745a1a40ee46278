//! The page that leads through trusting the private authority, and its root certificate as a file.
//!
//! All of it is open to everybody, also by plain HTTP: a device that does not trust the root yet has
//! no other way to it. People compare its fingerprint with what the server prints.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fast_qr::convert::Builder as _;
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;
use glassline_access::tls::LanSource;

use super::pages;
use super::problem::Problem;
use super::rules::Right;
use super::server::Scheme;
use super::shown::Shown;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Type of a file that devices offer to install (the name is older than registrations, and every
/// system knows it).
const CERTIFICATE: &str = "application/x-x509-ca-cert";

/// Path of the page.
const PAGE: &str = "/-/trust";

/// Path that people type. It leads to the page, unless a stream has this name and a page there; its
/// files are no paths of streams.
const SHORT: &str = "/trust";

/// Returns the routes of the page and its files.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default()
        .route("/-/trust", Right::Open, get(page))
        .route("/-/trust/root.crt", Right::Open, get(certificate))
        .route("/-/trust/root.pem", Right::Open, get(pem))
}

/// Turns a request for the short path into one for the path of the page or its file.
pub(super) async fn resolve_short_path(app: &App, request: &mut Request) {
    let path = request.uri().path();
    let Some(rest) = path.strip_prefix(SHORT) else {
        return;
    };
    let is_ours = match rest {
        "" => !pages::has_stream(app, SHORT.trim_start_matches('/')).await,
        rest => matches!(rest, "/root.crt" | "/root.pem"),
    };
    if !is_ours {
        return;
    }
    let target = match request.uri().query() {
        Some(query) => format!("{PAGE}{rest}?{query}"),
        None => format!("{PAGE}{rest}"),
    };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = target.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// `GET /-/trust`
async fn page(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(scheme): Extension<Scheme>,
    request: Request,
) -> Result<Response, Problem> {
    let lan = authority(&app)?;
    let shown = Shown::new(connection, request.headers(), request.uri());
    let host = host(&shown, lan, app.config().http.address.ip());
    let http = match scheme {
        Scheme::Http => connection.local.port(),
        Scheme::Https => app.http.ports.http,
    };
    let http = format!("http://{}{PAGE}", authority_of(&host, http, 80));
    let https = app
        .http
        .ports
        .https
        .map(|port| authority_of(&host, port, 443));
    let https = https.map_or_else(String::new, |it| format!("https://{it}/"));
    let fingerprint = lan.root().fingerprint().to_string().to_uppercase();
    let pairs: Vec<&str> = (0..fingerprint.len())
        .step_by(2)
        .filter_map(|at| fingerprint.get(at..at + 2))
        .collect();
    let html = include_str!("../../assets/trust.html")
        .replace("{{fingerprint}}", &pairs.join(":"))
        .replace("{{https}}", &https)
        .replace("{{qr}}", &qr_code(&http))
        .replace("{{http}}", &http);
    Ok(pages::made(html))
}

/// `GET /-/trust/root.crt`: the root certificate as phones and Windows install it.
async fn certificate(State(app): State<App>) -> Result<Response, Problem> {
    let root = authority(&app)?.root().der.to_vec();
    Ok((file(CERTIFICATE, "crt"), root).into_response())
}

/// `GET /-/trust/root.pem`: the same as text, for Linux.
async fn pem(State(app): State<App>) -> Result<Response, Problem> {
    let root = authority(&app)?.root().pem.clone();
    Ok((file("application/x-pem-file", "pem"), root).into_response())
}

fn file(kind: &'static str, end: &str) -> [(HeaderName, String); 4] {
    [
        (header::CONTENT_TYPE, kind.to_owned()),
        // `inline`: iOS installs what it shows, and only stores what it downloads.
        (
            header::CONTENT_DISPOSITION,
            format!("inline; filename=\"glassline-root.{end}\""),
        ),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ]
}

fn authority(app: &App) -> Result<&Arc<LanSource>, Problem> {
    app.tls.lan.as_ref().ok_or_else(|| {
        let detail = "this server has no private authority: its certificate, if any, is trusted \
                      without one, or `tls: lan` is missing in the configuration";
        Problem::new(StatusCode::NOT_FOUND, "No private authority", detail)
    })
}

/// Returns the host of the request; or if only this machine knows that one, an address at which other
/// machines reach the server, which listens at `listened`.
fn host(shown: &Shown<'_>, lan: &LanSource, listened: IpAddr) -> String {
    let named = shown.page().host.unwrap_or_default();
    let named = named.parse::<axum::http::uri::Authority>();
    let named = named.map_or_else(|_| String::new(), |it| it.host().to_owned());
    let bare = named.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>();
    let is_local = address.is_ok_and(|it| it.is_loopback()) || named == "localhost";
    if listened.is_loopback() || !is_local && !named.is_empty() {
        return named;
    }
    lan.names().reachable_host().unwrap_or(named)
}

fn authority_of(host: &str, port: u16, usual: u16) -> String {
    match port == usual {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    }
}

/// Returns an SVG of a QR code for `text`; an empty text if that is too long for one.
fn qr_code(text: &str) -> String {
    let Ok(code) = QRBuilder::new(text).build() else {
        return String::new();
    };
    SvgBuilder::default().margin(2).to_str(&code)
}
