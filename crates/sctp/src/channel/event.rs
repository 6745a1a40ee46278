use super::{ChannelId, ClosedBy, Init, Message, Refusal};
use crate::CloseReason;

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association stands.
    Connected,
    /// Messages may be sent; [`Channels::info`] tells of it.
    Opened {
        /// Which.
        channel: ChannelId,
        /// The peer opened it.
        by_peer: bool,
    },
    /// A message arrived.
    Message {
        /// Where.
        channel: ChannelId,
        /// What.
        message: Message,
    },
    /// What waits to be sent fell to the low threshold.
    BufferedLow {
        /// Where.
        channel: ChannelId,
    },
    /// The channel is no more.
    Closed {
        /// Which.
        channel: ChannelId,
        /// Why.
        by: ClosedBy,
    },
    /// The peer did something that has no place; to be counted or logged.
    Refused {
        /// On which stream.
        stream: u16,
        /// What.
        why: Refusal,
    },
    /// Packets of another size are sent from now on.
    MtuChanged {
        /// Bytes of an SCTP packet.
        mtu: usize,
    },
    /// The association is over; all channels were closed before.
    Ended(CloseReason),
}

/// What is known of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its stream; `None` until the association stands.
    pub stream: Option<u16>,
    /// How it was opened.
    pub init: Init,
    /// The peer opened it.
    pub by_peer: bool,
    /// Messages that were handed over.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages that were delivered.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
}
