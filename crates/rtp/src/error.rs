use glassline_media::fields::Truncated;
use thiserror::Error;

/// The reason why received bytes are not a valid RTP or RTCP packet.
///
/// The peer or the network is at fault: count the packet and drop it. Offsets count from the
/// first byte that the parser was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The packet ends before a field or structure that should be in it.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// The version field is not 2 (RFC 3550 §5.1, §6.4.1).
    #[error("version {version} at byte {offset}; RTP and RTCP have version 2")]
    Version {
        /// Offset of the packet.
        offset: usize,
        /// Version that was found.
        version: u8,
    },
    /// A field has a value that its RFC does not allow.
    #[error("{what} at byte {offset} is {value}, which is not allowed")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Offset of the field.
        offset: usize,
        /// Value that was found.
        value: u32,
    },
}
