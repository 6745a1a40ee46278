//! What a session needs to write RTCP, and what of it waits to be sent.

use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::WallClock;

/// RTCP datagrams that wait for a path; the oldest goes first.
const RTCP_MAX: usize = 16;

/// RTCP of a session on its way out.
#[derive(Debug)]
pub(super) struct Reports {
    /// Sealed RTCP, to be sent.
    pub(super) queue: VecDeque<Vec<u8>>,
    /// When the next receiver report is due.
    pub(super) at: Option<Instant>,
    /// Packets asked for again, each time counted.
    pub(super) nacked: u64,
    /// The wall clock that sender reports speak of.
    pub(super) wall: WallClock,
    /// RTCP's canonical name, which stays.
    pub(super) cname: Box<str>,
}

impl Reports {
    /// Nothing is due before the session is connected.
    pub(super) fn new(cname: Box<str>, wall: WallClock) -> Self {
        Self {
            queue: VecDeque::new(),
            at: None,
            nacked: 0,
            wall,
            cname,
        }
    }

    /// Lets a sealed packet wait for a path; of too many the oldest goes.
    pub(super) fn push(&mut self, packet: Vec<u8>) {
        if self.queue.len() >= RTCP_MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(packet);
    }
}
