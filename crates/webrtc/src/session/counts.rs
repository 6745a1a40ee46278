//! What a sender has sent.

/// The counts of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of media packets, without retransmissions.
    pub packets: u64,
    /// Number of payload bytes of those packets, before sealing.
    pub payload_bytes: u64,
    /// Number of retransmitted packets.
    pub retransmitted: u64,
    /// Number of requested packets that were not retransmitted because the peer had requested
    /// too many: see [`REPAIRS_MAX`](super::REPAIRS_MAX).
    pub refused: u64,
}
