//! Statistics of one session's data channels, for operators.

use glassline_latency::DataView;

use super::Side;

/// Numbers of messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageCounts {
    pub(crate) messages_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) dropped: u64,
}

/// Statistics of one session's data channels so far, and the bytes that wait in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataStats {
    pub(crate) channels: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) counts: MessageCounts,
}

impl DataStats {
    /// Returns the statistics of a session of `side` in the form of the API.
    pub fn view(&self, side: Side) -> DataView {
        let counts = self.counts;
        DataView {
            channels: self.channels,
            messages_sent: counts.messages_sent,
            bytes_sent: counts.bytes_sent,
            messages_received: counts.messages_received,
            bytes_received: counts.bytes_received,
            messages_dropped: counts.dropped,
            queued_bytes: self.queued_bytes,
            is_publishers: side == Side::Publisher,
        }
    }
}
