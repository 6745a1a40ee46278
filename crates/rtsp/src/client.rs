//! The dialling end of one RTSP connection.
//!
//! ```text
//! start ─► OPTIONS ─► DESCRIBE ─► Event::Described
//!                                      │ the owner chooses tracks, binds ports
//! set_up ◄─────────────────────────────┘
//!   └─► SETUP each ─► PLAY ─► Event::Playing ─► keep-alives … leave ─► TEARDOWN
//! handle_data ─► frames, in place, to the owner's sink      Event::Closed(why)
//! ```
//!
//! The owner connects, moves bytes both ways and calls back at the deadline; what
//! is interleaved with the responses goes to its sink, track by track. A 401 is
//! answered once, requests of the server are answered, and whatever ends the
//! session is one [`Closed`].

use std::time::{Duration, Instant};

use url::Url;

use crate::auth::{Authorizer, Challenge, User};
use crate::interleaved::{self, Demultiplexer, Item, Reader};
use crate::message::{Limits, Message, Method, Request, Response, Status};
use crate::range::Range;
use crate::rtp_info::RtpInfo;
use crate::sdp::Description;
use crate::session::Session;
use crate::transport::{Delivery, Lower, Transport};

mod closed;
mod exchange;
mod output;

pub use closed::Closed;

use exchange::Exchange;
use output::Output;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to play. Name and password in it are the user's, and stay out of
    /// requests.
    pub url: Url,
    /// Instead of the URL's.
    pub user: Option<User>,
    /// Names the program to the server; empty for none.
    pub user_agent: String,
    /// Random: client nonces are made from it.
    pub secret: [u8; 32],
    /// How long a response may take.
    pub response_timeout: Duration,
    /// What a message may have.
    pub limits: Limits,
    /// Garbage between two good items that is passed over.
    pub garbage_bytes_max: usize,
}

impl Config {
    /// For `url`, with 10 s for a response and as much garbage as a lost frame.
    pub fn new(url: Url, secret: [u8; 32]) -> Self {
        Self {
            url,
            user: None,
            user_agent: String::new(),
            secret,
            response_timeout: Duration::from_secs(10),
            limits: Limits::default(),
            garbage_bytes_max: 128 << 10,
        }
    }
}

/// How a track shall come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Within the connection, on channels that the client numbers.
    Interleaved,
    /// To these ports, for RTP and RTCP.
    Udp {
        /// Of the client.
        ports: (u16, u16),
    },
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The presentation, its controls absolute: now call [`Client::set_up`].
    Described(Description),
    /// The server took a track, and says how it sends it.
    SetUp {
        /// Its index in the description.
        track: usize,
        /// As the server answered; of its own ports and SSRC what it told.
        transport: Box<Transport>,
    },
    /// PLAY was granted. Frames may have come before.
    Playing {
        /// Where tracks begin, as far as the server tells.
        rtp_info: Vec<RtpInfo>,
        /// What is played, if the server tells.
        range: Option<Range>,
    },
    /// It is over. The last event.
    Closed(Closed),
}

/// A binary frame of a track that was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Index in the description.
    pub track: usize,
    /// It is RTCP.
    pub control: bool,
    /// One packet.
    pub payload: &'a [u8],
}

/// The dialling end; see the module.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    core: Core,
}

/// All but the reader, which hands items to it.
#[derive(Debug)]
struct Core {
    config: Config,
    /// The request URL, without user and fragment.
    url: String,
    user: Option<User>,
    state: State,
    exchange: Exchange,
    output: Output,
    events: std::collections::VecDeque<Event>,
    authorizer: Option<Authorizer>,
    session: Option<Session>,
    /// The aggregate's control.
    control: String,
    /// Of all tracks.
    controls: Vec<String>,
    wanted: Vec<Wanted>,
    /// It answers GET_PARAMETER, as far as we know.
    keeps_alive_by_parameter: bool,
    keep_alive_at: Option<Instant>,
    stray_frames: u64,
}

/// A track that is to be played.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    track: usize,
    way: Way,
    channels: (u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// OPTIONS or DESCRIBE are out.
    Asking,
    /// The owner has the description.
    Described,
    /// SETUP of this of the wanted tracks is out.
    SettingUp(usize),
    /// PLAY is out.
    Starting,
    Playing,
    /// TEARDOWN is out.
    Leaving,
    Closed,
}

/// How long a farewell is waited for.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// Tracks whose two channels have numbers.
const TRACKS_MAX: usize = 128;

impl Client {
    /// Nothing sent yet: connect to the URL's host, then [`Client::start`].
    pub fn new(config: Config) -> Self {
        let demultiplexer = Demultiplexer::new(config.limits, config.garbage_bytes_max);
        let user = config.user.clone().or_else(|| user_of(&config.url));
        let mut url = config.url.clone();
        // Fails for URLs that cannot have a user, which then have none.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Self {
            reader: Reader::new(demultiplexer),
            core: Core {
                exchange: Exchange::new(config.response_timeout),
                config,
                control: url.to_string(),
                url: url.to_string(),
                user,
                state: State::Idle,
                output: Output::default(),
                events: std::collections::VecDeque::new(),
                authorizer: None,
                session: None,
                controls: Vec::new(),
                wanted: Vec::new(),
                keeps_alive_by_parameter: true,
                keep_alive_at: None,
                stray_frames: 0,
            },
        }
    }

    /// The connection stands: asks for the presentation. Once.
    pub fn start(&mut self, now: Instant) {
        if self.core.state == State::Idle {
            self.core.state = State::Asking;
            let url = self.core.url.clone();
            self.core.send(now, Method::Options, &url, |_| {});
        }
    }

    /// After [`Event::Described`]: sets these tracks up, by their index in the
    /// description, one after another, and plays them. Indices that the
    /// description does not have are left out; none at all is the end.
    pub fn set_up(&mut self, now: Instant, tracks: &[(usize, Way)]) {
        let core = &mut self.core;
        if core.state != State::Described {
            return;
        }
        let known = tracks
            .iter()
            .filter(|(track, _)| *track < core.controls.len());
        let numbered = known.zip((0..=u8::MAX).step_by(2)).take(TRACKS_MAX);
        core.wanted = numbered
            .map(|(&(track, way), channel)| Wanted {
                track,
                way,
                channels: (channel, channel + 1),
            })
            .collect();
        let channel_max = core.wanted.last().map_or(0, |wanted| wanted.channels.1);
        self.reader.demultiplexer().set_channel_max(channel_max);
        core.set_up_from(now, 0);
    }

    /// Takes what came over the connection; `sink` gets the frames in it, in place.
    pub fn handle_data(&mut self, now: Instant, data: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        let Self { reader, core } = self;
        if core.state == State::Closed {
            return;
        }
        let read = reader.push(data, |item| match item {
            Item::Message(message) => core.handle_message(now, message),
            Item::Frame { channel, payload } => match core.owner_of(channel) {
                Some((track, control)) => sink(Frame {
                    track,
                    control,
                    payload,
                }),
                None => core.stray_frames += 1,
            },
        });
        if let Err(error) = read {
            core.close(Closed::Stream(error));
        }
    }

    /// The server has closed the connection, or it broke.
    pub fn handle_end(&mut self) {
        let core = &mut self.core;
        let reason = match core.state {
            State::Leaving => Closed::Left,
            _ => Closed::ConnectionEnded {
                waiting_for: core.exchange.method().cloned(),
            },
        };
        core.close(reason);
    }

    /// Call at [`Client::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        let core = &mut self.core;
        if core.exchange.is_overdue(now) {
            let reason = match (core.state, core.exchange.method().cloned()) {
                (State::Leaving, _) | (_, None) => Closed::Left,
                (_, Some(method)) => Closed::NoResponse {
                    method,
                    after: core.config.response_timeout,
                },
            };
            core.close(reason);
        } else if core.keep_alive_at.is_some_and(|at| at <= now) {
            core.keep_alive(now);
        }
    }

    /// When to call [`Client::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let core = &self.core;
        let deadlines = [core.exchange.deadline(), core.keep_alive_at];
        deadlines.into_iter().flatten().min()
    }

    /// What happened next; poll until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// Bytes for the server; tell with [`Client::advance`] how many it took.
    pub fn output(&self) -> &[u8] {
        self.core.output.bytes()
    }

    /// The first `count` bytes of [`Client::output`] are sent.
    pub fn advance(&mut self, count: usize) {
        self.core.output.advance(count);
    }

    /// Puts an RTCP packet of a track that came interleaved into the output; false
    /// if the track has no channel or too much waits already: reports can be lost.
    pub fn send_control(&mut self, track: usize, packet: &[u8]) -> bool {
        let core = &mut self.core;
        let mut wanted = core.wanted.iter();
        let found = wanted.find(|wanted| wanted.track == track && wanted.way == Way::Interleaved);
        found.is_some_and(|wanted| core.output.push_frame(wanted.channels.1, packet))
    }

    /// Says farewell: TEARDOWN, where there is a session. [`Event::Closed`] follows,
    /// by the response, the end of the connection or after a second.
    pub fn leave(&mut self, now: Instant) {
        let core = &mut self.core;
        match core.state {
            State::Leaving | State::Closed => {}
            State::SettingUp(_) | State::Starting | State::Playing => {
                core.state = State::Leaving;
                core.keep_alive_at = None;
                core.exchange.abandon(FAREWELL_TIMEOUT);
                let url = core.control.clone();
                core.send(now, Method::Teardown, &url, |_| {});
            }
            State::Idle | State::Asking | State::Described => core.close(Closed::Left),
        }
    }

    /// Over; nothing more will be sent.
    pub fn is_closed(&self) -> bool {
        self.core.state == State::Closed
    }

    /// Frames on channels that were not set up.
    pub const fn stray_frames(&self) -> u64 {
        self.core.stray_frames
    }

    /// Bytes of garbage passed over.
    pub const fn skipped_bytes(&mut self) -> u64 {
        self.reader.demultiplexer().skipped()
    }
}

/// Name and password of a URL, decoded.
fn user_of(url: &Url) -> Option<User> {
    (!url.username().is_empty()).then(|| User {
        name: percent_decoded(url.username()),
        password: percent_decoded(url.password().unwrap_or_default()),
    })
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| !digits.starts_with('+'));
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Core {
    /// Sends a request with what all have; `add` adds what this one has.
    fn send(&mut self, now: Instant, method: Method, uri: &str, add: impl FnOnce(&mut Request)) {
        let mut request = Request::new(method, uri, 0);
        if !self.config.user_agent.is_empty() {
            request.headers.push("User-Agent", &self.config.user_agent);
        }
        if let Some(session) = &self.session {
            request.headers.push("Session", &session.id);
        }
        add(&mut request);
        self.transmit(now, request);
    }

    /// With its number and, once asked for, credentials.
    fn transmit(&mut self, now: Instant, mut request: Request) {
        if let Some(authorizer) = &mut self.authorizer {
            let answer = authorizer.answer(&request.method, &request.uri, &request.body);
            request.headers.set("Authorization", &answer.to_string());
        }
        let request = self.exchange.begin(now, request);
        if !self.output.push(|out| request.write(out)) {
            self.close(Closed::NotTaken);
        }
    }

    fn set_up_from(&mut self, now: Instant, index: usize) {
        let Some(wanted) = self.wanted.get(index).copied() else {
            return self.play(now);
        };
        self.state = State::SettingUp(index);
        let transport = match wanted.way {
            Way::Interleaved => Transport::tcp(wanted.channels),
            Way::Udp { ports } => Transport::udp(ports),
        };
        let url = self.controls[wanted.track].clone();
        self.send(now, Method::Setup, &url, |request| {
            request.headers.push("Transport", &transport.to_string());
        });
    }

    fn play(&mut self, now: Instant) {
        if self.wanted.is_empty() {
            return self.close(Closed::NothingToPlay);
        }
        self.state = State::Starting;
        let url = self.control.clone();
        self.send(now, Method::Play, &url, |request| {
            request.headers.push("Range", &Range::ALL.to_string());
        });
    }

    fn keep_alive(&mut self, now: Instant) {
        self.arm_keep_alive(now);
        if self.exchange.method().is_some() {
            return;
        }
        let method = if self.keeps_alive_by_parameter {
            Method::GetParameter
        } else {
            Method::Options
        };
        let url = self.control.clone();
        self.send(now, method, &url, |_| {});
    }

    /// Twice before the session dies of silence.
    fn arm_keep_alive(&mut self, now: Instant) {
        let timeout = self
            .session
            .as_ref()
            .map_or(Session::TIMEOUT, |session| session.timeout);
        let interval = (timeout * 2 / 5).max(Duration::from_millis(500));
        self.keep_alive_at = Some(now + interval);
    }

    /// The track that a channel belongs to, and whether it is its RTCP.
    fn owner_of(&self, channel: u8) -> Option<(usize, bool)> {
        let interleaved = |wanted: &&Wanted| wanted.way == Way::Interleaved;
        let mut wanted = self.wanted.iter().filter(interleaved);
        wanted.find_map(|wanted| {
            let (rtp, rtcp) = wanted.channels;
            let control = channel == rtcp;
            (channel == rtp || control).then_some((wanted.track, control && rtp != rtcp))
        })
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        if self.state == State::Closed {
            return;
        }
        match message {
            Message::Request(request) => self.handle_request(&request),
            Message::Response(response) => self.handle_response(now, &response),
        }
    }

    /// What a server may want of us.
    fn handle_request(&mut self, request: &Request) {
        let status = match request.method {
            Method::Options | Method::GetParameter | Method::SetParameter => Status::OK,
            Method::Announce | Method::Teardown | Method::Redirect => Status::OK,
            _ => Status::NOT_IMPLEMENTED,
        };
        let mut response = Response::to(request, status);
        if request.method == Method::Options {
            let known = "OPTIONS, GET_PARAMETER, SET_PARAMETER, ANNOUNCE, TEARDOWN, REDIRECT";
            response.headers.push("Public", known);
        }
        if !self.output.push(|out| response.write(out)) {
            return self.close(Closed::NotTaken);
        }
        match request.method {
            Method::Teardown => self.close(Closed::ByServer),
            Method::Redirect => {
                let location = request.headers.get("Location").unwrap_or_default();
                self.close(Closed::Redirected {
                    location: location.to_owned(),
                });
            }
            _ => {}
        }
    }

    fn handle_response(&mut self, now: Instant, response: &Response) {
        if response.status == Status::CONTINUE {
            return;
        }
        let Some(request) = self.exchange.complete(response.headers.cseq()) else {
            return;
        };
        if self.state == State::Leaving {
            return self.close(Closed::Left);
        }
        let status = response.status;
        if status == Status::UNAUTHORIZED {
            return self.authenticate(now, request, response);
        }
        self.exchange.note_repeat(false);
        if status.is_redirect() {
            let location = response.headers.get("Location").unwrap_or_default();
            return self.close(Closed::Redirected {
                location: location.to_owned(),
            });
        }
        let result = match (self.state, &request.method) {
            (State::Asking, Method::Options) => {
                self.learn_methods(response);
                let url = self.url.clone();
                self.send(now, Method::Describe, &url, |request| {
                    request.headers.push("Accept", "application/sdp");
                });
                Ok(())
            }
            (State::Asking, Method::Describe) => self.described(response),
            (State::SettingUp(index), Method::Setup) => self.was_set_up(now, index, response),
            (State::Starting, Method::Play) => self.playing(now, response),
            (State::Playing, _) => self.kept_alive(&request, response),
            _ => Ok(()),
        };
        if let Err(reason) = result {
            self.close(reason);
        }
    }

    /// Once a request; a second time if only the nonce was too old.
    fn authenticate(&mut self, now: Instant, request: Request, response: &Response) {
        let challenges = Challenge::parse_all(&response.headers);
        let shown = request.headers.get("Authorization").is_some();
        let Some(user) = self.user.clone() else {
            return self.close(Closed::CredentialsMissing);
        };
        let Some(challenge) = Challenge::strongest(challenges) else {
            let offered = response
                .headers
                .get("WWW-Authenticate")
                .unwrap_or("nothing");
            return self.close(Closed::UnknownAuthentication {
                offered: offered.to_owned(),
            });
        };
        let stale = matches!(&challenge, Challenge::Digest(digest) if digest.stale);
        if shown && !(stale && self.exchange.may_repeat()) {
            return self.close(Closed::CredentialsRefused { user: user.name });
        }
        self.authorizer = Some(Authorizer::new(user, challenge, self.config.secret));
        self.exchange.note_repeat(shown);
        self.transmit(now, request);
    }

    /// Whatever the answer: a server without OPTIONS may well have DESCRIBE.
    fn learn_methods(&mut self, response: &Response) {
        if let Some(public) = response.headers.get("Public") {
            let mut methods = public.split(',').map(str::trim);
            let name = Method::GetParameter.as_str();
            self.keeps_alive_by_parameter = methods.any(|method| method == name);
        }
    }

    fn described(&mut self, response: &Response) -> Result<(), Closed> {
        granted(&Method::Describe, response)?;
        let mut description = Description::parse(&response.body)?;
        let headers = &response.headers;
        let base = headers
            .get("Content-Base")
            .or(headers.get("Content-Location"));
        let base = base
            .filter(|base| base.contains("://"))
            .unwrap_or(&self.url);
        description.resolve(base);
        if description.tracks.is_empty() {
            return Err(Closed::NothingToPlay);
        }
        self.control = description
            .control
            .clone()
            .unwrap_or_else(|| base.to_owned());
        let controls = description.tracks.iter();
        self.controls = controls
            .map(|media| media.control.clone().unwrap_or_default())
            .collect();
        self.state = State::Described;
        self.events.push_back(Event::Described(description));
        Ok(())
    }

    fn was_set_up(
        &mut self,
        now: Instant,
        index: usize,
        response: &Response,
    ) -> Result<(), Closed> {
        let wanted = self.wanted[index];
        if response.status == Status::UNSUPPORTED_TRANSPORT {
            return Err(Closed::TransportRefused {
                track: wanted.track,
            });
        }
        granted(&Method::Setup, response)?;
        if let Some(session) = response.headers.get("Session").and_then(Session::parse) {
            self.session = Some(session);
        }
        let transport = agree(&wanted, response)?;
        if let (Way::Interleaved, Some(channels)) = (wanted.way, transport.interleaved) {
            self.wanted[index].channels = channels;
        }
        self.events.push_back(Event::SetUp {
            track: wanted.track,
            transport: Box::new(transport),
        });
        self.set_up_from(now, index + 1);
        Ok(())
    }

    fn playing(&mut self, now: Instant, response: &Response) -> Result<(), Closed> {
        granted(&Method::Play, response)?;
        self.state = State::Playing;
        self.arm_keep_alive(now);
        let headers = &response.headers;
        self.events.push_back(Event::Playing {
            rtp_info: headers
                .get("RTP-Info")
                .map(crate::rtp_info::parse)
                .unwrap_or_default(),
            range: headers.get("Range").and_then(Range::parse),
        });
        Ok(())
    }

    fn kept_alive(&mut self, request: &Request, response: &Response) -> Result<(), Closed> {
        if response.status == Status::SESSION_NOT_FOUND {
            return Err(Closed::SessionLost);
        }
        if request.method == Method::GetParameter && !response.status.is_success() {
            self.keeps_alive_by_parameter = false;
        }
        Ok(())
    }

    fn close(&mut self, reason: Closed) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.keep_alive_at = None;
            self.exchange.abandon(Duration::ZERO);
            self.events.push_back(Event::Closed(reason));
        }
    }
}

fn granted(method: &Method, response: &Response) -> Result<(), Closed> {
    if response.status.is_success() {
        return Ok(());
    }
    Err(Closed::Refused {
        method: method.clone(),
        status: response.status,
        reason: response.reason.clone(),
    })
}

/// What the server says of a transport; what we asked for where it says nothing.
fn agree(wanted: &Wanted, response: &Response) -> Result<Transport, Closed> {
    let asked = match wanted.way {
        Way::Interleaved => Transport::tcp(wanted.channels),
        Way::Udp { ports } => Transport::udp(ports),
    };
    let Some(text) = response.headers.get("Transport") else {
        return Ok(asked);
    };
    let answer = Transport::parse_list(text).into_iter().next();
    let other = |answer: &Transport| {
        answer.lower != asked.lower
            || answer.profile != asked.profile
            || answer.delivery == Some(Delivery::Multicast)
            || (asked.lower == Lower::Udp
                && answer
                    .client_port
                    .is_some_and(|ports| Some(ports) != asked.client_port))
    };
    match answer {
        Some(answer) if !other(&answer) => Ok(answer),
        _ => Err(Closed::OtherTransport {
            asked: asked.to_string(),
            answered: text.to_owned(),
        }),
    }
}

impl From<interleaved::Error> for Closed {
    fn from(error: interleaved::Error) -> Self {
        Self::Stream(error)
    }
}

#[cfg(test)]
mod tests;
