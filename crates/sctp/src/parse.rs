use glassline_media::fields::Truncated;
use thiserror::Error;

/// Bytes of the peer that are not what their place demands.
///
/// The peer's (or the network's) fault; the packet is to be counted and dropped.
/// Offsets count from the first byte of the SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the thing does.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A length field counts its own header and is smaller than that.
    #[error("{what} at byte {offset} says it is {length} bytes long, header included")]
    Length {
        /// The thing whose length it is.
        what: &'static str,
        /// Where the thing begins.
        offset: usize,
        /// What the field says.
        length: u16,
    },
    /// The CRC32c does not match, and zero was not agreed on or not there
    /// (RFC 9260 §6.8, RFC 9653 §5.3).
    #[error("checksum is {found:#010x}, the packet's bytes give {computed:#010x}")]
    Checksum {
        /// What the packet says.
        found: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// A field has a value that its RFC rules out.
    #[error("{what} at byte {offset} is {value}, which is not allowed")]
    Value {
        /// The field.
        what: &'static str,
        /// Where it is.
        offset: usize,
        /// What it says.
        value: u32,
    },
}
