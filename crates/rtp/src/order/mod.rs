//! Packets that overtook each other, back in the order they were sent in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::payload::Depacketizer;

/// Puts the packets of one source in order for a depacketizer: holds those that came
/// early until the gap before them is filled or given up.
///
/// A stream in order is handed through at once and never copied. No packet is held for
/// longer than [`Config::patience`], if [`Self::expire`] is called in time.
#[derive(Debug)]
pub struct InOrder {
    config: Config,
    next: Option<u64>,
    held: BTreeMap<u64, Packet>,
    held_bytes: usize,
    gap_since: Option<Instant>,
    late: u64,
}

/// How much is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a gap may stay open. Zero where nothing can come late, as in TCP.
    pub patience: Duration,
    /// Bytes that may be held, [`PACKET_OVERHEAD_BYTES`] for each packet included;
    /// beyond them the oldest gap is given up early.
    pub bytes_max: usize,
}

/// One packet's part that a depacketizer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Wide: of [`SequenceExtender`](crate::SequenceExtender).
    pub sequence: u64,
    /// As on the wire.
    pub timestamp: u32,
    /// As on the wire.
    pub marker: bool,
    /// Without padding.
    pub payload: &'a [u8],
    /// When it came.
    pub received: Instant,
}

impl Part<'_> {
    /// Gives it to the depacketizer of its track.
    pub fn hand_to(self, depacketizer: &mut Depacketizer) {
        depacketizer.push(self.sequence, self.timestamp, self.marker, self.payload);
    }
}

#[derive(Debug)]
struct Packet {
    received: Instant,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

impl Packet {
    fn cost(&self) -> usize {
        self.payload.len() + PACKET_OVERHEAD_BYTES
    }
}

/// What a held packet costs beside its payload, so that empty ones are bounded, too.
pub const PACKET_OVERHEAD_BYTES: usize = 96;

impl InOrder {
    /// Nothing came yet.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            next: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            gap_since: None,
            late: 0,
        }
    }

    /// Takes a packet; `sink` gets what is in order by that, maybe nothing, each
    /// number once and rising. A packet behind those handed out is ignored.
    pub fn push(&mut self, part: Part<'_>, mut sink: impl FnMut(Part<'_>)) {
        self.expire(part.received, &mut sink);
        let next = *self.next.get_or_insert(part.sequence);
        if part.sequence < next {
            self.late += 1;
            return;
        }
        if part.sequence == next {
            sink(part);
            self.next = Some(next + 1);
            self.release(&mut sink);
            return;
        }
        self.hold(part);
        self.gap_since.get_or_insert(part.received);
        let patient = !self.config.patience.is_zero();
        while !self.held.is_empty() && (self.held_bytes > self.config.bytes_max || !patient) {
            self.skip(&mut sink);
        }
    }

    /// Gives up the gaps that are open for longer than [`Config::patience`].
    pub fn expire(&mut self, now: Instant, mut sink: impl FnMut(Part<'_>)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.skip(&mut sink);
        }
    }

    /// When [`Self::expire`] will have something to do.
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.gap_since? + self.config.patience)
    }

    /// Gives up all gaps, for a source that ends or begins anew: the next packet is
    /// the first.
    pub fn restart(&mut self, mut sink: impl FnMut(Part<'_>)) {
        while self.gap_since.is_some() {
            self.skip(&mut sink);
        }
        self.next = None;
    }

    /// Packets that came again, or after their gap was given up.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn hold(&mut self, part: Part<'_>) {
        let packet = Packet {
            received: part.received,
            timestamp: part.timestamp,
            marker: part.marker,
            payload: part.payload.to_vec(),
        };
        self.held_bytes += packet.cost();
        if let Some(double) = self.held.insert(part.sequence, packet) {
            self.held_bytes -= double.cost();
            self.late += 1;
        }
    }

    /// Goes on behind the gap.
    fn skip(&mut self, sink: &mut impl FnMut(Part<'_>)) {
        let Some((&first, _)) = self.held.first_key_value() else {
            self.gap_since = None;
            return;
        };
        self.next = Some(first);
        self.release(sink);
    }

    /// Hands out what follows without a gap.
    fn release(&mut self, sink: &mut impl FnMut(Part<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            let sequence = *entry.key();
            if self.next != Some(sequence) {
                // Seen first when the oldest of those behind it came, which need not
                // be the next in turn.
                self.gap_since = self.held.values().map(|packet| packet.received).min();
                return;
            }
            let packet = entry.remove();
            self.held_bytes -= packet.cost();
            self.next = Some(sequence + 1);
            sink(Part {
                sequence,
                timestamp: packet.timestamp,
                marker: packet.marker,
                payload: &packet.payload,
                received: packet.received,
            });
        }
        self.gap_since = None;
    }
}

#[cfg(test)]
mod tests;
