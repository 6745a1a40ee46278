//! Transport-wide congestion control feedback: the receiver notes when each
//! packet arrived ([`Recorder`]), the sender joins that with when it was sent
//! ([`SendHistory`]). What to conclude from it is the congestion controller's.
//!
//! Source: draft-holmer-rmcat-transport-wide-cc-extensions-01.

mod recorder;
mod send_history;

pub use recorder::Recorder;
pub use send_history::{Acknowledgement, FeedbackSummary, SendHistory};

/// SDP's name of the header extension that carries the transport sequence
/// number, two bytes big-endian.
pub const EXTENSION_URI: &str =
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";

/// The transport sequence number in the extension's data.
pub fn sequence(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests;
