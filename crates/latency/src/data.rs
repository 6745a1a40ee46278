//! Statistics of one session's data channels, as the API shows them.

use schemars::JsonSchema;
use serde::Serialize;

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
    /// Whether the session publishes messages; others receive them.
    #[serde(skip)]
    pub is_publishers: bool,
}
