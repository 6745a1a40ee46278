//! What the hub keeps of a stream: coded frames, cut into packets once.
//!
//! ```text
//! one buffer   │prefix│ coded bytes │prefix│ coded bytes │ … │ bytes of the frame that no packet carries │
//!              └── packet 0 ────────┴── packet 1 ────────┘     (start codes, headers that a prefix replaces)
//! coded frame  = those ranges of the buffer, in order, that are no prefix
//! ```
//!
//! The coded bytes exist once. A packet's prefix (FU header, payload descriptor) stands
//! directly in front of its range of them, so a viewer's cipher reads both in one pass and
//! nothing is copied together per viewer. Whoever wants whole frames (MoQ, recording,
//! transcoding) reads the other ranges by reference.

mod builder;
mod coded_frame;

use std::ops::Range;

use bytes::Bytes;

use crate::{MediaTime, Stamps};

pub use builder::UnitBuilder;
pub use coded_frame::CodedFrame;

/// The largest RTP payload that ingest makes, in bytes.
///
/// A datagram may have 1200 bytes: 12 of RTP header, up to 20 of header
/// extensions, 2 of RTX's original sequence number and 16 of AEAD tag leave 1150.
pub const PAYLOAD_BYTES_MAX: usize = 1150;

/// More padding than this is not worth its bytes.
const PADDING_BYTES_MAX: u8 = 16;

/// Which coding of a track a unit belongs to: simulcast layers and renditions of one
/// track are numbered from 0, the one that every receiver can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerIndex(pub u8);

impl LayerIndex {
    /// The only layer of a track that has no others.
    pub const BASE: Self = Self(0);
}

/// One coding of one track of a stream. A track's index alone means its base layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackLayer {
    /// Track of the stream, an index into the stream's tracks.
    pub track: usize,
    /// Layer of the track.
    pub layer: LayerIndex,
}

impl From<usize> for TrackLayer {
    fn from(track: usize) -> Self {
        Self {
            track,
            layer: LayerIndex::BASE,
        }
    }
}

/// A coded frame with its packets, or a packet that is forwarded as it came.
///
/// Packetized once per stream and shared by every egress: nothing of a viewer (SSRC,
/// sequence number, key) is in it. Immutable once published; passed as `Arc<MediaUnit>`.
#[derive(Clone, Debug)]
pub struct MediaUnit {
    /// Track of the stream, an index into the stream's tracks.
    pub track: usize,
    /// Layer of the track.
    pub layer: LayerIndex,
    /// Number of this unit on its layer, rising by one.
    pub index: u64,
    /// Number of the first packet on its layer; packets rise by one without gaps.
    pub first_packet: u64,
    /// When the frame is presented, on the stream's timeline.
    pub time: MediaTime,
    /// A decoder can start here (H.264: IDR with its parameter sets). Always true for audio.
    pub keyframe: bool,
    /// This unit begins its frame.
    pub first: bool,
    /// This unit ends its frame: its last packet carries the RTP marker.
    pub last: bool,
    /// When the unit passed each stage so far.
    pub stamps: Stamps,
    /// Payloads back to back, then the bytes that only the coded frame has.
    data: Bytes,
    /// Where each payload ends in `data`.
    ends: Box<[u32]>,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// The ranges of `data` that are the coded frame, in order; none where the payloads
    /// are the frame as they stand.
    Frame(Box<[Span]>),
    Forwarded(Forwarded),
}

/// A range of a unit's bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// What a packet that is forwarded as it came keeps of the packet that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets of the source that were lost just before this one. An egress that numbers
    /// packets leaves out as many numbers, so that receivers conceal the loss.
    pub gap: u16,
    /// RTP timestamp that the packet came under. The packet goes on under it, so that what
    /// both ends of a call note of the packet can be joined.
    pub timestamp: u32,
}

impl MediaUnit {
    /// The coding that this unit belongs to.
    pub const fn track_layer(&self) -> TrackLayer {
        TrackLayer {
            track: self.track,
            layer: self.layer,
        }
    }

    /// Number of packets, at least one.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Payload bytes in all packets.
    pub fn payload_bytes(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// Bytes that keeping this unit costs.
    pub fn memory_bytes(&self) -> usize {
        let spans = match &self.content {
            Content::Frame(spans) => size_of_val::<[Span]>(spans),
            Content::Forwarded(_) => 0,
        };
        size_of::<Self>() + self.data.len() + size_of_val::<[u32]>(&self.ends) + spans
    }

    /// The RTP payload of packet `index` within this unit; `None` past the last.
    pub fn payload(&self, index: usize) -> Option<&[u8]> {
        let range = self.range(index)?;
        self.data.get(range)
    }

    /// All RTP payloads in order.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads {
            unit: self,
            next: 0,
        }
    }

    /// The coded frame as the packetizer took it; of a forwarded packet `None`, since
    /// nobody has taken its payload apart.
    pub fn coded_frame(&self) -> Option<CodedFrame<'_>> {
        match &self.content {
            Content::Frame(spans) => Some(CodedFrame::new(self, spans)),
            Content::Forwarded(_) => None,
        }
    }

    /// What is kept of the packet, if it is forwarded as it came.
    pub fn forwarded(&self) -> Option<Forwarded> {
        match self.content {
            Content::Forwarded(forwarded) => Some(forwarded),
            Content::Frame(_) => None,
        }
    }

    /// True for the packet that carries the RTP marker of a video frame.
    pub fn marker(&self, index: usize) -> bool {
        self.last && index + 1 == self.ends.len()
    }

    /// Bytes of RTP padding (RFC 3550 §5.1) that make packet `index` as long as
    /// the one before it: 0 unless it is the unit's last and misses by at most
    /// 16. Fragments of a frame are cut equal but for a remainder; without that
    /// a shorter datagram can follow in the same segmented send.
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

/// Iterator over the payloads of a [`MediaUnit`].
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
