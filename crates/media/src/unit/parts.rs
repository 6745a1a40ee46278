//! Taking a unit apart and putting it together again, for nodes that pass units on as they are.

use std::ops::Range;

use bytes::Bytes;

use super::{Content, DecodeLead, Forwarded, LayerIndex, MediaUnit, Span, Temporal, TrackIndex};
use crate::{MediaTime, Stamps};

/// All that a [`MediaUnit`] consists of but its numbers on the stream, which each hub gives anew.
///
/// [`MediaUnit::parts`] returns them, and [`UnitParts::unite`] makes the same unit of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitParts {
    /// Index of the track within the stream's tracks.
    pub track: TrackIndex,
    /// Layer of the track.
    pub layer: LayerIndex,
    /// Presentation time on the timeline of the stream that the unit comes from.
    pub time: MediaTime,
    /// Time from the decoding of the frame to its presentation.
    pub decode_lead: DecodeLead,
    /// Whether a decoder can start with the unit.
    pub keyframe: bool,
    /// Place of the frame among the temporal layers of its encoding.
    pub temporal: Temporal,
    /// Whether the unit begins its frame.
    pub first: bool,
    /// Whether the unit ends its frame.
    pub last: bool,
    /// Instants at which the unit passed the stages so far.
    pub stamps: Stamps,
    /// Payloads back to back, then the bytes of the coded frame that no packet carries.
    pub data: Bytes,
    /// For each packet, the offset in `data` behind its payload.
    pub packet_ends: Vec<u32>,
    /// The kind of the bytes.
    pub content: PartsContent,
}

/// The kind of the bytes of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartsContent {
    /// The ranges of the bytes that the coded frame consists of, in order. Without a range, the frame
    /// is the payloads back to back.
    Frame(Vec<Range<u32>>),
    /// The payload of one packet that is forwarded as it came.
    Forwarded(Forwarded),
}

/// The reason why parts do not make a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// There is no packet, or one of a length that a forwarded packet cannot have.
    #[error("a unit has {packets} packets, which it cannot have")]
    Packets {
        /// Number of packets.
        packets: usize,
    },
    /// A packet is empty, or ends behind the bytes.
    #[error(
        "packet {packet} of a unit ends at byte {end} of {bytes}, at or before its beginning or too late"
    )]
    PacketEnd {
        /// Index of the packet.
        packet: usize,
        /// Offset behind its payload.
        end: u32,
        /// Number of bytes of the unit.
        bytes: usize,
    },
    /// A range of the frame is empty, or ends behind the bytes.
    #[error("the frame of a unit of {bytes} bytes has the range {start}..{end}")]
    Range {
        /// Offset of the first byte of the range.
        start: u32,
        /// Offset behind the range.
        end: u32,
        /// Number of bytes of the unit.
        bytes: usize,
    },
}

impl MediaUnit {
    /// Returns what the unit consists of. Its bytes are shared, not copied.
    pub fn parts(&self) -> UnitParts {
        let content = match &self.content {
            Content::Frame(spans) => {
                PartsContent::Frame(spans.iter().map(|span| span.start..span.end).collect())
            }
            Content::Forwarded(forwarded) => PartsContent::Forwarded(*forwarded),
        };
        UnitParts {
            track: self.track,
            layer: self.layer,
            time: self.time,
            decode_lead: self.decode_lead,
            keyframe: self.keyframe,
            temporal: self.temporal,
            first: self.first,
            last: self.last,
            stamps: self.stamps,
            data: self.data.clone(),
            packet_ends: self.ends.to_vec(),
            content,
        }
    }
}

impl UnitParts {
    /// Makes the unit. Its `index` and `first_packet` are zero until a hub numbers it.
    ///
    /// # Errors
    /// [`PartsError`] if packets or ranges contradict the number of bytes.
    pub fn unite(self) -> Result<MediaUnit, PartsError> {
        let bytes = self.data.len();
        let packets = self.packet_ends.len();
        let is_forwarded = matches!(self.content, PartsContent::Forwarded(_));
        if packets == 0 || is_forwarded && packets != 1 {
            return Err(PartsError::Packets { packets });
        }
        let mut before = 0;
        for (packet, &end) in self.packet_ends.iter().enumerate() {
            if end <= before || end as usize > bytes {
                return Err(PartsError::PacketEnd { packet, end, bytes });
            }
            before = end;
        }
        let content = match self.content {
            PartsContent::Forwarded(forwarded) => Content::Forwarded(forwarded),
            PartsContent::Frame(ranges) => Content::Frame(spans(&ranges, bytes)?),
        };
        Ok(MediaUnit {
            track: self.track,
            layer: self.layer,
            index: 0,
            first_packet: 0,
            time: self.time,
            decode_lead: self.decode_lead,
            keyframe: self.keyframe,
            temporal: self.temporal,
            first: self.first,
            last: self.last,
            stamps: self.stamps,
            recorded: None,
            data: self.data,
            ends: self.packet_ends.into(),
            content,
        })
    }
}

fn spans(ranges: &[Range<u32>], bytes: usize) -> Result<Box<[Span]>, PartsError> {
    let span = |range: &Range<u32>| {
        let Range { start, end } = *range;
        if start >= end || end as usize > bytes {
            return Err(PartsError::Range { start, end, bytes });
        }
        Ok(Span { start, end })
    };
    ranges.iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::UnitBuilder;

    fn fragmented() -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.frame_only(&[0, 0, 1, 0x65]);
        for part in [&[1u8, 2, 3][..], &[4, 5]] {
            builder.wire_only(&[0x7c, 0x85]);
            builder.coded(part);
            builder.end_packet();
        }
        let stamps = Stamps::arrived(Instant::now());
        let unit = builder.build(TrackIndex(1), MediaTime::from_nanos(-7), false, stamps);
        unit.expect("has packets")
    }

    #[test]
    fn a_unit_is_the_same_after_it_was_taken_apart() {
        let unit = fragmented();
        let again = unit.parts().unite().expect("they fit");
        assert_eq!(again.parts(), unit.parts());
        assert_eq!(
            again.payloads().collect::<Vec<_>>(),
            unit.payloads().collect::<Vec<_>>()
        );
        let frame = |unit: &MediaUnit| unit.coded_frame().expect("a frame").to_vec();
        assert_eq!(frame(&again), [0, 0, 1, 0x65, 1, 2, 3, 4, 5]);
        assert_eq!(frame(&again), frame(&unit));
    }

    #[test]
    fn a_forwarded_packet_keeps_its_numbers_and_stays_one_packet() {
        let forwarded = Forwarded {
            gap: 3,
            timestamp: u32::MAX,
        };
        let stamps = Stamps::arrived(Instant::now());
        let unit =
            UnitBuilder::forward(b"voice", forwarded, TrackIndex(0), MediaTime::ZERO, stamps);
        let mut parts = unit.expect("has a packet").parts();
        let again = parts.clone().unite().expect("they fit");
        assert_eq!(again.forwarded(), Some(forwarded));
        assert!(again.coded_frame().is_none());
        parts.packet_ends = vec![1, 5];
        assert_eq!(
            parts.unite().map(|_| ()),
            Err(PartsError::Packets { packets: 2 })
        );
    }

    proptest! {
        #[test]
        fn parts_that_contradict_each_other_make_no_unit(
            ends in proptest::collection::vec(0u32..12, 0..4),
            ranges in proptest::collection::vec((0u32..12, 0u32..12), 0..4),
        ) {
            let mut parts = fragmented().parts();
            parts.data = Bytes::from_static(&[7; 9]);
            let rises = ends.first().is_some_and(|first| *first > 0)
                && ends.windows(2).all(|pair| pair[0] < pair[1])
                && ends.iter().all(|end| *end <= 9);
            let fits = ranges.iter().all(|(start, end)| start < end && *end <= 9);
            parts.packet_ends = ends;
            parts.content = PartsContent::Frame(ranges.iter().map(|(a, b)| *a..*b).collect());
            let made = parts.unite();
            prop_assert_eq!(made.is_ok(), rises && fits);
            if let Ok(unit) = made {
                prop_assert!(unit.payloads().all(|payload| !payload.is_empty()));
                let _ = unit.coded_frame().expect("a frame").to_vec();
            }
        }
    }
}
