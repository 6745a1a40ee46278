use thiserror::Error;

use crate::ParseError;

/// The reason why a message was refused. Nothing of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The association is not established yet: wait for
    /// [`Event::Connected`](crate::Event::Connected).
    #[error("the association is not established yet: send after Event::Connected")]
    NotConnected,
    /// The association is closing or closed.
    #[error("the association is closing or closed")]
    Closed,
    /// The message is empty, which SCTP does not allow. Data channels send one byte with a
    /// payload protocol identifier of its own instead (RFC 8831 §6.6).
    #[error("an empty message cannot be sent on stream {stream}")]
    Empty {
        /// Stream of the message.
        stream: u16,
    },
    /// The stream does not exist: the peer accepts fewer.
    #[error("stream {stream} does not exist: the peer takes {streams}")]
    NoSuchStream {
        /// The stream that was requested.
        stream: u16,
        /// Number of streams that exist.
        streams: u16,
    },
    /// The stream is being reset: wait for
    /// [`Event::StreamsReset`](crate::Event::StreamsReset).
    #[error("stream {stream} is being reset")]
    Resetting {
        /// Stream that is being reset.
        stream: u16,
    },
    /// The send buffer is full: wait for [`Event::BufferedLow`](crate::Event::BufferedLow).
    #[error(
        "the send buffer holds {buffered} of {limit} bytes and has no room for {size} more: send after Event::BufferedLow"
    )]
    BufferFull {
        /// Bytes in the send buffer.
        buffered: usize,
        /// The limit that is reached, `Config::send_buffer_max`.
        limit: usize,
        /// Size of the message, in bytes.
        size: usize,
    },
}

/// The reason why streams were not reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The association is not established.
    #[error("the association is not established")]
    NotConnected,
    /// The peer did not announce stream reconfiguration (RFC 6525 §5.1.1).
    #[error("the peer does not support stream reconfiguration (RFC 6525)")]
    Unsupported,
    /// The stream does not exist: the peer accepts fewer.
    #[error("stream {stream} does not exist: the peer takes {streams}")]
    NoSuchStream {
        /// The stream that was requested.
        stream: u16,
        /// Number of streams that exist.
        streams: u16,
    },
}

/// The reason why a packet from the peer, or a part of it, was dropped. The association goes on; the
/// caller counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Dropped {
    /// The packet is not an SCTP packet, or a chunk has a wrong length. Chunks before that
    /// one were handled.
    #[error("not a well-formed SCTP packet: {0}")]
    Malformed(ParseError),
    /// The packet is damaged, or lacks a checksum although none was agreed to be omitted.
    #[error("the packet's checksum is wrong")]
    Checksum,
    /// The packet has other ports than the association.
    #[error("the packet's ports {source_port} to {destination_port} are not this association's")]
    Port {
        /// Source port of the packet.
        source_port: u16,
        /// Destination port of the packet.
        destination_port: u16,
    },
    /// The packet's verification tag belongs to another association, or is forged (RFC 9260
    /// §8.5).
    #[error("the packet has a verification tag that is not this association's")]
    Tag,
    /// A chunk is not allowed in the present state.
    #[error("a chunk came that the association's present state does not allow")]
    State,
    /// The state cookie is not one that we made.
    #[error("the state cookie is not authentic")]
    Cookie,
    /// The state cookie is older than `Config::cookie_life`.
    #[error("the state cookie is too old")]
    StaleCookie,
    /// The peer exceeded the announced window, or sent such small messages that keeping
    /// track of them needs more memory than their content.
    #[error("the receive buffer is full")]
    ReceiveBufferFull,
    /// Data came on a stream that does not exist (RFC 9260 §6.5).
    #[error("data came on stream {stream}, which does not exist")]
    NoSuchStream {
        /// Stream that does not exist.
        stream: u16,
    },
    /// The association is closed.
    #[error("the association is closed")]
    Closed,
}
