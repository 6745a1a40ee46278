//! Figures of one session's data channels, for operators.

/// Messages and bytes that the data channels of one session have passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) messages_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) dropped: u64,
}

/// What the data channels of one session have passed so far, and what waits in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataStats {
    pub(crate) channels: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) tally: Tally,
}
