//! How a channel opens: by a DCEP message on its stream, or negotiated by other means (RFC
//! 8832 §6).

use std::time::Instant;

use bytes::Bytes;

use super::registry::{Channel, Phase};
use super::{
    ChannelId, Channels, ClosedBy, Dcep, Event, Init, Open, OpenError, Refusal, Role, ppid,
};
use crate::SendOptions;

/// Highest stream number of a channel: RFC 8832 §6 excludes 65535.
const STREAM_MAX: u16 = 65534;

impl Channels {
    /// Opens a channel, at once or as soon as the association is established.
    /// [`Event::Opened`] comes when messages may be sent.
    ///
    /// # Errors
    /// [`OpenError`] says why the channel cannot be opened.
    pub fn open(&mut self, init: Init, now: Instant) -> Result<ChannelId, OpenError> {
        if self.ended {
            return Err(OpenError::Closed);
        }
        for (what, text) in [("label", &init.label), ("protocol", &init.protocol)] {
            let bytes = text.len();
            if bytes > usize::from(u16::MAX) {
                return Err(OpenError::TooLong { what, bytes });
            }
        }
        let limit = self.limits.channels_max;
        if self.registry.len() >= limit {
            return Err(OpenError::TooMany { limit });
        }
        if let Some(stream) = init.negotiated {
            let last = self.last_stream();
            if stream > last {
                return Err(OpenError::OutOfRange { stream, last });
            }
            if self.registry.has_stream(stream) {
                return Err(OpenError::InUse { stream });
            }
        }
        let negotiated = init.negotiated;
        let channel = self.registry.add(Channel::new(init, false));
        if let Some(stream) = negotiated {
            // Reserved at once, so that no other channel takes the stream before.
            self.bind(channel, stream);
        }
        if self.streams.is_some() {
            self.begin(channel, now);
        }
        Ok(channel)
    }

    /// Handles a DCEP message of the peer.
    pub(super) fn on_control(&mut self, stream: u16, data: &[u8], now: Instant) {
        match Dcep::parse(data) {
            Ok(Dcep::Open(open)) => match self.accept(stream, &open, now) {
                Ok(channel) => self.events.push_back(Event::Opened {
                    channel,
                    by_peer: true,
                }),
                Err(why) => self.refuse(stream, why, now),
            },
            Ok(Dcep::Ack) => {
                let channel = self.registry.on_stream(stream);
                let Some(channel) = channel.and_then(|id| self.registry.get(id)) else {
                    return self.refuse(stream, Refusal::NoChannel, now);
                };
                if channel.phase == Phase::Opening {
                    channel.phase = Phase::Open;
                }
            }
            Err(_malformed) => self.refuse(stream, Refusal::Malformed, now),
        }
    }

    /// Creates the channel that the peer's OPEN asks for, and sends the ACK.
    fn accept(&mut self, stream: u16, open: &Open<'_>, now: Instant) -> Result<ChannelId, Refusal> {
        if let Some(id) = self.registry.on_stream(stream) {
            let reset = |channel: &mut Channel| channel.incoming_reset;
            if !self.registry.get(id).is_some_and(reset) {
                return Err(Refusal::InUse);
            }
            // The peer has seen both resets, or it would not open the channel again; only
            // its response to ours was lost. Our messages wait until the response is
            // repeated.
            self.remove(id);
        } else if self.registry.has_stream(stream) {
            return Err(Refusal::InUse);
        }
        if self.is_own(stream) {
            return Err(Refusal::Parity);
        }
        let names = self.registry.peer_names() + open.label.len() + open.protocol.len();
        if self.registry.len() >= self.limits.channels_max || names > self.limits.names_max {
            return Err(Refusal::TooMany);
        }
        let init = Init {
            label: open.label.to_owned(),
            protocol: open.protocol.to_owned(),
            ordered: open.ordered,
            reliability: open.reliability,
            negotiated: None,
            priority: open.priority,
        };
        let mut channel = Channel::new(init, true);
        channel.phase = Phase::Open;
        channel.ack_pending = true;
        let id = self.registry.add(channel);
        self.bind(id, stream);
        self.association.set_priority(stream, open.priority);
        self.send_pending(id, now);
        Ok(id)
    }

    /// Assigns a channel its stream, now that the association is established, and opens it.
    pub(super) fn begin(&mut self, id: ChannelId, now: Instant) {
        let last = self.last_stream();
        let parity = u16::from(self.role == Role::DtlsServer);
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        let in_band = channel.info.init.negotiated.is_none();
        let stream = match channel.info.init.negotiated {
            Some(stream) => Some(stream).filter(|&stream| stream <= last),
            None => self.registry.free_stream(parity, last),
        };
        let Some(stream) = stream else {
            if let Some(channel) = self.registry.get(id) {
                channel.closed_by = Some(ClosedBy::NoStream);
            }
            return self.remove(id);
        };
        self.bind(id, stream);
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        channel.phase = if in_band { Phase::Opening } else { Phase::Open };
        channel.open_pending = in_band;
        let (low, priority) = (channel.low, channel.info.init.priority);
        self.association.set_priority(stream, priority);
        self.association.set_buffered_low(stream, low);
        if in_band {
            // `Event::Opened` comes when the OPEN has found room.
            self.send_pending(id, now);
        } else {
            self.events.push_back(Event::Opened {
                channel: id,
                by_peer: false,
            });
        }
    }

    /// Assigns a channel its stream.
    fn bind(&mut self, id: ChannelId, stream: u16) {
        self.registry.bind(id, stream);
        self.association.open_stream(stream);
    }

    /// Sends the DCEP messages and resets that are pending on all channels.
    pub(super) fn send_all_pending(&mut self, now: Instant) {
        self.has_pending = false;
        for channel in self.registry.ids() {
            self.send_pending(channel, now);
        }
    }

    /// Sends the OPEN, the ACK or the reset that is pending on a channel. If there is no
    /// room, it stays pending.
    fn send_pending(&mut self, id: ChannelId, now: Instant) {
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        let Some(stream) = channel.info.stream else {
            return;
        };
        let init = &channel.info.init;
        let dcep = if channel.open_pending {
            Dcep::Open(Open {
                ordered: init.ordered,
                reliability: init.reliability,
                priority: init.priority,
                label: &init.label,
                protocol: &init.protocol,
            })
        } else if channel.ack_pending {
            Dcep::Ack
        } else {
            if channel.reset_pending {
                self.reset(id, now);
            }
            return;
        };
        let bytes = Bytes::from(dcep.to_bytes());
        let options = SendOptions::default();
        let sent = self
            .association
            .send(stream, ppid::CONTROL, bytes, options, now);
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        match sent {
            Ok(()) => {
                if std::mem::take(&mut channel.open_pending) {
                    self.events.push_back(Event::Opened {
                        channel: id,
                        by_peer: false,
                    });
                }
                channel.ack_pending = false;
                if channel.reset_pending {
                    self.reset(id, now);
                }
            }
            Err(crate::SendError::BufferFull { .. } | crate::SendError::Resetting { .. }) => {
                self.has_pending = true;
            }
            // An event is about to report the end of the association.
            Err(_) => {}
        }
    }

    /// Whether this end may open channels in-band on `stream`.
    fn is_own(&self, stream: u16) -> bool {
        (stream % 2 == 1) == (self.role == Role::DtlsServer)
    }

    /// Returns the highest stream number that exists.
    fn last_stream(&self) -> u16 {
        let streams = self.streams.map_or(STREAM_MAX, |streams| {
            // The handshake excludes an association without streams.
            streams.saturating_sub(1)
        });
        streams.min(STREAM_MAX)
    }
}
