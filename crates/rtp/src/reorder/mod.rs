//! Reordering of packets at the receiver: packets that overtook each other are put back into
//! the order in which they were sent.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::payload::Depacketizer;

/// Orders the packets of one source for a depacketizer: a packet that comes early is held until
/// the gap before it is filled or given up.
///
/// Packets that are in order are passed through at once and never copied. No packet is held for
/// longer than [`Config::gap_timeout`], provided that [`Self::expire`] is called in time.
#[derive(Debug)]
pub struct ReorderBuffer {
    config: Config,
    next: Option<u64>,
    held: BTreeMap<u64, HeldPacket>,
    held_bytes: usize,
    /// Arrivals of held packets with their numbers, oldest first, and some of packets that were
    /// passed on.
    arrivals: VecDeque<(Instant, u64)>,
    gap_since: Option<Instant>,
    late: u64,
}

/// Limits of the reordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Longest time that a gap may stay open. Zero if nothing can arrive late, as over TCP.
    pub gap_timeout: Duration,
    /// Bytes that may be held, counting [`PACKET_OVERHEAD_BYTES`] for each packet. Beyond this,
    /// the oldest gap is given up early.
    pub bytes_max: usize,
}

/// The parts of an RTP packet that a depacketizer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket<'a> {
    /// Sequence number, extended by a [`SequenceExtender`](crate::SequenceExtender).
    pub sequence: u64,
    /// RTP timestamp as on the wire.
    pub timestamp: u32,
    /// Marker bit of the packet.
    pub marker: bool,
    /// Payload of the packet, without padding.
    pub payload: &'a [u8],
    /// Instant at which the packet arrived.
    pub received: Instant,
}

impl ReceivedPacket<'_> {
    /// Pushes the packet into the depacketizer of its track.
    pub fn push_to(self, depacketizer: &mut Depacketizer) {
        depacketizer.push(self.sequence, self.timestamp, self.marker, self.payload);
    }
}

/// A packet that is held, copied.
#[derive(Debug)]
struct HeldPacket {
    received: Instant,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

impl HeldPacket {
    fn cost(&self) -> usize {
        self.payload.len() + PACKET_OVERHEAD_BYTES
    }
}

/// Cost of a held packet in addition to its payload, in bytes. It bounds the number of empty
/// packets as well.
pub const PACKET_OVERHEAD_BYTES: usize = 96;

impl ReorderBuffer {
    /// Creates a buffer that waits for its first packet.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            next: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            arrivals: VecDeque::new(),
            gap_since: None,
            late: 0,
        }
    }

    /// Takes a packet and passes all packets that are in order then to `sink`: maybe none, each
    /// number once, in ascending order. A packet behind those already passed is dropped.
    #[inline]
    pub fn push(&mut self, packet: ReceivedPacket<'_>, mut sink: impl FnMut(ReceivedPacket<'_>)) {
        // Nearly all packets come in order.
        if self.next == Some(packet.sequence) && self.held.is_empty() {
            self.next = Some(packet.sequence + 1);
            sink(packet);
            return;
        }
        self.push_another(packet, sink);
    }

    /// Takes a packet that is the first one, or that comes early, late or behind a gap.
    fn push_another(
        &mut self,
        packet: ReceivedPacket<'_>,
        mut sink: impl FnMut(ReceivedPacket<'_>),
    ) {
        self.expire(packet.received, &mut sink);
        let next = *self.next.get_or_insert(packet.sequence);
        if packet.sequence < next {
            self.late += 1;
            return;
        }
        if packet.sequence == next {
            sink(packet);
            self.next = Some(next + 1);
            self.release(&mut sink);
            return;
        }
        self.hold(packet);
        self.gap_since.get_or_insert(packet.received);
        let waits = !self.config.gap_timeout.is_zero();
        while !self.held.is_empty() && (self.held_bytes > self.config.bytes_max || !waits) {
            self.skip(&mut sink);
        }
    }

    /// Gives up the gaps that have been open for [`Config::gap_timeout`].
    pub fn expire(&mut self, now: Instant, mut sink: impl FnMut(ReceivedPacket<'_>)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.skip(&mut sink);
        }
    }

    /// Returns the instant at which [`Self::expire`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.gap_since? + self.config.gap_timeout)
    }

    /// Gives up all gaps, for a source that ends or restarts. The next packet is then the
    /// first.
    pub fn restart(&mut self, mut sink: impl FnMut(ReceivedPacket<'_>)) {
        while self.gap_since.is_some() {
            self.skip(&mut sink);
        }
        self.next = None;
    }

    /// Number of packets that came twice, or after their gap was given up.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn hold(&mut self, packet: ReceivedPacket<'_>) {
        let held = HeldPacket {
            received: packet.received,
            timestamp: packet.timestamp,
            marker: packet.marker,
            payload: packet.payload.to_vec(),
        };
        self.held_bytes += held.cost();
        match self.held.insert(packet.sequence, held) {
            None => self.arrivals.push_back((packet.received, packet.sequence)),
            Some(double) => {
                self.held_bytes -= double.cost();
                self.late += 1;
            }
        }
    }

    /// Continues behind the gap.
    fn skip(&mut self, sink: &mut impl FnMut(ReceivedPacket<'_>)) {
        let Some((&first, _)) = self.held.first_key_value() else {
            self.gap_since = None;
            return;
        };
        self.next = Some(first);
        self.release(sink);
    }

    /// Passes on the packets that follow without a gap.
    fn release(&mut self, sink: &mut impl FnMut(ReceivedPacket<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            let sequence = *entry.key();
            if self.next != Some(sequence) {
                // The gap was first noticed when the oldest packet behind it arrived, which
                // need not be the one with the lowest number. Each arrival is looked at once,
                // however many gaps there are.
                while self.arrivals.front().is_some_and(|it| it.1 < sequence) {
                    self.arrivals.pop_front();
                }
                self.gap_since = self.arrivals.front().map(|it| it.0);
                return;
            }
            let packet = entry.remove();
            self.held_bytes -= packet.cost();
            self.next = Some(sequence + 1);
            sink(ReceivedPacket {
                sequence,
                timestamp: packet.timestamp,
                marker: packet.marker,
                payload: &packet.payload,
                received: packet.received,
            });
        }
        self.arrivals.clear();
        self.gap_since = None;
    }
}

#[cfg(test)]
mod tests;
