//! What a thread counts of the streams that it sends, read by metrics while it runs.

use crate::runtime::Counter;

/// One thread's counts of what it sent since the server started.
#[derive(Debug, Default)]
pub struct SendCounters {
    /// Media and report packets handed to the kernel.
    pub packets: Counter,
    /// Bytes handed to the kernel, responses included.
    pub bytes: Counter,
    /// System calls that sent them.
    pub sends: Counter,
    /// Frames that clients who lagged did not get.
    pub skipped_lagging: Counter,
    /// Times that a client skipped.
    pub skips: Counter,
    /// Datagrams that the kernel refused: the peer closed its port.
    pub peer_refused: Counter,
    /// Times that the UDP socket or the interface's queue was full; what was left waited.
    pub socket_full: Counter,
    /// Datagrams given up because the kernel will never take them.
    pub unsendable: Counter,
}

/// What went out in one [`ConnectionWriter::pump`](super::connection_writer::ConnectionWriter::pump).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) calls: u64,
    /// Entries that a client who lagged did not get.
    pub(crate) skipped: u64,
    pub(crate) skips: u64,
}

impl SendCounters {
    pub(crate) fn add(&self, sent: &Sent) {
        self.bytes.add(sent.bytes);
        self.packets.add(sent.packets);
        self.sends.add(sent.calls);
        if sent.skips > 0 {
            self.skips.add(sent.skips);
            self.skipped_lagging.add(sent.skipped);
        }
    }
}
