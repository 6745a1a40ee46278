//! How the data channels of one session stand.

use serde::Serialize;

use crate::messages::{DataStats, Side};

/// Data channels of a viewer, or of who publishes messages: once a second, as the
/// server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DataView {
    /// Open now.
    pub channels: usize,
    /// Handed to the peer's channels so far.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// From the peer so far.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Of both, those that went no further; `/metrics` has the reasons.
    pub messages_dropped: u64,
    /// What waits for the peer now, counting 128 bytes a message beside its own.
    pub queued_bytes: usize,
    #[serde(skip)]
    is_publishers: bool,
}

impl DataView {
    /// As the API shows it.
    pub(crate) fn of(side: Side, standing: &DataStats) -> Self {
        let tally = standing.tally;
        Self {
            channels: standing.channels,
            messages_sent: tally.messages_sent,
            bytes_sent: tally.bytes_sent,
            messages_received: tally.messages_received,
            bytes_received: tally.bytes_received,
            messages_dropped: tally.dropped,
            queued_bytes: standing.queued_bytes,
            is_publishers: side == Side::Publisher,
        }
    }

    pub(super) const fn is_publishers(&self) -> bool {
        self.is_publishers
    }
}
