use bytes::Bytes;

use super::{Content, DecodeLead, Forwarded, LayerIndex, MediaUnit, Span, Temporal, TrackIndex};
use crate::{MediaTime, Stamps};

/// Payload memory that a builder keeps from one unit to the next, in bytes.
const ROOM_BYTES_MAX: usize = 16 << 10;

/// Builds [`MediaUnit`]s: collects a coded frame and its packets in one buffer.
///
/// A packetizer states for each byte where it belongs: [`wire_only`](Self::wire_only) bytes
/// are in the packet only, [`coded`](Self::coded) bytes in both the packet and the frame,
/// [`frame_only`](Self::frame_only) bytes in the frame only.
/// [`end_packet`](Self::end_packet) ends a packet, [`build`](Self::build) the unit.
#[derive(Debug, Default)]
pub struct UnitBuilder {
    /// Payloads back to back.
    data: Vec<u8>,
    /// For each packet that was ended, the offset in `data` behind its payload.
    ends: Vec<u32>,
    /// Bytes of the frame that no packet carries.
    frame_only: Vec<u8>,
    /// Ranges that the frame consists of, in order.
    ranges: Vec<FrameRange>,
}

/// A range of the frame under construction: of `data`, or of `frame_only`.
#[derive(Clone, Copy, Debug)]
struct FrameRange {
    is_frame_only: bool,
    span: Span,
}

impl UnitBuilder {
    /// Creates an empty builder with room for `bytes` bytes of payload.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(bytes / 1000 + 2),
            frame_only: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Appends one packet whose whole payload is part of the coded frame.
    pub fn push(&mut self, payload: &[u8]) {
        self.coded(payload);
        self.end_packet();
    }

    /// Appends bytes to the current packet that are no part of the coded frame, such as an FU
    /// header.
    pub fn wire_only(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// Appends bytes of the coded frame to the current packet.
    pub fn coded(&mut self, bytes: &[u8]) {
        let start = offset(self.data.len());
        self.data.extend_from_slice(bytes);
        self.add_range(false, start, offset(self.data.len()));
    }

    /// Appends bytes of the coded frame that no packet carries, such as a start code.
    pub fn frame_only(&mut self, bytes: &[u8]) {
        let start = offset(self.frame_only.len());
        self.frame_only.extend_from_slice(bytes);
        self.add_range(true, start, offset(self.frame_only.len()));
    }

    /// Ends the current packet. An empty packet is not counted.
    pub fn end_packet(&mut self) {
        let end = offset(self.data.len());
        if end > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end);
        }
    }

    /// Number of packets that were ended so far.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether no packet has any bytes yet.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the payload sizes of the packets that were ended so far, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| (end - start) as usize)
    }

    /// Ends the current packet and returns the unit; `None` if it has no packet.
    ///
    /// The builder is empty afterwards and keeps its memory for the next unit. The unit is
    /// allocated at its exact size, so that the memory of units that leave the hub fits the
    /// units that follow.
    ///
    /// `index` and `first_packet` of the unit are zero until the hub numbers it. It is decoded when it
    /// is presented.
    pub fn build(
        &mut self,
        track: TrackIndex,
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
        self.data.extend_from_slice(&self.frame_only);
        let unit = MediaUnit {
            track,
            layer: LayerIndex::BASE,
            index: 0,
            first_packet: 0,
            time,
            decode_lead: DecodeLead::NONE,
            keyframe,
            temporal: Temporal::default(),
            first: true,
            last: true,
            stamps,
            recorded: None,
            data: Bytes::copy_from_slice(&self.data),
            ends: self.ends.as_slice().into(),
            content: Content::Frame(spans),
        };
        self.clear();
        Some(unit)
    }

    /// Makes room for `bytes` more bytes of payload.
    pub fn reserve(&mut self, bytes: usize) {
        self.data.reserve(bytes);
    }

    /// Removes everything that was appended. Memory beyond 16 KiB is freed: keyframes are rare,
    /// and there may be a thousand builders.
    pub fn clear(&mut self) {
        self.data.clear();
        if self.data.capacity() > ROOM_BYTES_MAX {
            self.data = Vec::new();
        }
        self.ends.clear();
        self.frame_only.clear();
        self.ranges.clear();
    }

    /// Builds a unit of one packet that is forwarded as it came; `None` if `payload` is empty,
    /// as in the padding packets of bandwidth probes.
    pub fn forward(
        payload: &[u8],
        forwarded: Forwarded,
        track: TrackIndex,
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

    /// Extends the frame by a range; a range that touches the one before it is joined with it.
    fn add_range(&mut self, is_frame_only: bool, start: u32, end: u32) {
        if start == end {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.is_frame_only == is_frame_only && last.span.end == start => {
                last.span.end = end;
            }
            _ => self.ranges.push(FrameRange {
                is_frame_only,
                span: Span { start, end },
            }),
        }
    }

    /// Returns the ranges of the frame in the final buffer, where the bytes that no packet
    /// carries stand behind the payloads. Empty if the frame is exactly the payloads.
    fn spans(&self) -> Box<[Span]> {
        let payload_bytes = offset(self.data.len());
        if let [range] = self.ranges[..]
            && !range.is_frame_only
            && (range.span.start, range.span.end) == (0, payload_bytes)
        {
            return Box::default();
        }
        let placed = |range: &FrameRange| {
            let by = if range.is_frame_only {
                payload_bytes
            } else {
                0
            };
            Span {
                start: range.span.start + by,
                end: range.span.end + by,
            }
        };
        self.ranges.iter().map(placed).collect()
    }
}

/// Converts a number of bytes in a unit to an offset.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a unit stays far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_keeps_16_kib_for_the_next_unit_and_no_more() {
        for (bytes, kept) in [(16 << 10, true), ((16 << 10) + 1, false)] {
            let mut builder = UnitBuilder::with_capacity(bytes);
            assert!(builder.is_empty());
            builder.push(&vec![1; bytes]);
            assert_eq!((builder.is_empty(), builder.packet_count()), (false, 1));
            builder.clear();
            assert_eq!(builder.data.capacity() > 0, kept, "{bytes}");
            builder.reserve(4_000);
            assert!(builder.data.capacity() >= 4_000);
        }
    }
}
