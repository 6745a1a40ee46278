use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;

use super::{ChannelId, ClosedBy, Info, Init};

/// One channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) info: Info,
    pub(super) phase: Phase,
    /// Low threshold of what waits to be sent.
    pub(super) low: usize,
    pub(super) owes_open: bool,
    pub(super) owes_ack: bool,
    pub(super) owes_reset: bool,
    pub(super) incoming_reset: bool,
    pub(super) outgoing_reset: bool,
    /// Who began to close it.
    pub(super) closed_by: Option<ClosedBy>,
    /// What came of a message by the deprecated identifiers.
    pub(super) parts: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For the association to stand.
    Waiting,
    /// The OPEN is under way; messages stay behind it.
    Opening,
    Open,
    /// The outgoing stream is being reset.
    Closing,
}

impl Channel {
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
            owes_open: false,
            owes_ack: false,
            owes_reset: false,
            incoming_reset: false,
            outgoing_reset: false,
            closed_by: None,
            parts: BytesMut::new(),
        }
    }

    fn names(&self) -> usize {
        self.info.init.label.len() + self.info.init.protocol.len()
    }
}

/// The channels, by identity and by stream.
///
/// Ordered maps: most associations have a channel or two, which a map of this kind
/// finds in one short scan.
#[derive(Debug, Default)]
pub(super) struct Registry {
    channels: BTreeMap<ChannelId, Channel>,
    streams: BTreeMap<u16, ChannelId>,
    /// Streams whose channel is gone and that could not be reset.
    retired: BTreeSet<u16>,
    next: u32,
    /// Bytes of the names of the peer's channels.
    peer_names: usize,
}

impl Registry {
    pub(super) fn add(&mut self, channel: Channel) -> ChannelId {
        let id = ChannelId(self.next);
        // Four thousand million channels in one association would come round.
        self.next = self.next.wrapping_add(1);
        if channel.info.by_peer {
            self.peer_names += channel.names();
        }
        self.channels.insert(id, channel);
        id
    }

    pub(super) fn bind(&mut self, id: ChannelId, stream: u16) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.info.stream = Some(stream);
            self.streams.insert(stream, id);
        }
    }

    pub(super) fn remove(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.channels.remove(&id)?;
        if channel.info.by_peer {
            self.peer_names -= channel.names();
        }
        if let Some(stream) = channel.info.stream {
            self.streams.remove(&stream);
        }
        Some(channel)
    }

    /// Takes a stream out of use until the association ends.
    pub(super) fn retire(&mut self, stream: u16) {
        self.retired.insert(stream);
    }

    /// Forgets which streams are out of use: they have all begun anew.
    pub(super) fn restart(&mut self) {
        self.retired.clear();
    }

    pub(super) fn get(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(&id)
    }

    pub(super) fn peek(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(&id)
    }

    pub(super) fn on_stream(&self, stream: u16) -> Option<ChannelId> {
        self.streams.get(&stream).copied()
    }

    pub(super) fn has_stream(&self, stream: u16) -> bool {
        self.streams.contains_key(&stream) || self.retired.contains(&stream)
    }

    /// The lowest stream from `parity` up to `last`, in steps of two, that is free.
    pub(super) fn free_stream(&self, parity: u16, last: u16) -> Option<u16> {
        (parity..=last)
            .step_by(2)
            .find(|stream| !self.has_stream(*stream))
    }

    pub(super) fn len(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn peer_names(&self) -> usize {
        self.peer_names
    }

    pub(super) fn ids(&self) -> Vec<ChannelId> {
        self.channels.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChannelId, &Info)> {
        self.channels
            .iter()
            .map(|(&id, channel)| (id, &channel.info))
    }
}
