//! The client end of one RTSP connection.
//!
//! ```text
//! start ─► OPTIONS ─► DESCRIBE ─► Event::Described
//!                                      │ the owner chooses tracks, binds ports
//! set_up ◄─────────────────────────────┘
//!   └─► SETUP each ─► PLAY ─► Event::Playing ─► keep-alives … leave ─► TEARDOWN
//! handle_data ─► frames, in place, to the owner's sink      Event::Closed(why)
//!
//! publish ─► OPTIONS ─► ANNOUNCE ─► SETUP each ─► RECORD ─► Event::Recording ─► send_media …
//! ```
//!
//! The owner connects the socket, moves bytes both ways and calls back at the deadline.
//! Interleaved frames go to the owner's sink, each with its track. The client answers a 401,
//! and answers the server's requests. Every end of the session has one reason, a [`Closed`].
//!
//! While the server sends media, no answer to a keep-alive ends the session, nor does its absence:
//! the owner gives a server up when its media stops.
//!
//! This module opens no socket, chooses no tracks and reads no RTP.
//!
//! Sources: RFC 2326; RFC 7616 and 2617 (authentication).

use std::time::{Duration, Instant};

use glassline_media::TrackIndex;
use url::Url;

use crate::auth::User;
use crate::interleaved::{Demultiplexer, Item, Reader};
use crate::message::{Limits, Method};
use crate::output::Output;
use crate::range::Range;
use crate::rtp_info::RtpInfo;
use crate::sdp::Description;
use crate::transport::Transport;

mod announcement;
mod closed;
mod core;
mod exchange;
mod redirection;

pub use self::core::RefusedKeepAlive;
pub use announcement::Announcement;
pub use closed::Closed;

use self::core::{Core, KeepAlives, RequestedTrack, State};
use exchange::Exchange;

/// Configuration of an RTSP client.
#[derive(Clone, Debug)]
pub struct Config {
    /// URL of the presentation to play. A name and password in it are used as credentials and
    /// are not part of requests.
    pub url: Url,
    /// Credentials to use in place of those in the URL.
    pub user: Option<User>,
    /// Value of `User-Agent`; empty to send none.
    pub user_agent: String,
    /// Random bytes, from which client nonces are derived.
    pub secret: [u8; 32],
    /// How long the server may take to answer a request.
    pub response_timeout: Duration,
    /// Bounds for the size of a message.
    pub limits: Limits,
    /// Most bytes that are skipped between two readable items before the session ends.
    pub garbage_bytes_max: usize,
    /// Whether requests require ONVIF's back channel (ONVIF Streaming Specification §5.3): the
    /// server then describes the track that it receives, or answers 551.
    pub back_channel: bool,
}

impl Config {
    /// Returns the configuration for `url`: 10 s for a response, and 128 KiB of bytes skipped,
    /// which is as much as a lost video frame.
    pub fn new(url: Url, secret: [u8; 32]) -> Self {
        Self {
            url,
            user: None,
            user_agent: String::new(),
            secret,
            response_timeout: Duration::from_secs(10),
            limits: Limits::default(),
            garbage_bytes_max: 128 << 10,
            back_channel: false,
        }
    }
}

/// Transport that a client asks for, for one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedTransport {
    /// Interleaved in the RTSP connection, on channels that the client numbers.
    Interleaved,
    /// By UDP, to these ports for RTP and RTCP.
    Udp {
        /// The client's ports, of RTP and of RTCP.
        ports: (u16, u16),
    },
}

/// Something that happened in a client's session.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The presentation, with absolute control URLs. The owner now calls [`Client::set_up`].
    Described(Description),
    /// The server set up a track, and says which transport it uses.
    SetUp {
        /// Index of the track in the description.
        track: TrackIndex,
        /// The transport of the server's response, with the server's ports and SSRC as far as
        /// the server names them.
        transport: Box<Transport>,
    },
    /// The server refused a track other than the first of [`Client::set_up`]. The session goes on
    /// without the track.
    LeftOut {
        /// Index of the track in the description.
        track: TrackIndex,
        /// The reason of the refusal.
        reason: Closed,
    },
    /// The server granted PLAY. Frames may have arrived before.
    Playing {
        /// Where each track begins, as far as the server says so.
        rtp_info: Vec<RtpInfo>,
        /// The range that is played, if the server says so.
        range: Option<Range>,
    },
    /// The server granted RECORD: it takes the media of [`Client::publish`] from now on.
    Recording,
    /// The session has ended. This is the last event.
    Closed(Closed),
}

/// An interleaved binary frame of a track that was set up: one RTP or RTCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Index of the track in the description.
    pub track: TrackIndex,
    /// Whether the packet is RTCP.
    pub control: bool,
    /// The RTP or RTCP packet.
    pub payload: &'a [u8],
}

/// The client end of one RTSP connection. The [module](self) draws its states.
///
/// # Example
///
/// ```
/// use std::time::Instant;
///
/// use glassline_rtsp::client::{Client, Config, Event};
///
/// let url = "rtsp://camera.example/stream".parse()?;
/// // `[0; 32]` stands for random bytes.
/// let mut client = Client::new(Config::new(url, [0; 32]));
/// let now = Instant::now();
/// client.start(now);
///
/// // The bytes that the owner writes to the socket.
/// let request = client.output().to_vec();
/// assert!(request.starts_with(b"OPTIONS rtsp://camera.example/stream RTSP/1.0\r\n"));
/// client.advance(request.len());
///
/// // The bytes that the owner read from the socket. Interleaved packets go to the closure.
/// client.handle_data(now, b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n", |_frame| {});
/// assert!(client.output().starts_with(b"DESCRIBE "));
///
/// let sdp = "v=0\r\ns=cam\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n";
/// let response = format!(
///     "RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: {}\r\n\r\n{sdp}",
///     sdp.len(),
/// );
/// client.handle_data(now, response.as_bytes(), |_frame| {});
/// let Some(Event::Described(description)) = client.poll_event() else {
///     panic!("the response describes the stream");
/// };
/// assert_eq!(description.tracks[0].formats[0].encoding_name, "H264");
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    core: Core,
}

/// How long the response to TEARDOWN may take.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Most tracks of a session: each takes two of the 256 interleaved channels.
const TRACKS_MAX: usize = 128;

impl Client {
    /// Creates a client that has sent nothing yet. Connect to the URL's host, then call
    /// [`Client::start`].
    pub fn new(config: Config) -> Self {
        let demultiplexer = Demultiplexer::new(config.limits, config.garbage_bytes_max);
        let user = config.user.clone().or_else(|| user_of(&config.url));
        let mut url = config.url.clone();
        // These fail for URLs that cannot have a user, and which therefore have none.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Self {
            reader: Reader::new(demultiplexer),
            core: Core {
                exchange: Exchange::new(),
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
                is_live: false,
                announcement: None,
                wanted: Vec::new(),
                keep_alives: KeepAlives::new(),
                is_reopened: false,
                stray_frames: 0,
                owes_teardown: false,
            },
        }
    }

    /// Asks the server for the presentation. Call this once, when the connection is
    /// established.
    pub fn start(&mut self, now: Instant) {
        if self.core.state == State::Idle {
            self.core.state = State::Asking;
            let url = self.core.url.clone();
            self.core.send(now, Method::Options, &url, |_| {});
        }
    }

    /// Announces a stream of the client's own to the server, sets up its tracks, and asks the
    /// server to record them. Call this in place of [`Client::start`], once, when the connection is
    /// established. [`Event::SetUp`] follows for each track, then [`Event::Recording`]; media is sent
    /// by [`Client::send_media`], or to the ports of the server.
    pub fn publish(&mut self, now: Instant, announcement: Announcement) {
        if self.core.state == State::Idle {
            let last = self.core.announce_later(announcement);
            self.reader.demultiplexer().set_channel_max(last);
            self.start(now);
        }
    }

    /// Sets `tracks` up, one after another, and then plays them. Call this after
    /// [`Event::Described`].
    ///
    /// Each track is named by its index in the description. Unknown indices are left out;
    /// without any track the session ends. It also ends if the server refuses the first track;
    /// for another one [`Event::LeftOut`] comes.
    pub fn set_up(&mut self, now: Instant, tracks: &[(TrackIndex, RequestedTransport)]) {
        let core = &mut self.core;
        if core.state != State::Described {
            return;
        }
        let known = tracks
            .iter()
            .filter(|(track, _)| track.get() < core.controls.len());
        let numbered = known.zip((0..=u8::MAX).step_by(2)).take(TRACKS_MAX);
        core.wanted = numbered
            .map(|(&(track, transport), channel)| RequestedTrack {
                track,
                transport,
                asked: (channel, channel + 1),
                channels: (channel, channel + 1),
            })
            .collect();
        let channel_max = core.wanted.last().map_or(0, |wanted| wanted.channels.1);
        self.reader.demultiplexer().set_channel_max(channel_max);
        core.set_up_from(now, 0);
    }

    /// Reads bytes that the server sent; `sink` gets each interleaved frame in them, without a
    /// copy.
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

    /// Handles the end of the connection, whether the server closed it or it broke.
    pub fn handle_end(&mut self) {
        let core = &mut self.core;
        let reason = core.ended();
        core.close(reason);
    }

    /// Returns whether the end of the connection is not that of the session.
    ///
    /// Some cameras close the connection after their 401, and take the credentials in the first
    /// request of the next one. In that case connect again and call [`Client::reopen`] in place of
    /// [`Client::handle_end`]. This happens once in a session at most.
    pub fn may_reopen(&self) -> bool {
        self.core.may_reopen()
    }

    /// Begins again on a new connection, with credentials for the known challenge.
    pub fn reopen(&mut self, now: Instant) {
        let core = &mut self.core;
        if !core.may_reopen() {
            return;
        }
        let Config {
            limits,
            garbage_bytes_max,
            ..
        } = core.config;
        self.reader = Reader::new(Demultiplexer::new(limits, garbage_bytes_max));
        core.output = Output::default();
        core.exchange.give_up();
        core.is_reopened = true;
        core.state = State::Idle;
        self.start(now);
    }

    /// Handles the deadline. Call this at [`Client::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        let core = &mut self.core;
        match (core.state, core.exchange.method().cloned()) {
            (State::Playing, _) if core.deadline().is_some_and(|due| due <= now) => {
                core.keep_alive(now);
            }
            (state, Some(method)) if core.exchange.is_overdue(now) => core.close(match state {
                State::Leaving => Closed::Left,
                _ => Closed::NoResponse {
                    method,
                    after: core.config.response_timeout,
                },
            }),
            _ => {}
        }
    }

    /// Returns when to call [`Client::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.deadline()
    }

    /// Returns the latest keep-alive, if the server has not granted it.
    ///
    /// The session goes on nevertheless. If its media stops, this is what led to it.
    pub const fn refused_keep_alive(&self) -> Option<&RefusedKeepAlive> {
        self.core.keep_alives.latest_refused.as_ref()
    }

    /// Returns the next event; poll until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// Returns bytes to send to the server. Call [`Client::advance`] with the number of bytes
    /// that were sent.
    pub fn output(&self) -> &[u8] {
        self.core.output.bytes()
    }

    /// Removes the first `count` bytes of [`Client::output`], which were sent.
    pub fn advance(&mut self, count: usize) {
        self.core.output.advance(count);
    }

    /// Appends an RTCP packet of an interleaved track to the output.
    ///
    /// Returns false if the track has no channel, or if too many bytes wait already. Reports
    /// may be lost.
    pub fn send_control(&mut self, track: TrackIndex, packet: &[u8]) -> bool {
        let channels = self.core.channels_of(track);
        channels.is_some_and(|(_, rtcp)| self.core.output.push_frame(rtcp, packet))
    }

    /// Appends an RTP packet of an interleaved track to the output, for a track that the server
    /// receives (a published stream, or ONVIF's back channel).
    ///
    /// Returns false if the track has no channel, or if too many bytes wait already: the server
    /// reads too slowly, and the packet is lost.
    pub fn send_media(&mut self, track: TrackIndex, packet: &[u8]) -> bool {
        let channels = self.core.channels_of(track);
        channels.is_some_and(|(rtp, _)| self.core.output.push_frame(rtp, packet))
    }

    /// Leaves: sends TEARDOWN if there is a session, also one that this end gave up before
    /// ([`Event::Closed`] then comes a second time). [`Event::Closed`] follows after the response, at the
    /// end of the connection, or after one second.
    pub fn leave(&mut self, now: Instant) {
        let core = &mut self.core;
        match core.state {
            // The response names the session.
            State::SettingUp(_) if core.session.is_none() => {
                core.state = State::Leaving;
                core.exchange.hasten(now + TEARDOWN_TIMEOUT);
            }
            State::SettingUp(_) | State::Starting | State::Playing => core.tear_down(now),
            State::Closed if core.owes_teardown => core.tear_down(now),
            State::Leaving | State::Closed => {}
            State::Idle | State::Asking | State::Described => core.close(Closed::Left),
        }
    }

    /// Returns whether the session has ended, so that nothing more will be sent.
    pub fn is_closed(&self) -> bool {
        self.core.state == State::Closed
    }

    /// Returns the number of frames on channels that were not set up.
    pub const fn stray_frames(&self) -> u64 {
        self.core.stray_frames
    }
}

/// Returns the name and password in a URL, percent-decoded; `None` if it has no name.
pub fn user_of(url: &Url) -> Option<User> {
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

#[cfg(test)]
mod tests;
