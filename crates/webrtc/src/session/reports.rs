//! What a session needs to read and write RTCP, and the RTCP packets that wait to be sent.

use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::WallClock;

use super::feedback_allowance::FeedbackAllowance;

/// Most RTCP datagrams that wait for a path; beyond it the oldest is dropped.
const RTCP_MAX: usize = 16;

/// RTCP of a session.
#[derive(Debug)]
pub(super) struct Reports {
    /// Sealed RTCP packets that wait to be sent.
    pub(super) queue: VecDeque<Vec<u8>>,
    /// Instant at which the next receiver report is due.
    pub(super) at: Option<Instant>,
    /// Number of packets that were requested by NACK, each request counted.
    pub(super) nacked: u64,
    /// How much more transport feedback of the peer is handled.
    pub(super) feedbacks: FeedbackAllowance,
    /// Whether the peer is a publisher that agreed to RTCP packets without a leading report
    /// (RFC 5506).
    pub(super) are_lone: bool,
    /// RTP packets whose SSRC and payload type were not negotiated, so that no report counts them.
    pub(super) unnegotiated_packets: u64,
    /// Relation of `now` to the calendar, for sender reports.
    pub(super) wall: WallClock,
    /// RTCP canonical name, which does not change.
    pub(super) cname: Box<str>,
}

impl Reports {
    /// Creates the state of a session that is not connected yet: no report is due.
    pub(super) fn new(cname: Box<str>, wall: WallClock) -> Self {
        Self {
            queue: VecDeque::new(),
            at: None,
            nacked: 0,
            feedbacks: FeedbackAllowance::default(),
            are_lone: false,
            unnegotiated_packets: 0,
            wall,
            cname,
        }
    }

    /// Queues a sealed packet until there is a path; drops the oldest beyond the limit.
    pub(super) fn push(&mut self, packet: Vec<u8>) {
        if self.queue.len() >= RTCP_MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(packet);
    }
}
