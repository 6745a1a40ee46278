use crate::Reliability;

/// Which streams an end opens channels on, by its part in the DTLS handshake, so that
/// both ends can open at once (RFC 8832 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The even ones.
    DtlsClient,
    /// The odd ones.
    DtlsServer,
}

/// What a channel shall be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Its name; channels may share one.
    pub label: String,
    /// The protocol to be spoken on it; often empty.
    pub protocol: String,
    /// Messages may not overtake each other.
    pub ordered: bool,
    /// What is done so that they arrive.
    pub reliability: Reliability,
    /// The stream that both ends agreed on elsewhere; `None` opens in-band.
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

/// What the peer can make an end hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Channels at a time, of both ends.
    pub channels_max: usize,
    /// Bytes of all labels and protocols that the peer chose.
    pub names_max: usize,
    /// Bytes of a message that comes in parts by the deprecated identifiers, and of
    /// all such messages that are not whole yet. `Config::max_message_size` cannot
    /// bound those, because SCTP sees each part as a message.
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
