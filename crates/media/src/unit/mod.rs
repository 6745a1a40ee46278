//! The coded frames that the hub keeps of a stream, each divided into packets once.
//!
//! ```text
//! one buffer   │prefix│ coded bytes │prefix│ coded bytes │ … │ bytes of the frame that no packet carries │
//!              └── packet 0 ────────┴── packet 1 ────────┘     (start codes, headers that a prefix replaces)
//! coded frame  = those ranges of the buffer, in order, that are no prefix
//! ```
//!
//! The coded bytes are stored once. A packet's prefix (FU header, payload descriptor) stands
//! directly in front of its range of them, so a viewer's cipher reads both in one pass and
//! nothing is assembled per viewer. Outputs that need whole frames (MoQ, recording,
//! transcoding) read the ranges between the prefixes by reference.

mod builder;
mod coded_frame;
mod decode_lead;
mod parts;
mod recorded_place;
mod temporal;
mod track_index;

use std::ops::Range;

use bytes::Bytes;

use crate::{MediaTime, Stamps};

pub use builder::UnitBuilder;
pub use coded_frame::CodedFrame;
pub use decode_lead::DecodeLead;
pub use parts::{PartsContent, PartsError, UnitParts};
pub use recorded_place::RecordedPlace;
pub use temporal::Temporal;
pub use track_index::TrackIndex;

/// Largest RTP payload that ingest makes, in bytes.
///
/// A datagram has at most 1200 bytes: 12 of RTP header, up to 20 of header extensions, 2 of
/// RTX's original sequence number and 16 of AEAD tag leave 1150 for the payload.
pub const PAYLOAD_BYTES_MAX: usize = 1150;

/// Most padding that is added to the last packet of a unit, in bytes. A larger difference is
/// not worth its bandwidth.
const PADDING_BYTES_MAX: u8 = 16;

/// Index of a layer within a track. Layer 0 is the one that every receiver can take: the only encoding
/// of most tracks, and the best one that is alive of a track with several
/// [`layers`](crate::Track::layers), which are numbered from 1 in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerIndex(pub u8);

impl LayerIndex {
    /// The base layer, which is the only layer of a track with a single encoding. Of a track with
    /// several, it is one sequence of frames, each of the encoding that was the best at its time.
    pub const BASE: Self = Self(0);

    /// The layer that a server makes of the track itself, in another codec, for receivers that
    /// cannot take the track's own. No source publishes it.
    pub const TRANSCODED: Self = Self(u8::MAX);

    /// Returns the layer of the encoding at `position` of the [`layers`](crate::Track::layers) of a
    /// track.
    pub fn of_encoding(position: usize) -> Self {
        let number = u8::try_from(position + 1).unwrap_or(u8::MAX);
        Self(number.min(Self::TRANSCODED.0 - 1))
    }
}

/// One layer of one track of a stream. A track index converts into the base layer of its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackLayer {
    /// Index of the track within the stream's tracks.
    pub track: TrackIndex,
    /// Layer of the track.
    pub layer: LayerIndex,
}

impl From<TrackIndex> for TrackLayer {
    fn from(track: TrackIndex) -> Self {
        Self {
            track,
            layer: LayerIndex::BASE,
        }
    }
}

/// A coded frame with its packets, or a single packet that is forwarded as it came.
///
/// A unit is packetized once per stream and shared by every egress: it contains nothing of a
/// viewer (SSRC, sequence number, key). It is immutable once it is published, and passed as
/// `Arc<MediaUnit>`. [`UnitBuilder`] creates units.
#[derive(Clone, Debug)]
pub struct MediaUnit {
    /// Index of the track within the stream's tracks.
    pub track: TrackIndex,
    /// Layer of the track.
    pub layer: LayerIndex,
    /// Number of this unit on its layer; consecutive units have consecutive numbers.
    pub index: u64,
    /// Number of the unit's first packet on its layer; packets are numbered without gaps.
    pub first_packet: u64,
    /// Presentation time of the frame on the stream's timeline.
    pub time: MediaTime,
    /// Time from the decoding of the frame to its presentation.
    pub decode_lead: DecodeLead,
    /// True if a decoder can start with this unit (H.264: IDR with its parameter sets). Always
    /// true for audio.
    pub keyframe: bool,
    /// Place of the frame among the temporal layers of its encoding.
    pub temporal: Temporal,
    /// True if this unit begins its frame.
    pub first: bool,
    /// True if this unit ends its frame. Its last packet carries the RTP marker.
    pub last: bool,
    /// Instants at which the unit passed the stages so far.
    pub stamps: Stamps,
    /// The place in a recording that the unit was read from; `None` for live media and files.
    pub recorded: Option<RecordedPlace>,
    /// Payloads back to back, then the bytes of the coded frame that no packet carries.
    data: Bytes,
    /// For each packet, the offset in `data` behind its payload.
    ends: Box<[u32]>,
    /// The kind of the payloads: a frame or a forwarded packet.
    content: Content,
}

/// The kind of the bytes of a unit.
#[derive(Clone, Debug)]
enum Content {
    /// A coded frame: the ranges of `data` that it consists of, in order. An empty list stands
    /// for a frame that is exactly the payloads back to back.
    Frame(Box<[Span]>),
    /// The payload of a packet that is forwarded as it came.
    Forwarded(Forwarded),
}

/// A range of bytes within a unit's `data`.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// Numbers of the received packet that a forwarded packet keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Number of packets of the source that were lost just before this one. An egress that
    /// numbers packets skips as many sequence numbers, so that receivers conceal the loss.
    pub gap: u16,
    /// RTP timestamp of the received packet. The packet is sent on with the same timestamp, so
    /// that measurements of both ends of a call can be joined.
    pub timestamp: u32,
}

impl MediaUnit {
    /// Returns the track and layer that this unit belongs to.
    pub const fn track_layer(&self) -> TrackLayer {
        TrackLayer {
            track: self.track,
            layer: self.layer,
        }
    }

    /// Returns the decode time of the frame on the stream's timeline. In a layer of the hub it never
    /// falls from one coded frame to the next. It is at most the presentation time, unless the source
    /// reorders frames and does not announce it.
    pub const fn decode_time(&self) -> MediaTime {
        self.decode_lead.before(self.time)
    }

    /// Number of packets, at least one.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Number of payload bytes in all packets.
    pub fn payload_bytes(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// Number of bytes of memory that this unit takes.
    pub fn memory_bytes(&self) -> usize {
        let spans = match &self.content {
            Content::Frame(spans) => size_of_val::<[Span]>(spans),
            Content::Forwarded(_) => 0,
        };
        size_of::<Self>() + self.data.len() + size_of_val::<[u32]>(&self.ends) + spans
    }

    /// Returns the RTP payload of packet `index` within this unit; `None` past the last packet.
    pub fn payload(&self, index: usize) -> Option<&[u8]> {
        let range = self.range(index)?;
        self.data.get(range)
    }

    /// Returns all RTP payloads, in order.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads {
            unit: self,
            next: 0,
        }
    }

    /// Returns the coded frame as the packetizer took it. `None` for a forwarded packet, whose
    /// payload was never parsed.
    pub fn coded_frame(&self) -> Option<CodedFrame<'_>> {
        match &self.content {
            Content::Frame(spans) => Some(CodedFrame::new(self, spans)),
            Content::Forwarded(_) => None,
        }
    }

    /// Returns the numbers of a packet that is forwarded as it came; `None` for a coded frame.
    pub fn forwarded(&self) -> Option<Forwarded> {
        match self.content {
            Content::Forwarded(forwarded) => Some(forwarded),
            Content::Frame(_) => None,
        }
    }

    /// Returns whether packet `index` is the last one of its frame, the one that carries the
    /// RTP marker if the codec marks frames.
    pub fn marker(&self, index: usize) -> bool {
        self.last && index + 1 == self.ends.len()
    }

    /// Number of bytes of RTP padding (RFC 3550 §5.1) that make packet `index` as long as the
    /// packet before it. It is 0 unless the packet is the last of the unit and at most 16 bytes
    /// shorter. The fragments of a frame have equal lengths but for a remainder; with equal
    /// lengths another datagram can follow in the same segmented send (GSO).
    pub fn padding(&self, index: usize) -> u8 {
        if index == 0 || index + 1 != self.ends.len() {
            return 0;
        }
        let len = |index| self.range(index).map_or(0, |range| range.len());
        let missing = len(index - 1).saturating_sub(len(index));
        u8::try_from(missing)
            .ok()
            .filter(|missing| *missing <= PADDING_BYTES_MAX)
            .unwrap_or(0)
    }

    /// Returns a unit whose packets were edited by `edit`, which keeps their lengths. The unit has a
    /// buffer of its own.
    #[must_use]
    pub fn edited(&self, mut edit: impl FnMut(&mut [u8])) -> Self {
        let mut data = self.data.to_vec();
        for index in 0..self.packet_count() {
            if let Some(payload) = self.range(index).and_then(|range| data.get_mut(range)) {
                edit(payload);
            }
        }
        Self {
            data: data.into(),
            ..self.clone()
        }
    }

    /// Returns the range of packet `index` within `data`.
    fn range(&self, index: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        Some(start..end)
    }
}

/// Iterator over the RTP payloads of a [`MediaUnit`], returned by [`MediaUnit::payloads`].
#[derive(Clone, Debug)]
pub struct Payloads<'a> {
    unit: &'a MediaUnit,
    next: usize,
}

impl<'a> Iterator for Payloads<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let payload = self.unit.payload(self.next)?;
        self.next += 1;
        Some(payload)
    }
}

#[cfg(test)]
mod tests;
