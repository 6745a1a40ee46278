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

use std::ops::Range;

use bytes::Bytes;

use crate::{MediaTime, Stamps};

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
            Content::Frame(spans) => Some(CodedFrame { unit: self, spans }),
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

/// A coded frame, by reference: H.264 and H.265 as Annex B, others as their codec has it.
#[derive(Clone, Copy, Debug)]
pub struct CodedFrame<'a> {
    unit: &'a MediaUnit,
    spans: &'a [Span],
}

impl<'a> CodedFrame<'a> {
    /// Bytes of the frame.
    pub fn byte_count(&self) -> usize {
        self.ranges().map(|range| range.len()).sum()
    }

    /// The frame's bytes in order, in as few pieces as they lie in.
    pub fn pieces(self) -> impl Iterator<Item = &'a [u8]> {
        let data = &self.unit.data;
        self.ranges().map(|range| &data[range])
    }

    /// As [`pieces`](Self::pieces), sharing the unit's memory instead of borrowing it.
    pub fn shared_pieces(self) -> impl Iterator<Item = Bytes> + 'a {
        let data = &self.unit.data;
        self.ranges().map(|range| data.slice(range))
    }

    /// A copy of the frame in one piece.
    pub fn to_vec(self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.byte_count());
        for piece in self.pieces() {
            whole.extend_from_slice(piece);
        }
        whole
    }

    fn ranges(self) -> impl Iterator<Item = Range<usize>> + 'a {
        let whole = self.spans.is_empty().then(|| 0..self.unit.payload_bytes());
        let spans = self.spans.iter();
        let parts = spans.map(|span| span.start as usize..span.end as usize);
        whole.into_iter().chain(parts)
    }
}

/// Puts a frame and its packets into one buffer.
///
/// A payload format says of each byte where it belongs: [`wire_only`](Self::wire_only) bytes are in
/// the packet only, [`coded`](Self::coded) bytes in both, [`frame_only`](Self::frame_only) bytes in
/// the coded frame only. [`end_packet`](Self::end_packet) ends the packet.
#[derive(Debug, Default)]
pub struct UnitBuilder {
    data: Vec<u8>,
    ends: Vec<u32>,
    /// Bytes of the frame that no packet carries.
    apart: Vec<u8>,
    /// Ranges of the frame, in order.
    parts: Vec<Part>,
}

/// A range of the frame in the making: of `data`, or of what is apart.
#[derive(Clone, Copy, Debug)]
struct Part {
    is_apart: bool,
    span: Span,
}

impl UnitBuilder {
    /// An empty builder with room for `bytes` of payload.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(bytes / 1000 + 2),
            apart: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Appends one packet whose payload is a part of the frame as it stands.
    pub fn push(&mut self, payload: &[u8]) {
        self.coded(payload);
        self.end_packet();
    }

    /// Appends bytes of the packet's prefix, which are no part of the frame.
    pub fn wire_only(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// Appends bytes of the frame to the packet.
    pub fn coded(&mut self, bytes: &[u8]) {
        let start = offset(self.data.len());
        self.data.extend_from_slice(bytes);
        self.add_part(false, start, offset(self.data.len()));
    }

    /// Appends bytes of the frame that no packet carries, such as a start code.
    pub fn frame_only(&mut self, bytes: &[u8]) {
        let start = offset(self.apart.len());
        self.apart.extend_from_slice(bytes);
        self.add_part(true, start, offset(self.apart.len()));
    }

    /// Ends the packet under construction; an empty one is not counted.
    pub fn end_packet(&mut self) {
        let end = offset(self.data.len());
        if end > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end);
        }
    }

    /// Packets ended so far.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Nothing was appended to a packet yet.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Sizes of the packets ended so far, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| (end - start) as usize)
    }

    /// The finished unit, `None` if it has no packet.
    ///
    /// `index` and `first_packet` are zero until the hub numbers it.
    pub fn build(
        mut self,
        track: usize,
        time: MediaTime,
        keyframe: bool,
        stamps: Stamps,
    ) -> Option<MediaUnit> {
        self.end_packet();
        if self.ends.is_empty() {
            return None;
        }
        let spans = self.spans();
        self.data.extend_from_slice(&self.apart);
        Some(MediaUnit {
            track,
            layer: LayerIndex::BASE,
            index: 0,
            first_packet: 0,
            time,
            keyframe,
            first: true,
            last: true,
            stamps,
            // What the hub keeps has no room to spare.
            data: Bytes::from(self.data.into_boxed_slice()),
            ends: self.ends.into_boxed_slice(),
            content: Content::Frame(spans),
        })
    }

    /// A packet that goes on as it came; `None` if `payload` is empty, as probes are.
    pub fn forward(
        payload: &[u8],
        forwarded: Forwarded,
        track: usize,
        time: MediaTime,
        stamps: Stamps,
    ) -> Option<MediaUnit> {
        let mut builder = Self::with_capacity(payload.len());
        builder.wire_only(payload);
        let unit = builder.build(track, time, true, stamps)?;
        Some(MediaUnit {
            content: Content::Forwarded(forwarded),
            ..unit
        })
    }

    fn add_part(&mut self, is_apart: bool, start: u32, end: u32) {
        if start == end {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.is_apart == is_apart && last.span.end == start => {
                last.span.end = end;
            }
            _ => self.parts.push(Part {
                is_apart,
                span: Span { start, end },
            }),
        }
    }

    /// The frame's ranges once what is apart stands behind the payloads.
    fn spans(&self) -> Box<[Span]> {
        let payload_bytes = offset(self.data.len());
        if let [part] = self.parts[..]
            && !part.is_apart
            && (part.span.start, part.span.end) == (0, payload_bytes)
        {
            return Box::default();
        }
        let placed = |part: &Part| {
            let by = if part.is_apart { payload_bytes } else { 0 };
            Span {
                start: part.span.start + by,
                end: part.span.end + by,
            }
        };
        self.parts.iter().map(placed).collect()
    }
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a unit stays far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn stamps() -> Stamps {
        Stamps::arrived(Instant::now())
    }

    fn build(builder: UnitBuilder) -> Option<MediaUnit> {
        builder.build(0, MediaTime::ZERO, true, stamps())
    }

    #[test]
    fn the_last_packet_of_a_burst_is_padded_if_it_misses_by_little() {
        let padding = |sizes: &[usize]| {
            let mut builder = UnitBuilder::default();
            for size in sizes {
                builder.push(&vec![7; *size]);
            }
            let unit = build(builder).expect("packets");
            (0..sizes.len())
                .map(|index| unit.padding(index))
                .collect::<Vec<_>>()
        };
        assert_eq!(padding(&[1000, 1000, 993]), [0, 0, 7]);
        assert_eq!(padding(&[1000, 1000]), [0, 0]);
        assert_eq!(padding(&[1000, 984]), [0, 16]);
        assert_eq!(padding(&[1000, 983]), [0, 0], "too much");
        assert_eq!(padding(&[500]), [0]);
        assert_eq!(padding(&[500, 1000]), [0, 0], "it is the longer one");
    }

    #[test]
    fn payloads_come_back_as_pushed() {
        let mut builder = UnitBuilder::with_capacity(16);
        builder.push(b"one");
        builder.coded(b"tw");
        builder.coded(b"o");
        builder.end_packet();
        builder.push(b"");
        assert_eq!(builder.sizes().collect::<Vec<_>>(), [3, 3]);
        let unit = build(builder).expect("two packets");
        assert_eq!(
            unit.payloads().collect::<Vec<_>>(),
            [b"one".as_slice(), b"two"]
        );
        assert!(!unit.marker(0) && unit.marker(1));
        assert_eq!(unit.payload(2), None);
    }

    #[test]
    fn an_empty_burst_is_none() {
        assert!(build(UnitBuilder::default()).is_none());
        let mut only_apart = UnitBuilder::default();
        only_apart.frame_only(b"start code");
        assert!(build(only_apart).is_none(), "no packet carries it");
    }

    #[test]
    fn the_frame_is_read_without_the_prefixes_of_its_packets() {
        let mut builder = UnitBuilder::default();
        builder.frame_only(b"[start]");
        for (prefix, part) in [("A:", "one "), ("B:", "two "), ("C:", "three")] {
            builder.wire_only(prefix.as_bytes());
            builder.coded(part.as_bytes());
            builder.end_packet();
        }
        let unit = build(builder).expect("three packets");
        let payloads: Vec<_> = unit.payloads().collect();
        assert_eq!(payloads, [&b"A:one "[..], b"B:two ", b"C:three"]);
        assert_eq!(unit.payload_bytes(), 19);
        let frame = unit.coded_frame().expect("a frame");
        assert_eq!(frame.to_vec(), b"[start]one two three");
        assert_eq!(frame.byte_count(), 20);
        let shared: Vec<_> = frame.shared_pieces().collect();
        assert_eq!(shared.concat(), frame.to_vec());
        let inside = unit.data.as_ptr_range();
        assert!(
            shared.iter().all(|piece| inside.contains(&piece.as_ptr())),
            "nothing is copied"
        );
    }

    #[test]
    fn a_frame_that_is_its_payloads_needs_no_map() {
        let mut builder = UnitBuilder::default();
        builder.push(b"one ");
        builder.push(b"two");
        let unit = build(builder).expect("two packets");
        let frame = unit.coded_frame().expect("a frame");
        assert_eq!(frame.pieces().collect::<Vec<_>>(), [b"one two"]);
        assert!(matches!(&unit.content, Content::Frame(spans) if spans.is_empty()));
    }

    #[test]
    fn a_forwarded_packet_keeps_its_numbers_and_shows_no_frame() {
        let forwarded = Forwarded {
            gap: 2,
            timestamp: 4711,
        };
        let unit = UnitBuilder::forward(b"voice", forwarded, 0, MediaTime::ZERO, stamps());
        let unit = unit.expect("one packet");
        assert_eq!(unit.forwarded(), Some(forwarded));
        assert_eq!(unit.payload(0), Some(&b"voice"[..]));
        assert!(unit.coded_frame().is_none());
        assert!(UnitBuilder::forward(b"", forwarded, 0, MediaTime::ZERO, stamps()).is_none());
    }
}
