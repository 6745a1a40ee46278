//! Signalling of a viewer: one offer, one answer, one farewell (draft-ietf-wish-whep), and
//! the JSON variant of the reference load test.
//!
//! Calls block, with deadlines; make them on a thread that may wait. Redirects are followed
//! here and not by the HTTP client, because a 307 must repeat the POST and a token must not
//! follow to another origin.

mod links;
mod watch;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use ureq::http::{Response, header};
use ureq::{Agent, Body};
use url::Url;

use glassline_trust::Trust;
pub(crate) use watch::{SessionAddress, SessionWatch};

/// A server's answer to an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// SDP of the answer.
    pub sdp: String,
    /// URL of the session: [`delete`] it to leave. `None` from servers without one, which
    /// notice the DTLS close.
    pub location: Option<Url>,
    /// Entity tag of the session, for PATCH.
    pub etag: Option<String>,
    /// URLs at other servers of the cluster that take the same offer, for the case that this server is
    /// lost.
    pub alternates: Vec<Url>,
}

/// A server's answer to a request for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Body of the answer.
    pub text: String,
    /// URLs at other servers of the cluster, for the case that this server is lost.
    pub alternates: Vec<Url>,
}

/// The reason why signalling failed; every text names the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no URL that can be dialled.
    #[error("{url:?} is not an http or https URL: {reason}")]
    Url {
        /// Text that is no URL.
        url: String,
        /// The fault that it has.
        reason: String,
    },
    /// There was no connection, the connection broke, or the response took too long. Trying
    /// again may help.
    #[error("cannot reach {url}: {source}")]
    Unreachable {
        /// URL of the request.
        url: Url,
        /// Error of the HTTP client.
        source: Box<ureq::Error>,
    },
    /// The server refused: 404 for an unknown stream, 422 for no common codec, 401 for a
    /// wrong token, 503 when it is full.
    #[error("{url} answers {status}: {detail}")]
    Refused {
        /// URL of the server that refused.
        url: Url,
        /// HTTP status of the answer.
        status: u16,
        /// The problem document's `detail`, else the beginning of the body.
        detail: String,
    },
    /// The server accepted, but its response is no SDP answer.
    #[error("{url} sent no SDP answer: {reason}")]
    NoAnswer {
        /// URL that sent the response.
        url: Url,
        /// The text that was sent instead.
        reason: String,
    },
}

impl Error {
    /// Whether the time for the answer was over.
    fn is_late(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if matches!(**source, ureq::Error::Timeout(_)))
    }

    /// Whether trying again may help: the network failed, or the server is busy.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(*status, 408 | 429 | 500..),
            Self::Url { .. } | Self::NoAnswer { .. } => false,
        }
    }
}

/// Posts an offer to `url` and returns the answer. A path that ends in `/doSignaling` gets
/// JSON (`{"type":"offer","sdp":…}`), any other WHEP.
///
/// `token` is sent as `Authorization: Bearer`. Waits at most 15 s.
///
/// # Errors
/// [`Error`] names the URL and says whether trying again may help.
pub fn post_offer(
    url: &Url,
    offer: &str,
    token: Option<&str>,
    trust: Trust,
) -> Result<Answer, Error> {
    let json = speaks_json(url);
    let (media_type, body) = if json {
        let offer = serde_json::json!({"type": "offer", "sdp": offer});
        ("application/json", offer.to_string())
    } else {
        ("application/sdp", offer.to_owned())
    };
    let mut at = checked(url)?;
    for _ in 0..=REDIRECTS_MAX {
        let mut request = agent(trust)
            .post(at.as_str())
            .header(header::CONTENT_TYPE, media_type)
            .header(header::ACCEPT, media_type);
        if let Some(token) = token.filter(|_| same_origin(&at, url)) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let sent = request.send(body.as_str());
        let mut response = sent.map_err(|error| Error::Unreachable {
            url: at.clone(),
            source: Box::new(error),
        })?;
        match response.status().as_u16() {
            200 | 201 => return answer(&at, &mut response, json),
            307 | 308 => at = redirected(&at, &response)?,
            _ => return Err(refusal(&at, &mut response)),
        }
    }
    Err(Error::NoAnswer {
        url: url.clone(),
        reason: format!("more than {REDIRECTS_MAX} redirects"),
    })
}

/// Requests `url` by GET. `patience` bounds the wait: a server that has nothing new may
/// answer only when it has.
///
/// # Errors
/// [`Error`] names the URL and says whether trying again may help.
pub fn get(
    url: &Url,
    token: Option<&str>,
    trust: Trust,
    patience: Duration,
) -> Result<Document, Error> {
    let at = checked(url)?;
    let mut response = call(agent(trust).get(at.as_str()), &at, token, patience)?;
    match response.status().as_u16() {
        200 => Ok(Document {
            alternates: links::alternates(&at, &response),
            text: body(&at, &mut response)?,
        }),
        _ => Err(refusal(&at, &mut response)),
    }
}

/// Posts `body`, which is JSON, to `url`. `patience` bounds the whole exchange.
///
/// # Errors
/// [`Error`] names the URL and says whether trying again may help.
pub(crate) fn post_json(
    url: &Url,
    body: &str,
    token: Option<&str>,
    trust: Trust,
    patience: Duration,
) -> Result<Document, Error> {
    let at = checked(url)?;
    let request = agent(trust).post(at.as_str());
    let mut request = request.config().timeout_global(Some(patience)).build();
    request = request.header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let sent = request.send(body);
    let mut response = sent.map_err(|error| Error::Unreachable {
        url: at.clone(),
        source: Box::new(error),
    })?;
    match response.status().as_u16() {
        200 => Ok(Document {
            alternates: links::alternates(&at, &response),
            text: self::body(&at, &mut response)?,
        }),
        _ => Err(refusal(&at, &mut response)),
    }
}

/// Asks for the session at `location`, by GET, and returns the other servers that its server names.
/// Redirects are followed, as a server of a cluster leads to the one that has the session.
fn alternates_of(
    location: &Url,
    token: Option<&str>,
    trust: Trust,
    patience: Duration,
) -> Result<Vec<Url>, Error> {
    let mut at = checked(location)?;
    for _ in 0..=REDIRECTS_MAX {
        let token = token.filter(|_| same_origin(&at, location));
        let mut response = call(agent(trust).get(at.as_str()), &at, token, patience)?;
        match response.status().as_u16() {
            200..300 => return Ok(links::alternates(&at, &response)),
            307 | 308 => at = redirected(&at, &response)?,
            _ => return Err(refusal(&at, &mut response)),
        }
    }
    Err(Error::NoAnswer {
        url: location.clone(),
        reason: format!("more than {REDIRECTS_MAX} redirects"),
    })
}

/// Ends the session at `location` by DELETE. A session that is gone already (404, 410) counts
/// as success. Waits at most 3 s.
///
/// # Errors
/// [`Error`] names the URL and says whether trying again may help.
pub fn delete(location: &Url, token: Option<&str>, trust: Trust) -> Result<(), Error> {
    let at = checked(location)?;
    let patience = Duration::from_secs(3);
    let mut response = call(agent(trust).delete(at.as_str()), &at, token, patience)?;
    match response.status().as_u16() {
        200..300 | 404 | 410 => Ok(()),
        _ => Err(refusal(&at, &mut response)),
    }
}

/// Sends a request without a body; `patience` bounds the whole exchange.
fn call(
    request: ureq::RequestBuilder<ureq::typestate::WithoutBody>,
    at: &Url,
    token: Option<&str>,
    patience: Duration,
) -> Result<Response<Body>, Error> {
    let mut request = request.config().timeout_global(Some(patience)).build();
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.call().map_err(|error| Error::Unreachable {
        url: at.clone(),
        source: Box::new(error),
    })
}

/// Parses a signalling URL that a user typed.
///
/// # Errors
/// [`Error::Url`] if it is no http or https URL.
pub fn parse_url(text: &str) -> Result<Url, Error> {
    let url = glassline_url::parse(text).map_err(|error| Error::Url {
        url: error.shown,
        reason: error.wrong.to_string(),
    })?;
    checked(&url)
}

/// Most redirects followed for one offer; a load balancer needs one or two.
const REDIRECTS_MAX: usize = 3;

/// Largest response body, in bytes; an answer for eight tracks has about 10 kB.
const BODY_BYTES_MAX: u64 = 256 * 1024;

/// HTTP clients; one for each trust, so that joins share connections.
fn agent(trust: Trust) -> Agent {
    static KEPT: LazyLock<Mutex<HashMap<Trust, Agent>>> = LazyLock::new(Mutex::default);
    let mut kept = KEPT.lock();
    kept.entry(trust)
        .or_insert_with(|| new_agent(trust))
        .clone()
}

fn new_agent(trust: Trust) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(15)))
        .timeout_connect(Some(Duration::from_secs(5)))
        .max_idle_connections_per_host(16)
        .max_idle_connections(32)
        .user_agent(crate::agent::user_agent())
        .build();
    crate::agent::agent(config, trust)
}

fn checked(url: &Url) -> Result<Url, Error> {
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        return Ok(url.clone());
    }
    Err(Error::Url {
        url: glassline_url::shown(url),
        reason: format!("scheme {:?}", url.scheme()),
    })
}

pub(crate) fn speaks_json(url: &Url) -> bool {
    url.path().trim_end_matches('/').ends_with("/doSignaling")
}

fn same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

fn text_header<B>(response: &Response<B>, name: header::HeaderName) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// URL of the `Location` header, which may be relative.
fn location(at: &Url, response: &Response<Body>) -> Option<Url> {
    at.join(&text_header(response, header::LOCATION)?).ok()
}

fn redirected(at: &Url, response: &Response<Body>) -> Result<Url, Error> {
    let next = location(at, response).ok_or_else(|| Error::NoAnswer {
        url: at.clone(),
        reason: "a redirect without a usable Location".to_owned(),
    })?;
    checked(&next)
}

fn body(at: &Url, response: &mut Response<Body>) -> Result<String, Error> {
    let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
    body.lossy_utf8(true)
        .read_to_string()
        .map_err(|error| Error::Unreachable {
            url: at.clone(),
            source: Box::new(error),
        })
}

fn answer(at: &Url, response: &mut Response<Body>, json: bool) -> Result<Answer, Error> {
    let location = location(at, response);
    let etag = text_header(response, header::ETAG);
    let alternates = links::alternates(at, response);
    let mut sdp = body(at, response)?;
    let no_answer = |reason: String| Error::NoAnswer {
        url: at.clone(),
        reason,
    };
    if json {
        let message: JsonAnswer =
            serde_json::from_str(&sdp).map_err(|error| no_answer(error.to_string()))?;
        if message.kind != "answer" {
            return Err(no_answer(format!("a message of type {:?}", message.kind)));
        }
        sdp = message.sdp;
    }
    if !sdp.starts_with("v=0") {
        return Err(no_answer(format!("{:?}", beginning(&sdp))));
    }
    Ok(Answer {
        sdp,
        location,
        etag,
        alternates,
    })
}

#[derive(Deserialize)]
struct JsonAnswer {
    #[serde(rename = "type")]
    kind: String,
    sdp: String,
}

/// A problem document (RFC 9457), without the members that are not needed here.
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

fn refusal(at: &Url, response: &mut Response<Body>) -> Error {
    let status = response.status();
    // A body that cannot be read does not change the refusal.
    let text = body(at, response).unwrap_or_default();
    let problem: Option<Problem> = serde_json::from_str(&text).ok();
    let detail = problem
        .and_then(|problem| problem.detail.or(problem.title))
        .or_else(|| Some(beginning(&text).to_owned()).filter(|text| !text.is_empty()))
        .or_else(|| status.canonical_reason().map(str::to_owned))
        .unwrap_or_default();
    Error::Refused {
        url: at.clone(),
        status: status.as_u16(),
        detail,
    }
}

/// The first line, cut at 200 bytes.
fn beginning(text: &str) -> &str {
    let line = text.lines().next().unwrap_or("");
    let end = (0..=line.len().min(200))
        .rev()
        .find(|&end| line.is_char_boundary(end))
        .unwrap_or(0);
    &line[..end]
}

#[cfg(test)]
mod tests;
