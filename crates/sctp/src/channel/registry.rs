use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;

use super::{ChannelId, ClosedBy, Info, Init};
use crate::stream_map::StreamMap;

/// State of one channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// Properties and counters, as the application sees them.
    pub(super) info: Info,
    /// How far the channel has come in its life.
    pub(super) phase: Phase,
    /// Threshold of `Event::BufferedLow`, in bytes.
    pub(super) low: usize,
    /// Whether the OPEN still has to be sent.
    pub(super) open_pending: bool,
    /// Whether the ACK still has to be sent.
    pub(super) ack_pending: bool,
    /// Whether the outgoing stream still has to be reset.
    pub(super) reset_pending: bool,
    /// Whether the incoming stream was reset.
    pub(super) incoming_reset: bool,
    /// Whether the outgoing stream was reset.
    pub(super) outgoing_reset: bool,
    /// The reason why the channel is closing; the first reason counts.
    pub(super) closed_by: Option<ClosedBy>,
    /// Received parts of a message that comes by the deprecated identifiers.
    pub(super) parts: BytesMut,
}

/// How far a channel has come in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The association is not established yet.
    Waiting,
    /// The OPEN was sent and not yet answered; messages are sent in order behind it.
    Opening,
    /// The channel is open.
    Open,
    /// The outgoing stream is being reset.
    Closing,
}

impl Channel {
    /// Returns a channel without a stream, in phase `Waiting`.
    pub(super) fn new(init: Init, by_peer: bool) -> Self {
        Self {
            info: Info {
                stream: None,
                init,
                by_peer,
                messages_sent: 0,
                bytes_sent: 0,
                messages_received: 0,
                bytes_received: 0,
            },
            phase: Phase::Waiting,
            low: 0,
            open_pending: false,
            ack_pending: false,
            reset_pending: false,
            incoming_reset: false,
            outgoing_reset: false,
            closed_by: None,
            parts: BytesMut::new(),
        }
    }

    /// Returns the bytes of label and protocol.
    fn names(&self) -> usize {
        self.info.init.label.len() + self.info.init.protocol.len()
    }
}

/// The channels, by identifier and by stream.
///
/// The map of channels is ordered: most associations have a channel or two, which a map of
/// this kind finds in one short scan.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// The channels that are not closed.
    channels: BTreeMap<ChannelId, Channel>,
    /// The channel of each stream that has one.
    streams: StreamMap<Option<ChannelId>>,
    /// Streams whose channel is gone and that could not be reset.
    retired: BTreeSet<u16>,
    /// Identifier of the next channel.
    next: u32,
    /// Bytes of labels and protocols of the channels that the peer opened.
    peer_names: usize,
}

impl Registry {
    /// Adds a channel and returns its new identifier.
    pub(super) fn add(&mut self, channel: Channel) -> ChannelId {
        let id = ChannelId(self.next);
        // The identifier would wrap only after 2^32 channels in one association.
        self.next = self.next.wrapping_add(1);
        if channel.info.by_peer {
            self.peer_names += channel.names();
        }
        self.channels.insert(id, channel);
        id
    }

    /// Assigns a stream to a channel.
    pub(super) fn bind(&mut self, id: ChannelId, stream: u16) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.info.stream = Some(stream);
            *self.streams.entry(stream) = Some(id);
        }
    }

    /// Removes a channel and frees its stream.
    pub(super) fn remove(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.channels.remove(&id)?;
        if channel.info.by_peer {
            self.peer_names -= channel.names();
        }
        if let Some(stream) = channel.info.stream {
            self.streams.remove(stream);
        }
        Some(channel)
    }

    /// Takes a stream out of use until the association ends. Returns the number of such streams.
    pub(super) fn retire(&mut self, stream: u16) -> usize {
        self.retired.insert(stream);
        self.retired.len()
    }

    /// Returns all streams to use, after the association restarted.
    pub(super) fn restart(&mut self) {
        self.retired.clear();
    }

    /// Returns a channel to be changed.
    pub(super) fn get(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(&id)
    }

    /// Returns a channel to be read.
    pub(super) fn peek(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(&id)
    }

    /// Returns the channel of a stream.
    pub(super) fn on_stream(&self, stream: u16) -> Option<ChannelId> {
        self.streams.get(stream).copied().flatten()
    }

    /// Returns the channel of a stream, to be changed.
    pub(super) fn get_on_stream(&mut self, stream: u16) -> Option<(ChannelId, &mut Channel)> {
        let id = self.on_stream(stream)?;
        Some((id, self.channels.get_mut(&id)?))
    }

    /// Whether a stream has a channel or is out of use.
    pub(super) fn has_stream(&self, stream: u16) -> bool {
        self.on_stream(stream).is_some() || self.retired.contains(&stream)
    }

    /// Returns the lowest free stream from `parity` to `last`, in steps of two.
    pub(super) fn free_stream(&self, parity: u16, last: u16) -> Option<u16> {
        (parity..=last)
            .step_by(2)
            .find(|stream| !self.has_stream(*stream))
    }

    /// Returns the number of channels.
    pub(super) fn len(&self) -> usize {
        self.channels.len()
    }

    /// Returns the bytes of labels and protocols of the channels that the peer opened.
    pub(super) fn peer_names(&self) -> usize {
        self.peer_names
    }

    /// Returns the identifiers of all channels.
    pub(super) fn ids(&self) -> Vec<ChannelId> {
        self.channels.keys().copied().collect()
    }

    /// Iterates over all channels.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ChannelId, &Info)> {
        self.channels
            .iter()
            .map(|(&id, channel)| (id, &channel.info))
    }
}
