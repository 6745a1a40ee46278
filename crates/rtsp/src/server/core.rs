//! Requests one after another, their responses, and the deadlines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use glassline_media::TrackIndex;

use super::authenticator::Authenticator;
use super::pending::Pending;
use super::session::{Announced, Session};
use super::{
    Answered, Closed, Config, Endpoints, Event, RequestId, SelectedTransport, SetUp, State,
    TunnelHosts,
};
use crate::interleaved;
use crate::message::{Message, Request, Response, Status, Version};
use crate::output::Output;
use crate::tunnel::TunnelRequest;

/// State of a connection: all of [`Connection`](super::Connection) but the byte reader, which
/// hands messages and frames to it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Arc<Config>,
    pub(super) endpoints: Endpoints,
    pub(super) secret: [u8; 32],
    pub(super) authenticator: Authenticator,
    pub(super) session: Option<Box<Session>>,
    /// Number of sessions so far, so that each gets an identifier of its own.
    pub(super) sessions: u32,
    pub(super) announced: Option<Box<Announced>>,
    pub(super) user: Option<String>,
    /// The request that waits for the owner's answer.
    pub(super) pending: Option<Box<Pending>>,
    pub(super) next_id: u32,
    /// Requests that came behind the pending one.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    pub(super) events: VecDeque<Event>,
    /// Responses written since the owner last polled.
    pub(super) answered: VecDeque<Answered>,
    pub(super) output: Output,
    /// When the client last showed that it is alive: with a session by any message or frame of a
    /// track, without one only by a request that the owner granted.
    pub(super) last_activity_at: Instant,
    /// When a request began that has not ended.
    incomplete_since: Option<Instant>,
    /// Whether further input is ignored.
    pub(super) ignores_input: bool,
    pub(super) is_closed: bool,
    pub(super) stray_frames: u64,
}

/// The input that waits behind the pending request.
#[derive(Debug)]
enum Waiting {
    Request(Request),
    /// The place where the stream became unreadable.
    Broken(interleaved::Error),
}

/// Most pipelined requests that are queued: a player sends one SETUP per track ahead.
const WAITING_MAX: usize = 32;

/// Most bytes of all queued requests: one description of the greatest length, and some more.
const WAITING_BYTES_MAX: usize = 128 << 10;

impl Core {
    pub(super) fn new(
        config: Arc<Config>,
        endpoints: Endpoints,
        secret: [u8; 32],
        now: Instant,
    ) -> Self {
        Self {
            config,
            endpoints,
            secret,
            authenticator: Authenticator::new(secret, now),
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
            last_activity_at: now,
            incomplete_since: None,
            ignores_input: false,
            is_closed: false,
            stray_frames: 0,
        }
    }

    pub(super) fn has_partial_request(&self) -> bool {
        self.incomplete_since.is_some()
    }

    pub(super) fn handle_message(&mut self, now: Instant, message: Message) {
        if self.ignores_input {
            return;
        }
        if self.session.is_some() {
            self.last_activity_at = now;
        }
        self.incomplete_since = None;
        match message {
            Message::Request(request) if request.version.http => {
                self.refuse_http(&request, "HTTP on a connection that already uses RTSP");
            }
            Message::Request(request) if self.pending.is_none() => self.begin(now, request),
            Message::Request(request) => self.enqueue(Waiting::Request(request)),
            // This server sends no requests.
            Message::Response(_) => {}
        }
    }

    /// Handles a stream that is unreadable behind the messages so far.
    pub(super) fn handle_broken(&mut self, error: interleaved::Error) {
        self.ignores_input = true;
        if self.pending.is_none() {
            self.end_broken(error);
        } else {
            self.waiting.push_back(Waiting::Broken(error));
        }
    }

    fn enqueue(&mut self, waiting: Waiting) {
        self.waiting_bytes += waiting.bytes();
        self.waiting.push_back(waiting);
        if self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            self.close(Closed::TooManyRequests {
                requests: self.waiting.len() - 1,
            });
        }
    }

    /// Handles queued requests, up to the next one that needs the owner's answer.
    pub(super) fn process_waiting(&mut self, now: Instant) {
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
        self.respond_without_request(status);
        self.close(Closed::Stream(error));
    }

    /// Sends a response to input that was not a whole request.
    fn respond_without_request(&mut self, status: Status) {
        let mut response = Response::new(status);
        self.add_server_header(&mut response);
        response.headers.push("Connection", "close");
        self.output.push(|out| response.write(out));
        self.answered.push_back(Answered {
            method: None,
            status,
            why: None,
        });
    }

    fn add_server_header(&self, response: &mut Response) {
        if !self.config.server_name.is_empty() {
            response.headers.push("Server", &self.config.server_name);
        }
    }

    /// Writes the response to `request`; `add` adds headers and body of this one.
    pub(super) fn respond(
        &mut self,
        request: &Request,
        status: Status,
        add: impl FnOnce(&mut Response),
    ) {
        let mut response = Response::to(request, status);
        self.add_server_header(&mut response);
        let is_of_session = request.headers.get("Session").is_some() && status.is_success();
        if let Some(session) = self.session.as_deref().filter(|_| is_of_session) {
            let text = self.session_header(session);
            response.headers.push("Session", &text);
        }
        add(&mut response);
        let why = (response.reason != status.reason()).then(|| response.reason.clone());
        if !self.output.push(|out| response.write(out)) {
            return self.close(Closed::ResponsesNotRead);
        }
        self.answered.push_back(Answered {
            method: Some(request.method.clone()),
            status,
            why,
        });
        let connection = request.headers.get("Connection").unwrap_or_default();
        if connection.eq_ignore_ascii_case("close") {
            self.close(Closed::ByClient);
        }
    }

    pub(super) fn session_header(&self, session: &Session) -> String {
        let timeout = self.config.session_timeout;
        let id = session.id.clone();
        crate::session::Session { id, timeout }.to_string()
    }

    /// Answers HTTP that opens no tunnel with a text for people.
    pub(super) fn refuse_http(&mut self, request: &Request, why: &'static str) {
        let mut response = Response::to(request, Status::BAD_REQUEST);
        response.version = Version {
            http: true,
            ..Version::RTSP_1_0
        };
        response.body = format!("This is an RTSP server: {why}.\n").into_bytes();
        self.add_server_header(&mut response);
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

    /// Opens one direction of a tunnel, which begins with an HTTP request. Returns false if
    /// this request opens none.
    pub(super) fn open_tunnel(&mut self, request: &Request, rest: &[u8]) -> bool {
        self.incomplete_since = None;
        self.authenticator.note_forwarded(request);
        match self.tunnel_request(request) {
            Ok(TunnelRequest::Get { cookie }) => {
                let mut response = Response::new(Status::OK);
                response.version = Version {
                    http: true,
                    major: 1,
                    minor: 0,
                };
                self.add_server_header(&mut response);
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
            Ok(TunnelRequest::Post { cookie }) => {
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

    /// Reads an HTTP request that should open one direction of a tunnel. The error says why the
    /// request opens none.
    ///
    /// A browser sends `Origin` with every POST of a page (Fetch standard §3.1) and with every
    /// request to another site; no player does.
    fn tunnel_request(&self, request: &Request) -> Result<TunnelRequest, &'static str> {
        if request.headers.get("Origin").is_some() {
            return Err("a page of a browser (Origin) may open no tunnel");
        }
        let (hosts, local) = (&self.config.tunnel_hosts, self.endpoints.local);
        let host = request.headers.get("Host");
        let is_strange =
            |hosts: &Arc<dyn TunnelHosts>| host.is_some_and(|it| !hosts.has(it, local));
        if hosts.as_ref().is_some_and(is_strange) {
            return Err(
                "this server does not know the name in the Host header as its own: use its IP \
                 address, or add the name to http.hosts",
            );
        }
        TunnelRequest::read(request)
    }

    /// Notes whether an incomplete request waits for more bytes.
    pub(super) fn note_incomplete(&mut self, now: Instant, waits: bool) {
        if waits && !self.ignores_input {
            self.incomplete_since.get_or_insert(now);
        } else {
            self.incomplete_since = None;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.is_closed {
            return None;
        }
        let half = self
            .incomplete_since
            .map(|since| since + self.config.request_timeout);
        // While the owner prepares an answer, the client's silence does not count.
        let silent = self
            .pending
            .is_none()
            .then(|| self.last_activity_at + self.silence_timeout());
        half.into_iter().chain(silent).min()
    }

    fn silence_timeout(&self) -> std::time::Duration {
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
        if self
            .incomplete_since
            .is_some_and(|since| since + after <= now)
        {
            if self.pending.is_none() {
                self.respond_without_request(Status::REQUEST_TIME_OUT);
            }
            return self.close(Closed::RequestTimeout { after });
        }
        let after = self.silence_timeout();
        self.close(match self.session {
            Some(_) => Closed::SessionTimeout { after },
            None => Closed::Idle { after },
        });
    }

    /// Returns the track that `channel` belongs to, and whether the channel carries its RTCP.
    /// Such a frame shows that the client is alive.
    pub(super) fn handle_frame(&mut self, now: Instant, channel: u8) -> Option<(TrackIndex, bool)> {
        let owner = self
            .tracks()
            .iter()
            .find_map(|track| match track.transport {
                SelectedTransport::Interleaved { channels } if channels.0 == channel => {
                    Some((track.track, false))
                }
                SelectedTransport::Interleaved { channels } if channels.1 == channel => {
                    Some((track.track, true))
                }
                _ => None,
            });
        if owner.is_some() {
            self.last_activity_at = now;
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

    /// Returns an identifier for the next request that the owner must answer.
    pub(super) const fn new_id(&mut self) -> RequestId {
        self.next_id = self.next_id.wrapping_add(1);
        RequestId(self.next_id)
    }

    pub(super) fn close(&mut self, reason: Closed) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.ignores_input = true;
        self.incomplete_since = None;
        self.session = None;
        self.announced = None;
        self.pending = None;
        self.waiting.clear();
        self.events.push_back(Event::Closed(reason));
    }
}

impl Waiting {
    /// Returns the approximate size in bytes.
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
