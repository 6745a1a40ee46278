//! The serving end of one RTSP connection.
//!
//! ```text
//! handle_data ─► requests, one after another ─► Event with an id
//!      │                                             │ the owner looks it up
//!      │            transmit ◄─ responses ◄─ answer ◄┘
//!      └─► frames, in place, to the owner's sink     Event::Closed(why)
//! ```
//!
//! The owner accepts, moves bytes both ways, answers events and calls back at the
//! deadline. What it sends interleaved it writes itself, between responses: a
//! response goes out where a frame has ended. All that needs no stream is answered
//! here: OPTIONS, parameters, and every request that cannot be granted; none of
//! them costs the connection unless what follows it cannot be told.
//!
//! A session belongs to its connection: one at a time, unknown to all others, and
//! gone with it. A tunnel's session belongs to the connection of its GET; the owner
//! brings it what the other one carries, and closes both.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

pub use crate::client::Frame;
use crate::interleaved::{Demultiplexer, Item, Reader};
use crate::message::{self, Headers, Message, Method, Parsed, Request, Status, Version};
use crate::tunnel::Decoder;

mod answers;
mod choice;
mod closed;
mod config;
mod core;
mod event;
mod gate;
mod pending;
mod presented;
mod requests;
mod session;
mod target;

pub use closed::Closed;
pub use config::{Config, Ends, SrtpPolicy};
pub use event::{Access, Answer, Event, Refusal, RequestId, Srtp, Start, Way};
pub use presented::{Digest, Presented};

use self::core::Core;

/// A track that is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// Its index in the description.
    pub track: usize,
    /// How it goes.
    pub way: Way,
}

/// A request and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// What was asked; `None` where that was no whole request.
    pub method: Option<Method>,
    /// What was said.
    pub status: Status,
}

/// Where a connection stands (RFC 2326 appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is set up.
    Init,
    /// Something is, and rests.
    Ready,
    /// The client gets it.
    Playing,
    /// The client sends it.
    Recording,
}

/// One client's connection, or both of a tunnel; see the module.
#[derive(Debug)]
pub struct Connection {
    opening: Opening,
    reader: Reader,
    core: Core,
}

/// What the first bytes were.
#[derive(Debug)]
enum Opening {
    /// Too few to tell, or not all of an HTTP request.
    Open(Vec<u8>),
    /// RTSP.
    Plain,
    /// A tunnel's way to the client; the other comes from elsewhere.
    Get(Decoder),
    /// Nothing that comes now is for us.
    Over,
}

impl Connection {
    /// Nothing read yet. `secret`: random, of this connection alone; the session's
    /// name and nonces are made from it.
    pub fn new(config: Arc<Config>, ends: Ends, secret: [u8; 32], now: Instant) -> Self {
        Self {
            opening: Opening::Open(Vec::new()),
            reader: Reader::new(Demultiplexer::new(config.limits, 0)),
            core: Core::new(config, ends, secret, now),
        }
    }

    /// Takes what came over the connection; `sink` gets the frames in it of tracks
    /// that are set up, in place, whether they play, record or rest.
    pub fn handle_data(&mut self, now: Instant, bytes: &[u8], sink: impl FnMut(Frame<'_>)) {
        if self.core.is_deaf {
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
            // GET and POST of a tunnel on one connection would let a client wait for
            // itself.
            Opening::Get(_) if !bytes.is_empty() => {
                let why = "both ways of a tunnel on one connection";
                self.core.close(Closed::Http(why));
            }
            Opening::Get(_) | Opening::Over => {}
        }
    }

    /// Takes what came over the other connection of a tunnel, after
    /// [`Event::TunnelGet`] on this one: base64, cut anywhere. On a connection that
    /// is no tunnel it is nothing.
    pub fn handle_tunnel_data(&mut self, now: Instant, base64: &[u8], sink: impl FnMut(Frame<'_>)) {
        let Opening::Get(decoder) = &mut self.opening else {
            return;
        };
        if self.core.is_deaf {
            return;
        }
        let mut bytes = Vec::new();
        let decoded = decoder.decode(base64, &mut bytes);
        self.read(now, &bytes, sink);
        if let Err(error) = decoded {
            self.core.close(Closed::Tunnel(error));
        }
    }

    /// After [`Event::TunnelPost`]: there is no such other connection. Says so and
    /// closes.
    pub fn refuse_tunnel(&mut self) {
        let nothing = Request {
            method: Method::Post,
            uri: String::new(),
            version: Version::RTSP_1_0,
            headers: Headers::new(),
            body: Vec::new(),
        };
        let why = "no tunnel waits for this x-sessioncookie";
        self.core.refuse_http(&nothing, why);
    }

    /// Answers the event of this `id`. An answer of another kind than the event
    /// wants is our fault, and the client is told so (500); one to another event
    /// than the last is late, and nothing.
    pub fn answer(&mut self, now: Instant, id: RequestId, answer: Answer) {
        self.core.answer(now, id, answer);
    }

    /// The client is there: RTCP came by UDP, or it has taken interleaved data.
    pub fn note_alive(&mut self, now: Instant) {
        self.core.alive_at = self.core.alive_at.max(now);
    }

    /// Call at [`Connection::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.core.handle_timeout(now);
    }

    /// When to call [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.deadline()
    }

    /// What happened next; poll until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.core.events.pop_front();
        if event.is_none() {
            // Thousands of connections rest with none.
            self.core.events = VecDeque::new();
        }
        event
    }

    /// The next request that was answered, for whoever counts them; poll until `None`.
    pub fn poll_answered(&mut self) -> Option<Answered> {
        let answered = self.core.answered.pop_front();
        if answered.is_none() {
            self.core.answered = VecDeque::new();
        }
        answered
    }

    /// Responses for the client; tell with [`Connection::advance`] how many bytes
    /// it took. Between two frames, never within one.
    pub fn transmit(&self) -> &[u8] {
        self.core.output.bytes()
    }

    /// The first `bytes` of [`Connection::transmit`] are sent.
    pub fn advance(&mut self, bytes: usize) {
        self.core.output.advance(bytes);
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// What is set up, in the order in which it was.
    pub fn tracks(&self) -> &[SetUp] {
        self.core.tracks()
    }

    /// The stream of the session.
    pub fn path(&self) -> Option<&str> {
        let session = self.core.session.as_deref();
        session.map(|session| session.path.as_str())
    }

    /// Who it is, by the name that [`Answer::Authorised`] gave.
    pub fn user(&self) -> Option<&str> {
        self.core.user.as_deref()
    }

    /// The name of the session, if there is one: for logs.
    pub fn session(&self) -> Option<&str> {
        let session = self.core.session.as_deref();
        session.map(|session| session.id.as_str())
    }

    /// Frames on channels that were not set up.
    pub const fn stray_frames(&self) -> u64 {
        self.core.stray_frames
    }

    /// Over; what is left is to send [`Connection::transmit`] and close.
    pub const fn is_closed(&self) -> bool {
        self.core.is_closed
    }

    fn read(&mut self, now: Instant, bytes: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        let Self { reader, core, .. } = self;
        let mut was_spoken = false;
        let read = reader.push(bytes, |item| match item {
            Item::Message(message) => {
                was_spoken = true;
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
        if was_spoken {
            // A request is longer than most frames of a client, and rare.
            reader.release();
        }
        match read {
            Err(error) if !core.is_deaf => core.handle_broken(error),
            _ => core.note_half(now, reader.is_within_message()),
        }
    }

    /// The connection begins with HTTP, as far as it goes.
    fn open(&mut self, now: Instant, begun: Vec<u8>, sink: impl FnMut(Frame<'_>)) {
        if !is_http(&begun) {
            self.opening = Opening::Plain;
            return self.read(now, &begun, sink);
        }
        let core = &mut self.core;
        match message::parse(&begun, &core.config.limits) {
            Ok(Parsed::Incomplete { .. }) => {
                core.note_half(now, true);
                self.opening = Opening::Open(begun);
            }
            Ok(Parsed::Message(Message::Request(request), consumed)) if request.version.http => {
                let is_get = request.method == Method::Get;
                let rest = &begun[consumed..];
                self.opening = Opening::Over;
                if core.open_tunnel(now, &request, rest) && is_get {
                    self.opening = Opening::Get(Decoder::default());
                    // What comes behind a GET is refused as what comes later is.
                    self.handle_data(now, rest, sink);
                }
            }
            // `GET rtsp://… RTSP/1.0`, or nothing: RTSP's reader answers both.
            Ok(_) | Err(_) => {
                self.opening = Opening::Plain;
                self.read(now, &begun, sink);
            }
        }
    }
}

/// Bytes begin with a method that opens a tunnel, as far as they go. RTSP's
/// GET_PARAMETER does not.
fn is_http(bytes: &[u8]) -> bool {
    [b"GET ".as_slice(), b"POST "].iter().any(|name| {
        let common = name.len().min(bytes.len());
        common > 0 && name[..common] == bytes[..common]
    })
}

#[cfg(test)]
mod tests;
