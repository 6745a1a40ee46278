//! Requests that a trusted proxy hands on, and the path below which it offers the server.
//!
//! ```text
//!  request ─► from a trusted proxy? ─► client address, scheme and host as the proxy tells
//!          ─► base path removed     ─► routes ─► Location and pages with the base path in front
//! ```
//!
//! What an untrusted client says in these headers changes nothing, except that a request with any of
//! them never counts as one of this machine.

mod headers;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::{Authority, PathAndQuery};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use glassline_config::BasePath;

use super::problem::Problem;
use super::server::Scheme;
use super::trust;
use crate::app::App;
use crate::sessions::ConnectionAddresses;
use headers::{Contradiction, Origin};

/// Largest page that links are adapted in, in bytes; the largest of ours has 20 kB.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Puts the rules of this module in front of `router`.
pub(super) fn in_front_of(router: Router, app: App) -> Router {
    // A layer of the router itself would run after the route is chosen.
    let outer = Router::new().fallback_service(router);
    outer.layer(from_fn_with_state(app, apply))
}

async fn apply(State(app): State<App>, mut request: Request, next: Next) -> Response {
    // A stranger must not write into the traces of others.
    if !is_from_proxy(&app, &request) {
        request.headers_mut().remove(super::joins::TRACEPARENT);
    }
    let forwarded = match forwarded_request(&app, &request) {
        Ok(forwarded) => forwarded,
        Err(Contradiction) => return contradiction().into_response(),
    };
    let base = match &forwarded {
        Some(forwarded) => {
            believe(&app, &mut request, &forwarded.origin);
            forwarded.base.clone()
        }
        None => None,
    };
    let config = app.config();
    let configured = &config.http.base_path;
    if let Some(stripped) = without(request.uri(), configured.as_str()) {
        *request.uri_mut() = stripped;
    }
    trust::resolve_short_path(&app, &mut request).await;
    let base = base.unwrap_or_else(|| configured.clone());
    let response = next.run(request).await;
    match base.as_str() {
        "" => response,
        base => below(base, response).await,
    }
}

/// Returns whether a request comes from a trusted proxy.
fn is_from_proxy(app: &App, request: &Request) -> bool {
    let config = app.config();
    let trusted = &config.http.trusted_proxies;
    let connection = request
        .extensions()
        .get::<ConnectInfo<ConnectionAddresses>>();
    connection.is_some_and(|ConnectInfo(it)| {
        let peer = it.peer.ip();
        trusted.iter().any(|network| network.contains(peer))
    })
}

/// Returns whether a request comes as its client made it: the server offers itself below no other path, and
/// `client` is no trusted proxy.
pub(crate) fn is_plain(app: &App, client: ConnectionAddresses) -> bool {
    let config = app.config();
    let (proxies, peer) = (&config.http.trusted_proxies, client.peer.ip());
    config.http.base_path.as_str().is_empty() && !proxies.iter().any(|it| it.contains(peer))
}

/// The report of a trusted proxy about a request.
struct ForwardedRequest {
    origin: Origin,
    /// The path that the proxy removed; `None` if it tells none, or one that is not safe.
    base: Option<BasePath>,
}

/// Returns what a trusted proxy tells; `None` if the request comes from elsewhere, or the proxy tells
/// nothing.
fn forwarded_request(
    app: &App,
    request: &Request,
) -> Result<Option<ForwardedRequest>, Contradiction> {
    let config = app.config();
    let trusted = &config.http.trusted_proxies;
    let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
    let connection = request
        .extensions()
        .get::<ConnectInfo<ConnectionAddresses>>();
    let peer = connection.map(|ConnectInfo(it)| it.peer.ip());
    let Some(peer) = peer.filter(|peer| is_trusted(*peer)) else {
        return Ok(None);
    };
    let headers = request.headers();
    let origin = headers::origin(headers, peer, is_trusted)?;
    let base = headers::prefix(headers).and_then(|it| BasePath::try_from(it).ok());
    let nothing = Origin {
        client: peer,
        scheme: None,
        host: None,
        port: None,
    };
    Ok(match (origin, base) {
        (None, None) => None,
        (origin, base) => Some(ForwardedRequest {
            origin: origin.unwrap_or(nothing),
            base,
        }),
    })
}

/// Makes the request look as it did before the proxy.
fn believe(app: &App, request: &mut Request, origin: &Origin) {
    let extensions = request.extensions_mut();
    let mut local = None;
    if let Some(ConnectInfo(connection)) = extensions.get_mut::<ConnectInfo<ConnectionAddresses>>()
    {
        // The proxy does not tell the port.
        connection.peer = SocketAddr::new(origin.client, 0);
        local = Some(connection.local);
    }
    if let Some(scheme) = origin.scheme {
        extensions.insert::<Scheme>(scheme);
    }
    add_port(request, origin);
    let host = origin.host.as_deref().zip(local);
    let Some((host, local)) = host else { return };
    // A page of a stranger can set these headers on requests to its own name. The name that the
    // proxy itself was asked for must be one of this server's, too.
    let asked = asked_host(request.uri(), request.headers());
    let is_own = asked.is_none_or(|asked| app.sites.is_own_host(&asked, local));
    let Ok(value) = HeaderValue::from_str(host) else {
        return;
    };
    if is_own {
        request.headers_mut().insert(header::HOST, value);
        // HTTP/2 has the host there, which goes before the header.
        if let Some(bare) = without_authority(request.uri()) {
            *request.uri_mut() = bare;
        }
    }
}

/// Puts the port that a proxy tells behind a host that it hands on without one.
fn add_port(request: &mut Request, origin: &Origin) {
    let Some(port) = origin.port.filter(|_| origin.host.is_none()) else {
        return;
    };
    let asked = asked_host(request.uri(), request.headers()).unwrap_or_default();
    let is_bare = asked.parse().is_ok_and(|it: Authority| it.port().is_none());
    if let Ok(value) = HeaderValue::from_str(&format!("{asked}:{port}"))
        && is_bare
    {
        request.headers_mut().insert(header::HOST, value);
        if let Some(bare) = without_authority(request.uri()) {
            *request.uri_mut() = bare;
        }
    }
}

fn asked_host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let named = uri.authority().map(|it| it.as_str().to_owned());
    let text = |value: &HeaderValue| value.to_str().unwrap_or("?").to_owned();
    named.or_else(|| headers.get(header::HOST).map(text))
}

fn without_authority(uri: &Uri) -> Option<Uri> {
    uri.authority()?;
    Some(Uri::from(uri.path_and_query()?.clone()))
}

/// Returns the URI without `base` in front of its path; `None` if it does not begin so.
fn without(uri: &Uri, base: &str) -> Option<Uri> {
    if base.is_empty() {
        return None;
    }
    let whole = uri.path_and_query()?.as_str();
    let rest = whole.strip_prefix(base)?;
    let rest = match rest.chars().next() {
        Some('/') => rest.to_owned(),
        None | Some('?') => format!("/{rest}"),
        Some(_) => return None,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(rest.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Puts `base` in front of the paths in a response.
async fn below(base: &str, mut response: Response) -> Response {
    if let Some(location) = response.headers().get(header::LOCATION)
        && let Some(path) = location.to_str().ok().filter(|it| it.starts_with('/'))
        && let Ok(value) = HeaderValue::from_str(&format!("{base}{path}"))
    {
        response.headers_mut().insert(header::LOCATION, value);
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/html"));
    if !is_page {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Our pages are in memory, so reading them cannot fail.
    let body = axum::body::to_bytes(body, PAGE_BYTES_MAX).await;
    let html = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    let html = ["href=\"/", "src=\"/"].iter().fold(html, |html, link| {
        let (name, _) = link.split_at(link.len() - 1);
        html.replace(link, &format!("{name}{base}/"))
    });
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(html))
}

fn contradiction() -> Problem {
    let detail = "`Forwarded` and `X-Forwarded-For` name different clients: have the proxy of \
                  `http.trusted_proxies` remove the one that it does not write";
    Problem::new(StatusCode::BAD_REQUEST, "Contradicting headers", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_removed_as_a_whole_segment() {
        for (uri, expected) in [
            ("/media/cam/whep?token=a", Some("/cam/whep?token=a")),
            ("/media", Some("/")),
            ("/media?x=1", Some("/?x=1")),
            ("https://h:8443/media/cam", Some("https://h:8443/cam")),
            ("/mediathek/cam", None),
            ("/cam", None),
        ] {
            let uri: Uri = uri.parse().expect(uri);
            let stripped = without(&uri, "/media").map(|it| it.to_string());
            assert_eq!(stripped.as_deref(), expected, "{uri}");
            assert_eq!(without(&uri, ""), None);
        }
    }
}
