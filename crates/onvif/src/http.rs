//! One POST to a camera, over HTTP or HTTPS.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use glassline_rtsp::auth::Challenge;
use glassline_rtsp::message::Headers;
use glassline_trust::{Trust, TrustError};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT, WWW_AUTHENTICATE,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Position, Url};

/// Longest body of a response, in bytes.
const BODY_BYTES_MAX: usize = 512 << 10;

/// Most bytes of the head of a response.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Longest time for a response, connecting included.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request to a camera.
#[derive(Clone, Debug)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a Url,
    /// Address that is asked, whatever the URL's host is.
    pub(crate) ip: IpAddr,
    pub(crate) trust: Trust,
    pub(crate) body: String,
    /// Credentials of HTTP, once the camera asked for them.
    pub(crate) authorization: Option<String>,
}

/// The response to a request: its status, what it asks for, and its body as text.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The challenges of a 401 that can be answered.
    pub(crate) challenges: Vec<Challenge>,
    pub(crate) text: String,
}

impl Post<'_> {
    /// Returns the target of the request, as its first line has it.
    pub(crate) fn target(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }
}

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// There is no TCP connection, or none within TLS.
    #[error("{0}")]
    Connection(#[from] std::io::Error),
    /// TLS accepts no certificate at all.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The response is no HTTP, or ends too early.
    #[error("no response of HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The response is too long.
    #[error("the response has more than {} KiB", BODY_BYTES_MAX >> 10)]
    TooLong,
    /// The response does not come, or not whole.
    #[error("no whole response within {} s", PATIENCE.as_secs())]
    Late,
    /// The URL cannot be asked for.
    #[error("the URL has no host, or one that no certificate can name")]
    Url,
}

/// Sends a request, and returns the response. Redirections are not followed: they could lead anywhere.
pub(crate) async fn post(post: Post<'_>) -> Result<Reply, HttpError> {
    let exchanged = tokio::time::timeout(PATIENCE, exchange(post)).await;
    exchanged.unwrap_or(Err(HttpError::Late))
}

async fn exchange(post: Post<'_>) -> Result<Reply, HttpError> {
    let url = post.url;
    let port = url.port_or_known_default().ok_or(HttpError::Url)?;
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
    let mut request = Request::post(post.target())
        .header(HOST, host.map_err(|_| HttpError::Url)?)
        .header(CONTENT_TYPE, "application/soap+xml; charset=utf-8")
        .header(USER_AGENT, concat!("glassline/", env!("CARGO_PKG_VERSION")));
    if let Some(authorization) = &post.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request.body(Full::new(Bytes::from(post.body)));
    let request = request.map_err(|_| HttpError::Url)?;
    let (ip, trust) = (post.ip, post.trust);
    let stream = TcpStream::connect(SocketAddr::new(ip, port)).await?;
    let response = match url.scheme() {
        "https" => {
            let host = url.host_str().unwrap_or_default();
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let name = ServerName::try_from(bare.to_owned()).map_err(|_| HttpError::Url)?;
            let tls = TlsConnector::from(trust.over_tcp()?);
            send(tls.connect(name, stream).await?, request).await?
        }
        _ => send(stream, request).await?,
    };
    let status = response.status();
    let challenges = match status {
        StatusCode::UNAUTHORIZED => challenges(response.headers()),
        _ => Vec::new(),
    };
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX);
    let body = body
        .collect()
        .await
        .map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => HttpError::Http(*error),
            Err(error) if error.is::<LengthLimitError>() => HttpError::TooLong,
            Err(error) => HttpError::Connection(std::io::Error::other(error)),
        })?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Ok(Reply {
        status,
        challenges,
        text,
    })
}

fn challenges(fields: &HeaderMap) -> Vec<Challenge> {
    let mut headers = Headers::new();
    for value in fields.get_all(WWW_AUTHENTICATE) {
        headers.push(
            "WWW-Authenticate",
            &String::from_utf8_lossy(value.as_bytes()),
        );
    }
    Challenge::parse_all(&headers)
}

async fn send<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender and the body; failures of the connection are those of the request.
    tokio::spawn(connection);
    sender.send_request(request).await
}
