//! Data channels over an association (RFC 8831, RFC 8832).
//!
//! ```text
//! open, send, close ─► Channels ─► Association ─► packets
//! Event ◄───────────── Channels ◄─ Association ◄─ packets
//! ```
//!
//! A channel is a stream each way with the same number. One end opens it with a DCEP
//! message on the stream and may send at once; or both have agreed on a number
//! elsewhere ("negotiated") and nothing is said. To close a channel each end resets
//! its outgoing stream; when both have, the number may be used again.
//!
//! [`Channels`] takes packets and time as its [`Association`] does. Poll events
//! before packets: answers to the peer's DCEP messages come of it. A message that is
//! not polled stays in the association, counts against the receive window, and so
//! slows the peer down.

mod closing;
mod dcep;
mod error;
mod event;
mod init;
mod message;
mod opening;
mod registry;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

pub use dcep::{Dcep, Open};
pub use error::{ClosedBy, OpenError, Refusal, SendError};
pub use event::{Event, Info};
pub use init::{Init, Limits, Role};
pub use message::{Kind, Message, ppid};
use message::{Piece, received};
use registry::{Channel, Phase, Registry};

use crate::{Association, Dropped, Event as AssociationEvent, Report, SendOptions};

/// A channel of one [`Channels`]; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(u32);

/// Data channels, and the association that carries them.
#[derive(Debug)]
pub struct Channels {
    association: Association,
    registry: Registry,
    role: Role,
    limits: Limits,
    /// Streams the association has, once it stands.
    streams: Option<u16>,
    /// What the peer takes; `None` for anything.
    peer_message_max: Option<u64>,
    /// Bytes in `Channel::parts` of all channels.
    parts: usize,
    events: VecDeque<Event>,
    /// A DCEP message or a reset found no room and is to be tried again.
    owing: bool,
    ended: bool,
}

/// What an end takes that says nothing of it (RFC 8841 §6.1).
pub const MESSAGE_MAX_UNSTATED: u64 = 64 * 1024;

impl Channels {
    /// Channels over `association`, none yet.
    pub fn new(association: Association, role: Role, limits: Limits) -> Self {
        Self {
            association,
            registry: Registry::default(),
            role,
            limits,
            streams: None,
            peer_message_max: Some(MESSAGE_MAX_UNSTATED),
            parts: 0,
            events: VecDeque::new(),
            owing: false,
            ended: false,
        }
    }

    /// The part in the DTLS handshake, where it is settled later than this was made;
    /// before the association stands.
    pub fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// What the peer's `a=max-message-size` says: `None` if there is none (64 KiB),
    /// zero for any size (RFC 8841 §6).
    pub fn set_peer_max_message_size(&mut self, bytes: Option<u64>) {
        self.peer_message_max = match bytes {
            None => Some(MESSAGE_MAX_UNSTATED),
            Some(0) => None,
            limit => limit,
        };
    }

    /// The largest message that the peer takes; `None` for any size.
    pub const fn peer_max_message_size(&self) -> Option<u64> {
        self.peer_message_max
    }

    /// Sends a message, in order or not and with such care as its channel was opened
    /// with.
    ///
    /// # Errors
    /// Why it was not taken; of those the association's `BufferFull` and `Resetting`
    /// pass by themselves.
    pub fn send(
        &mut self,
        channel: ChannelId,
        message: Message,
        now: Instant,
    ) -> Result<(), SendError> {
        let found = self.registry.get(channel);
        let channel = found.ok_or(SendError::NoSuchChannel)?;
        let stream = match (channel.phase, channel.info.stream) {
            (Phase::Opening | Phase::Open, Some(stream)) => stream,
            (Phase::Closing, _) => return Err(SendError::Closing),
            _ => return Err(SendError::NotOpen),
        };
        if channel.owes_open {
            return Err(SendError::NotOpen);
        }
        let size = message.data.len();
        if let Some(limit) = self.peer_message_max
            && size as u64 > limit
        {
            return Err(SendError::TooLarge { size, limit });
        }
        let options = SendOptions {
            // Nothing may overtake the OPEN (RFC 8832 §6).
            unordered: !channel.info.init.ordered && channel.phase == Phase::Open,
            reliability: channel.info.init.reliability,
        };
        let (ppid, data) = message.into_wire();
        self.association.send(stream, ppid, data, options, now)?;
        channel.info.messages_sent += 1;
        channel.info.bytes_sent += size as u64;
        Ok(())
    }

    /// Bytes that were handed over and not yet sent once.
    pub fn buffered_amount(&self, channel: ChannelId) -> usize {
        let channel = self.registry.peek(channel);
        channel
            .and_then(|channel| channel.info.stream)
            .map_or(0, |stream| self.association.buffered(stream))
    }

    /// [`Event::BufferedLow`] comes when [`buffered_amount`](Self::buffered_amount)
    /// falls from above `bytes` to it or below; zero at first.
    pub fn set_buffered_low(&mut self, channel: ChannelId, bytes: usize) {
        let Some(channel) = self.registry.get(channel) else {
            return;
        };
        channel.low = bytes;
        if let Some(stream) = channel.info.stream {
            self.association.set_buffered_low(stream, bytes);
        }
    }

    /// What is known of a channel; `None` once it is closed.
    pub fn info(&self, channel: ChannelId) -> Option<&Info> {
        self.registry.peek(channel).map(|channel| &channel.info)
    }

    /// All channels that are not closed.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &Info)> {
        self.registry.iter()
    }

    /// What happened next.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        if self.owing {
            self.pay(now);
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let event = self.association.poll_event()?;
            if let Some(event) = self.on_event(event, now) {
                return Some(event);
            }
        }
    }

    fn on_event(&mut self, event: AssociationEvent, now: Instant) -> Option<Event> {
        match event {
            AssociationEvent::Message {
                stream, ppid, data, ..
            } => return self.on_message(stream, ppid, data, now),
            AssociationEvent::Connected { outgoing, incoming } => {
                self.streams = Some(outgoing.min(incoming));
                self.events.push_back(Event::Connected);
                for channel in self.registry.ids() {
                    self.begin(channel, now);
                }
            }
            AssociationEvent::StreamsReset { direction, streams } => {
                self.on_reset(direction, &streams, now);
            }
            AssociationEvent::ResetRefused { streams } => {
                for stream in streams {
                    if let Some(channel) = self.registry.on_stream(stream) {
                        self.retire(channel, stream);
                    }
                }
            }
            AssociationEvent::BufferedLow { stream } => {
                let channel = self.registry.on_stream(stream)?;
                // An OPEN or an ACK that has left is no news to the application.
                let sent = self.registry.peek(channel)?.info.messages_sent;
                return (sent > 0).then_some(Event::BufferedLow { channel });
            }
            AssociationEvent::MtuChanged { mtu } => return Some(Event::MtuChanged { mtu }),
            AssociationEvent::Restarted => {
                self.remove_all();
                self.registry.restart();
            }
            AssociationEvent::Closed(reason) => {
                self.ended = true;
                self.remove_all();
                self.events.push_back(Event::Ended(reason));
            }
        }
        None
    }

    fn on_message(&mut self, stream: u16, ppid: u32, data: Bytes, now: Instant) -> Option<Event> {
        let Some(piece) = Piece::of(ppid) else {
            let why = Refusal::PayloadProtocol;
            return Some(Event::Refused { stream, why });
        };
        if piece == Piece::Control {
            self.on_control(stream, &data, now);
            return None;
        }
        let Some(id) = self.registry.on_stream(stream) else {
            self.refuse(stream, Refusal::NoChannel, now);
            return None;
        };
        let channel = self.registry.get(id)?;
        if channel.phase == Phase::Opening {
            // Whatever comes shows that the OPEN has arrived (RFC 8832 §6).
            channel.phase = Phase::Open;
        }
        if channel.closed_by == Some(ClosedBy::Us) {
            return None;
        }
        let message = match piece {
            Piece::Control => return None,
            Piece::Empty(kind) => received(kind, Bytes::new()),
            Piece::Last(kind) if channel.parts.is_empty() => received(kind, data),
            Piece::Last(kind) => {
                let mut parts = std::mem::take(&mut channel.parts);
                self.parts -= parts.len();
                if parts.len() + data.len() > self.limits.parts_max {
                    self.refuse(stream, Refusal::PartsTooLarge, now);
                    return None;
                }
                parts.extend_from_slice(&data);
                received(kind, parts.freeze())
            }
            Piece::Part(_) => {
                if self.parts + data.len() > self.limits.parts_max {
                    self.refuse(stream, Refusal::PartsTooLarge, now);
                    return None;
                }
                channel.parts.extend_from_slice(&data);
                self.parts += data.len();
                return None;
            }
        };
        channel_received(self.registry.get(id)?, &message);
        Some(Event::Message {
            channel: id,
            message,
        })
    }
}

fn channel_received(channel: &mut Channel, message: &Message) {
    channel.info.messages_received += 1;
    channel.info.bytes_received += message.data.len() as u64;
}

/// What goes through to the [`Association`].
impl Channels {
    /// See [`Association::connect`].
    pub fn connect(&mut self, now: Instant) {
        self.association.connect(now);
    }

    /// See [`Association::handle_packet`].
    ///
    /// # Errors
    /// What was thrown away of the packet, and why.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) -> Result<(), Dropped> {
        self.association.handle_packet(packet, now)
    }

    /// See [`Association::end_batch`].
    pub fn end_batch(&mut self, now: Instant) {
        self.association.end_batch(now);
    }

    /// See [`Association::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        self.association.poll_transmit(now, out)
    }

    /// See [`Association::poll_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.association.poll_timeout()
    }

    /// See [`Association::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(now);
    }

    /// Ends it in order: what was handed over is still sent.
    pub fn shutdown(&mut self, now: Instant) {
        self.association.close(now);
    }

    /// Ends it at once.
    pub fn abort(&mut self, now: Instant) {
        self.association.abort(now);
    }

    /// See [`Association::disconnect`].
    pub fn disconnect(&mut self) {
        self.association.disconnect();
    }

    /// How the association stands.
    pub fn report(&self) -> Report {
        self.association.report()
    }

    /// Bytes of an SCTP packet at present.
    pub fn mtu(&self) -> usize {
        self.association.mtu()
    }
}

#[cfg(test)]
mod tests;
