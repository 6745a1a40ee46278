//! Spreads the packets of large frames over a few milliseconds.
//!
//! A keyframe sent at line rate overruns shallow buffers on the path: media servers that did so saw
//! some ninety times the loss of those that spread a frame over 8 ms. Small frames go out at once,
//! so that their packets stay in one segmented send.
//!
//! The kernel paces TCP by itself. A frame for a connection is divided only to bound what is sealed
//! at a time: sealed packets cannot be skipped when the path turns out to be slow.

use std::time::{Duration, Instant};

use glassline_webrtc::Transport;

/// Usual number of packets in a chunk. Chunks are equal, and a frame is divided into the nearest
/// number of them, so that one extra packet does not cost a timer and a system call for every
/// viewer and frame.
///
/// A chunk of such a frame is at most 29 packets, some 33 kB. Chromium's pacer lets as much go at once
/// at 3 Mbit/s: 40 ms at 2.5 times the bitrate, 37 kB. With 12 packets instead, viewers have
/// keyframes 2 to 3 ms later, and more with hundreds of viewers.
const CHUNK: usize = 20;

/// Most packets that may leave together: one segmented send, or one write to a connection.
const CHUNK_MAX: usize = 40;

/// Most chunks of a frame, unless they would be larger than [`CHUNK_MAX`]; pacing thus costs no
/// more than this many intervals.
const CHUNKS_PER_FRAME: usize = 8;

/// Interval from one full chunk to the next.
const INTERVAL: Duration = Duration::from_millis(1);

/// Decides when one viewer's next packets may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// The transport of the packets.
    transport: Transport,
    next: Option<Instant>,
}

impl Pacer {
    /// States what carries the packets from now on.
    pub(super) fn set_transport(&mut self, transport: Transport) {
        self.transport = transport;
    }

    /// Returns how many packets may leave at `now` of a frame of `packets` packets; zero before
    /// [`deadline`](Self::deadline).
    pub(super) fn allowance(&self, packets: usize, now: Instant) -> usize {
        if self.next.is_some_and(|next| next > now) {
            return 0;
        }
        chunk(packets, self.transport)
    }

    /// Notes that `sent` packets of a frame of `packets` packets left at `now`.
    pub(super) fn sent(&mut self, sent: usize, packets: usize, now: Instant) {
        let chunk = chunk(packets, self.transport);
        let share = u32::try_from(sent.min(chunk)).unwrap_or(u32::MAX);
        let whole = u32::try_from(chunk).unwrap_or(u32::MAX);
        self.next = Some(now + INTERVAL * share / whole);
    }

    /// Notes that `packets` more, of no frame, left at `now`.
    pub(super) fn sent_beside(&mut self, packets: usize, now: Instant) {
        let share = u32::try_from(packets).unwrap_or(u32::MAX);
        let whole = u32::try_from(CHUNK).unwrap_or(u32::MAX);
        let since = self.next.map_or(now, |next| next.max(now));
        self.next = Some(since + INTERVAL * share / whole);
    }

    /// Returns the time at which the next packets may leave.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

/// Returns whether a frame of `packets` packets leaves in several chunks over UDP.
pub fn is_spread(packets: usize) -> bool {
    chunk(packets, Transport::Udp) < packets
}

/// Returns the number of packets in one chunk of a frame of `packets` packets, at least one.
fn chunk(packets: usize, transport: Transport) -> usize {
    let nearest = match transport {
        Transport::Udp => (packets + CHUNK / 2) / CHUNK,
        Transport::Tcp => 1,
    };
    let chunks = nearest
        .clamp(1, CHUNKS_PER_FRAME)
        .max(packets.div_ceil(CHUNK_MAX));
    packets.div_ceil(chunks).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of batches of a frame of `packets` packets, and the time from the first
    /// batch to the last.
    fn spread(packets: usize) -> (usize, Duration) {
        spread_over(Transport::Udp, packets)
    }

    fn spread_over(transport: Transport, packets: usize) -> (usize, Duration) {
        let start = Instant::now();
        let (mut pacer, mut now, mut left, mut batches) = (Pacer::default(), start, packets, 0);
        pacer.set_transport(transport);
        while left > 0 {
            let count = pacer.allowance(packets, now).min(left);
            if count == 0 {
                now = pacer.deadline().expect("held back until a time");
                continue;
            }
            left -= count;
            batches += 1;
            pacer.sent(count, packets, now);
        }
        (batches, now - start)
    }

    #[test]
    fn small_frames_leave_whole_and_at_once() {
        assert_eq!(spread(1), (1, Duration::ZERO));
        assert_eq!(spread(20), (1, Duration::ZERO));
        // One extra packet does not cause a second send.
        assert_eq!(spread(21), (1, Duration::ZERO));
        assert_eq!(spread(29), (1, Duration::ZERO));
    }

    #[test]
    fn keyframes_spread_over_a_few_milliseconds() {
        assert_eq!(spread(30), (2, Duration::from_millis(1)));
        assert_eq!(spread(60), (3, Duration::from_millis(2)));
        assert_eq!(spread(100), (5, Duration::from_millis(4)));
        assert_eq!(spread(160), (8, Duration::from_millis(7)));
        // A 4K keyframe keeps to chunks that one segmented send can carry.
        let (batches, took) = spread(400);
        assert_eq!(batches, 10);
        assert_eq!(took, Duration::from_millis(9));
    }

    #[test]
    fn packets_beside_a_frame_take_their_part_of_an_interval() {
        let start = Instant::now();
        let mut pacer = Pacer::default();
        pacer.sent(20, 20, start);
        pacer.sent_beside(CHUNK / 2, start);
        assert_eq!(pacer.allowance(20, start + INTERVAL), 0);
        assert_eq!(pacer.deadline(), Some(start + INTERVAL * 3 / 2));
        let later = start + INTERVAL * 9;
        pacer.sent_beside(CHUNK, later);
        assert_eq!(pacer.deadline(), Some(later + INTERVAL));
    }

    #[test]
    fn a_connection_takes_frames_whole_up_to_what_one_write_carries() {
        assert_eq!(spread_over(Transport::Tcp, 11), (1, Duration::ZERO));
        assert_eq!(spread_over(Transport::Tcp, 40), (1, Duration::ZERO));
        assert_eq!(
            spread_over(Transport::Tcp, 65),
            (2, Duration::from_millis(1))
        );
        // What is sealed at a time is bounded, so that a slow path still skips frames.
        let (batches, took) = spread_over(Transport::Tcp, 400);
        assert_eq!((batches, took), (10, Duration::from_millis(9)));
    }
}
