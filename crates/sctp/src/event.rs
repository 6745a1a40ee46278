use std::fmt;

use bytes::Bytes;

/// An event of an association; events come in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association is established and messages may be sent.
    Connected {
        /// Number of streams that we may send on: 0 to one less than this.
        outgoing: u16,
        /// Number of streams that the peer may send on.
        incoming: u16,
    },
    /// The peer lost its state and restarted the association (RFC 9260 §5.2.4.1). Unsent
    /// and unacknowledged messages are lost, and the numbers of all streams begin again.
    Restarted,
    /// A whole message arrived.
    Message {
        /// Stream on which the message came.
        stream: u16,
        /// Payload protocol identifier of the message.
        ppid: u32,
        /// Whether the message may have overtaken others.
        unordered: bool,
        /// Content of the message; never empty.
        data: Bytes,
    },
    /// Streams were reset, and their numbers begin again (RFC 6525). Messages from before
    /// the reset have been delivered.
    StreamsReset {
        /// Which direction of the streams was reset.
        direction: Direction,
        /// The streams; an empty list means all of them.
        streams: Vec<u16>,
    },
    /// The peer refused to reset these outgoing streams. They can be used again as they
    /// were.
    ResetRefused {
        /// Streams that were not reset.
        streams: Vec<u16>,
    },
    /// The bytes queued on a stream fell to its low threshold.
    BufferedLow {
        /// Stream whose queue fell to its threshold.
        stream: u16,
    },
    /// The size of packets changed.
    MtuChanged {
        /// Size of a full SCTP packet from now on, in bytes.
        mtu: usize,
    },
    /// The association ended; no event follows.
    Closed(CloseReason),
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to us.
    Incoming,
    /// From us to the peer.
    Outgoing,
}

/// The reason why an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The association was shut down, and everything sent has arrived.
    Shutdown,
    /// This end called [`Association::abort`](crate::Association::abort).
    Aborted,
    /// The peer sent an ABORT.
    AbortedByPeer {
        /// Cause code (RFC 9260 §3.3.10); `None` if the peer gave no cause.
        cause: Option<u16>,
        /// The peer's explanation, at most 256 bytes of it; often empty.
        text: String,
    },
    /// The peer broke the protocol, and we aborted the association. The text says how.
    Violation(&'static str),
    /// A message of the peer is larger than `Config::max_message_size`, and we aborted the
    /// association.
    MessageTooLarge {
        /// Stream of the message.
        stream: u16,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The peer did not answer INIT or COOKIE ECHO.
    ConnectTimeout,
    /// The peer acknowledged nothing for too many time-outs.
    PeerUnreachable,
    /// The transport below is gone.
    Disconnected,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("shut down"),
            Self::Aborted => f.write_str("aborted"),
            Self::AbortedByPeer { cause, text } => {
                f.write_str("aborted by the peer")?;
                if let Some(cause) = cause {
                    write!(f, ", cause {cause}")?;
                }
                if !text.is_empty() {
                    write!(f, ": {text:?}")?;
                }
                Ok(())
            }
            Self::Violation(what) => write!(f, "the peer broke the protocol: {what}"),
            Self::MessageTooLarge { stream, limit } => write!(
                f,
                "the peer sent a message of more than {limit} bytes on stream {stream}"
            ),
            Self::ConnectTimeout => f.write_str("the peer did not answer the handshake"),
            Self::PeerUnreachable => {
                f.write_str("the peer acknowledged nothing for too many time-outs")
            }
            Self::Disconnected => f.write_str("the transport below was closed"),
        }
    }
}
