use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::TrackIndex;

use super::exchange::Exchange;
use super::redirection;
use super::{Closed, Config, Event, RequestedTransport, TEARDOWN_TIMEOUT};
use crate::auth::{Authorizer, Challenge, User};
use crate::message::{Message, Method, Request, Response, Status};
use crate::output::Output;
use crate::range::Range;
use crate::rtp_info;
use crate::sdp::{Description, Presentation};
use crate::session::Session;
use crate::transport::{Delivery, Lower, Transport};

/// Option tag of ONVIF's back channel.
const BACK_CHANNEL: &str = "www.onvif.org/ver20/backchannel";

/// State of a client's session: all of [`Client`](super::Client) but the byte reader, which
/// hands messages and frames to it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    /// The request URL, without user and fragment.
    pub(super) url: String,
    pub(super) user: Option<User>,
    pub(super) state: State,
    pub(super) exchange: Exchange,
    pub(super) output: Output,
    pub(super) events: VecDeque<Event>,
    pub(super) authorizer: Option<Authorizer>,
    pub(super) session: Option<Session>,
    /// Control URL of the presentation as a whole (aggregate control).
    pub(super) control: String,
    /// Control URL of each track, by index in the description.
    pub(super) controls: Vec<String>,
    /// Whether the description says that the presentation is live (`a=range:npt=now-`).
    pub(super) is_live: bool,
    /// The stream that the client publishes; `None` for one that plays.
    pub(super) announcement: Option<Presentation>,
    pub(super) wanted: Vec<RequestedTrack>,
    /// Whether keep-alives are GET_PARAMETER requests: true until the server shows that it does
    /// not support them.
    pub(super) keeps_alive_by_parameter: bool,
    pub(super) keep_alive_at: Option<Instant>,
    pub(super) stray_frames: u64,
    /// Whether the server still has the session of a client that has closed.
    pub(super) owes_teardown: bool,
}

/// A track that the owner wants to play.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedTrack {
    pub(super) track: TrackIndex,
    pub(super) transport: RequestedTransport,
    pub(super) channels: (u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// OPTIONS, DESCRIBE or ANNOUNCE was sent.
    Asking,
    /// The description was handed to the owner.
    Described,
    /// SETUP of the requested track with this index was sent.
    SettingUp(usize),
    /// PLAY or RECORD was sent, and its response is awaited.
    Starting,
    /// The server granted PLAY or RECORD.
    Playing,
    /// TEARDOWN was sent, and its response is awaited.
    Leaving,
    Closed,
}

impl Core {
    /// Sends a request with the headers that all requests have; `add` adds those of this one.
    pub(super) fn send(
        &mut self,
        now: Instant,
        method: Method,
        uri: &str,
        add: impl FnOnce(&mut Request),
    ) {
        let mut request = Request::new(method, uri, 0);
        if !self.config.user_agent.is_empty() {
            request.headers.push("User-Agent", &self.config.user_agent);
        }
        if let Some(session) = &self.session {
            request.headers.push("Session", &session.id);
        }
        let is_of_media = matches!(
            request.method,
            Method::Describe | Method::Setup | Method::Play | Method::Teardown
        );
        if self.config.back_channel && is_of_media {
            request.headers.push("Require", BACK_CHANNEL);
        }
        add(&mut request);
        self.transmit(now, request);
    }

    /// Sends a request with its sequence number and, after a challenge, with credentials.
    fn transmit(&mut self, now: Instant, mut request: Request) {
        if let Some(authorizer) = &mut self.authorizer {
            let answer = authorizer.answer(&request.method, &request.uri, &request.body);
            request.headers.set("Authorization", &answer.to_string());
        }
        let request = self.exchange.begin(now, request);
        if !self.output.push(|out| request.write(out)) {
            self.close(Closed::ResponsesNotRead);
        }
    }

    pub(super) fn set_up_from(&mut self, now: Instant, index: usize) {
        let Some(wanted) = self.wanted.get(index).copied() else {
            return match self.announcement {
                Some(_) => self.record(now),
                None => self.play(now),
            };
        };
        self.state = State::SettingUp(index);
        let transport = match wanted.transport {
            RequestedTransport::Interleaved => Transport::tcp(wanted.channels),
            RequestedTransport::Udp { ports } => Transport::udp(ports),
        };
        // Without the quotes of RFC 2326 §12.39, which ffmpeg 5.1 as a server does not read. Other
        // publishers leave them out.
        let mode = match self.announcement {
            Some(_) => ";mode=record",
            None => "",
        };
        let url = self.controls[wanted.track].clone();
        self.send(now, Method::Setup, &url, |request| {
            let transport = format!("{transport}{mode}");
            request.headers.push("Transport", &transport);
        });
    }

    fn play(&mut self, now: Instant) {
        if self.wanted.is_empty() {
            return self.close(Closed::NothingToPlay);
        }
        self.state = State::Starting;
        let url = self.control.clone();
        // A range from zero makes gst-rtsp-server rewind the stream for all of its viewers.
        let range = if self.is_live {
            Range::LIVE
        } else {
            Range::ALL
        };
        self.send(now, Method::Play, &url, |request| {
            request.headers.push("Range", &range.to_string());
        });
    }

    pub(super) fn keep_alive(&mut self, now: Instant) {
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

    /// Schedules the next keep-alive: at two fifths of the session's timeout, at least 500 ms
    /// ahead.
    pub(super) fn arm_keep_alive(&mut self, now: Instant) {
        let timeout = self
            .session
            .as_ref()
            .map_or(Session::TIMEOUT, |session| session.timeout);
        let interval = (timeout * 2 / 5).max(Duration::from_millis(500));
        self.keep_alive_at = Some(now + interval);
    }

    /// Returns the channels of an interleaved track, for RTP and for RTCP.
    pub(super) fn channels_of(&self, track: TrackIndex) -> Option<(u8, u8)> {
        let mut wanted = self.wanted.iter();
        let found = wanted.find(|wanted| {
            wanted.track == track && wanted.transport == RequestedTransport::Interleaved
        });
        found.map(|wanted| wanted.channels)
    }

    /// Returns the track that `channel` belongs to, and whether the channel carries its RTCP.
    pub(super) fn owner_of(&self, channel: u8) -> Option<(TrackIndex, bool)> {
        let interleaved =
            |wanted: &&RequestedTrack| wanted.transport == RequestedTransport::Interleaved;
        let mut wanted = self.wanted.iter().filter(interleaved);
        wanted.find_map(|wanted| {
            let (rtp, rtcp) = wanted.channels;
            let control = channel == rtcp;
            (channel == rtp || control).then_some((wanted.track, control && rtp != rtcp))
        })
    }

    pub(super) fn handle_message(&mut self, now: Instant, message: Message) {
        if self.state == State::Closed {
            return;
        }
        match message {
            Message::Request(request) => self.handle_request(&request),
            Message::Response(response) => self.handle_response(now, &response),
        }
    }

    /// Answers a request of the server.
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
            return self.close(Closed::ResponsesNotRead);
        }
        match request.method {
            Method::Teardown => self.close(Closed::ByServer),
            Method::Redirect => {
                let location = request.headers.get("Location").unwrap_or_default();
                let location = redirection::absolute(location, &self.url);
                self.close(Closed::Redirected { location });
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
        let status = response.status;
        if self.state == State::Leaving && status != Status::UNAUTHORIZED {
            return self.part(now, &request, response);
        }
        if status == Status::UNAUTHORIZED {
            return self.authenticate(now, request, response);
        }
        self.exchange.note_repeat(false);
        if status.is_redirect() {
            let location = redirection::target(&request, response, &self.url);
            return self.close(Closed::Redirected { location });
        }
        let result = match (self.state, &request.method) {
            (State::Asking, Method::Options) => {
                self.learn_methods(response);
                if self.announcement.is_some() {
                    self.announce(now);
                    return;
                }
                let url = self.url.clone();
                self.send(now, Method::Describe, &url, |request| {
                    request.headers.push("Accept", "application/sdp");
                });
                Ok(())
            }
            (State::Asking, Method::Announce) => self.announced(now, response),
            (State::Asking, Method::Describe) => self.described(response),
            (State::SettingUp(index), Method::Setup) => self.was_set_up(now, index, response),
            (State::Starting, Method::Play) => self.playing(now, response),
            (State::Starting, Method::Record) => self.recording(now, response),
            (State::Playing, _) => self.kept_alive(&request, response),
            _ => Ok(()),
        };
        if let Err(reason) = result {
            self.close(reason);
        }
    }

    /// Answers a 401: once for each request, and a second time if only the nonce was too old.
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

    /// Reads the methods in the response to OPTIONS. Its status does not matter: a server
    /// without OPTIONS may well support DESCRIBE.
    fn learn_methods(&mut self, response: &Response) {
        if let Some(public) = response.headers.get("Public") {
            let mut methods = public.split(',').map(str::trim);
            let name = Method::GetParameter.as_str();
            self.keeps_alive_by_parameter = methods.any(|method| method == name);
        }
    }

    fn described(&mut self, response: &Response) -> Result<(), Closed> {
        check_status(&Method::Describe, response)?;
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
        let range = description.range.as_deref().and_then(Range::parse);
        self.is_live = range.is_some_and(|range| range.is_live());
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
        check_status(&Method::Setup, response)?;
        self.learn_session(response);
        let transport = answered_transport(&wanted, response)?;
        if let (RequestedTransport::Interleaved, Some(channels)) =
            (wanted.transport, transport.interleaved)
        {
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
        check_status(&Method::Play, response)?;
        self.state = State::Playing;
        self.arm_keep_alive(now);
        let headers = &response.headers;
        self.events.push_back(Event::Playing {
            rtp_info: headers
                .get("RTP-Info")
                .map(rtp_info::parse)
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

    fn learn_session(&mut self, response: &Response) {
        if let Some(session) = response.headers.get("Session").and_then(Session::parse) {
            self.session = Some(session);
        }
    }

    /// Handles a response that comes while the client leaves: that to TEARDOWN ends it, and a session
    /// that a late response to SETUP begins is torn down.
    fn part(&mut self, now: Instant, request: &Request, response: &Response) {
        if request.method == Method::Setup && response.status.is_success() {
            self.learn_session(response);
            return self.tear_down(now);
        }
        self.close(Closed::Left);
    }

    /// Sends TEARDOWN, whose response ends the client.
    pub(super) fn tear_down(&mut self, now: Instant) {
        self.state = State::Leaving;
        self.keep_alive_at = None;
        self.exchange.abandon(TEARDOWN_TIMEOUT);
        let url = self.control.clone();
        self.send(now, Method::Teardown, &url, |_| {});
    }

    pub(super) fn close(&mut self, reason: Closed) {
        if self.state != State::Closed {
            self.owes_teardown = self.session.is_some() && reason.leaves_session();
            self.state = State::Closed;
            self.keep_alive_at = None;
            self.exchange.abandon(Duration::ZERO);
            self.events.push_back(Event::Closed(reason));
        }
    }
}

pub(super) fn check_status(method: &Method, response: &Response) -> Result<(), Closed> {
    if response.status.is_success() {
        return Ok(());
    }
    Err(Closed::Refused {
        method: method.clone(),
        status: response.status,
        reason: response.reason.clone(),
    })
}

/// Returns the transport that the server answered, or the requested one if the response has no
/// `Transport` header. A different kind of transport is an error.
fn answered_transport(wanted: &RequestedTrack, response: &Response) -> Result<Transport, Closed> {
    let asked = match wanted.transport {
        RequestedTransport::Interleaved => Transport::tcp(wanted.channels),
        RequestedTransport::Udp { ports } => Transport::udp(ports),
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
