use thiserror::Error;

/// The reason why a channel was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// As many channels exist as are allowed. Close others first.
    #[error(
        "there are {limit} data channels already, as many as `channels_max` allows: close others first"
    )]
    TooMany {
        /// The limit that is reached, `Limits::channels_max`.
        limit: usize,
    },
    /// The label or protocol exceeds what its 16-bit length field can express.
    #[error("the {what} of a data channel has {bytes} bytes; at most 65535 are allowed")]
    TooLong {
        /// Which of the two strings: `label` or `protocol`.
        what: &'static str,
        /// Length of the string, in bytes.
        bytes: usize,
    },
    /// The negotiated stream belongs to another channel.
    #[error("stream {stream} is in use by another data channel")]
    InUse {
        /// The stream that was requested.
        stream: u16,
    },
    /// The negotiated stream does not exist.
    #[error("stream {stream} does not exist: data channels have 0 to {last}")]
    OutOfRange {
        /// The stream that was requested.
        stream: u16,
        /// Number of the last stream that exists.
        last: u16,
    },
    /// The association is closed.
    #[error("the association is closed")]
    Closed,
}

/// The reason why a message was refused. Nothing of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The channel never existed, or it is closed.
    #[error("the data channel does not exist or is closed")]
    NoSuchChannel,
    /// The channel is not open yet: wait for [`Event::Opened`](super::Event::Opened).
    #[error("the data channel is not open yet: send after Event::Opened")]
    NotOpen,
    /// The channel is being closed.
    #[error("the data channel is closing")]
    Closing,
    /// The message is larger than the peer accepts (RFC 8841 §6). Send it in parts.
    #[error(
        "the message has {size} bytes; the peer accepts {limit} (its max-message-size): send it in parts"
    )]
    TooLarge {
        /// Size of the message, in bytes.
        size: usize,
        /// Largest message that the peer accepts, in bytes.
        limit: u64,
    },
    /// The association refused the message.
    #[error(transparent)]
    Association(#[from] crate::SendError),
}

/// The reason why a channel closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClosedBy {
    /// The application called [`Channels::close`](super::Channels::close).
    #[error("this end closed it")]
    Us,
    /// The peer reset the channel's stream.
    #[error("the peer closed it")]
    Peer,
    /// The peer broke a rule of data channels. The
    /// [`Event::Refused`](super::Event::Refused) before says which.
    #[error("the peer broke a rule of data channels")]
    Fault,
    /// No stream was left for the channel, or the negotiated stream does not exist.
    #[error("the association has no stream for it")]
    NoStream,
    /// The association ended, or the peer restarted it.
    #[error("the association ended or was restarted")]
    Association,
}

/// The reason why a message of the peer was refused. Its stream is reset, except after
/// `PayloadProtocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// User data came on a stream that has no channel (RFC 8832 §6).
    #[error("a message came on a stream without a data channel")]
    NoChannel,
    /// An OPEN came for a stream that has a channel.
    #[error("the peer opened a data channel on a stream that has one")]
    InUse,
    /// An OPEN came for a stream whose parity is ours: the DTLS client opens the even
    /// streams, the server the odd ones (RFC 8832 §6).
    #[error("the peer opened a data channel on a stream whose parity is ours")]
    Parity,
    /// A DCEP message could not be parsed.
    #[error("a DCEP message is malformed")]
    Malformed,
    /// The peer opened more channels than `Limits::channels_max`, or their labels and
    /// protocols exceed `Limits::names_max` bytes together.
    #[error("the peer opened more data channels than are allowed")]
    TooMany,
    /// A message has a payload protocol identifier that data channels do not define. The
    /// message is dropped and the channel stays open.
    #[error("a message has a payload protocol identifier that data channels do not have")]
    PayloadProtocol,
    /// A message in parts (deprecated identifiers) exceeded `Limits::parts_max`.
    #[error("a message in parts is larger than max_message_size")]
    PartsTooLarge,
}
