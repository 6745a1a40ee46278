//! Sealed datagrams that wait for a full socket.

use std::collections::VecDeque;

use super::Route;

/// Bytes of sealed packets that wait for a full socket: they carry sequence
/// numbers already, so dropping them would look like loss on the way.
pub(super) const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// Datagrams that the socket had no room for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    pub(super) segment: usize,
    pub(super) route: Route,
}

/// What the socket had no room for, in order and bounded.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies datagrams of `segment` bytes each, but the last, behind the others; false if
    /// there is no room for them.
    pub(super) fn push(&mut self, bytes: &[u8], segment: usize, route: Route) -> bool {
        if self.bytes + bytes.len() > BACKLOG_BYTES_MAX {
            return false;
        }
        self.bytes += bytes.len();
        self.waiting.push_back(Waiting {
            bytes: bytes.to_vec(),
            segment,
            route,
        });
        true
    }

    /// Takes the oldest.
    pub(super) fn pop_front(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.bytes.len();
        Some(waiting)
    }

    /// Puts back what is left of the oldest.
    pub(super) fn push_front(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes.len();
        self.waiting.push_front(waiting);
    }
}
