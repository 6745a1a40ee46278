use thiserror::Error;

/// Why a channel was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Close others first.
    #[error("there are {limit} data channels already, the most that `channels_max` allows")]
    TooMany {
        /// `Limits::channels_max`.
        limit: usize,
    },
    /// The name has two bytes for its length on the wire.
    #[error("the {what} of a data channel has {bytes} bytes; 65535 is the most")]
    TooLong {
        /// Label or protocol.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// Negotiated for another channel.
    #[error("stream {stream} is in use by another data channel")]
    InUse {
        /// Asked for.
        stream: u16,
    },
    /// There is no such stream.
    #[error("stream {stream} does not exist: data channels have 0 to {last}")]
    OutOfRange {
        /// Asked for.
        stream: u16,
        /// The last there is.
        last: u16,
    },
    /// Over.
    #[error("the association is closed")]
    Closed,
}

/// Why a message was not taken. Nothing of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// It never was, or it was closed.
    #[error("there is no such data channel")]
    NoSuchChannel,
    /// Wait for [`Event::Opened`](super::Event::Opened).
    #[error("the data channel is not open yet: send after Event::Opened")]
    NotOpen,
    /// It is being closed.
    #[error("the data channel is closing")]
    Closing,
    /// The peer said that it takes no such message (RFC 8841 §6); send it in parts.
    #[error("the message has {size} bytes; the peer takes {limit} (its max-message-size)")]
    TooLarge {
        /// The message's.
        size: usize,
        /// The peer's.
        limit: u64,
    },
    /// The association refused it.
    #[error(transparent)]
    Association(#[from] crate::SendError),
}

/// Why a channel is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClosedBy {
    /// [`Channels::close`](super::Channels::close).
    #[error("we closed it")]
    Us,
    /// The peer reset its stream.
    #[error("the peer closed it")]
    Peer,
    /// The peer broke a rule of data channels; see the
    /// [`Event::Refused`](super::Event::Refused) before.
    #[error("the peer broke a rule of data channels")]
    Fault,
    /// No stream was left for it, or not the one that was negotiated.
    #[error("the association has no stream for it")]
    NoStream,
    /// The association ended or began anew.
    #[error("the association ended or began anew")]
    Association,
}

/// What the peer did that has no place. Its stream is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// User data on a stream that no channel has (RFC 8832 §6).
    #[error("a message came on a stream without a data channel")]
    NoChannel,
    /// An OPEN for a stream that a channel has.
    #[error("a data channel was opened on a stream that has one")]
    InUse,
    /// An OPEN for a stream of ours: the DTLS client has the even ones (RFC 8832 §6).
    #[error("the peer opened a data channel on a stream whose parity is ours")]
    Parity,
    /// A DCEP message that cannot be read.
    #[error("a DCEP message is malformed")]
    Malformed,
    /// More channels than `Limits::channels_max`, or longer names altogether than
    /// `Limits::names_max`.
    #[error("the peer opened more data channels than are allowed")]
    TooMany,
    /// A payload protocol identifier that is none of data channels'. The message is
    /// dropped, the channel goes on.
    #[error("a message has a payload protocol identifier that data channels do not have")]
    PayloadProtocol,
    /// A message in parts (deprecated identifiers) grew past the largest message.
    #[error("a message in parts is larger than max_message_size")]
    PartsTooLarge,
}
