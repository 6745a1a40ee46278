//! Requests one after another, their responses, and the deadlines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::gate::Gate;
use super::pending::Pending;
use super::session::{Announced, Session};
use super::{Answered, Closed, Config, Ends, Event, RequestId, SetUp, State, Way};
use crate::interleaved;
use crate::message::{Message, Request, Response, Status, Version};
use crate::output::Output;
use crate::tunnel::Half;

/// All but the reader, which hands items to it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Arc<Config>,
    pub(super) ends: Ends,
    pub(super) secret: [u8; 32],
    pub(super) gate: Gate,
    pub(super) session: Option<Box<Session>>,
    /// Counts sessions, so that each has a name of its own.
    pub(super) sessions: u32,
    pub(super) announced: Option<Box<Announced>>,
    pub(super) user: Option<String>,
    /// The request that the owner is asked about.
    pub(super) pending: Option<Box<Pending>>,
    pub(super) next_id: u32,
    /// What came behind it.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    pub(super) events: VecDeque<Event>,
    /// Responses written since the owner last asked.
    pub(super) answered: VecDeque<Answered>,
    pub(super) output: Output,
    /// The last sign of the client.
    pub(super) alive_at: Instant,
    /// A request began then and has not ended.
    half_since: Option<Instant>,
    /// What still comes is not looked at.
    pub(super) is_deaf: bool,
    pub(super) is_closed: bool,
    pub(super) stray_frames: u64,
}

/// What is looked at in its turn.
#[derive(Debug)]
enum Waiting {
    Request(Request),
    /// Here the stream broke.
    Broken(interleaved::Error),
}

/// Pipelined requests that are kept: a player sends one SETUP per track ahead.
const WAITING_MAX: usize = 32;

/// Of all of them: one longest description and some.
const WAITING_BYTES_MAX: usize = 128 << 10;

impl Core {
    pub(super) fn new(config: Arc<Config>, ends: Ends, secret: [u8; 32], now: Instant) -> Self {
        Self {
            config,
            ends,
            secret,
            gate: Gate::new(secret, now),
            session: None,
            sessions: 0,
            announced: None,
            user: None,
            pending: None,
            next_id: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            events: VecDeque::new(),
            answered: VecDeque::new(),
            output: Output::default(),
            alive_at: now,
            half_since: None,
            is_deaf: false,
            is_closed: false,
            stray_frames: 0,
        }
    }

    pub(super) fn handle_message(&mut self, now: Instant, message: Message) {
        if self.is_deaf {
            return;
        }
        self.alive_at = now;
        self.half_since = None;
        match message {
            Message::Request(request) if request.version.http => {
                self.refuse_http(&request, "RTSP is spoken already");
            }
            Message::Request(request) if self.pending.is_none() => self.begin(now, request),
            Message::Request(request) => self.put_off(Waiting::Request(request)),
            // We ask nothing.
            Message::Response(_) => {}
        }
    }

    /// The stream makes no sense behind what was read.
    pub(super) fn handle_broken(&mut self, error: interleaved::Error) {
        self.is_deaf = true;
        if self.pending.is_none() {
            self.end_broken(error);
        } else {
            self.waiting.push_back(Waiting::Broken(error));
        }
    }

    fn put_off(&mut self, waiting: Waiting) {
        self.waiting_bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        if self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            self.close(Closed::TooManyRequests {
                requests: self.waiting.len() - 1,
            });
        }
    }

    /// Goes on with what waits, up to the next that the owner is asked about.
    pub(super) fn go_on(&mut self, now: Instant) {
        while self.pending.is_none() {
            let Some(waiting) = self.waiting.pop_front() else {
                self.waiting = VecDeque::new();
                break;
            };
            self.waiting_bytes -= waiting.bytes();
            match waiting {
                Waiting::Request(request) => self.begin(now, request),
                Waiting::Broken(error) => return self.end_broken(error),
            }
        }
    }

    fn end_broken(&mut self, error: interleaved::Error) {
        let status = match &error {
            interleaved::Error::Message(error) => error.status(),
            interleaved::Error::Garbage { .. } => Status::BAD_REQUEST,
        };
        self.farewell(status);
        self.close(Closed::Stream(error));
    }

    /// A response to what was no whole request.
    fn farewell(&mut self, status: Status) {
        let mut response = Response::new(status);
        self.sign(&mut response);
        response.headers.push("Connection", "close");
        self.output.push(|out| response.write(out));
        self.answered.push_back(Answered {
            method: None,
            status,
        });
    }

    fn sign(&self, response: &mut Response) {
        if !self.config.server_name.is_empty() {
            response.headers.push("Server", &self.config.server_name);
        }
    }

    /// Writes the response to `request`; `add` adds what this one has.
    pub(super) fn respond(
        &mut self,
        request: &Request,
        status: Status,
        add: impl FnOnce(&mut Response),
    ) {
        let mut response = Response::to(request, status);
        self.sign(&mut response);
        let is_of_session = request.headers.get("Session").is_some() && status.is_success();
        if let Some(session) = self.session.as_deref().filter(|_| is_of_session) {
            let text = self.session_header(session);
            response.headers.push("Session", &text);
        }
        add(&mut response);
        if !self.output.push(|out| response.write(out)) {
            return self.close(Closed::NotTaken);
        }
        self.answered.push_back(Answered {
            method: Some(request.method.clone()),
            status,
        });
        let connection = request.headers.get("Connection").unwrap_or_default();
        if connection.eq_ignore_ascii_case("close") {
            self.close(Closed::Asked);
        }
    }

    pub(super) fn session_header(&self, session: &Session) -> String {
        let timeout = self.config.session_timeout;
        let id = session.id.clone();
        crate::session::Session { id, timeout }.to_string()
    }

    /// HTTP that is no tunnel gets an answer that a person understands.
    pub(super) fn refuse_http(&mut self, request: &Request, why: &'static str) {
        let mut response = Response::to(request, Status::BAD_REQUEST);
        response.version = Version {
            http: true,
            ..Version::RTSP_1_0
        };
        response.body = format!("This is an RTSP server: {why}.\n").into_bytes();
        self.sign(&mut response);
        let length = response.body.len().to_string();
        for (name, value) in [
            ("Connection", "close"),
            ("Content-Type", "text/plain"),
            ("Content-Length", &length),
        ] {
            response.headers.push(name, value);
        }
        self.output.push(|out| response.write(out));
        self.close(Closed::Http(why));
    }

    /// A half of a tunnel begins with an HTTP request; false if this does not.
    pub(super) fn open_tunnel(&mut self, now: Instant, request: &Request, rest: &[u8]) -> bool {
        self.alive_at = now;
        self.half_since = None;
        match Half::read(request) {
            Ok(Half::Get { cookie }) => {
                let mut response = Response::new(Status::OK);
                response.version = Version {
                    http: true,
                    major: 1,
                    minor: 0,
                };
                self.sign(&mut response);
                for (name, value) in [
                    ("Connection", "close"),
                    ("Cache-Control", "no-store"),
                    ("Pragma", "no-cache"),
                    ("Content-Type", crate::tunnel::CONTENT_TYPE),
                ] {
                    response.headers.push(name, value);
                }
                self.output.push(|out| response.write(out));
                self.events.push_back(Event::TunnelGet { cookie });
                true
            }
            Ok(Half::Post { cookie }) => {
                let rest = rest.to_vec();
                self.events.push_back(Event::TunnelPost { cookie, rest });
                true
            }
            Err(why) => {
                self.refuse_http(request, why);
                false
            }
        }
    }

    /// Bytes of a request wait for more, or none do.
    pub(super) fn note_half(&mut self, now: Instant, waits: bool) {
        if waits && !self.is_deaf {
            self.half_since.get_or_insert(now);
        } else {
            self.half_since = None;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.is_closed {
            return None;
        }
        let half = self
            .half_since
            .map(|since| since + self.config.request_timeout);
        // While the owner thinks, the client cannot be blamed.
        let silent = self
            .pending
            .is_none()
            .then(|| self.alive_at + self.patience());
        half.into_iter().chain(silent).min()
    }

    fn patience(&self) -> std::time::Duration {
        match self.session {
            Some(_) => self.config.session_timeout,
            None => self.config.idle_timeout,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let after = self.config.request_timeout;
        if self.half_since.is_some_and(|since| since + after <= now) {
            if self.pending.is_none() {
                self.farewell(Status::REQUEST_TIME_OUT);
            }
            return self.close(Closed::RequestTimeout { after });
        }
        let after = self.patience();
        self.close(match self.session {
            Some(_) => Closed::SessionTimeout { after },
            None => Closed::Idle { after },
        });
    }

    /// The track that a channel belongs to, and whether it is its RTCP. A frame on
    /// it is a sign of life.
    pub(super) fn handle_frame(&mut self, now: Instant, channel: u8) -> Option<(usize, bool)> {
        let owner = self.tracks().iter().find_map(|track| match track.way {
            Way::Interleaved { channels } if channels.0 == channel => Some((track.track, false)),
            Way::Interleaved { channels } if channels.1 == channel => Some((track.track, true)),
            _ => None,
        });
        if owner.is_some() {
            self.alive_at = now;
        } else {
            self.stray_frames += 1;
        }
        owner
    }

    pub(super) fn tracks(&self) -> &[SetUp] {
        self.session
            .as_deref()
            .map_or(&[], |session| &session.tracks)
    }

    pub(super) fn state(&self) -> State {
        self.session
            .as_deref()
            .map_or(State::Init, |session| session.state)
    }

    /// A name for the next request that the owner is asked about.
    pub(super) const fn new_id(&mut self) -> RequestId {
        self.next_id = self.next_id.wrapping_add(1);
        RequestId(self.next_id)
    }

    pub(super) fn close(&mut self, reason: Closed) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.is_deaf = true;
        self.half_since = None;
        self.session = None;
        self.announced = None;
        self.pending = None;
        self.waiting.clear();
        self.events.push_back(Event::Closed(reason));
    }
}

impl Waiting {
    /// What it takes, about.
    fn bytes(&self) -> usize {
        match self {
            Self::Request(request) => {
                let fields = request.headers.iter();
                let head: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
                request.uri.len() + head + request.body.len()
            }
            Self::Broken(_) => 0,
        }
    }
}
