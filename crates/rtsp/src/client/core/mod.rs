mod keep_alive;
mod login;

use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::TrackIndex;

use super::exchange::{Attempt, Exchange};
use super::redirection;
use super::{Closed, Config, Event, RequestedTransport, TEARDOWN_TIMEOUT};
use crate::auth::{Authorizer, User};
use crate::message::{Message, Method, Request, Response, Status};
use crate::output::Output;
use crate::range::Range;
use crate::rtp_info;
use crate::sdp::{Description, Presentation};
use crate::session::Session;
use crate::transport::{Delivery, Lower, Profile, Transport};
pub(super) use keep_alive::KeepAlives;
pub use keep_alive::RefusedKeepAlive;

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
    pub(super) keep_alives: KeepAlives,
    /// Whether a second connection carries the session, since the server ended the first one
    /// after its 401.
    pub(super) is_reopened: bool,
    pub(super) stray_frames: u64,
    /// Whether the server still has the session of a client that has closed.
    pub(super) owes_teardown: bool,
}

/// A track that the owner wants to play.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedTrack {
    pub(super) track: TrackIndex,
    pub(super) transport: RequestedTransport,
    /// The channels that the client asked for.
    pub(super) asked: (u8, u8),
    /// The channels that the server answered; before, those asked for.
    pub(super) channels: (u8, u8),
}

impl RequestedTrack {
    fn asked_transport(&self) -> Transport {
        match self.transport {
            RequestedTransport::Interleaved => {
                let (media, control) = self.channels;
                Transport::tcp(media, control)
            }
            RequestedTransport::Udp {
                ports: (media, control),
            } => Transport::udp(media, control),
        }
    }
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
        self.transmit(now, request, Attempt::First);
    }

    /// Sends a request with its sequence number and, after a challenge, with credentials. The
    /// number comes first and the credentials last: some cameras refuse another order.
    pub(super) fn transmit(&mut self, now: Instant, mut request: Request, attempt: Attempt) {
        if let Some(authorizer) = &mut self.authorizer {
            let answer = authorizer.answer(&request.method, &request.uri, &request.body);
            request.headers.set("Authorization", &answer.to_string());
        }
        let patience = match self.state {
            State::Playing => self.keep_alive_patience(),
            State::Leaving => TEARDOWN_TIMEOUT,
            _ => self.config.response_timeout,
        };
        let request = self.exchange.begin(request, attempt, now + patience);
        if !self.output.push(|out| request.write(out)) {
            self.close(Closed::ResponsesNotRead);
        }
    }

    pub(super) fn set_up_from(&mut self, now: Instant, index: usize) {
        let Some(wanted) = self.wanted.get(index).copied() else {
            return match self.announcement {
                Some(_) => self.record(now),
                None => self.play(now, Some(self.range_to_play())),
            };
        };
        self.state = State::SettingUp(index);
        let transport = wanted.asked_transport();
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

    fn play(&mut self, now: Instant, range: Option<Range>) {
        if self.wanted.is_empty() {
            return self.close(Closed::NothingToPlay);
        }
        self.state = State::Starting;
        let url = self.control.clone();
        self.send(now, Method::Play, &url, |request| {
            if let Some(range) = range {
                request.headers.push("Range", &range.to_string());
            }
        });
    }

    /// Returns the range that is asked for first. A range from zero makes gst-rtsp-server rewind the
    /// stream for all of its viewers.
    const fn range_to_play(&self) -> Range {
        if self.is_live {
            Range::LIVE
        } else {
            Range::ALL
        }
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
    ///
    /// Some cameras answer other channels than they then use: a channel that no response named belongs
    /// to the track that it was asked for.
    pub(super) fn owner_of(&self, channel: u8) -> Option<(TrackIndex, bool)> {
        let owner = |channels: fn(&RequestedTrack) -> (u8, u8)| {
            let mut wanted = self.wanted.iter();
            wanted.find_map(|it| {
                let (rtp, rtcp) = channels(it);
                let is_own = it.transport == RequestedTransport::Interleaved
                    && (channel == rtp || channel == rtcp);
                is_own.then_some((it.track, channel == rtcp && rtp != rtcp))
            })
        };
        owner(|it| it.channels).or_else(|| owner(|it| it.asked))
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
        let Some(answered) = self.exchange.complete(response.headers.cseq()) else {
            return;
        };
        let method = answered.request.method.clone();
        let status = response.status;
        let result = if status == Status::UNAUTHORIZED {
            self.log_in(now, answered, response)
        } else if status.is_redirect() {
            let location = redirection::target(&answered.request, response, &self.url);
            Err(Closed::Redirected { location })
        } else if self.state == State::Starting
            && status == Status::INVALID_RANGE
            && answered.request.headers.get("Range").is_some()
        {
            // What the server plays without a range is what it has.
            self.play(now, None);
            Ok(())
        } else {
            self.proceed(now, &method, response)
        };
        match (self.state, result) {
            (_, Ok(())) => {}
            // While media flows, no answer to a keep-alive ends the session.
            (State::Playing, Err(_)) => self.kept_alive(now, method, response),
            (State::Leaving, Err(_)) => self.close(Closed::Left),
            (_, Err(reason)) => self.close(reason),
        }
    }

    /// Takes the next step of the session after a response.
    fn proceed(
        &mut self,
        now: Instant,
        method: &Method,
        response: &Response,
    ) -> Result<(), Closed> {
        match (self.state, method) {
            (State::Asking, Method::Options) => {
                self.keep_alives.learn(response);
                if self.announcement.is_some() {
                    self.announce(now);
                    return Ok(());
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
            (State::Playing, method) => {
                self.kept_alive(now, method.clone(), response);
                Ok(())
            }
            // The session that a late response begins is torn down, too.
            (State::Leaving, Method::Setup) if response.status.is_success() => {
                self.learn_session(response);
                self.tear_down(now);
                Ok(())
            }
            (State::Leaving, _) => Err(Closed::Left),
            _ => Ok(()),
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

    /// Goes on after the response to SETUP. The first track is the one that the owner needs; another
    /// one that the server refuses is left out.
    fn was_set_up(
        &mut self,
        now: Instant,
        index: usize,
        response: &Response,
    ) -> Result<(), Closed> {
        match self.take_set_up(index, response) {
            Ok(()) => self.set_up_from(now, index + 1),
            Err(reason) if index == 0 || self.announcement.is_some() => return Err(reason),
            Err(reason) => {
                let track = self.wanted.remove(index).track;
                self.events.push_back(Event::LeftOut { track, reason });
                self.set_up_from(now, index);
            }
        }
        Ok(())
    }

    fn take_set_up(&mut self, index: usize, response: &Response) -> Result<(), Closed> {
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

    fn learn_session(&mut self, response: &Response) {
        if let Some(session) = response.headers.get("Session").and_then(Session::parse) {
            self.session = Some(session);
        }
    }

    /// Sends TEARDOWN, whose response ends the client.
    pub(super) fn tear_down(&mut self, now: Instant) {
        self.state = State::Leaving;
        self.keep_alives.due = None;
        self.exchange.give_up();
        let url = self.control.clone();
        self.send(now, Method::Teardown, &url, |_| {});
    }

    pub(super) fn close(&mut self, reason: Closed) {
        if self.state != State::Closed {
            self.owes_teardown = self.session.is_some() && reason.leaves_session();
            self.state = State::Closed;
            self.keep_alives.due = None;
            self.exchange.give_up();
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
    let asked = wanted.asked_transport();
    let Some(text) = response.headers.get("Transport") else {
        return Ok(asked);
    };
    let mut answer = Transport::parse_list(text).into_iter().next();
    // Interleaving means TCP, also where the server leaves the word out.
    if let Some(answer) = &mut answer
        && asked.lower == Lower::Tcp
        && answer.interleaved.is_some()
    {
        answer.lower = Lower::Tcp;
    }
    // The packets of AVPF are those of AVP. The ports of the client are the client's to say.
    let other = |answer: &Transport| {
        answer.lower != asked.lower
            || !matches!(answer.profile, Profile::Avp | Profile::Avpf)
            || answer.delivery == Some(Delivery::Multicast)
    };
    match answer {
        Some(answer) if !other(&answer) => Ok(answer),
        _ => Err(Closed::OtherTransport {
            asked: asked.to_string(),
            answered: text.to_owned(),
        }),
    }
}
