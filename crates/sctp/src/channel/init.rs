use crate::Reliability;

/// An end's role in the DTLS handshake. The role decides which streams the end opens
/// channels on, so that both ends can open channels at once (RFC 8832 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The DTLS client, which opens the streams with even numbers.
    DtlsClient,
    /// The DTLS server, which opens the streams with odd numbers.
    DtlsServer,
}

/// Properties of a channel to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Label of the channel; channels may share one.
    pub label: String,
    /// Name of the channel's subprotocol; often empty.
    pub protocol: String,
    /// Whether messages are delivered in the order in which they were sent.
    pub ordered: bool,
    /// Whether and for how long lost messages are retransmitted.
    pub reliability: Reliability,
    /// Stream that both ends agreed on by other means; `None` opens the channel in-band by
    /// a DCEP message.
    pub negotiated: Option<u16>,
    /// Weight against other channels: 128, 256, 512 or 1024 (RFC 8831 §6.4).
    pub priority: u16,
}

impl Default for Init {
    fn default() -> Self {
        Self {
            label: String::new(),
            protocol: String::new(),
            ordered: true,
            reliability: Reliability::Reliable,
            negotiated: None,
            priority: 256,
        }
    }
}

/// Bounds on the memory that the peer can make this end hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most channels at a time, whichever end opened them.
    pub channels_max: usize,
    /// Most bytes of all labels and protocols that the peer chose.
    pub names_max: usize,
    /// Most bytes of a message that comes in parts by the deprecated identifiers, and of
    /// all such messages that are incomplete. `Config::max_message_size` cannot bound
    /// those, because SCTP sees each part as a message.
    pub parts_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            channels_max: 1024,
            names_max: 256 * 1024,
            parts_max: 256 * 1024,
        }
    }
}
