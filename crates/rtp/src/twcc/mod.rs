//! Transport-wide congestion control feedback (TWCC): the receiver records when each packet
//! arrived ([`Recorder`]), and the sender joins that with when each packet was sent
//! ([`SendHistory`]). A congestion controller, which is not part of this crate, evaluates the
//! result.
//!
//! Source: draft-holmer-rmcat-transport-wide-cc-extensions-01.

mod recorder;
mod send_history;

pub use recorder::Recorder;
pub use send_history::{Acknowledgement, FeedbackSummary, SendHistory};

/// Reads the transport sequence number from the data of the extension element.
pub fn sequence(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests;
