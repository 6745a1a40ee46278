//! Counters of the streams that one thread sends, read by metrics while the thread runs.

use glassline_runtime::Counter;

/// One thread's counts of sent media since the server started.
#[derive(Debug, Default)]
pub struct SendCounters {
    /// Media and report packets handed to the kernel.
    pub packets: Counter,
    /// Bytes handed to the kernel, responses included.
    pub bytes: Counter,
    /// System calls that sent them.
    pub sends: Counter,
    /// Ring entries that lagging clients skipped.
    pub skipped_lagging: Counter,
    /// Number of times that a client skipped to a keyframe.
    pub skips: Counter,
    /// Datagrams that the kernel refused because the peer's port is closed.
    pub peer_refused: Counter,
    /// Number of times that the UDP socket or the interface's queue was full; the rest of the
    /// datagrams waited.
    pub socket_full: Counter,
    /// Datagrams dropped because the kernel will never take them.
    pub unsendable: Counter,
}

/// Counts of one [`ConnectionWriter::pump`](super::connection_writer::ConnectionWriter::pump).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Bytes that the kernel took.
    pub bytes: u64,
    /// Packets of RTP and RTCP among the bytes.
    pub packets: u64,
    /// System calls that were made.
    pub calls: u64,
    /// Ring entries that a lagging client skipped.
    pub skipped: u64,
    /// Times that the client skipped to a newer keyframe.
    pub skips: u64,
}

impl SendCounters {
    /// Adds the counts of one write.
    pub fn add(&self, sent: &Sent) {
        self.bytes.add(sent.bytes);
        self.packets.add(sent.packets);
        self.sends.add(sent.calls);
        if sent.skips > 0 {
            self.skips.add(sent.skips);
            self.skipped_lagging.add(sent.skipped);
        }
    }
}
