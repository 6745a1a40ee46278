//! Lost packets that are rebuilt from the peer's FEC packets.

use glassline_rtp::flexfec::Decoder;

use crate::sdp::AgreedFec;

/// Lost packets of one receiver, rebuilt from the peer's FEC packets.
#[derive(Debug)]
pub(super) struct Rebuilding {
    pub(super) agreed: AgreedFec,
    pub(super) decoder: Decoder,
    pub(super) counts: FecCounts,
}

/// Counts of the FEC packets of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FecCounts {
    /// Number of FEC packets that arrived.
    pub received: u64,
    /// Number of bytes in their payloads.
    pub bytes: u64,
    /// Number of packets that were rebuilt before they arrived otherwise.
    pub rebuilt: u64,
}

impl Rebuilding {
    pub(super) fn new(agreed: AgreedFec) -> Box<Self> {
        Box::new(Self {
            agreed,
            decoder: Decoder::new(agreed.protected),
            counts: FecCounts::default(),
        })
    }
}
