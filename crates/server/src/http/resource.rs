//! The common parts of WHEP, WHIP and calls: SDP bodies, and the URL of a session, which takes
//! `PATCH` (ICE candidates, ICE restart) and `DELETE` (RFC 9725 §4).
//!
//! An answer without a counter-offer is never 406, which WHEP players read as one; it is 422.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use glassline_access::auth::Users;
use glassline_events::failures::Stage;
use glassline_hub::StreamName;
use glassline_runtime::SessionId;
use glassline_transcoding::Hindrance;
use glassline_webrtc::AcceptError;
use glassline_webrtc::sdp::{Fragment, IceCredentials, NegotiationError};

use super::body;
use super::problem::Problem;
use crate::app::App;
use crate::sessions::{
    AnsweredOffer, ChangeError, ClientView, ConnectionAddresses, EndReason, Expected, Full,
    Negotiator, OfferError, SessionRecord,
};

pub(super) const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";

/// Returns the entity tag of an ICE generation: the server's user name fragment in quotes.
fn entity_tag(ufrag: &str) -> String {
    format!("\"{ufrag}\"")
}

/// Returns the session of a URL that also names the stream.
pub(super) fn find(
    sessions: &Negotiator,
    stream: &str,
    session: &str,
) -> Result<Arc<SessionRecord>, Problem> {
    let record = sessions.find(stream, session);
    record.ok_or_else(|| gone(sessions, Some(stream), session).unwrap_or_else(Problem::no_session))
}

/// Returns the session that was made with a stream key, whose URL does not name the stream.
pub(super) fn find_keyed(
    sessions: &Negotiator,
    session: &str,
) -> Result<Arc<SessionRecord>, Problem> {
    let record = sessions.by_id(&SessionId::new(session));
    record.ok_or_else(|| gone(sessions, None, session).unwrap_or_else(Problem::no_session))
}

/// Returns why a session ended or failed, of `stream` if its URL names one, with status 410; `None` if
/// its client ended it, or if that is too long ago.
pub(super) fn gone(sessions: &Negotiator, stream: Option<&str>, session: &str) -> Option<Problem> {
    let ending = sessions.ending(stream, session);
    // A failure tells more than the kind of end: what arrived, or who has the stream. An end that the
    // server decided on is told to operators in other words.
    let failure = sessions.failure(stream, session);
    let failure = failure.filter(|it| ending.is_none() || it.stage != Stage::Connected);
    let Some(failure) = failure else {
        return ending.map(|it| {
            let problem = Problem::new(StatusCode::GONE, it.title(), it.to_string());
            problem.with("ended", it.as_str())
        });
    };
    let title = match failure.stage {
        Stage::Connected => "The connection was lost",
        _ => ending.map_or("The connection failed", EndReason::title),
    };
    let reason: String = failure.reason.into();
    let problem = Problem::new(StatusCode::GONE, title, reason);
    let mut problem = problem.with("stage", failure.stage.as_str());
    if let Some(ending) = ending {
        problem = problem.with("ended", ending.as_str());
    }
    Some(match failure.remedy {
        Some(remedy) => problem.with("remedy", String::from(remedy)),
        None => problem,
    })
}

/// Ends a session that its client gives up, and answers with the reason.
pub(super) async fn give_up(
    sessions: &Negotiator,
    record: &SessionRecord,
    body: Body,
) -> Result<Response, Problem> {
    let body = body::read(body).await?;
    let view: ClientView = serde_json::from_slice(&body).map_err(|error| {
        let line = error.line();
        Problem::bad_request(format!("not a report of a failure: {error}")).with("line", line)
    })?;
    // If the session ended meanwhile, its reason is known, too.
    let ended = sessions.give_up(record, view).await;
    match gone(sessions, Some(record.resource_name()), record.id.as_str()) {
        Some(problem) => Err(problem),
        None => ended
            .map(|()| StatusCode::OK.into_response())
            .map_err(Into::into),
    }
}

/// Returns status 201 with the SDP answer, the URL of the session, and the ICE servers.
pub(super) fn created(app: &App, answered: AnsweredOffer, location: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, SDP.to_owned()),
        (header::LOCATION, location),
        (header::ETAG, entity_tag(&answered.ufrag)),
        (
            header::HeaderName::from_static("accept-patch"),
            FRAGMENT.to_owned(),
        ),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    let mut response = (StatusCode::CREATED, headers, answered.answer).into_response();
    push_ice_servers(app, &mut response);
    response.extensions_mut().insert(answered.record);
    response
}

/// Lets the session that `response` tells of, if it tells of one, end with the rights of `user`.
pub(super) fn end_with(users: &Users, user: Option<&str>, response: Response) -> Response {
    let until = user.and_then(|user| users.until(user));
    end_at(response, user, until)
}

/// Lets the session that `response` tells of, if it tells of one, be one of `user` and end at `until`.
pub(super) fn end_at(response: Response, user: Option<&str>, until: Option<Instant>) -> Response {
    if let Some(made) = response.extensions().get::<Arc<SessionRecord>>() {
        if let Some(user) = user {
            made.set_user(user);
        }
        if let Some(until) = until {
            made.end_at(until);
        }
    }
    response
}

/// Answers a preflight of a page on another origin, which may send what the pages here send.
pub(super) fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Adds the configured ICE servers as `Link` headers (RFC 9725 §4.6), one header for each.
fn push_ice_servers(app: &App, response: &mut Response) {
    let unix = app.clock.wall().unix(Instant::now());
    for server in &app.config().webrtc.ice_servers {
        if let Ok(link) = HeaderValue::from_str(&server.link(unix)) {
            response.headers_mut().append(header::LINK, link);
        }
    }
}

/// Leaves out the ICE servers that have credentials.
pub(super) fn without_credentials(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let links = headers.get_all(header::LINK).iter();
    let is_free = |link: &&HeaderValue| !link.as_bytes().windows(10).any(|it| it == b"credential");
    let free: Vec<_> = links.filter(is_free).cloned().collect();
    headers.remove(header::LINK);
    for link in free {
        headers.append(header::LINK, link);
    }
    response
}

/// Returns `methods` of the URL of offers, or of a session, with what all these URLs answer.
pub(super) fn of_offers(methods: MethodRouter<App>) -> MethodRouter<App> {
    methods.options(options).fallback(wrong_method)
}

/// `GET` and `HEAD` of the URL that takes offers: it exists, and takes SDP.
pub(super) async fn endpoint(extract::State(app): extract::State<App>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, SDP),
        (header::HeaderName::from_static("accept-post"), SDP),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let mut response = (StatusCode::OK, headers).into_response();
    push_ice_servers(&app, &mut response);
    response
}

/// Adds the candidates of a `PATCH`, or restarts ICE.
pub(super) async fn change(
    sessions: &Negotiator,
    record: &SessionRecord,
    connection: ConnectionAddresses,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    expect_type(headers, FRAGMENT)?;
    let body = body::read(body).await?;
    let fragment = Fragment::parse(text(&body)?).map_err(|error| malformed(&error))?;
    let restarts = fragment
        .credentials()
        .filter(|theirs| theirs.ufrag != record.state().ice.theirs);
    match restarts {
        Some(theirs) => restart(sessions, record, connection, headers, &fragment, theirs),
        None => {
            let candidates = fragment
                .candidates()
                .map(|(_, candidate)| candidate.clone())
                .collect();
            // Requests without `If-Match` are accepted.
            sessions.trickle(record, candidates)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
    }
}

/// Restarts ICE with the peer's new credentials.
fn restart(
    sessions: &Negotiator,
    record: &SessionRecord,
    connection: ConnectionAddresses,
    headers: &HeaderMap,
    fragment: &Fragment,
    theirs: IceCredentials,
) -> Result<Response, Problem> {
    let expected = headers
        .get(header::IF_MATCH)
        .and_then(|value| value.to_str().ok());
    let Some(tag) = expected else {
        let detail = "an ICE restart needs If-Match: * or the session's ETag";
        return Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "If-Match missing",
            detail,
        ));
    };
    let expected = if tag == "*" {
        Expected::Any
    } else {
        let inside = tag.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        Expected::Generation(inside)
    };
    let reached = connection.local.ip();
    let restarted = sessions.restart(record, expected, fragment, theirs, reached);
    let restarted = restarted.map_err(|error| match error {
        ChangeError::Stale { current } => {
            let detail = format!(
                "the session's ETag is {}, not {tag}: its ICE was restarted meanwhile",
                entity_tag(&current)
            );
            Problem::new(StatusCode::PRECONDITION_FAILED, "ETag is stale", detail)
        }
        other => other.into(),
    })?;
    let headers = [
        (header::CONTENT_TYPE, FRAGMENT.to_owned()),
        (header::ETAG, entity_tag(&restarted.ufrag)),
    ];
    Ok((StatusCode::OK, headers, restarted.fragment).into_response())
}

/// Ends a session. The peer is released when the response is sent.
pub(super) async fn end(
    sessions: &Negotiator,
    record: &SessionRecord,
) -> Result<Response, Problem> {
    let ended = sessions.leave(record).await;
    // The server may have ended the session since it was found.
    let (name, id) = (record.resource_name(), record.id.as_str());
    if (ended.is_err() || sessions.ending(Some(name), id).is_some())
        && let Some(problem) = gone(sessions, Some(name), id)
    {
        return Err(problem);
    }
    ended?;
    Ok(StatusCode::OK.into_response())
}

/// `OPTIONS`: the methods and types that are accepted here, also for CORS preflights.
pub(super) async fn options(
    extract::State(app): extract::State<App>,
    request: HeaderMap,
) -> Response {
    let headers = [
        (header::ALLOW, METHODS),
        (header::HeaderName::from_static("accept-post"), SDP),
        (header::HeaderName::from_static("accept-patch"), FRAGMENT),
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    let mut response = (StatusCode::NO_CONTENT, headers).into_response();
    // A preflight has no credentials, and the servers' own may be among the links.
    if !request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        push_ice_servers(&app, &mut response);
    }
    response
}

/// Headers that pages of other origins may send.
const REQUEST_HEADERS: &str = "Authorization, Content-Type, If-Match";

/// Methods of the URLs of offers and sessions.
const METHODS: &str = "OPTIONS, GET, HEAD, POST, PATCH, DELETE";

/// Refuses any other method with status 405 (RFC 9725 §4.1).
async fn wrong_method() -> Response {
    let detail = "POST an SDP offer to /{stream}/whep or /{stream}/whip; PATCH or DELETE the session that it made";
    let headers = [(header::ALLOW, HeaderValue::from_static(METHODS))];
    (
        headers,
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Wrong method", detail),
    )
        .into_response()
}

pub(super) fn expect_type(headers: &HeaderMap, expected: &'static str) -> Result<(), Problem> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let detail = format!("the body must be {expected}, Content-Type says '{given}'");
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "Wrong content type",
        detail,
    ))
}

pub(super) fn text(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|error| {
        Problem::bad_request(format!(
            "the body is not UTF-8 text from byte {} on",
            error.valid_up_to()
        ))
    })
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Busy => Self::try_later(
                "Server busy",
                "the viewer's shard has too many requests waiting; try again",
            ),
            ChangeError::Ended | ChangeError::Stale { .. } => Self::no_session(),
        }
    }
}

impl From<OfferError> for Problem {
    fn from(error: OfferError) -> Self {
        match error {
            OfferError::NoStream(name) => match StreamName::parse(&name) {
                Ok(_) => Self::no_stream(&name),
                Err(why) => Self::new(
                    StatusCode::BAD_REQUEST,
                    "No stream can have this name",
                    why.to_string(),
                ),
            },
            OfferError::BrokenFile { name, why } => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "File cannot be played",
                format!("{name}: {why}"),
            ),
            OfferError::NotLive {
                stream,
                state,
                status,
            } => Problem::not_live(&stream, &state, status),
            OfferError::NoMedia(why) => Self::try_later("No media", why),
            OfferError::Full(why) => full(&why),
            why @ OfferError::NotTranscoded(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Not for browsers",
                why.to_string(),
            ),
            OfferError::NoLayer(why) => Self::no_layer(&why),
            OfferError::OnRequest(it) => refused(it.why).or_transcoded(it.video),
            OfferError::Refused(why) => refused(why),
        }
    }
}

/// Returns the codecs of an offer in words: with their parameters if the wanted codec is among them, so
/// that these differ, and else by name alone.
fn offers(wanted: &str, offered: &[String]) -> String {
    let name = |codec: &str| codec.split(' ').next().unwrap_or_default().to_owned();
    if offered.is_empty() {
        return "nothing".to_owned();
    }
    if offered.iter().any(|it| name(it) == name(wanted)) {
        return offered.join(", ");
    }
    let mut names: Vec<String> = Vec::new();
    for codec in offered {
        let name = name(codec);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn full(full: &Full) -> Problem {
    match full {
        Full::Address { .. } => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "Too many handshakes",
            full.to_string(),
        )
        .header(header::RETRY_AFTER, "1"),
        _ => Problem::try_later("Server full", full.to_string()),
    }
}

pub(super) fn malformed(error: &glassline_webrtc::sdp::Error) -> Problem {
    let line = error.line;
    Problem::bad_request(error.to_string()).with("line", line)
}

fn refused(error: AcceptError) -> Problem {
    match error {
        AcceptError::Negotiation(NegotiationError::NoCodec {
            kind,
            wanted,
            offered,
        }) => {
            let offers = offers(&wanted, &offered);
            let detail = format!("this stream's {kind} is {wanted}; the offer has {offers}");
            let remedy = "have the source send a codec that every browser has (H.264 without B-frames, Opus), or \
                          watch with a player or browser that decodes this one";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "No common codec", detail)
                .with("remedy", remedy)
                .with("wanted", wanted)
                .with("offered", offered)
        }
        AcceptError::Negotiation(why @ NegotiationError::Unsupported { .. }) => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Offer not supported",
            why.to_string(),
        ),
        AcceptError::Negotiation(why @ NegotiationError::NothingPlayable { .. }) => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Not for browsers",
            why.to_string(),
        ),
        AcceptError::Negotiation(why @ NegotiationError::Reordered { .. }) => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Not for browsers",
            format!("{why}; {}", Hindrance::BFrames.remedy()),
        )
        // An encoder may make B-frames for a moment only.
        .header(header::RETRY_AFTER, "5"),
        AcceptError::Malformed(error) => malformed(&error),
        other => Problem::bad_request(other.to_string()),
    }
}
