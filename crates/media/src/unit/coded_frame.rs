use std::ops::Range;

use bytes::Bytes;

use super::{MediaUnit, Span};

/// A coded frame, borrowed from its [`MediaUnit`]. Frames of H.264 and H.265 are in Annex B
/// form, frames of other codecs as the codec specifies.
#[derive(Clone, Copy, Debug)]
pub struct CodedFrame<'a> {
    unit: &'a MediaUnit,
    spans: &'a [Span],
}

impl<'a> CodedFrame<'a> {
    pub(super) const fn new(unit: &'a MediaUnit, spans: &'a [Span]) -> Self {
        Self { unit, spans }
    }

    /// Number of bytes of the frame.
    pub fn byte_count(&self) -> usize {
        self.ranges().map(|range| range.len()).sum()
    }

    /// Returns the bytes of the frame in order, in as few pieces as possible without a copy.
    pub fn pieces(self) -> impl Iterator<Item = &'a [u8]> {
        let data = &self.unit.data;
        self.ranges().map(|range| &data[range])
    }

    /// Returns the same pieces as [`pieces`](Self::pieces), sharing the unit's memory instead
    /// of borrowing it.
    pub fn shared_pieces(self) -> impl Iterator<Item = Bytes> + 'a {
        let data = &self.unit.data;
        self.ranges().map(|range| data.slice(range))
    }

    /// Copies the frame into one buffer.
    pub fn to_vec(self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.byte_count());
        for piece in self.pieces() {
            whole.extend_from_slice(piece);
        }
        whole
    }

    /// Returns the ranges of the frame within the unit's data, in order.
    fn ranges(self) -> impl Iterator<Item = Range<usize>> + 'a {
        let whole = self.spans.is_empty().then(|| 0..self.unit.payload_bytes());
        let spans = self.spans.iter();
        let parts = spans.map(|span| span.start as usize..span.end as usize);
        whole.into_iter().chain(parts)
    }
}
