use glassline_media::fields::Truncated;
use thiserror::Error;

/// The reason why bytes from the peer could not be parsed.
///
/// The peer or the network is at fault; the packet is to be counted and dropped. Offsets
/// count from the first byte of the SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the structure does.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A length field, which counts its own header, is smaller than that header.
    #[error("{what} at byte {offset} says it is {length} bytes long, header included")]
    Length {
        /// The structure whose length is wrong.
        what: &'static str,
        /// Offset of the structure.
        offset: usize,
        /// Value of the length field.
        length: u16,
    },
    /// The CRC32c does not match, and a checksum of zero was not agreed on or is not
    /// present (RFC 9260 §6.8, RFC 9653 §5.3).
    #[error("checksum is {found:#010x}, the packet's bytes give {computed:#010x}")]
    Checksum {
        /// Checksum in the packet.
        found: u32,
        /// Checksum computed from the packet's bytes.
        computed: u32,
    },
    /// A field has a value that its RFC forbids.
    #[error("{what} at byte {offset} is {value}, which is not allowed")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Offset of the field.
        offset: usize,
        /// Value of the field.
        value: u32,
    },
}
