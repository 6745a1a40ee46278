//! Sealed datagrams that wait for a full socket.

use std::collections::VecDeque;

use super::Route;

/// Most bytes of sealed packets that wait for a full socket. Sealed packets have sequence numbers
/// already, so a dropped one would look like a loss on the path.
pub(super) const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// Datagrams that the socket had no room for, with their route.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    pub(super) segment: usize,
    pub(super) route: Route,
}

/// All datagrams that the socket had no room for, in order and bounded in bytes.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of bytes that wait.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies datagrams of `segment` bytes each, except that the last may be shorter, to the end of
    /// the backlog. Returns false if there is no room for them.
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

    /// Removes and returns the oldest datagrams.
    pub(super) fn pop_front(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.bytes.len();
        Some(waiting)
    }

    /// Puts back the rest of the oldest datagrams.
    pub(super) fn push_front(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes.len();
        self.waiting.push_front(waiting);
    }
}
