//! How a channel closes: each end resets its outgoing stream, and once both are reset, the
//! stream number may be used again (RFC 8831 §6.7).

use std::time::Instant;

use bytes::BytesMut;

use super::registry::Phase;
use super::{ChannelId, Channels, ClosedBy, Event, Refusal};
use crate::Direction;

/// Most resets that are pending when another stream without a channel is refused by a reset.
const REFUSALS_MAX: usize = 256;

impl Channels {
    /// Closes a channel. Queued messages are sent first, nothing more is accepted or
    /// delivered, and [`Event::Closed`] comes when the peer has closed its side too. An
    /// unknown channel changes nothing.
    pub fn close(&mut self, channel: ChannelId, now: Instant) {
        let Some(found) = self.registry.get(channel) else {
            return;
        };
        if found.closed_by.is_none() {
            found.closed_by = Some(ClosedBy::Us);
        }
        if found.info.stream.is_none() || self.streams.is_none() {
            self.remove(channel);
        } else {
            self.reset(channel, now);
        }
    }

    /// Requests the reset of a channel's outgoing stream, once.
    pub(super) fn reset(&mut self, id: ChannelId, now: Instant) {
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        let Some(stream) = channel.info.stream else {
            return;
        };
        if channel.phase == Phase::Closing && !channel.reset_pending {
            return;
        }
        channel.phase = Phase::Closing;
        self.parts -= channel.parts.len();
        channel.parts = BytesMut::new();
        channel.reset_pending = channel.open_pending || channel.ack_pending;
        if channel.reset_pending {
            // The OPEN or ACK that is still pending goes first, so that the peer sees whole
            // channels.
            self.has_pending = true;
            return;
        }
        // The reset is refused if the peer lacks the extension or the association is
        // ending.
        if self.association.reset_streams(&[stream], now).is_err() {
            self.retire(id, stream, now);
        }
    }

    /// Removes a channel whose stream cannot be reset. The peer may still have the channel
    /// open, so the stream number is not used again.
    pub(super) fn retire(&mut self, id: ChannelId, stream: u16, now: Instant) {
        self.remove(id);
        // A peer that refuses every reset would use up stream after stream.
        if self.registry.retire(stream) > self.limits.channels_max {
            self.association.abort(now);
        }
    }

    /// Handles the reset of one direction of `streams`; an empty list means all streams.
    pub(super) fn on_reset(&mut self, direction: Direction, streams: &[u16], now: Instant) {
        let channels: Vec<ChannelId> = if streams.is_empty() {
            self.registry.ids()
        } else {
            let channel = |&stream: &u16| self.registry.on_stream(stream);
            streams.iter().filter_map(channel).collect()
        };
        for id in channels {
            if direction == Direction::Incoming
                && let Some(channel) = self.registry.get(id)
            {
                channel.closed_by.get_or_insert(ClosedBy::Peer);
                self.reset(id, now);
            }
            self.finish(id, direction);
        }
    }

    /// Notes that one direction of a channel's stream is reset, and removes the channel
    /// when both are.
    fn finish(&mut self, id: ChannelId, half: Direction) {
        let Some(channel) = self.registry.get(id) else {
            return;
        };
        match half {
            Direction::Incoming => channel.incoming_reset = true,
            // Ignores the reset of an earlier channel on the same stream.
            Direction::Outgoing => channel.outgoing_reset = channel.phase == Phase::Closing,
        }
        if channel.incoming_reset && channel.outgoing_reset {
            let stream = channel.info.stream;
            self.remove(id);
            if let Some(stream) = stream {
                self.association.close_stream(stream);
            }
        }
    }

    /// Reports a violation by the peer, closes the channel on the stream if there is one,
    /// and resets the stream in any case (RFC 8832 §6).
    pub(super) fn refuse(&mut self, stream: u16, why: Refusal, now: Instant) {
        self.events.push_back(Event::Refused { stream, why });
        match self.registry.on_stream(stream) {
            Some(id) => {
                if let Some(channel) = self.registry.get(id) {
                    channel.closed_by.get_or_insert(ClosedBy::Fault);
                }
                self.reset(id, now);
            }
            // Without the extension, nothing can be reported to the peer. Nor is there a need to
            // keep a list of thousands of streams on which a peer sends without a channel.
            None if self.association.resets_pending() < REFUSALS_MAX => {
                let _unsupported = self.association.reset_streams(&[stream], now);
            }
            None => {}
        }
    }

    /// Removes a channel and reports that it is closed.
    pub(super) fn remove(&mut self, id: ChannelId) {
        if let Some(channel) = self.registry.remove(id) {
            self.parts -= channel.parts.len();
            self.events.push_back(Event::Closed {
                channel: id,
                by: channel.closed_by.unwrap_or(ClosedBy::Association),
            });
        }
    }

    /// Removes all channels and reports that they are closed.
    pub(super) fn remove_all(&mut self) {
        for id in self.registry.ids() {
            self.remove(id);
        }
    }
}
