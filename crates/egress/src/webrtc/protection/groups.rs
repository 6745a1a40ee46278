//! FEC packets of the packets that one viewer gets of its video.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::flexfec::{Encoder, HEADER_BYTES_MAX};
use glassline_webrtc::{ProtectedHeader, SenderIndex};

/// Most packets of a group. A larger frame has several groups, so that the first FEC packets leave
/// soon.
const GROUP_MAX: usize = 48;

/// Most FEC packets of a group.
const PARITIES_MAX: usize = 9;

/// Most bytes of FEC packets that are saved up: three of them. A frame's own bytes come in addition.
const CREDIT_MAX: u64 = 3_600;

/// Most FEC packets that wait for their turn.
const WAITING_MAX: usize = 2 * PARITIES_MAX;

/// Longest time that a FEC packet waits for its turn: a retransmission is hardly later then.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Bytes that sealing adds to the payload of a FEC packet.
const SEALING_BYTES: u64 = 36;

/// A packet of the video that has left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) header: &'a ProtectedHeader,
    pub(crate) payload: &'a [u8],
    pub(crate) padding: u8,
    /// Length of the datagram in bytes.
    pub(crate) bytes: usize,
    /// Index among the packets of its frame.
    pub(crate) place: usize,
    /// Number of packets of its frame that follow.
    pub(crate) left: usize,
    pub(crate) timestamp: u32,
}

/// A FEC packet that waits for its turn.
#[derive(Clone, Debug)]
struct Waiting {
    payload: Vec<u8>,
    timestamp: u32,
    since: Instant,
}

/// Makes the FEC packets of one viewer's video.
///
/// Each packet that leaves earns its part of the bytes that FEC packets may have, and none leaves
/// that is not earned. So a group is a part of a large frame, a frame, or several small ones.
#[derive(Debug)]
pub(crate) struct Groups {
    sender: SenderIndex,
    encoder: Encoder,
    /// Size of the FEC packets in percent of the media; 0 for none.
    percent: u32,
    /// Hundredths of bytes that were earned.
    credit: u64,
    waiting: VecDeque<Waiting>,
}

impl Groups {
    /// Creates the state of the video of `sender`, which leaves under `ssrc`, without protection.
    pub(crate) const fn new(sender: SenderIndex, ssrc: Ssrc) -> Self {
        Self {
            sender,
            encoder: Encoder::new(ssrc),
            percent: 0,
            credit: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Sets the size of the FEC packets in percent of the media. With 0, what was begun is dropped.
    pub(crate) fn set_percent(&mut self, percent: u32) {
        self.percent = percent;
        if percent == 0 {
            self.encoder.begin(1);
            self.credit = 0;
            self.waiting.clear();
        }
    }

    /// Returns the size of the FEC packets in percent of the media.
    pub(crate) const fn percent(&self) -> u32 {
        self.percent
    }

    /// Returns the sender of the video.
    pub(crate) const fn sender(&self) -> SenderIndex {
        self.sender
    }

    /// Takes a packet of the video that has left. FEC packets may wait afterwards.
    pub(crate) fn cover(&mut self, packet: &Packet<'_>, now: Instant) {
        let earned = packet.bytes as u64 * u64::from(self.percent);
        let wanted = self.parities(packet);
        if packet.place == 0 && self.encoder.span() > 0 && wanted > 1 {
            // A large frame follows small ones: its losses are more than one FEC packet rebuilds.
            self.end(packet.timestamp, now);
        }
        self.credit += earned;
        if self.encoder.span() == 0 {
            self.encoder.begin(wanted.max(1));
        }
        let header = packet.header.bytes();
        if !self.encoder.push(header, packet.payload, packet.padding) {
            // Many small frames: what they earned was not enough.
            self.encoder.begin(1);
            self.encoder.push(header, packet.payload, packet.padding);
        }
        let is_large = self.encoder.parities() > 1;
        let is_whole = packet.left == 0 && (is_large || self.affordable() > 0);
        if is_whole || self.encoder.span() >= GROUP_MAX && packet.left > 0 {
            self.end(packet.timestamp, now);
        }
    }

    /// Returns how many FEC packets the packet and those of its frame behind it pay for, as far as they
    /// are of one group.
    fn parities(&self, packet: &Packet<'_>) -> usize {
        let packets = (packet.left + 1).min(GROUP_MAX) as u64;
        let earned = packets * packet.bytes as u64 * u64::from(self.percent);
        let each = 100 * (packet.bytes + HEADER_BYTES_MAX) as u64;
        let count = (self.credit + earned) / each.max(1);
        usize::try_from(count)
            .unwrap_or(PARITIES_MAX)
            .min(PARITIES_MAX)
    }

    /// Returns how many FEC packets of the present group are earned.
    fn affordable(&self) -> usize {
        let each = 100 * (self.encoder.payload_bytes_max() as u64 + SEALING_BYTES);
        usize::try_from(self.credit / each).unwrap_or(PARITIES_MAX)
    }

    /// Ends the group. As many of its FEC packets as are earned wait for their turn.
    fn end(&mut self, timestamp: u32, now: Instant) {
        let (mut affordable, mut spent) = (self.affordable(), 0);
        let waiting = &mut self.waiting;
        self.encoder.end(|payload| {
            if affordable == 0 || waiting.len() == WAITING_MAX {
                return;
            }
            affordable -= 1;
            spent += 100 * (payload.len() as u64 + SEALING_BYTES);
            waiting.push_back(Waiting {
                payload,
                timestamp,
                since: now,
            });
        });
        self.credit = self.credit.saturating_sub(spent).min(100 * CREDIT_MAX);
    }

    /// Returns the size of the datagram that leaves next in bytes; `None` if none waits.
    pub(crate) fn next_bytes(&self) -> Option<u64> {
        let first = self.waiting.front()?;
        Some(first.payload.len() as u64 + SEALING_BYTES)
    }

    /// Drops the FEC packets that waited too long.
    pub(crate) fn drop_overdue(&mut self, now: Instant) {
        let is_overdue = |it: &Waiting| now.saturating_duration_since(it.since) > WAIT_MAX;
        while self.waiting.front().is_some_and(is_overdue) {
            self.waiting.pop_front();
        }
    }

    /// Takes the FEC packet that leaves next: its payload, and the RTP timestamp of the media that it
    /// ends with.
    pub(crate) fn pop(&mut self) -> Option<(Vec<u8>, u32)> {
        let next = self.waiting.pop_front()?;
        Some((next.payload, next.timestamp))
    }
}
