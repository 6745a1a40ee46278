use thiserror::Error;

use crate::ParseError;

/// Why a message was not taken. Nothing of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Not connected yet: wait for [`Event::Connected`](crate::Event::Connected).
    #[error("the association is not established yet: send after Event::Connected")]
    NotConnected,
    /// It is over or about to be.
    #[error("the association is closing or closed")]
    Closed,
    /// SCTP has no empty messages; data channels send one byte and a PPID of its own
    /// (RFC 8831 §6.6).
    #[error("an empty message cannot be sent on stream {stream}")]
    Empty {
        /// Where.
        stream: u16,
    },
    /// The peer takes fewer streams.
    #[error("stream {stream} does not exist: the peer takes {streams}")]
    NoSuchStream {
        /// Asked for.
        stream: u16,
        /// How many there are.
        streams: u16,
    },
    /// The stream is being reset; wait for the event that says it is.
    #[error("stream {stream} is being reset")]
    Resetting {
        /// Where.
        stream: u16,
    },
    /// Wait for [`Event::BufferedLow`](crate::Event::BufferedLow).
    #[error("the send buffer holds {buffered} of {limit} bytes: no room for {size} more")]
    BufferFull {
        /// Held now.
        buffered: usize,
        /// `Config::send_buffer_max`.
        limit: usize,
        /// The message's.
        size: usize,
    },
}

/// Why streams were not reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResetError {
    /// Not established.
    #[error("the association is not established")]
    NotConnected,
    /// The peer did not say that it can (RFC 6525 §5.1.1).
    #[error("the peer does not support stream reconfiguration (RFC 6525)")]
    Unsupported,
    /// The peer takes fewer streams.
    #[error("stream {stream} does not exist: the peer takes {streams}")]
    NoSuchStream {
        /// Asked for.
        stream: u16,
        /// How many there are.
        streams: u16,
    },
}

/// Why a packet from the peer, or a part of it, was thrown away. The association goes
/// on; the shell counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Dropped {
    /// Not an SCTP packet, or a chunk that breaks its own length. Chunks before that
    /// one were taken.
    #[error("not a well-formed SCTP packet: {0}")]
    Malformed(ParseError),
    /// Damaged, or without the checksum that was agreed on.
    #[error("the packet's checksum is wrong")]
    Checksum,
    /// For other ports.
    #[error("the packet is for ports {source_port} to {destination_port}")]
    Port {
        /// It says it comes from.
        source_port: u16,
        /// It says it goes to.
        destination_port: u16,
    },
    /// Of another association, or forged (RFC 9260 §8.5).
    #[error("the packet has a verification tag that is not this association's")]
    Tag,
    /// Its chunks make no sense now.
    #[error("a chunk came in a state that has no use for it")]
    State,
    /// The cookie is not one that we made.
    #[error("the state cookie is not authentic")]
    Cookie,
    /// The cookie is older than `Config::cookie_life`.
    #[error("the state cookie is too old")]
    StaleCookie,
    /// The peer overran the window that it was told, or sent so small messages that
    /// keeping track of them needs more memory than what they carry.
    #[error("no room in the receive buffer")]
    ReceiveBufferFull,
    /// Data on a stream that was not agreed on (RFC 9260 §6.5).
    #[error("data came on stream {stream}, which was not agreed on")]
    NoSuchStream {
        /// Which.
        stream: u16,
    },
    /// Over.
    #[error("the association is closed")]
    Closed,
}
