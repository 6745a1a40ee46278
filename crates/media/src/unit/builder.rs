use bytes::Bytes;

use super::{Content, Forwarded, LayerIndex, MediaUnit, Span};
use crate::{MediaTime, Stamps};

/// The most that a builder keeps between units, in bytes.
const ROOM_BYTES_MAX: usize = 16 << 10;

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

    /// The finished unit, `None` if it has no packet. The builder is empty afterwards and
    /// keeps its room: what the unit keeps is allocated at its exact size, so that what the
    /// hub lets go fits what comes next.
    ///
    /// `index` and `first_packet` are zero until the hub numbers it.
    pub fn build(
        &mut self,
        track: usize,
        time: MediaTime,
        keyframe: bool,
        stamps: Stamps,
    ) -> Option<MediaUnit> {
        self.end_packet();
        if self.ends.is_empty() {
            self.clear();
            return None;
        }
        let spans = self.spans();
        self.data.extend_from_slice(&self.apart);
        let unit = MediaUnit {
            track,
            layer: LayerIndex::BASE,
            index: 0,
            first_packet: 0,
            time,
            keyframe,
            first: true,
            last: true,
            stamps,
            data: Bytes::copy_from_slice(&self.data),
            ends: self.ends.as_slice().into(),
            content: Content::Frame(spans),
        };
        self.clear();
        Some(unit)
    }

    /// Sees to room for `bytes` more of payload.
    pub fn reserve(&mut self, bytes: usize) {
        self.data.reserve(bytes);
    }

    /// Forgets what was appended. Room beyond 16 KiB is given back: keyframes are few, and
    /// there may be a thousand builders.
    pub fn clear(&mut self) {
        self.data.clear();
        if self.data.capacity() > ROOM_BYTES_MAX {
            self.data = Vec::new();
        }
        self.ends.clear();
        self.apart.clear();
        self.parts.clear();
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
