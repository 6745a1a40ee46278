//! Statistics of one session's data channels, for operators.

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
pub(crate) struct DataStats {
    pub(crate) channels: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) counts: MessageCounts,
}
