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

use crate::auth::User;
use crate::interleaved::{Demultiplexer, Item, Reader};
use crate::message::{Limits, Method};
use crate::output::Output;
use crate::range::Range;
use crate::rtp_info::RtpInfo;
use crate::sdp::Description;
use crate::transport::Transport;

mod closed;
mod core;
mod exchange;

pub use closed::Closed;

use self::core::{Core, State, Wanted};
use exchange::Exchange;

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
                is_live: false,
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

#[cfg(test)]
mod tests;
