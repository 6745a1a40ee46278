//! WHEP: one HTTP exchange makes a viewer (draft-ietf-wish-whep-03).
//!
//! `POST` an offer, get `201` with the answer; the session's URL then takes
//! `PATCH` (ICE candidates, ICE restart) and `DELETE`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use glassline_hub::{State as StreamState, Stream, StreamName};
use glassline_media::Track;
use glassline_webrtc::sdp::{Candidate, Fragment, IceCredentials, NegotiationError};
use glassline_webrtc::{
    AcceptConfig, AcceptError, DataConfig, Kinds, OpusOptions, Redundancy, Secrets, Session,
};
use rand::RngCore;
use tokio::sync::oneshot;

use super::problem::Problem;
use super::{App, Ends, whip};
use crate::config::DataAccess;
use crate::ingest::library::Live;
use crate::messages::{Bounds, Messages, Publication, Side};
use crate::runtime::SessionId;
use crate::sessions::{
    Command, DataPublisher, Entry, Full, Home, IceTag, Peer, Permit, Role, Viewer,
};

pub(super) const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";

/// A viewer that was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) entry: Arc<Entry>,
    pub(super) answer: String,
}

/// `POST /{stream}/whep`
pub(super) async fn offer(
    State(app): State<App>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    expect_type(&headers, SDP)?;
    let offer = text(&body)?;
    let answered = answer(&app, &name, ends, offer).await?;
    let location = format!("/{name}/whep/{}", answered.entry.id);
    Ok(answered.response(location))
}

/// Makes a viewer of stream `name` out of its offer. A file of the media folder
/// begins to play for it.
pub(super) async fn answer(
    app: &App,
    name: &str,
    ends: Ends,
    offer: &str,
) -> Result<Answered, Problem> {
    if let Some(stream) = app.hub.stream(name) {
        return answer_with(app, stream, ends, offer);
    }
    let Some(live) = file(app, name).await? else {
        return Err(Problem::no_stream(name));
    };
    let answered = answer_with(app, Arc::clone(live.stream()), ends, offer)?;
    live.play();
    // Connected, the viewer itself keeps the file going; until then this does.
    let handshake = app.config.limits.handshake();
    tokio::spawn(async move {
        tokio::time::sleep(handshake).await;
        drop(live);
    });
    Ok(answered)
}

/// The shared reading of a file.
async fn file(app: &App, name: &str) -> Result<Option<Live>, Problem> {
    let Some(library) = &app.library else {
        return Ok(None);
    };
    match library.find(name).await {
        Ok(title) => Ok(title.map(|title| title.live())),
        // Why stands in the log: the reason names paths of this machine.
        Err(_) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "File cannot be played",
            format!(
                "'{name}' is broken, or of a kind that is not known; the server's log says why"
            ),
        )),
    }
}

/// Makes a viewer of `stream` out of its offer.
pub(super) fn answer_with(
    app: &App,
    stream: Arc<Stream>,
    ends: Ends,
    offer: &str,
) -> Result<Answered, Problem> {
    let beside = Beside::stream(app, &stream, Side::Viewers);
    let tracks = stream.tracks();
    // Whoever wants nothing but messages needs no media.
    if tracks.is_empty() && !(beside.is_some() && whip::media_in(offer)?.is_none()) {
        return Err(not_live(&stream));
    }
    join(app, stream, &tracks, ends, offer, beside)
}

/// The same of a stream that must be live, with messages that are not the stream's.
pub(super) fn answer_beside(
    app: &App,
    stream: Arc<Stream>,
    ends: Ends,
    offer: &str,
    beside: Beside,
) -> Result<Answered, Problem> {
    let tracks = stream.tracks();
    if tracks.is_empty() {
        return Err(not_live(&stream));
    }
    join(app, stream, &tracks, ends, offer, Some(beside))
}

/// Whom a session's data channels lead to, if it has any.
#[derive(Debug)]
pub(super) struct Beside {
    /// Of the exchange.
    pub(super) name: StreamName,
    pub(super) side: Side,
    /// What it says is passed on.
    pub(super) speaks: bool,
    pub(super) bounds: Bounds,
}

impl Beside {
    /// Messages beside a stream; `None` where data channels are off.
    pub(super) fn stream(app: &App, stream: &Stream, side: Side) -> Option<Self> {
        let data = &app.config.webrtc.data;
        Some(Self {
            name: stream.name().clone(),
            side,
            speaks: side == Side::Publisher || data.viewers == DataAccess::Write,
            bounds: data.bounds()?,
        })
    }
}

/// Answers an offer to be sent `tracks` and, if there is somebody `beside`, to exchange
/// messages.
pub(super) fn join(
    app: &App,
    stream: Arc<Stream>,
    tracks: &[Track],
    ends: Ends,
    offer: &str,
    beside: Option<Beside>,
) -> Result<Answered, Problem> {
    let data = beside.as_ref();
    let data = data.map(|it| Messages::config(it.speaks, &it.bounds));
    let accepted = accept(app, ends, offer, tracks, Kinds::NONE, data)?;
    let lag = app.config.webrtc.lag();
    let make = |id: SessionId, session: Session, permit, now| {
        let beside = beside.filter(|_| session.channels().is_some());
        let viewer = |session: &Session| Role::Viewer(Viewer::new(session, &stream, lag, now));
        let Some(beside) = beside else {
            let role = viewer(&session);
            return Peer::new(id, stream, session, role, permit, now);
        };
        let exchange = app.shared.exchanges.of(&beside.name);
        let (side, speaks, bounds) = (beside.side, beside.speaks, beside.bounds);
        let role = match side {
            Side::Publisher => {
                let publication = Publication::new(Arc::clone(&exchange), id.clone());
                Role::DataPublisher(DataPublisher::new(publication))
            }
            Side::Viewers | Side::First | Side::Second => viewer(&session),
        };
        let messages = Messages::new(id.clone(), side, speaks, exchange, bounds, now);
        Peer::new(id, stream, session, role, permit, now).with_messages(messages)
    };
    Ok(accepted.settle(app, session_id(), make))
}

/// An offer that was answered, and is nobody's yet.
pub(super) struct Accepted {
    pub(super) session: Session,
    answer: String,
    ufrag: String,
    permit: Permit,
    now: Instant,
}

/// Answers an offer: `tracks` are what may be sent, `receive` what is taken, `data`
/// how data channels are, if there may be any.
pub(super) fn accept(
    app: &App,
    ends: Ends,
    offer: &str,
    tracks: &[Track],
    receive: Kinds,
    data: Option<DataConfig>,
) -> Result<Accepted, Problem> {
    let permit = app.shared.registry.admit(ends.peer.ip()).map_err(full)?;
    let mut seed = [0; 32];
    rand::rng().fill_bytes(&mut seed);
    let secrets = Secrets::expand(&seed);
    let ufrag = secrets.ufrag.clone();
    let now = Instant::now();
    let config = AcceptConfig {
        certificate: Arc::clone(&app.certificate),
        local: candidates(app, ends.local.ip()),
        secrets,
        wall: app.clock.wall(),
        tracks,
        receive,
        opus: OpusOptions {
            // What is received is a voice.
            stereo: false,
            redundancy: Redundancy::IfPreferred,
            ..OpusOptions::default()
        },
        data,
    };
    let (mut session, answer) = Session::accept(config, offer, now).map_err(refused)?;
    // An absurd number of seconds leaves the session's own bound.
    if let Some(deadline) = now.checked_add(app.config.limits.handshake()) {
        session.set_handshake_deadline(deadline);
    }
    if let Some(algorithm) = app.config.webrtc.pacing.algorithm() {
        // A peer that sends no feedback is sent pictures as they come.
        session.steer(algorithm, now);
    }
    Ok(Accepted {
        session,
        answer,
        ufrag,
        permit,
        now,
    })
}

impl Accepted {
    /// Lets what `make` makes of it wait for its peer, as session `id`.
    pub(super) fn settle(
        self,
        app: &App,
        id: SessionId,
        make: impl FnOnce(SessionId, Session, Permit, Instant) -> Peer,
    ) -> Answered {
        let Self {
            session,
            answer,
            ufrag,
            permit,
            now,
        } = self;
        let peer_ufrag = session
            .remote_credentials()
            .map_or_else(String::new, |theirs| theirs.ufrag.clone());
        let ice = IceTag {
            peer_ufrag,
            etag: format!("\"{ufrag}\""),
        };
        let viewer = Box::new(make(id, session, permit, now));
        let entry = app.shared.registry.insert(viewer, &ufrag, ice, now);
        Answered { entry, answer }
    }
}

impl Answered {
    /// `201`: the answer, and where the session is from now on.
    pub(super) fn response(self, location: String) -> Response {
        let tag = self.entry.ice().etag.clone();
        let headers = [
            (header::CONTENT_TYPE, SDP.to_owned()),
            (header::LOCATION, location),
            (header::ETAG, tag),
            (
                header::HeaderName::from_static("accept-patch"),
                FRAGMENT.to_owned(),
            ),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        (StatusCode::CREATED, headers, self.answer).into_response()
    }
}

/// `PATCH /{stream}/whep/{session}`
pub(super) async fn change(
    State(app): State<App>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    Path((name, session)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let entry = find(&app, &name, &session)?;
    change_entry(&app, &entry, ends, &headers, &body)
}

/// Takes candidates, or restarts ICE.
pub(super) fn change_entry(
    app: &App,
    entry: &Arc<Entry>,
    ends: Ends,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    expect_type(headers, FRAGMENT)?;
    let fragment = Fragment::parse(text(body)?).map_err(|error| malformed(&error))?;
    let restarts = fragment
        .credentials()
        .filter(|theirs| theirs.ufrag != entry.ice().peer_ufrag);
    match restarts {
        Some(theirs) => restart(app, entry, ends, headers, &fragment, theirs),
        None => {
            let candidates = fragment
                .candidates()
                .map(|(_, candidate)| candidate.clone())
                .collect();
            trickle(app, entry, candidates)
        }
    }
}

/// More candidates. An ICE-lite server learns addresses from checks, so these
/// are a courtesy, and clients without `If-Match` are taken as they are.
fn trickle(app: &App, entry: &Entry, candidates: Vec<Candidate>) -> Result<Response, Problem> {
    reach(app, entry, |home| match home {
        Reached::Waiting(viewer) => {
            for candidate in &candidates {
                viewer
                    .session_mut()
                    .add_remote_candidate(candidate, Instant::now());
            }
            None
        }
        Reached::Shard => Some(Command::Trickle(entry.id.clone(), candidates)),
    })?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// New credentials of the peer: ICE begins anew, DTLS and media go on.
fn restart(
    app: &App,
    entry: &Arc<Entry>,
    ends: Ends,
    headers: &HeaderMap,
    fragment: &Fragment,
    theirs: IceCredentials,
) -> Result<Response, Problem> {
    let expected = headers
        .get(header::IF_MATCH)
        .and_then(|value| value.to_str().ok());
    // Held to the end: of two restarts with one tag only one may win.
    let mut ice = entry.ice();
    match expected {
        None => {
            let detail = "an ICE restart needs If-Match: * or the session's ETag";
            return Err(Problem::new(
                StatusCode::PRECONDITION_REQUIRED,
                "If-Match missing",
                detail,
            ));
        }
        Some(tag) if tag != "*" && tag != ice.etag => {
            let detail = format!(
                "the session's ETag is {}, not {tag}: its ICE was restarted meanwhile",
                ice.etag
            );
            return Err(Problem::new(
                StatusCode::PRECONDITION_FAILED,
                "ETag is stale",
                detail,
            ));
        }
        Some(_) => {}
    }
    let mut seed = [0; 32];
    rand::rng().fill_bytes(&mut seed);
    let secrets = Secrets::expand(&seed);
    let ours = IceCredentials {
        ufrag: secrets.ufrag,
        pwd: secrets.pwd,
    };
    let tag = IceTag {
        peer_ufrag: theirs.ufrag.clone(),
        etag: format!("\"{}\"", ours.ufrag),
    };
    let ufrag = ours.ufrag.clone();
    let body =
        glassline_webrtc::sdp::restart_fragment(fragment, &ours, &candidates(app, ends.local.ip()));
    reach(app, entry, |home| match home {
        Reached::Waiting(viewer) => {
            viewer
                .session_mut()
                .restart_ice(ours, theirs, Instant::now());
            None
        }
        Reached::Shard => Some(Command::Restart {
            session: entry.id.clone(),
            ours,
            theirs,
        }),
    })?;
    app.shared.registry.add_ufrag(entry, &ufrag);
    let headers = [
        (header::CONTENT_TYPE, FRAGMENT.to_owned()),
        (header::ETAG, tag.etag.clone()),
    ];
    *ice = tag;
    Ok((StatusCode::OK, headers, body).into_response())
}

/// `DELETE /{stream}/whep/{session}`
pub(super) async fn leave(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let entry = find(&app, &name, &session)?;
    leave_entry(&app, &entry).await
}

/// A shard that does not let a session go within this stands still; nobody waits for it.
const LEAVING: Duration = Duration::from_secs(2);

/// Ends a session; its viewer is gone when this answers.
pub(super) async fn leave_entry(app: &App, entry: &Entry) -> Result<Response, Problem> {
    let (left, gone) = {
        let mut home = entry.home();
        let mut gone = None;
        match &*home {
            Home::Shard(index) => {
                if let Some(shard) = app.shared.shard(*index) {
                    let (done, when_gone) = oneshot::channel();
                    let command = Command::Leave {
                        session: entry.id.clone(),
                        done,
                    };
                    shard.send(command).map_err(|_| busy())?;
                    gone = Some(when_gone);
                }
            }
            Home::Waiting(_) => {}
            Home::Gone => return Err(Problem::no_session()),
        }
        (std::mem::replace(&mut *home, Home::Gone), gone)
    };
    if let Some(gone) = gone {
        // An error is the sender dropped: gone in another way.
        let _ = tokio::time::timeout(LEAVING, gone).await;
    }
    app.shared.registry.remove(&entry.id);
    // A waiting viewer's permit locks the registry, so it goes last.
    drop(left);
    Ok(StatusCode::OK.into_response())
}

/// `OPTIONS`: what may be sent here, also for CORS preflights.
pub(super) async fn options() -> Response {
    let headers = [
        (header::ALLOW, "OPTIONS, POST, PATCH, DELETE"),
        (header::HeaderName::from_static("accept-post"), SDP),
        (header::HeaderName::from_static("accept-patch"), FRAGMENT),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "OPTIONS, POST, PATCH, DELETE",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type, If-Match",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Any other method (draft §4.1: 405).
pub(super) async fn wrong_method() -> Response {
    let detail = "POST an SDP offer to /{stream}/whep or /{stream}/whip; PATCH or DELETE the session that it made";
    let headers = [(
        header::ALLOW,
        HeaderValue::from_static("OPTIONS, POST, PATCH, DELETE"),
    )];
    (
        headers,
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Wrong method", detail),
    )
        .into_response()
}

/// Where a session can be changed.
enum Reached<'a> {
    Waiting(&'a mut Peer),
    Shard,
}

/// Changes a session in place while nobody came for it, else through its shard.
fn reach(
    app: &App,
    entry: &Entry,
    change: impl FnOnce(Reached<'_>) -> Option<Command>,
) -> Result<(), Problem> {
    match &mut *entry.home() {
        Home::Waiting(viewer) => {
            change(Reached::Waiting(viewer));
            Ok(())
        }
        Home::Shard(index) => match (app.shared.shard(*index), change(Reached::Shard)) {
            (Some(shard), Some(command)) => shard.send(command).map_err(|_| busy()),
            _ => Ok(()),
        },
        Home::Gone => Err(Problem::no_session()),
    }
}

pub(super) fn find(app: &App, stream: &str, session: &str) -> Result<Arc<Entry>, Problem> {
    let entry = app.shared.registry.by_id(&SessionId::new(session));
    entry
        .filter(|entry| entry.stream.as_str() == stream)
        .ok_or_else(Problem::no_session)
}

pub(super) fn session_id() -> SessionId {
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    SessionId::new(
        &bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
    )
}

/// Our addresses for media: configured ones, the one listened on, or the one
/// that the viewer just reached by HTTP.
fn candidates(app: &App, reached: IpAddr) -> Vec<SocketAddr> {
    let port = app.media.port();
    let advertised = &app.config.media.advertise;
    if !advertised.is_empty() {
        return advertised
            .iter()
            .map(|ip| SocketAddr::new(*ip, port))
            .collect();
    }
    let ip = if app.media.ip().is_unspecified() {
        reached.to_canonical()
    } else {
        app.media.ip()
    };
    vec![SocketAddr::new(ip, port)]
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

fn not_live(stream: &Stream) -> Problem {
    let state = stream.state();
    let detail = match &state {
        StreamState::Connecting => format!(
            "stream '{}' is still connecting to its source",
            stream.name()
        ),
        other => format!(
            "stream '{}' is {}: {}",
            stream.name(),
            other.as_str(),
            other.detail().unwrap_or("no source yet")
        ),
    };
    Problem::try_later("Stream not live", detail).with("state", state.as_str())
}

fn full(full: Full) -> Problem {
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

fn busy() -> Problem {
    Problem::try_later(
        "Server busy",
        "the viewer's shard has too many requests waiting; try again",
    )
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
            let offers = if offered.is_empty() {
                "nothing".to_owned()
            } else {
                offered.join(", ")
            };
            let detail = format!("this stream's {kind} is {wanted}; the offer has {offers}");
            Problem::new(StatusCode::NOT_ACCEPTABLE, "No common codec", detail)
                .with("wanted", wanted)
                .with("offered", offered)
        }
        AcceptError::Negotiation(
            why @ (NegotiationError::NothingPlayable { .. } | NegotiationError::Reordered { .. }),
        ) => Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "Not for browsers",
            why.to_string(),
        ),
        AcceptError::Malformed(error) => malformed(&error),
        other => Problem::bad_request(other.to_string()),
    }
}
