use glassline_media::fields::Truncated;
use thiserror::Error;

/// Bytes of the peer that are not what their place demands.
///
/// The peer's (or the network's) fault; the packet is to be counted and dropped.
/// Offsets count from the first byte handed to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the thing does.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// The version bits are not 2 (RFC 3550 §5.1, §6.4.1).
    #[error("version {version} at byte {offset}; RTP and RTCP have version 2")]
    Version {
        /// Where the packet begins.
        offset: usize,
        /// The version found.
        version: u8,
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
