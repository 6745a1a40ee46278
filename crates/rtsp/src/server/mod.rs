//! The server end of one RTSP connection.
//!
//! ```text
//! handle_data ─► requests, one after another ─► Event with an id
//!      │                                             │ the owner looks it up
//!      │            transmit ◄─ responses ◄─ answer ◄┘
//!      └─► frames, in place, to the owner's sink     Event::Closed(why)
//! ```
//!
//! The owner accepts the connection, moves bytes both ways, answers events and calls back at
//! the deadline. The owner writes the frames that it sends interleaved itself, between
//! responses: a response is sent only where a frame has ended.
//!
//! This module answers whatever needs no stream: OPTIONS, parameters, and every request that
//! cannot be granted. None of them ends the connection, unless the bytes that follow cannot be
//! told apart any more.
//!
//! A session belongs to its connection: a connection has one at a time, no other connection can
//! use it, and it ends with the connection. A tunnel's session belongs to the connection of its
//! GET. The owner passes it the bytes of the POST connection, and closes both.
//!
//! Sources: RFC 2326; RFC 7616, 2617 and 7617 (authentication); RFC 4567 (SRTP keys); Apple's
//! tunnel through HTTP.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use glassline_media::TrackIndex;

pub use crate::client::Frame;
use crate::interleaved::{Demultiplexer, Item, Reader};
use crate::message::{self, Headers, Message, Method, Parsed, Request, Status, Version};
use crate::tunnel::Decoder;

mod answers;
mod authenticator;
mod client_credentials;
mod closed;
mod config;
mod core;
mod event;
mod pending;
mod requests;
mod session;
mod target;
mod transport_selector;

pub use client_credentials::{ClientCredentials, Digest};
pub use closed::Closed;
pub use config::{Config, Endpoints, SrtpPolicy, TunnelHosts};
pub use event::{Access, Answer, Event, Refusal, RequestId, SelectedTransport, Srtp, Start};

use self::core::Core;

/// A track that is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// Index of the track in the description.
    pub track: TrackIndex,
    /// Transport of the track.
    pub transport: SelectedTransport,
}

/// A request that was answered, and what the response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Method of the request; `None` where the input was not a whole request.
    pub method: Option<Method>,
    /// Status of the response.
    pub status: Status,
    /// Fault of the request as a sentence for people, and reason phrase of the response. `None`
    /// where the status says enough.
    pub why: Option<String>,
}

/// State of a connection's session (RFC 2326 appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No track is set up.
    Init,
    /// Tracks are set up, and nothing is sent.
    Ready,
    /// The server sends the tracks.
    Playing,
    /// The client sends the tracks.
    Recording,
}

/// The server end of one client's connection, or of both connections of a tunnel. The
/// [module](self) draws the flow.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use std::time::Instant;
///
/// use glassline_rtsp::server::{Answer, Config, Connection, Endpoints, Event, Refusal};
///
/// let endpoints = Endpoints {
///     peer: "192.0.2.7:50000".parse()?,
///     local: "192.0.2.1:554".parse()?,
///     secure: false,
/// };
/// let now = Instant::now();
/// // `[0; 32]` stands for random bytes.
/// let mut connection = Connection::new(Arc::new(Config::default()), endpoints, [0; 32], now);
///
/// // The bytes that the owner read from the socket.
/// let request = b"DESCRIBE rtsp://192.0.2.1/cam RTSP/1.0\r\nCSeq: 1\r\n\r\n";
/// connection.handle_data(now, request, |_frame| {});
/// let Some(Event::Authorize { id, path, .. }) = connection.poll_event() else {
///     panic!("a new client needs authorization");
/// };
/// assert_eq!(path, "cam");
/// connection.answer(now, id, Answer::Refused(Refusal::NotFound));
///
/// // The bytes that the owner writes to the socket.
/// assert!(connection.transmit().starts_with(b"RTSP/1.0 404 Not Found\r\nCSeq: 1\r\n"));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    opening: Opening,
    reader: Reader,
    core: Core,
}

/// The kind of the first bytes of a connection.
#[derive(Debug)]
enum Opening {
    /// Too few bytes to decide, or an incomplete HTTP request.
    Open(Vec<u8>),
    /// The connection begins with an RTSP request.
    Plain,
    /// A tunnel's direction to the client; the other direction arrives on another connection.
    Get(Decoder),
    /// The connection was handed over or refused; later bytes are ignored.
    Over,
}

impl Connection {
    /// Creates a connection that has read nothing. `secret`: random bytes for this connection
    /// alone, from which session identifiers and nonces are derived.
    pub fn new(config: Arc<Config>, endpoints: Endpoints, secret: [u8; 32], now: Instant) -> Self {
        Self {
            opening: Opening::Open(Vec::new()),
            reader: Reader::new(Demultiplexer::new(config.limits, 0)),
            core: Core::new(config, endpoints, secret, now),
        }
    }

    /// Reads bytes that the client sent. `sink` gets each frame of a track that is set up,
    /// without a copy, whether the session plays, records or pauses.
    pub fn handle_data(&mut self, now: Instant, bytes: &[u8], sink: impl FnMut(Frame<'_>)) {
        if self.core.ignores_input {
            return;
        }
        match &mut self.opening {
            Opening::Plain => self.read(now, bytes, sink),
            Opening::Open(begun) if begun.is_empty() && !is_http(bytes) => {
                self.opening = Opening::Plain;
                self.read(now, bytes, sink);
            }
            Opening::Open(begun) => {
                begun.extend_from_slice(bytes);
                let begun = std::mem::take(begun);
                self.open(now, begun, sink);
            }
            // With GET and POST of a tunnel on one connection a client would wait for itself.
            Opening::Get(_) if !bytes.is_empty() => {
                let why = "GET and POST of a tunnel use the same connection";
                self.core.close(Closed::Http(why));
            }
            Opening::Get(_) | Opening::Over => {}
        }
    }

    /// Reads bytes of the other connection of a tunnel, after [`Event::TunnelGet`] on this one:
    /// base64, cut anywhere. Without a tunnel this does nothing.
    pub fn handle_tunnel_data(&mut self, now: Instant, base64: &[u8], sink: impl FnMut(Frame<'_>)) {
        let Opening::Get(decoder) = &mut self.opening else {
            return;
        };
        if self.core.ignores_input {
            return;
        }
        let mut bytes = Vec::new();
        let decoded = decoder.decode(base64, &mut bytes);
        self.read(now, &bytes, sink);
        if let Err(error) = decoded {
            self.core.close(Closed::Tunnel(error));
        }
    }

    /// Tells the client that no connection waits for its tunnel, and closes. Call this after
    /// [`Event::TunnelPost`].
    pub fn refuse_tunnel(&mut self) {
        let nothing = Request {
            method: Method::Post,
            uri: String::new(),
            version: Version::RTSP_1_0,
            headers: Headers::new(),
            body: Vec::new(),
        };
        let why = "no tunnel with this x-sessioncookie exists";
        self.core.refuse_http(&nothing, why);
    }

    /// Answers the event with this `id`.
    ///
    /// An answer that does not fit the event is the owner's fault, and the client gets a 500.
    /// An answer to another event than the pending one is late and has no effect.
    pub fn answer(&mut self, now: Instant, id: RequestId, answer: Answer) {
        self.core.answer(now, id, answer);
    }

    /// Notes that the client is alive: RTCP came by UDP, or the client has read interleaved
    /// data.
    pub fn note_alive(&mut self, now: Instant) {
        self.core.last_activity_at = self.core.last_activity_at.max(now);
    }

    /// Handles the deadline. Call this at [`Connection::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.core.handle_timeout(now);
    }

    /// Returns when to call [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.deadline()
    }

    /// Returns whether a request has begun to arrive and is not whole yet.
    pub fn has_partial_request(&self) -> bool {
        self.core.has_partial_request()
    }

    /// Returns whether a request waits for the owner's answer.
    pub fn has_unanswered_request(&self) -> bool {
        self.core.pending.is_some()
    }

    /// Returns the next event; poll until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.core.events.pop_front();
        if event.is_none() {
            // Thousands of idle connections have no event, and so hold no memory for them.
            self.core.events = VecDeque::new();
        }
        event
    }

    /// Returns the next request that was answered, for statistics; poll until `None`.
    pub fn poll_answered(&mut self) -> Option<Answered> {
        let answered = self.core.answered.pop_front();
        if answered.is_none() {
            self.core.answered = VecDeque::new();
        }
        answered
    }

    /// Returns responses to send to the client: between two interleaved frames, never within
    /// one.
    ///
    /// Call [`Connection::advance`] with the number of bytes that were sent.
    pub fn transmit(&self) -> &[u8] {
        self.core.output.bytes()
    }

    /// Removes the first `bytes` bytes of [`Connection::transmit`], which were sent.
    pub fn advance(&mut self, bytes: usize) {
        self.core.output.advance(bytes);
    }

    /// Returns the state of the session.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// Returns the tracks that are set up, in the order of their SETUP.
    pub fn tracks(&self) -> &[SetUp] {
        self.core.tracks()
    }

    /// Returns the path of the session's stream.
    pub fn path(&self) -> Option<&str> {
        let session = self.core.session.as_deref();
        session.map(|session| session.path.as_str())
    }

    /// Withdraws what was granted to the client: its next request that needs a right is checked
    /// again ([`Event::Authorize`]). What the client has set up goes on.
    pub fn withdraw_grant(&mut self) {
        self.core.authenticator.forget();
    }

    /// Returns whether a proxy has forwarded a request of this connection, so that the peer's
    /// address is the proxy's.
    pub const fn is_forwarded(&self) -> bool {
        self.core.authenticator.is_forwarded()
    }

    /// Returns the user's name from [`Answer::Authorized`].
    pub fn user(&self) -> Option<&str> {
        self.core.user.as_deref()
    }

    /// Returns the session's identifier, if there is a session. It is meant for logs.
    pub fn session(&self) -> Option<&str> {
        let session = self.core.session.as_deref();
        session.map(|session| session.id.as_str())
    }

    /// Returns the number of frames on channels that were not set up.
    pub const fn stray_frames(&self) -> u64 {
        self.core.stray_frames
    }

    /// Returns whether the connection has ended. What remains is to send
    /// [`Connection::transmit`] and close.
    pub const fn is_closed(&self) -> bool {
        self.core.is_closed
    }

    fn read(&mut self, now: Instant, bytes: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        let Self { reader, core, .. } = self;
        let mut had_message = false;
        let read = reader.push(bytes, |item| match item {
            Item::Message(message) => {
                had_message = true;
                core.handle_message(now, message);
            }
            Item::Frame { channel, payload } => {
                if let Some((track, control)) = core.handle_frame(now, channel) {
                    sink(Frame {
                        track,
                        control,
                        payload,
                    });
                }
            }
        });
        if had_message {
            // A request is longer than most frames of a client, and rare.
            reader.release();
        }
        match read {
            Err(error) if !core.ignores_input => core.handle_broken(error),
            _ => core.note_incomplete(now, reader.is_within_message()),
        }
    }

    /// Handles a connection whose first bytes may be HTTP.
    fn open(&mut self, now: Instant, begun: Vec<u8>, sink: impl FnMut(Frame<'_>)) {
        if !is_http(&begun) {
            self.opening = Opening::Plain;
            return self.read(now, &begun, sink);
        }
        let core = &mut self.core;
        match message::parse(&begun, &core.config.limits) {
            Ok(Parsed::Incomplete { .. }) => {
                core.note_incomplete(now, true);
                self.opening = Opening::Open(begun);
            }
            Ok(Parsed::Message(Message::Request(request), consumed)) if request.version.http => {
                let is_get = request.method == Method::Get;
                let rest = &begun[consumed..];
                self.opening = Opening::Over;
                if core.open_tunnel(&request, rest) && is_get {
                    self.opening = Opening::Get(Decoder::default());
                    // Bytes behind a GET are refused as later ones are.
                    self.handle_data(now, rest, sink);
                }
            }
            // `GET rtsp://… RTSP/1.0`, or text that is no message: the RTSP reader answers
            // both.
            Ok(_) | Err(_) => {
                self.opening = Opening::Plain;
                self.read(now, &begun, sink);
            }
        }
    }
}

/// Returns whether `bytes` begin with a method that opens a tunnel, as far as they go. RTSP's
/// GET_PARAMETER is not one.
fn is_http(bytes: &[u8]) -> bool {
    [b"GET ".as_slice(), b"POST "].iter().any(|name| {
        let common = name.len().min(bytes.len());
        common > 0 && name[..common] == bytes[..common]
    })
}

#[cfg(test)]
mod tests;
