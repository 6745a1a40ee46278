//! Requests about sessions that other servers of the cluster have, and those that other servers hand on.
//!
//! ```text
//! PATCH, DELETE, POST … /{session}  at any server ─► [`hand_on`] ─ HTTP/1.1 on a stream of QUIC ─► [`answer`]
//! POST /call/{room}                 the same, where the room's server has no address for the client
//! ```
//!
//! The unguessable name of a session is the right to it, as in [`redirect`](super::redirect), and an
//! offer has the ticket of the server that checked its rights. A request that was handed on has no
//! other right.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Extension, Router};
use bytes::Bytes;
use glassline_cluster_member::{Elsewhere, Member, NotHandedOn, OpenedRequest};
use glassline_quic::moq::RequestStream;
use glassline_runtime::{SessionId, SourcePrefix};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;

use super::body;
use super::problem::Problem;
use super::redirect::{RequestTarget, member};
use super::server::Scheme;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Time that another server has to answer, and to answer a request that waits for a change.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_FOR_CHANGES: Duration = Duration::from_secs(25);

/// Time that a server has whose signs of life are late. Its clients wait for this answer before they go
/// to another server, and a server that lives answers much sooner.
const PATIENCE_WITH_THE_OVERDUE: Duration = Duration::from_millis(400);

/// Longest time that a request of another server takes here.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Largest answer of another server, in bytes: an SDP answer has 64 kB at most.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Bytes of headers that are read of another server.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Headers in which a server tells another one who the client is, and how its request came.
const CLIENT: HeaderName = HeaderName::from_static("glassline-client");
const SCHEME: HeaderName = HeaderName::from_static("glassline-scheme");

/// Headers that are about a connection and not about a request (RFC 9110 §7.6.1).
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Hands a request on to the server in its session's name, if that is another one; otherwise returns
/// the request.
pub(super) async fn hand_on(
    app: &App,
    target: &RequestTarget,
    request: Request,
) -> Result<Request, Response> {
    let (Some(session), Some(member)) = (&target.session, member(app)) else {
        return Ok(request);
    };
    let id = SessionId::new(session);
    let other = id.server().filter(|server| *server != member.node());
    match other {
        // A preflight is about this server's rules, and has no body to hand on.
        Some(other) if request.method() != Method::OPTIONS => {
            Err(exchange_with(member, other, request).await)
        }
        _ => Ok(request),
    }
}

/// Hands an offer on to the server called `server`, which has no address that the client can go to, and
/// returns the answer; `user` is the name whose rights the request has.
pub(super) async fn hand_on_offer(
    app: &App,
    target: &RequestTarget,
    server: &str,
    mut request: Request,
    user: Option<&str>,
) -> Response {
    let here = Elsewhere::default();
    let path = target.invitation(app, &here, request.uri(), user);
    let uri = path.and_then(|path| Uri::try_from(path).ok());
    let (Some(uri), Some(member)) = (uri, member(app)) else {
        return Problem::no_session().into_response();
    };
    *request.uri_mut() = uri;
    exchange_with(member, server, request).await
}

/// Lets requests pass that are about sessions of this server, and those with a ticket of another server:
/// offers that it hands on, and what it asks itself.
pub(super) async fn own_only(
    State(app): State<App>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
    next: Next,
) -> Response {
    match target.has_session(&app) || target.grant(&app, request.uri()).is_some() {
        true => next.run(request).await,
        false => Problem::no_session().into_response(),
    }
}

/// Answers the request that `stream` carries. `local`: the address of this server that it came to.
pub(crate) async fn answer(stream: RequestStream, local: Option<SocketAddr>, routes: Router) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        let (client, scheme) = told(request.headers());
        let connection = ConnectionAddresses {
            peer: client,
            local: local.unwrap_or(UNKNOWN),
        };
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(connection));
        extensions.insert(scheme);
        routes.call(request)
    });
    let connection = server::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(ANSWERED_WITHIN, connection).await {
        Ok(Ok(())) => {}
        // The client of the other server may have left.
        Ok(Err(error)) => tracing::debug!(%error, "a request of another server broke off"),
        Err(_) => tracing::warn!("a request of another server took too long"),
    }
}

const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Returns the client of a request, and how its request came, as the other server tells.
fn told(headers: &HeaderMap) -> (SocketAddr, Scheme) {
    let text = |name: &HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    let client = text(&CLIENT).and_then(|it| it.parse().ok());
    let scheme = match text(&SCHEME) {
        Some("https") => Scheme::Https,
        _ => Scheme::Http,
    };
    (client.unwrap_or(UNKNOWN), scheme)
}

/// Hands a request on to the server called `other`, and returns the answer of one of the two.
async fn exchange_with(member: &Arc<Member>, other: &str, request: Request) -> Response {
    let patience = match waits_for_changes(&request) {
        true => PATIENCE_FOR_CHANGES,
        false if member.is_overdue(other) => PATIENCE_WITH_THE_OVERDUE,
        false => PATIENCE,
    };
    let client = SourcePrefix::from(client_of(&request).ip());
    let exchanged = tokio::time::timeout(patience, async {
        // Whatever the body is, a server that is lost takes none.
        let opened = member.open_request(other, Some(client)).await;
        let OpenedRequest { stream, place } =
            opened.map_err(|why| not_handed_on(other, &why).into_response())?;
        let exchanging = async {
            let request = told_of(request)
                .await
                .map_err(IntoResponse::into_response)?;
            let answer = exchange(stream, request, ANSWER_BYTES_MAX).await;
            answer.map_err(|error| unanswered(other, &error.to_string()).into_response())
        };
        match place.during(exchanging).await {
            Ok(exchanged) => exchanged,
            Err(why) => Err(not_handed_on(other, &why).into_response()),
        }
    });
    match exchanged.await {
        Ok(Ok(response) | Err(response)) => response,
        Err(_) => unanswered(
            other,
            &format!("no answer within {} ms", patience.as_millis()),
        )
        .into_response(),
    }
}

/// Returns whether a request is answered when a room has changed, as that for its list with `since`.
fn waits_for_changes(request: &Request) -> bool {
    let target = request.extensions().get::<Arc<RequestTarget>>();
    let waits = target.is_some_and(|it| it.rules().waits_for_changes(request.method()));
    waits && request.uri().query().is_some()
}

/// Returns the address of a request's client.
fn client_of(request: &Request) -> SocketAddr {
    let connection = request
        .extensions()
        .get::<ConnectInfo<ConnectionAddresses>>();
    connection.map_or(UNKNOWN, |ConnectInfo(it)| it.peer)
}

/// Returns the request as the other server gets it, with what it cannot see of the client.
async fn told_of(request: Request) -> Result<hyper::Request<Full<Bytes>>, Problem> {
    let client = client_of(&request);
    let (mut parts, body) = request.into_parts();
    let body = body::read(body).await?;
    let authority = parts.uri.authority().map(|it| it.as_str().to_owned());
    let headers = &mut parts.headers;
    for name in OF_CONNECTION {
        headers.remove(name);
    }
    let mut tell = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    // RFC 9112 §3.2.2: the authority of the request's target replaces `Host`.
    if let Some(authority) = authority {
        tell(header::HOST, &authority);
    }
    tell(CLIENT, &client.to_string());
    // Such a request never counts as one of the other server's own machine.
    tell(header::FORWARDED, "for=unknown");
    let is_secure = parts.extensions.get::<Scheme>() == Some(&Scheme::Https);
    tell(SCHEME, if is_secure { "https" } else { "http" });
    let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    let mut handed_on = hyper::Request::new(Full::new(body));
    *handed_on.uri_mut() = Uri::try_from(path).map_err(|_| Problem::no_session())?;
    *handed_on.method_mut() = parts.method;
    *handed_on.headers_mut() = parts.headers;
    Ok(handed_on)
}

/// Sends a request on `stream`, and reads the answer, which has `bytes_max` at most.
pub(super) async fn exchange(
    stream: RequestStream,
    request: hyper::Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Response, BoxError> {
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    let exchanging = async move {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, bytes_max).collect().await?;
        let mut response = Response::new(Body::from(body.to_bytes()));
        *response.status_mut() = parts.status;
        *response.headers_mut() = parts.headers;
        for name in OF_CONNECTION {
            response.headers_mut().remove(name);
        }
        Ok(response)
    };
    let mut exchanging = std::pin::pin!(exchanging);
    tokio::select! {
        biased;
        answer = &mut exchanging => answer,
        // What has come is read to its end.
        _ = connection => exchanging.await,
    }
}

/// Returns the problem of a request whose session is at a server that cannot be reached.
fn not_handed_on(server: &str, why: &NotHandedOn) -> Problem {
    match why {
        NotHandedOn::Lost => {
            let detail = format!(
                "the server '{server}' of the cluster, which had this session, is lost; POST a new offer"
            );
            Problem::new(StatusCode::GONE, "Server lost", detail).with("ended", "lost")
        }
        NotHandedOn::Unknown => {
            let server: String = server.chars().take(64).collect();
            let detail = format!(
                "this session is one of the server '{server}', which this server does not know: both have \
                 to be in one cluster (`cluster.nats`)"
            );
            Problem::new(StatusCode::NOT_FOUND, "No such session", detail)
        }
        NotHandedOn::Busy => Problem::try_later("Server busy", why.to_string()),
        NotHandedOn::Unreachable(why) => unanswered(server, why),
    }
}

fn unanswered(server: &str, why: &str) -> Problem {
    let detail = format!(
        "this session is one of the server '{server}' of the cluster, which does not answer this one: {why}"
    );
    let remedy = format!(
        "open the UDP port of `cluster.advertise` of '{server}' to the other servers, or set \
         `cluster.public.http` there, so that clients are led to it"
    );
    Problem::new(
        StatusCode::BAD_GATEWAY,
        "Server of the session does not answer",
        detail,
    )
    .with("remedy", remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_a_distant_session_says_which_key_leads_to_its_server() {
        let text = |why: &NotHandedOn| {
            let response = not_handed_on("node-2", why).into_response();
            let refusal = response
                .extensions()
                .get::<super::super::problem::Refusal>();
            let refusal = refusal.expect("a problem");
            let remedy = refusal.remedy.clone().unwrap_or_default();
            (
                response.status().as_u16(),
                format!("{} {remedy}", refusal.detail),
            )
        };
        let (status, said) = text(&NotHandedOn::Unreachable("no answer within 1 s".to_owned()));
        assert_eq!(status, 502);
        assert!(
            said.contains("node-2") && said.contains("cluster.public.http"),
            "{said}"
        );
        assert!(said.contains("cluster.advertise"), "{said}");
        let (status, said) = text(&NotHandedOn::Unknown);
        assert_eq!(status, 404);
        assert!(said.contains("cluster.nats"), "{said}");
        assert_eq!(text(&NotHandedOn::Lost).0, 410);
        assert_eq!(text(&NotHandedOn::Busy).0, 503);
    }

    #[tokio::test]
    async fn a_client_cannot_say_for_another_server_who_it_is() {
        let mut request = Request::new(Body::from("{}"));
        *request.uri_mut() = "http://play.example/cam/whep/a.b?c".parse().expect("a URI");
        let forged = [
            ("glassline-client", "127.0.0.1:1"),
            ("glassline-scheme", "https"),
            ("transfer-encoding", "chunked"),
            ("connection", "upgrade"),
        ];
        for (name, value) in forged {
            let name = HeaderName::from_static(name);
            request
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        let connection = ConnectionAddresses {
            peer: ([192, 0, 2, 7], 4000).into(),
            local: ([192, 0, 2, 1], 80).into(),
        };
        request.extensions_mut().insert(ConnectInfo(connection));
        request.extensions_mut().insert(Scheme::Http);
        let told_of = told_of(request).await.expect("a body");
        assert_eq!(told_of.uri(), "/cam/whep/a.b?c");
        let headers = told_of.headers();
        assert_eq!(told(headers), (connection.peer, Scheme::Http));
        assert_eq!(headers["host"], "play.example");
        assert!(!headers.contains_key(header::TRANSFER_ENCODING));
        assert!(!headers.contains_key(header::CONNECTION));
        assert!(headers.contains_key(header::FORWARDED));
    }
}
