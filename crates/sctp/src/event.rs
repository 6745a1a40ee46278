use std::fmt;

use bytes::Bytes;

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Established: messages may be sent.
    Connected {
        /// Streams that we may send on: 0 to one less than this.
        outgoing: u16,
        /// Streams that the peer may send on.
        incoming: u16,
    },
    /// The peer lost its state and began anew (RFC 9260 §5.2.4.1). What was unsent or
    /// unacknowledged is gone, and all streams begin again.
    Restarted,
    /// A whole message arrived.
    Message {
        /// Its stream.
        stream: u16,
        /// Payload protocol identifier.
        ppid: u32,
        /// It may have overtaken others.
        unordered: bool,
        /// Never empty.
        data: Bytes,
    },
    /// Streams begin again at their first number (RFC 6525): what came before it on
    /// them has been delivered.
    StreamsReset {
        /// Whose sending side.
        direction: Direction,
        /// Which; empty for all.
        streams: Vec<u16>,
    },
    /// The peer refuses to let us reset these outgoing streams. They can be used
    /// again as they were.
    ResetRefused {
        /// Which.
        streams: Vec<u16>,
    },
    /// What waits to be sent on a stream fell to its low threshold.
    BufferedLow {
        /// Which.
        stream: u16,
    },
    /// Packets of another size are sent from now on.
    MtuChanged {
        /// Bytes of an SCTP packet.
        mtu: usize,
    },
    /// It is over; nothing follows.
    Closed(CloseReason),
}

/// Of the two halves of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The peer sends, we receive.
    Incoming,
    /// We send.
    Outgoing,
}

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// Shut down in order: everything sent has arrived.
    Shutdown,
    /// We gave it up by [`Association::abort`](crate::Association::abort).
    Aborted,
    /// The peer gave it up.
    AbortedByPeer {
        /// RFC 9260 §3.3.10; `None` if it gave no cause.
        cause: Option<u16>,
        /// What it said, at most 256 bytes of it.
        text: String,
    },
    /// The peer broke the protocol: we gave it up.
    Violation(&'static str),
    /// A message of the peer is larger than `Config::max_message_size`.
    MessageTooLarge {
        /// Its stream.
        stream: u16,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The peer does not answer INIT or COOKIE ECHO.
    ConnectTimeout,
    /// The peer does not acknowledge anything any more.
    PeerUnreachable,
    /// What carried the packets is gone.
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
            Self::ConnectTimeout => f.write_str("the peer does not answer the handshake"),
            Self::PeerUnreachable => f.write_str("the peer acknowledges nothing any more"),
            Self::Disconnected => f.write_str("what carried the packets is gone"),
        }
    }
}
