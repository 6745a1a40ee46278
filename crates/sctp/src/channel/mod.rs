//! Data channels over an SCTP association (RFC 8831, RFC 8832).
//!
//! ```text
//! open, send, close ─► Channels ─► Association ─► packets
//! Event ◄───────────── Channels ◄─ Association ◄─ packets
//! ```
//!
//! A channel is a pair of streams, one each way, with the same number. One end opens it
//! with a DCEP message on the stream and may send at once. Alternatively both ends agree on
//! a number by other means ("negotiated"), and no message is sent. To close a channel, each
//! end resets its outgoing stream; when both are reset, the number may be used again.
//!
//! [`Channels`] takes packets and time as its [`Association`] does. Poll events before
//! packets: polling events produces the answers to the peer's DCEP messages. A message that
//! is not polled stays in the association, counts against the receive window, and so slows
//! the peer down.

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
use message::{PayloadKind, decode_message};
use registry::{Phase, Registry};

use crate::{Association, Dropped, Event as AssociationEvent, Report, SendOptions};

/// Identifies a channel within one [`Channels`]; never used again for another channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(u32);

/// Data channels, together with the association that carries them.
///
/// ```
/// use std::time::Instant;
///
/// use glassline_sctp::channel::{Channels, Event, Init, Limits, Message, Role};
/// use glassline_sctp::{Association, Config, Secrets};
///
/// let now = Instant::now();
/// let channels = |role, random| {
///     let secrets = Secrets::from_random([random; 40]);
///     let association = Association::new(Config::default(), secrets, now);
///     Channels::new(association, role, Limits::default())
/// };
/// let mut client = channels(Role::DtlsClient, 1);
/// let mut server = channels(Role::DtlsServer, 2);
/// client.connect(now);
/// let chat = client.open(Init { label: "chat".into(), ..Init::default() }, now)?;
///
/// let mut packet = [0; 2048];
/// let mut received = None;
/// for _ in 0..8 {
///     while let Some(event) = client.poll_event(now) {
///         if let Event::Opened { channel, .. } = event {
///             assert_eq!(channel, chat);
///             client.send(chat, Message::text("hello"), now)?;
///         }
///     }
///     while let Some(len) = client.poll_transmit(now, &mut packet) {
///         server.handle_packet(&packet[..len], now)?;
///     }
///     server.end_batch(now);
///     while let Some(event) = server.poll_event(now) {
///         if let Event::Message { message, .. } = event {
///             received = Some(message);
///         }
///     }
///     while let Some(len) = server.poll_transmit(now, &mut packet) {
///         client.handle_packet(&packet[..len], now)?;
///     }
///     client.end_batch(now);
/// }
/// assert_eq!(received, Some(Message::text("hello")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Channels {
    association: Association,
    registry: Registry,
    role: Role,
    limits: Limits,
    /// Streams that the association has each way, once it is established.
    streams: Option<u16>,
    /// Largest message that the peer accepts, in bytes; `None` for any size.
    peer_message_max: Option<u64>,
    /// Bytes of incomplete messages in `Channel::parts` of all channels.
    parts: usize,
    /// Events to be polled, oldest first.
    events: VecDeque<Event>,
    /// Whether a DCEP message or a reset found no room and has to be tried again.
    has_pending: bool,
    /// Whether the association has ended.
    ended: bool,
}

/// Largest message, in bytes, that is assumed of a peer whose description has no
/// `a=max-message-size` (RFC 8841 §6.1).
pub const MESSAGE_MAX_UNSTATED: u64 = 64 * 1024;

impl Channels {
    /// Returns data channels over `association`, without any channel yet.
    pub fn new(mut association: Association, role: Role, limits: Limits) -> Self {
        association.require_opened_streams();
        Self {
            association,
            registry: Registry::default(),
            role,
            limits,
            streams: None,
            peer_message_max: Some(MESSAGE_MAX_UNSTATED),
            parts: 0,
            events: VecDeque::new(),
            has_pending: false,
            ended: false,
        }
    }

    /// Sets this end's role in the DTLS handshake, for a caller that learns it after
    /// construction. To be called before the association is established.
    pub fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Sets the largest message that the peer accepts, from its `a=max-message-size`:
    /// `None` if the attribute is missing (64 KiB), zero for any size (RFC 8841 §6).
    pub fn set_peer_max_message_size(&mut self, bytes: Option<u64>) {
        self.peer_message_max = match bytes {
            None => Some(MESSAGE_MAX_UNSTATED),
            Some(0) => None,
            limit => limit,
        };
    }

    /// Returns the largest message that the peer accepts, in bytes; `None` for any size.
    pub const fn peer_max_message_size(&self) -> Option<u64> {
        self.peer_message_max
    }

    /// Queues a message, with the order and reliability of its channel.
    ///
    /// # Errors
    /// [`SendError`] says why the message was refused. The association's `BufferFull` and
    /// `Resetting` are temporary.
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
        if channel.open_pending {
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

    /// Returns the bytes queued on a channel that were not yet sent for the first time.
    pub fn buffered_amount(&self, channel: ChannelId) -> usize {
        let channel = self.registry.peek(channel);
        channel
            .and_then(|channel| channel.info.stream)
            .map_or(0, |stream| self.association.buffered(stream))
    }

    /// Sets the threshold of [`Event::BufferedLow`], which comes when
    /// [`buffered_amount`](Self::buffered_amount) falls from above `bytes` to `bytes` or
    /// below. The threshold is zero at first.
    pub fn set_buffered_low(&mut self, channel: ChannelId, bytes: usize) {
        let Some(channel) = self.registry.get(channel) else {
            return;
        };
        channel.low = bytes;
        if let Some(stream) = channel.info.stream {
            self.association.set_buffered_low(stream, bytes);
        }
    }

    /// Returns properties and counters of a channel; `None` once it is closed.
    pub fn info(&self, channel: ChannelId) -> Option<&Info> {
        self.registry.peek(channel).map(|channel| &channel.info)
    }

    /// Iterates over all channels that are not closed.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &Info)> {
        self.registry.iter()
    }

    /// Returns the next event, after sending what it requires of us.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        if self.has_pending {
            self.send_all_pending(now);
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

    /// Translates an event of the association; `None` if it is not one for the application.
    fn on_event(&mut self, event: AssociationEvent, now: Instant) -> Option<Event> {
        match event {
            AssociationEvent::Message {
                stream, ppid, data, ..
            } => {
                let event = self.on_message(stream, ppid, data, now);
                // A stream exists while it has a channel. Of a retired one the peer may go on to
                // send what nobody reads.
                if !self.registry.has_stream(stream) {
                    self.association.forget_stream(stream);
                }
                return event;
            }
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
                        self.retire(channel, stream, now);
                    }
                }
            }
            AssociationEvent::BufferedLow { stream } => {
                let channel = self.registry.on_stream(stream)?;
                // An OPEN or an ACK that has left does not concern the application.
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

    /// Handles a message: control, a whole message, or a part of one.
    fn on_message(&mut self, stream: u16, ppid: u32, data: Bytes, now: Instant) -> Option<Event> {
        let Some(payload_kind) = PayloadKind::from_ppid(ppid) else {
            let why = Refusal::PayloadProtocol;
            return Some(Event::Refused { stream, why });
        };
        if payload_kind == PayloadKind::Control {
            self.on_control(stream, &data, now);
            return None;
        }
        let Some((id, channel)) = self.registry.get_on_stream(stream) else {
            self.refuse(stream, Refusal::NoChannel, now);
            return None;
        };
        if channel.phase == Phase::Opening {
            // Any message shows that the OPEN has arrived (RFC 8832 §6).
            channel.phase = Phase::Open;
        }
        if channel.closed_by == Some(ClosedBy::Us) {
            return None;
        }
        let message = match payload_kind {
            PayloadKind::Control => return None,
            PayloadKind::Empty(kind) => decode_message(kind, Bytes::new()),
            PayloadKind::Last(kind) if channel.parts.is_empty() => decode_message(kind, data),
            PayloadKind::Last(kind) => {
                let mut parts = std::mem::take(&mut channel.parts);
                self.parts -= parts.len();
                if parts.len() + data.len() > self.limits.parts_max {
                    self.refuse(stream, Refusal::PartsTooLarge, now);
                    return None;
                }
                parts.extend_from_slice(&data);
                decode_message(kind, parts.freeze())
            }
            PayloadKind::Partial(_) => {
                if self.parts + data.len() > self.limits.parts_max {
                    self.refuse(stream, Refusal::PartsTooLarge, now);
                    return None;
                }
                channel.parts.extend_from_slice(&data);
                self.parts += data.len();
                return None;
            }
        };
        channel.info.messages_received += 1;
        channel.info.bytes_received += message.data.len() as u64;
        Some(Event::Message {
            channel: id,
            message,
        })
    }
}

/// Calls that are forwarded to the [`Association`].
impl Channels {
    /// Starts the handshake; see [`Association::connect`].
    pub fn connect(&mut self, now: Instant) {
        self.association.connect(now);
    }

    /// Takes a packet from the peer; see [`Association::handle_packet`].
    ///
    /// # Errors
    /// [`Dropped`] says which part of the packet was dropped, and why.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) -> Result<(), Dropped> {
        self.association.handle_packet(packet, now)
    }

    /// Ends a batch of packets that came together; see [`Association::end_batch`].
    pub fn end_batch(&mut self, now: Instant) {
        self.association.end_batch(now);
    }

    /// Writes one packet into `out`; see [`Association::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        self.association.poll_transmit(now, out)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; see
    /// [`Association::poll_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.association.poll_timeout()
    }

    /// Handles the timers that ran out; see [`Association::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(now);
    }

    /// Shuts the association down: what was queued is still sent.
    pub fn shutdown(&mut self, now: Instant) {
        self.association.close(now);
    }

    /// Ends the association at once; see [`Association::abort`].
    pub fn abort(&mut self, now: Instant) {
        self.association.abort(now);
    }

    /// Ends the association without telling the peer; see [`Association::disconnect`].
    pub fn disconnect(&mut self) {
        self.association.disconnect();
    }

    /// Returns state, round trips, windows and counters of the association.
    pub fn report(&self) -> Report {
        self.association.report()
    }

    /// Returns the association, to be read.
    pub const fn association(&self) -> &Association {
        &self.association
    }

    /// Returns the present size of a full SCTP packet, in bytes.
    pub fn mtu(&self) -> usize {
        self.association.mtu()
    }
}

#[cfg(test)]
mod tests;
