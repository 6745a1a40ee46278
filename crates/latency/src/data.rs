//! Statistics of one session's data channels, as the API shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::messages::{DataStats, Side};

/// Statistics of the data channels of a viewer or of a publisher of messages, updated once a
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DataView {
    /// Number of open channels.
    pub channels: usize,
    /// Messages handed to the peer's channels so far.
    pub messages_sent: u64,
    /// Bytes of the messages sent.
    pub bytes_sent: u64,
    /// Messages received from the peer so far.
    pub messages_received: u64,
    /// Bytes of the messages received.
    pub bytes_received: u64,
    /// Messages in either direction that were dropped; `/metrics` has the reasons.
    pub messages_dropped: u64,
    /// Bytes that wait for the peer now, with 128 bytes added for each message.
    pub queued_bytes: usize,
    #[serde(skip)]
    is_publishers: bool,
}

impl DataView {
    /// Converts the statistics to the form of the API.
    pub(crate) fn of(side: Side, stats: &DataStats) -> Self {
        let counts = stats.counts;
        Self {
            channels: stats.channels,
            messages_sent: counts.messages_sent,
            bytes_sent: counts.bytes_sent,
            messages_received: counts.messages_received,
            bytes_received: counts.bytes_received,
            messages_dropped: counts.dropped,
            queued_bytes: stats.queued_bytes,
            is_publishers: side == Side::Publisher,
        }
    }

    pub(super) const fn is_publishers(&self) -> bool {
        self.is_publishers
    }
}
