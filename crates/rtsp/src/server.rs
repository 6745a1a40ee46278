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
//! gone with it.

use std::sync::Arc;
use std::time::Instant;

pub use crate::client::Frame;
use crate::interleaved::{Demultiplexer, Item, Reader};

mod closed;
mod config;
mod core;
mod event;
mod presented;

pub use closed::Closed;
pub use config::{Config, Ends};
pub use event::{Access, Answer, Event, Refusal, RequestId, Start, Way};
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
    reader: Reader,
    core: Core,
}

impl Connection {
    /// Nothing read yet. `secret`: random, of this connection alone; the session's
    /// name and nonces are made from it.
    pub fn new(config: Arc<Config>, ends: Ends, secret: [u8; 32], now: Instant) -> Self {
        Self {
            reader: Reader::new(Demultiplexer::new(config.limits, 0)),
            core: Core::new(config, ends, secret, now),
        }
    }

    /// Takes what came over the connection; `sink` gets the frames in it of tracks
    /// that are set up, in place.
    pub fn handle_data(&mut self, now: Instant, bytes: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        let Self { reader, core } = self;
        let read = reader.push(bytes, |item| match item {
            Item::Message(message) => core.handle_message(now, message),
            Item::Frame { channel, payload } => {
                if let Some((track, control)) = core.owner_of(channel) {
                    sink(Frame {
                        track,
                        control,
                        payload,
                    });
                }
            }
        });
        if let Err(error) = read {
            core.close(Closed::Stream(error));
        }
    }

    /// Takes what came over the other connection of a tunnel, after
    /// [`Event::TunnelGet`] on this one: base64, cut anywhere.
    pub fn handle_tunnel_data(&mut self, now: Instant, base64: &[u8], sink: impl FnMut(Frame<'_>)) {
        let _ = (now, base64, sink);
    }

    /// After [`Event::TunnelPost`]: there is no such other connection. Says so and
    /// closes.
    pub fn refuse_tunnel(&mut self) {
        self.core
            .close(Closed::Http("a tunnel without its other half"));
    }

    /// Answers the event of this `id`. An answer of another kind than the event
    /// wants is our fault, and the client is told so (500).
    pub fn answer(&mut self, now: Instant, id: RequestId, answer: Answer) {
        let _ = (now, id, answer);
    }

    /// The client is there: RTCP came by UDP, or it has taken interleaved data.
    pub fn note_alive(&mut self, now: Instant) {
        self.core.alive_at = now;
    }

    /// Call at [`Connection::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When to call [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// What happened next; poll until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
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
        self.core.state
    }

    /// What is set up, in the order in which it was.
    pub fn tracks(&self) -> &[SetUp] {
        &self.core.tracks
    }

    /// The stream of the session.
    pub fn path(&self) -> Option<&str> {
        self.core.path.as_deref()
    }

    /// Who it is, by the name that [`Answer::Authorised`] gave.
    pub fn user(&self) -> Option<&str> {
        self.core.user.as_deref()
    }

    /// The name of the session, if there is one: for logs.
    pub fn session(&self) -> Option<&str> {
        self.core.session.as_deref()
    }

    /// Over; what is left is to send [`Connection::transmit`] and close.
    pub fn is_closed(&self) -> bool {
        self.core.closed
    }
}
