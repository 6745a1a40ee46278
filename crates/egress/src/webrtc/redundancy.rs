//! Redundant audio (RFC 2198) for a viewer that prefers it: each packet carries the one before.
//!
//! Redundancy is negotiated for each session alone. Copies in a participant's packets repair losses
//! on the way to the server and are not forwarded (`ingest::Voice`). This module makes new copies
//! from the packets that were sent last, with the viewer's own payload types and timestamps. So
//! neither end has to know how the other is connected.

use std::sync::Arc;

use glassline_media::{MediaUnit, PAYLOAD_BYTES_MAX};
use glassline_rtp::red::{self, Repeat};

/// Adds copies to one viewer's packets.
#[derive(Debug)]
pub(super) struct Redundancy {
    /// Payload type of the blocks within a RED packet.
    payload_type: u8,
    last: Option<Last>,
    /// Buffer kept for its capacity.
    payload: Vec<u8>,
}

/// The newest packet sent.
#[derive(Debug)]
struct Last {
    timestamp: u32,
    unit: Arc<MediaUnit>,
    packet: usize,
}

impl Redundancy {
    /// Creates the state before the first packet. `payload_type` is the viewer's payload type of
    /// the codec itself.
    pub(super) const fn new(payload_type: u8) -> Self {
        Self {
            payload_type,
            last: None,
            payload: Vec::new(),
        }
    }

    /// Returns the RED payload for packet `packet` of `unit`, which the viewer gets with this
    /// `timestamp`; `None` past the unit's last packet. A copy that is too old or too long for RED
    /// or for a datagram is left out.
    pub(super) fn wrap(
        &mut self,
        unit: &Arc<MediaUnit>,
        packet: usize,
        timestamp: u32,
    ) -> Option<&[u8]> {
        let primary = unit.payload(packet)?;
        let before = self.last.as_ref().and_then(|last| {
            Some(Repeat {
                // The last packet may be newer than this one, which gives a very large offset: then
                // there is no copy.
                offset: timestamp.wrapping_sub(last.timestamp),
                payload: last.unit.payload(last.packet)?,
            })
        });
        let fits = |it: &Repeat<'_>| {
            it.fits() && HEADERS_BYTES + it.payload.len() + primary.len() <= PAYLOAD_BYTES_MAX
        };
        let before = before.filter(fits);
        self.payload.clear();
        red::write(
            self.payload_type,
            before.as_slice(),
            primary,
            &mut self.payload,
        );
        let is_newer = |last: &Last| timestamp.wrapping_sub(last.timestamp) < 1 << 31;
        if self.last.as_ref().is_none_or(is_newer) {
            self.last = Some(Last {
                timestamp,
                unit: Arc::clone(unit),
                packet,
            });
        }
        Some(&self.payload)
    }
}

/// Bytes of the RED headers of a copy and of the packet itself.
const HEADERS_BYTES: usize = 5;

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
        let mut redundancy = Redundancy::new(111);
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
    fn what_does_not_fit_goes_alone() {
        let mut redundancy = Redundancy::new(111);
        let half = vec![1; PAYLOAD_BYTES_MAX / 2 - 2];
        assert_eq!(wrapped(&mut redundancy, &half, 0).len(), 1);
        let more = vec![2; PAYLOAD_BYTES_MAX / 2 - 3];
        assert_eq!(wrapped(&mut redundancy, &more, 480).len(), 2, "just so");
        let full = vec![3; PAYLOAD_BYTES_MAX];
        assert_eq!(wrapped(&mut redundancy, &full, 960).len(), 1);
        assert_eq!(wrapped(&mut redundancy, b"small", 1440).len(), 1);
    }
}
