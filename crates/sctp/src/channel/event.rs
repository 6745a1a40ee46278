use super::{ChannelId, ClosedBy, Init, Message, Refusal};
use crate::CloseReason;

/// An event of the channels; events come in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association is established.
    Connected,
    /// A channel is open and messages may be sent on it;
    /// [`Channels::info`](super::Channels::info) describes it.
    Opened {
        /// Channel that was opened.
        channel: ChannelId,
        /// Whether the peer opened the channel.
        by_peer: bool,
    },
    /// A message arrived on a channel.
    Message {
        /// Channel on which the message came.
        channel: ChannelId,
        /// The message that arrived.
        message: Message,
    },
    /// The bytes queued on a channel fell to its low threshold.
    BufferedLow {
        /// Channel whose queue fell to its threshold.
        channel: ChannelId,
    },
    /// A channel is closed; its identifier is not used again.
    Closed {
        /// The channel that closed.
        channel: ChannelId,
        /// The reason why the channel closed.
        by: ClosedBy,
    },
    /// A message of the peer was refused; to be counted or logged.
    Refused {
        /// Stream on which the message came.
        stream: u16,
        /// The reason why the message was refused.
        why: Refusal,
    },
    /// The size of packets changed.
    MtuChanged {
        /// Size of a full SCTP packet from now on, in bytes.
        mtu: usize,
    },
    /// The association ended; all channels were closed before.
    Ended(CloseReason),
}

/// Properties and counters of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Number of the channel's stream; `None` until the association is established.
    pub stream: Option<u16>,
    /// The properties with which the channel was opened.
    pub init: Init,
    /// Whether the peer opened the channel.
    pub by_peer: bool,
    /// Messages that were accepted for sending.
    pub messages_sent: u64,
    /// Bytes of the messages that were accepted for sending.
    pub bytes_sent: u64,
    /// Messages that were received and delivered.
    pub messages_received: u64,
    /// Bytes of the messages that were received and delivered.
    pub bytes_received: u64,
}
