//! Checks of each request before the owner is asked about it (RFC 2326 §10).

use std::time::Instant;

use super::authenticator::CredentialCheck;
use super::core::Core;
use super::pending::{Pending, Stage};
use super::target::Target;
use super::transport_selector::TransportSelector;
use super::{Access, Event, RequestId, SetUp, Srtp, State};
use crate::message::{Method, Request, Status};
use crate::mikey::Keys;
use crate::range::Range;
use crate::replay::{self, Replay};
use crate::sdp::Description;
use crate::transport::{Mode, Profile, Transport};

/// Methods that the response to OPTIONS lists.
const PUBLIC: &str = "OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, PAUSE, RECORD, TEARDOWN, \
    GET_PARAMETER, SET_PARAMETER";

/// Most tracks of one session: as many as a description may have.
const TRACKS_MAX: usize = crate::sdp::TRACKS_MAX;

/// A request that is answered without the owner: the status, and a header with details.
struct Rejected(Status, Option<(&'static str, String)>);

/// A request that the owner is not asked about: the status, and what is wrong, where the status does
/// not say it.
struct Unfit {
    status: Status,
    why: Option<String>,
}

impl From<Status> for Unfit {
    fn from(status: Status) -> Self {
        Self { status, why: None }
    }
}

impl Unfit {
    fn because(status: Status, why: impl Into<String>) -> Self {
        Self {
            status,
            why: Some(why.into()),
        }
    }
}

impl From<Status> for Rejected {
    fn from(status: Status) -> Self {
        Self(status, None)
    }
}

impl Core {
    /// Handles the next request: answers it at once, or asks the owner.
    pub(super) fn begin(&mut self, now: Instant, request: Request) {
        if self.is_closed {
            return;
        }
        match self.admit(&request) {
            Err(Rejected(status, header)) => self.respond(&request, status, |response| {
                if let Some((name, value)) = header {
                    response.headers.push(name, &value);
                }
            }),
            Ok(()) => self.take(now, request),
        }
    }

    /// Checks what holds for all methods.
    fn admit(&self, request: &Request) -> Result<(), Rejected> {
        let headers = &request.headers;
        if request.version.major != 1 {
            return Err(Status::VERSION_NOT_SUPPORTED.into());
        }
        if headers.cseq().is_none() {
            return Err(Status::BAD_REQUEST.into());
        }
        if !PUBLIC
            .split(", ")
            .any(|name| name == request.method.as_str())
        {
            return Err(Rejected(
                Status::NOT_IMPLEMENTED,
                Some(("Public", PUBLIC.to_owned())),
            ));
        }
        if let Some(unknown) = replay::unsupported(headers) {
            let unsupported = Some(("Unsupported", unknown));
            return Err(Rejected(Status::OPTION_NOT_SUPPORTED, unsupported));
        }
        let own = self.session.as_deref().map(|session| session.id.as_str());
        let named = headers
            .get("Session")
            .and_then(crate::session::Session::parse);
        let named = named.as_ref().map(|session| session.id.as_str());
        let needs_one = matches!(
            request.method,
            Method::Play | Method::Pause | Method::Record | Method::Teardown
        );
        if (needs_one || headers.get("Session").is_some()) && (own.is_none() || named != own) {
            return Err(Status::SESSION_NOT_FOUND.into());
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, request: Request) {
        match request.method {
            Method::Options => {
                self.respond(&request, Status::OK, |response| {
                    response.headers.push("Public", PUBLIC);
                });
                return;
            }
            // These are keep-alives of a session, and of clients that ping the server.
            Method::GetParameter | Method::SetParameter
                if request.headers.get("Session").is_some() || request.uri == "*" =>
            {
                return self.parameters(now, &request);
            }
            _ => {}
        }
        match self.locate(&request) {
            Ok(target) => self.authorize(now, request, target),
            Err(status) => self.respond(&request, status, |_| {}),
        }
    }

    fn locate(&self, request: &Request) -> Result<Target, Status> {
        if let Some(announced) = self.announced.as_deref()
            && let Some(track) = announced.track(&request.uri, self.tracks())
        {
            return Ok(Target {
                path: announced.path.clone(),
                query: announced.query.clone(),
                track: Some(track),
                base: announced.base.clone(),
            });
        }
        let target =
            Target::parse(&request.uri, self.endpoints.local).ok_or(Status::BAD_REQUEST)?;
        if target.path.is_empty() {
            return Err(Status::NOT_FOUND);
        }
        Ok(target)
    }

    /// Asks the owner whether this client may, unless the owner has granted it before.
    fn authorize(&mut self, now: Instant, request: Request, target: Target) {
        let is_announced = |path: &str| {
            let announced = self.announced.as_deref();
            announced.is_some_and(|announced| announced.path == path)
        };
        let access = match request.method {
            Method::Announce | Method::Record => Access::Publish,
            _ if is_announced(&target.path) => Access::Publish,
            _ if self.is_of_past(&request, &target) => Access::Past,
            _ => Access::Read,
        };
        // A client that could set up the session may end it.
        let is_teardown = request.method == Method::Teardown;
        if is_teardown
            || self
                .authenticator
                .is_granted(access, &target.path, &request)
        {
            return self.dispatch(now, request, target);
        }
        self.authenticator.note_forwarded(&request);
        let shown = self
            .authenticator
            .read(now, &request, &target, &self.config, &self.endpoints);
        let stage = Stage::authorize(access, &shown);
        let id = self.new_id();
        self.events.push_back(Event::Authorize {
            id,
            access,
            path: target.path.clone(),
            query: target.query.clone(),
            credentials: match shown {
                CredentialCheck::Usable(presented) => Some(*presented),
                _ => None,
            },
        });
        self.wait(id, request, target, stage);
    }

    /// Returns whether a request is for what was recorded: the URL names an instant, or a session plays a
    /// range of calendar time, or begins to.
    fn is_of_past(&self, request: &Request, target: &Target) -> bool {
        let range = request.headers.get("Range").and_then(Range::parse);
        let session = self.session.as_deref();
        let is_past = match (&request.method, range) {
            (Method::Play, Some(range)) => matches!(range, Range::Clock { .. }),
            _ => session.is_some_and(|session| session.is_past && session.path == target.path),
        };
        is_past || target.at().is_some() || Replay::is_required(request)
    }

    /// Stores the request until the owner answers.
    fn wait(&mut self, id: RequestId, request: Request, target: Target, stage: Stage) {
        self.pending = Some(Box::new(Pending {
            id,
            request,
            target,
            stage,
        }));
    }

    /// Handles a request that the client is authorized to make.
    pub(super) fn dispatch(&mut self, now: Instant, request: Request, target: Target) {
        let id = self.new_id();
        let result = match request.method {
            Method::Describe => describe(id, &request, &target),
            Method::Announce => self.announce(id, &request, &target),
            Method::Setup => self.set_up(id, &request, &target),
            Method::Play => self.play(id, &request, &target),
            Method::Pause => self.pause(id, &target),
            Method::Record => self.record(id, &target),
            Method::Teardown => return self.tear_down(&request, &target),
            _ => return self.parameters(now, &request),
        };
        match result {
            Ok((stage, event)) => {
                self.wait(id, request, target, stage);
                self.events.push_back(event);
            }
            Err(Unfit { status, why }) => self.respond(&request, status, |response| {
                if let Some(why) = why {
                    response.reason = why;
                }
            }),
        }
    }

    fn announce(&self, id: RequestId, request: &Request, target: &Target) -> DispatchResult {
        if self.session.is_some() {
            return Err(Status::METHOD_NOT_VALID_IN_THIS_STATE.into());
        }
        let kind = request.headers.get("Content-Type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/sdp") {
            let status = Status::UNSUPPORTED_MEDIA_TYPE;
            let why = format!("the Content-Type of ANNOUNCE is `{kind}`, not application/sdp");
            return Err(Unfit::because(status, why));
        }
        let description = Description::parse(&request.body);
        let mut description =
            description.map_err(|error| Unfit::because(Status::BAD_REQUEST, error.to_string()))?;
        if description.tracks.is_empty() {
            let why = "the session description (SDP) has no media line (m=)";
            return Err(Unfit::because(Status::BAD_REQUEST, why));
        }
        // Publishers write their own address as an absolute aggregate control. The tracks that
        // they set up next are below the URL of ANNOUNCE.
        description.control = None;
        description.resolve(&target.base);
        let description = Box::new(description);
        let stage = Stage::Announce {
            description: description.clone(),
        };
        let (path, query) = (target.path.clone(), target.query.clone());
        Ok((
            stage,
            Event::Announce {
                id,
                path,
                query,
                description,
            },
        ))
    }

    fn set_up(&self, id: RequestId, request: &Request, target: &Target) -> DispatchResult {
        if let Some(session) = &self.session {
            if !matches!(session.state, State::Init | State::Ready) {
                return Err(Status::METHOD_NOT_VALID_IN_THIS_STATE.into());
            }
            if session.path != target.path {
                return Err(Status::AGGREGATE_NOT_ALLOWED.into());
            }
        }
        let announced = self.announced.as_deref();
        let announced = announced.filter(|announced| announced.path == target.path);
        let access = match announced {
            Some(_) => Access::Publish,
            None => Access::Read,
        };
        let number = target.track.unwrap_or_default();
        let known = announced.is_none_or(|announced| announced.has(number));
        if !known || number.get() >= TRACKS_MAX {
            return Err(Status::NOT_FOUND.into());
        }
        let transports: Vec<_> = request.headers.get_all("Transport").collect();
        let offered = transports.join(",");
        let wants_record = Transport::parse_list(&offered)
            .iter()
            .any(|transport| transport.mode == Some(Mode::Record));
        if wants_record && access == Access::Read {
            return Err(Status::METHOD_NOT_VALID_IN_THIS_STATE.into());
        }
        let others = self.tracks().iter().copied();
        let others: Vec<SetUp> = others.filter(|other| other.track != number).collect();
        let selector = TransportSelector {
            config: &self.config,
            endpoints: &self.endpoints,
            others: &others,
            access,
        };
        let (transport, profile) = selector
            .choose(&offered)
            .ok_or(Status::UNSUPPORTED_TRANSPORT)?;
        let is_srtp = matches!(profile, Profile::Savp | Profile::Savpf);
        let srtp = is_srtp.then(|| keys(request)).transpose()?;
        let stage = Stage::SetUp {
            track: number,
            transport,
            profile,
            access,
        };
        let (path, query, track) = (target.path.clone(), target.query.clone(), target.track);
        Ok((
            stage,
            Event::SetUp {
                id,
                path,
                query,
                track,
                transport,
                access,
                of_past: Replay::is_required(request),
                srtp: srtp.map(Box::new),
            },
        ))
    }

    /// Checks a request for the session as a whole (PLAY, PAUSE, RECORD), and returns the
    /// session's state. Some players send PLAY for each track in turn; the first one begins all that
    /// are set up.
    fn aggregate(&self, target: &Target, access: Access) -> Result<State, Status> {
        let session = self.session.as_deref().ok_or(Status::SESSION_NOT_FOUND)?;
        if session.path != target.path {
            return Err(Status::NOT_FOUND);
        }
        if session.access != access {
            return Err(Status::METHOD_NOT_VALID_IN_THIS_STATE);
        }
        match target.track {
            Some(track) if !session.tracks.iter().any(|other| other.track == track) => {
                Err(Status::NOT_FOUND)
            }
            _ => Ok(session.state),
        }
    }

    fn play(&self, id: RequestId, request: &Request, target: &Target) -> DispatchResult {
        self.aggregate(target, Access::Read)?;
        let headers = &request.headers;
        let range = match headers.get("Range") {
            None => None,
            Some(text) => {
                let range = Range::parse(text).and_then(Range::without_frames);
                Some(range.ok_or(Status::INVALID_RANGE)?)
            }
        };
        let number = |name| match headers.get(name).map(str::parse::<f64>) {
            None => Ok(None),
            Some(Ok(number)) if number.is_finite() && number != 0.0 => Ok(Some(number)),
            Some(_) => Err(Status::BAD_REQUEST),
        };
        let (scale, speed) = (number("Scale")?, number("Speed")?);
        if speed.is_some_and(|speed| speed < 0.0) {
            return Err(Status::BAD_REQUEST.into());
        }
        let replay = Replay::of(request);
        let replay = replay.map_err(|why| Unfit::because(Status::BAD_REQUEST, why))?;
        Ok((
            Stage::Play,
            Event::Play {
                id,
                range,
                scale,
                speed,
                replay,
            },
        ))
    }

    fn pause(&self, id: RequestId, target: &Target) -> DispatchResult {
        let access = self
            .session
            .as_deref()
            .map_or(Access::Read, |session| session.access);
        self.aggregate(target, access)?;
        // Who pauses one track does not ask for a pause of the others.
        if target.track.is_some() && self.tracks().len() > 1 {
            return Err(Status::ONLY_AGGREGATE_ALLOWED.into());
        }
        Ok((Stage::Pause, Event::Pause { id }))
    }

    fn record(&self, id: RequestId, target: &Target) -> DispatchResult {
        self.aggregate(target, Access::Publish)?;
        Ok((Stage::Record, Event::Record { id }))
    }

    fn tear_down(&mut self, request: &Request, target: &Target) {
        let Some(session) = self.session.as_deref_mut() else {
            return self.respond(request, Status::SESSION_NOT_FOUND, |_| {});
        };
        if session.path != target.path {
            return self.respond(request, Status::NOT_FOUND, |_| {});
        }
        if let Some(track) = target.track {
            let before = session.tracks.len();
            session.tracks.retain(|other| other.track != track);
            if session.tracks.len() == before {
                return self.respond(request, Status::NOT_FOUND, |_| {});
            }
        }
        let track = target.track.filter(|_| !session.tracks.is_empty());
        if track.is_none() {
            self.session = None;
            self.announced = None;
            self.authenticator.forget();
        }
        self.events.push_back(Event::TearDown { track });
        self.respond(request, Status::OK, |_| {});
    }

    /// Answers GET_PARAMETER and SET_PARAMETER. Without a body they are keep-alives. The only
    /// known parameter is `position`, which cannot be set.
    fn parameters(&mut self, now: Instant, request: &Request) {
        let body = String::from_utf8_lossy(&request.body);
        let names = body.lines().filter_map(|line| {
            let name = line.split(':').next().unwrap_or_default().trim();
            (!name.is_empty()).then_some(name)
        });
        let may_read = request.method == Method::GetParameter;
        let is_known = |name: &str| may_read && name.eq_ignore_ascii_case("position");
        let position = self.session.as_deref().map(|session| session.position(now));
        let (known, unknown): (Vec<_>, Vec<_>) =
            names.partition(|name| is_known(name) && position.is_some());
        let mut text = String::new();
        let status = if unknown.is_empty() {
            if let (Some(name), Some(position)) = (known.first(), position) {
                text = format!("{name}: {position}\r\n");
            }
            Status::OK
        } else {
            // The response lists the unknown parameters, and only those (RFC 2326 §10.8).
            for name in unknown {
                text.push_str(name);
                text.push_str("\r\n");
            }
            Status::PARAMETER_NOT_UNDERSTOOD
        };
        self.respond(request, status, |response| {
            if !text.is_empty() {
                response.headers.push("Content-Type", "text/parameters");
                response.body = text.into_bytes();
            }
        });
    }
}

fn describe(id: RequestId, request: &Request, target: &Target) -> DispatchResult {
    let mut accepted = request.headers.get_all("Accept").peekable();
    let is_sdp = |range: &str| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        ["application/sdp", "application/*", "*/*"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known))
    };
    if accepted.peek().is_some() && !accepted.flat_map(|list| list.split(',')).any(is_sdp) {
        return Err(Status::NOT_ACCEPTABLE.into());
    }
    let (path, query) = (target.path.clone(), target.query.clone());
    let event = Event::Describe {
        id,
        path,
        query,
        of_past: Replay::is_required(request),
    };
    Ok((Stage::Describe, event))
}

/// Reads the keys that protect the client's packets (RFC 4567 §4.2).
fn keys(request: &Request) -> Result<Srtp, Status> {
    let mut fields = request.headers.get_all("KeyMgmt");
    let keys = fields.find_map(Keys::from_header).transpose();
    let keys = keys.map_err(|_| Status::KEY_MANAGEMENT_FAILURE)?;
    Ok(Srtp { keys })
}

/// Next stage of a request with the event for the owner, or what refuses the request.
type DispatchResult = Result<(Stage, Event), Unfit>;
