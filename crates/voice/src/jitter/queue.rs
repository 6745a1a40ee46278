use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

/// Most packets that wait: more than 5 s of the shortest ones. It bounds the queue when a
/// device does not pull or a sender floods.
pub(super) const PACKETS_MAX: usize = 2_000;
/// Most bytes that wait: 5 s at 800 kbit/s, which is more than linear stereo samples at 24
/// kHz.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Packets that wait to be decoded, ordered by media time, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    packets: BTreeMap<i64, QueuedPacket>,
    bytes: usize,
}

/// A packet that waits to be decoded.
#[derive(Clone, Debug)]
pub(super) struct QueuedPacket {
    pub(super) payload: Bytes,
    /// Sequence number that does not wrap; `None` for a redundant copy, which has none of its
    /// own.
    pub(super) sequence: Option<u64>,
    /// RTP timestamp that does not wrap.
    pub(super) ticks: i64,
    /// When the packet was inserted.
    pub(super) arrival: Instant,
    /// Frames of audio in the packet.
    pub(super) frames: usize,
}

impl Queue {
    /// Queues a packet whose first frame is `at`; returns false if an equivalent one is
    /// queued already.
    pub(super) fn insert(&mut self, at: i64, packet: QueuedPacket) -> bool {
        let is_better = match self.packets.get(&at) {
            Some(there) => there.sequence.is_none() && packet.sequence.is_some(),
            None => true,
        };
        if is_better {
            self.bytes += packet.payload.len();
            if let Some(old) = self.packets.insert(at, packet) {
                self.bytes -= old.payload.len();
            }
        }
        is_better
    }

    /// The first packet and its media time.
    pub(super) fn first(&self) -> Option<(i64, &QueuedPacket)> {
        self.packets.first_key_value().map(|(at, it)| (*at, it))
    }

    /// Media time right after the last packet.
    pub(super) fn end(&self) -> Option<i64> {
        let (at, last) = self.packets.last_key_value()?;
        Some(at + last.frames as i64)
    }

    /// Removes the first packet.
    pub(super) fn take_first(&mut self) -> Option<(i64, QueuedPacket)> {
        let (at, packet) = self.packets.pop_first()?;
        self.bytes -= packet.payload.len();
        Some((at, packet))
    }

    /// Whether the queue exceeds one of its bounds.
    pub(super) fn is_over(&self) -> bool {
        self.packets.len() > PACKETS_MAX || self.bytes > BYTES_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: usize, sequence: Option<u64>) -> QueuedPacket {
        QueuedPacket {
            payload: vec![0; bytes].into(),
            sequence,
            ticks: 7,
            arrival: Instant::now(),
            frames: 160,
        }
    }

    #[test]
    fn a_packet_replaces_its_copy_and_nothing_else_does() {
        let mut queue = Queue::default();
        assert_eq!((queue.first().is_none(), queue.end()), (true, None));
        assert!(queue.insert(320, packet(10, None)));
        assert!(!queue.insert(320, packet(20, None)), "another copy");
        assert!(queue.insert(320, packet(30, Some(2))), "the packet");
        assert!(!queue.insert(320, packet(40, Some(2))), "once more");
        assert!(
            !queue.insert(320, packet(50, None)),
            "a copy of what is there"
        );
        assert_eq!((queue.len(), queue.bytes), (1, 30));
        assert!(queue.insert(0, packet(5, Some(1))));
        assert_eq!((queue.len(), queue.bytes, queue.end()), (2, 35, Some(480)));
        assert_eq!(
            queue.first().map(|(at, it)| (at, it.sequence)),
            Some((0, Some(1)))
        );
        assert_eq!(queue.take_first().map(|(at, _)| at), Some(0));
        assert_eq!((queue.len(), queue.bytes), (1, 30));
        queue.clear();
        assert_eq!((queue.len(), queue.bytes), (0, 0));
        assert!(queue.take_first().is_none());
    }

    #[test]
    fn two_thousand_packets_and_a_mebibyte_are_not_too_much() {
        let mut queue = Queue::default();
        for at in 0..2_000 {
            queue.insert(at, packet(1, Some(0)));
        }
        assert!(!queue.is_over());
        queue.insert(2_000, packet(1, Some(0)));
        assert!(queue.is_over());
        let mut queue = Queue::default();
        queue.insert(0, packet(1 << 20, Some(0)));
        assert!(!queue.is_over());
        queue.insert(1, packet(1, Some(1)));
        assert!(queue.is_over());
    }
}
