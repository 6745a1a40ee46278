//! Redundant audio (RFC 2198) for a viewer that prefers it, or that is far and loses packets: each
//! packet carries one or two before it.
//!
//! Redundancy is negotiated for each session alone. Copies in a participant's packets repair losses
//! on the way to the server and are not forwarded (`ingest::Voice`). This module makes new copies
//! from the packets that were sent last, with the viewer's own payload types and timestamps. So
//! neither end has to know how the other is connected.

use std::sync::Arc;

use glassline_media::{MediaUnit, PAYLOAD_BYTES_MAX};
use glassline_rtp::red::{self, Repeat};
use smallvec::SmallVec;

/// Adds copies to one viewer's packets.
#[derive(Debug)]
pub(super) struct Redundancy {
    /// Payload type of the blocks within a RED packet.
    payload_type: u8,
    /// Most copies in a packet.
    copies: usize,
    /// The newest packets sent, the oldest first.
    last: SmallVec<[Last; COPIES_MAX]>,
    /// Buffer kept for its capacity.
    payload: Vec<u8>,
}

/// Most copies in a packet: with three, hardly more is repaired at losses that a call bears.
const COPIES_MAX: usize = 2;

/// A packet that was sent.
#[derive(Debug)]
struct Last {
    timestamp: u32,
    unit: Arc<MediaUnit>,
    packet: usize,
}

impl Last {
    /// Returns the copy of the packet in one with this `timestamp`. Where this packet is the newer one,
    /// the offset is very large, and the copy does not fit.
    fn repeat(&self, timestamp: u32) -> Option<Repeat<'_>> {
        Some(Repeat {
            offset: timestamp.wrapping_sub(self.timestamp),
            payload: self.unit.payload(self.packet)?,
        })
    }
}

impl Redundancy {
    /// Creates the state before the first packet. `payload_type` is the viewer's payload type of
    /// the codec itself; a packet has 1 to 2 `copies`.
    pub(super) fn new(payload_type: u8, copies: usize) -> Self {
        let mut redundancy = Self {
            payload_type,
            copies: 0,
            last: SmallVec::new(),
            payload: Vec::new(),
        };
        redundancy.set_copies(copies);
        redundancy
    }

    /// Sets how many copies a packet has, 1 to 2.
    pub(super) fn set_copies(&mut self, copies: usize) {
        self.copies = copies.clamp(1, COPIES_MAX);
    }

    /// Returns the RED payload for packet `packet` of `unit`, which the viewer gets with this
    /// `timestamp`; `None` past the unit's last packet. Copies that are too old or too long for RED
    /// or for a datagram are left out.
    pub(super) fn wrap(
        &mut self,
        unit: &Arc<MediaUnit>,
        packet: usize,
        timestamp: u32,
    ) -> Option<&[u8]> {
        let primary = unit.payload(packet)?;
        let mut room = PAYLOAD_BYTES_MAX.saturating_sub(1 + primary.len());
        let mut copies: SmallVec<[Repeat<'_>; COPIES_MAX]> = SmallVec::new();
        for last in self.last.iter().rev().take(self.copies) {
            let repeat = last.repeat(timestamp).filter(Repeat::fits);
            let repeat = repeat.filter(|it| COPY_BYTES + it.payload.len() <= room);
            if let Some(repeat) = repeat {
                room -= COPY_BYTES + repeat.payload.len();
                copies.insert(0, repeat);
            }
        }
        self.payload.clear();
        red::write(self.payload_type, &copies, primary, &mut self.payload);
        drop(copies);
        let is_newer = |last: &Last| timestamp.wrapping_sub(last.timestamp) < 1 << 31;
        if self.last.last().is_none_or(is_newer) {
            if self.last.len() == COPIES_MAX {
                self.last.remove(0);
            }
            self.last.push(Last {
                timestamp,
                unit: Arc::clone(unit),
                packet,
            });
        }
        Some(&self.payload)
    }
}

/// Bytes of the RED header of a copy.
const COPY_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    fn unit(payload: &[u8]) -> Arc<MediaUnit> {
        let mut builder = UnitBuilder::default();
        builder.push(payload);
        let stamps = Stamps::arrived(Instant::now());
        Arc::new(
            builder
                .build(TrackIndex(0), MediaTime::ZERO, true, stamps)
                .expect("a packet"),
        )
    }

    fn wrapped(redundancy: &mut Redundancy, payload: &[u8], timestamp: u32) -> Vec<(u32, Vec<u8>)> {
        let out = redundancy.wrap(&unit(payload), 0, timestamp);
        let blocks = red::blocks(out.expect("one packet")).expect("RED");
        assert!(blocks.iter().all(|it| it.payload_type == 111));
        let blocks = blocks.iter().map(|it| (it.offset, it.payload.to_vec()));
        blocks.collect()
    }

    #[test]
    fn each_packet_brings_the_one_before_along() {
        let mut redundancy = Redundancy::new(111, 1);
        let mut say = |payload: &str, timestamp: u32| {
            let blocks = wrapped(&mut redundancy, payload.as_bytes(), timestamp);
            let text = |it: (u32, Vec<u8>)| (it.0, String::from_utf8(it.1).expect("text"));
            blocks.into_iter().map(text).collect::<Vec<_>>()
        };
        let copy = |offset, payload: &str| (offset, payload.to_owned());
        // The timestamp wraps between the two packets.
        let first = 0u32.wrapping_sub(480);
        assert_eq!(say("a", first), [copy(0, "a")]);
        assert_eq!(say("b", 0), [copy(480, "a"), copy(0, "b")]);
        assert_eq!(say("d", 960), [copy(960, "b"), copy(0, "d")]);
        assert_eq!(say("c", 480), [copy(0, "c")], "it comes late");
        assert_eq!(say("e", 1440), [copy(480, "d"), copy(0, "e")]);
        assert_eq!(say("f", 1440 + (1 << 14)), [copy(0, "f")], "too long ago");
        assert!(redundancy.wrap(&unit(b"one"), 1, 0).is_none());
    }

    #[test]
    fn two_copies_come_from_the_oldest_on_as_far_as_there_is_room() {
        let mut redundancy = Redundancy::new(111, 2);
        let copies = |blocks: Vec<(u32, Vec<u8>)>| {
            let offsets = blocks.iter().map(|it| it.0);
            offsets.collect::<Vec<_>>()
        };
        let half = vec![1; PAYLOAD_BYTES_MAX / 2 - 20];
        assert_eq!(copies(wrapped(&mut redundancy, b"a", 0)), [0]);
        assert_eq!(copies(wrapped(&mut redundancy, b"b", 960)), [960, 0]);
        let blocks = wrapped(&mut redundancy, b"c", 1_920);
        let letters: Vec<_> = blocks.iter().map(|it| it.1[0]).collect();
        assert_eq!(
            (letters, copies(blocks)),
            (b"abc".to_vec(), vec![1_920, 960, 0])
        );
        assert_eq!(
            copies(wrapped(&mut redundancy, &half, 2_880)),
            [1_920, 960, 0]
        );
        assert_eq!(
            copies(wrapped(&mut redundancy, &half, 3_840)),
            [1_920, 960, 0]
        );
        assert_eq!(
            copies(wrapped(&mut redundancy, &half, 4_800)),
            [960, 0],
            "no room"
        );
        redundancy.set_copies(1);
        assert_eq!(copies(wrapped(&mut redundancy, b"d", 5_760)), [960, 0]);
    }

    #[test]
    fn what_does_not_fit_goes_alone() {
        let mut redundancy = Redundancy::new(111, 1);
        let half = vec![1; PAYLOAD_BYTES_MAX / 2 - 2];
        assert_eq!(wrapped(&mut redundancy, &half, 0).len(), 1);
        let more = vec![2; PAYLOAD_BYTES_MAX / 2 - 3];
        assert_eq!(wrapped(&mut redundancy, &more, 480).len(), 2, "just so");
        let full = vec![3; PAYLOAD_BYTES_MAX];
        assert_eq!(wrapped(&mut redundancy, &full, 960).len(), 1);
        assert_eq!(wrapped(&mut redundancy, b"small", 1440).len(), 1);
    }
}
