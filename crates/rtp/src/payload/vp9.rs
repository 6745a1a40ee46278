//! VP9 payloads (RFC 9628), sent in non-flexible mode: a descriptor with a 15-bit picture ID,
//! the bits that begin and end a frame, and on keyframes the frame size.

use glassline_media::{Bits, Temporal, UnitBuilder};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::picture_id::{self, PictureId};

/// First byte of the descriptor (RFC 9628 §4.2): a picture ID follows.
const I: u8 = 0x80;
/// The frame is predicted from other frames (inter-picture predicted).
const P: u8 = 0x40;
/// Layer indices follow the picture ID.
const L: u8 = 0x20;
/// Flexible mode: reference indices follow.
const F: u8 = 0x10;
/// The payload begins a layer frame.
const B: u8 = 0x08;
/// The payload ends a layer frame.
const E: u8 = 0x04;
/// A scalability structure follows.
const V: u8 = 0x02;
/// In the layer indices: a switching point (see [`Descriptor::temporal`]).
const U: u8 = 0x10;

/// Length of the descriptor that we write, in bytes.
const DESCRIPTOR_BYTES: usize = 3;
/// First byte of a scalability structure of one spatial layer with its size, without a group of
/// pictures (§4.2.1).
const STRUCTURE: u8 = 0x10;
/// Length of that scalability structure in bytes.
const STRUCTURE_BYTES: usize = 5;

/// Splits a frame or superframe into payloads of at most `payload_max` bytes, of equal size
/// except for a shorter last one.
pub(super) fn packetize(
    frame: &[u8],
    id: &mut PictureId,
    payload_max: usize,
    out: &mut UnitBuilder,
) {
    if frame.is_empty() {
        return;
    }
    let id = id.next();
    let header = FrameHeader::parse(frame);
    let predicted = if header.intra { 0 } else { P };
    let structure = header.size.map(|(width, height)| {
        let ([a, b], [c, d]) = (width.to_be_bytes(), height.to_be_bytes());
        [STRUCTURE, a, b, c, d]
    });
    let structure = structure.as_ref().map_or(&[][..], |bytes| &bytes[..]);
    // The first payload has the structure and so much less of the frame, so that packets are
    // equal.
    let room = payload_max
        .saturating_sub(DESCRIPTOR_BYTES)
        .max(STRUCTURE_BYTES + 1);
    let total = frame.len() + structure.len();
    let size = total
        .div_ceil(total.div_ceil(room))
        .max(structure.len() + 1);
    let (mut rest, mut first) = (frame, true);
    while !rest.is_empty() {
        let structure = if first { structure } else { &[] };
        let (piece, more) = rest.split_at(rest.len().min(size - structure.len()));
        rest = more;
        let begin = if first { B } else { 0 };
        let end = if rest.is_empty() { E } else { 0 };
        let v = if structure.is_empty() { 0 } else { V };
        out.wire_only(&[I | predicted | begin | end | v, id[0], id[1]]);
        out.wire_only(structure);
        out.coded(piece);
        out.end_packet();
        first = false;
    }
}

/// The fields of a payload descriptor that a receiver needs.
struct Descriptor<'a> {
    flags: u8,
    /// Layer indices; 0 without.
    layers: u8,
    payload: &'a [u8],
}

impl<'a> Descriptor<'a> {
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (&flags, mut rest) = payload.split_first()?;
        let mut layers = 0;
        if flags & I != 0 {
            rest = picture_id::skip(rest)?;
        }
        if flags & L != 0 {
            layers = *rest.first()?;
            // TL0PICIDX is present in non-flexible mode only.
            rest = rest.get(if flags & F == 0 { 2 } else { 1 }..)?;
        }
        if flags & (F | P) == F | P {
            rest = skip_references(rest)?;
        }
        if flags & V != 0 {
            rest = skip_structure(rest)?;
        }
        Some(Self {
            flags,
            layers,
            payload: rest,
        })
    }

    const fn begins_frame(&self) -> bool {
        self.flags & B != 0 && self.layers >> 1 & 7 == 0
    }

    /// Returns the place among the temporal layers. At a switching point of the lowest layer, later frames
    /// of all higher layers refer to none before (§4.2). Encoders mark it as well on frames that refer to
    /// lower layers alone, from which on their own layer can be decoded.
    const fn temporal(&self) -> Temporal {
        let layer = self.layers >> 5;
        let is_switching_point = self.layers & U != 0;
        Temporal {
            layer,
            needs: match (self.flags & P != 0, is_switching_point) {
                (false, _) => 0,
                (true, true) => layer.saturating_sub(1),
                (true, false) => layer,
            },
            opens: match (is_switching_point, layer) {
                (false, _) => 0,
                (true, 0) => Temporal::LAYER_MAX,
                (true, layer) => layer,
            },
            discardable: false,
        }
    }
}

/// Skips up to three reference indices, each except the last one marked.
fn skip_references(mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..3 {
        let (reference, more) = rest.split_first()?;
        rest = more;
        if reference & 1 == 0 {
            return Some(rest);
        }
    }
    None
}

/// Skips a scalability structure: sizes of the spatial layers and references of a group of
/// pictures (§4.2.1).
fn skip_structure(rest: &[u8]) -> Option<&[u8]> {
    let (&first, mut rest) = rest.split_first()?;
    let layers = usize::from(first >> 5) + 1;
    if first & 0x10 != 0 {
        rest = rest.get(4 * layers..)?;
    }
    if first & 0x08 != 0 {
        let (&pictures, more) = rest.split_first()?;
        rest = more;
        for _ in 0..pictures {
            let (&picture, more) = rest.split_first()?;
            rest = more.get(usize::from(picture >> 2 & 3)..)?;
        }
    }
    Some(rest)
}

/// The fields of a frame's uncompressed header that the payload format needs (VP9 bitstream
/// specification §6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FrameHeader {
    /// True for a key frame, as far as the header shows.
    key: bool,
    /// True if no other frame is needed: a key frame, or one with intra blocks only.
    intra: bool,
    /// Width and height of a key frame in pixels.
    size: Option<(u16, u16)>,
}

impl FrameHeader {
    /// Reads the header. Returns the default for a damaged frame and for one that shows an
    /// earlier frame again.
    fn parse(frame: &[u8]) -> Self {
        Self::read(&mut Bits::new(frame)).unwrap_or_default()
    }

    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        if bits.take(2)? != 2 {
            return None;
        }
        let profile = bits.take(1)? | bits.take(1)? << 1;
        if profile == 3 {
            bits.take(1)?;
        }
        if bits.take(1)? == 1 {
            return None;
        }
        let inter = bits.take(1)? == 1;
        let shown = bits.take(1)? == 1;
        let resilient = bits.take(1)? == 1;
        if inter {
            let intra_only = !shown && bits.take(1)? == 1;
            return Some(Self {
                key: false,
                intra: intra_only && resilient,
                size: None,
            });
        }
        if bits.take(24)? != 0x49_8342 {
            return None;
        }
        Some(Self {
            key: true,
            intra: true,
            size: Self::size(bits, profile),
        })
    }

    fn size(bits: &mut Bits<'_>, profile: u32) -> Option<(u16, u16)> {
        const SRGB: u32 = 7;
        if profile >= 2 {
            bits.take(1)?;
        }
        let with_sampling = profile & 1 == 1;
        if bits.take(3)? != SRGB {
            bits.take(if with_sampling { 4 } else { 1 })?;
        } else if with_sampling {
            bits.take(1)?;
        }
        // Both are stored as one less than their value; 65,536 does not fit the structure.
        let width = u16::try_from(bits.take(16)? + 1).ok()?;
        let height = u16::try_from(bits.take(16)? + 1).ok()?;
        Some((width, height))
    }
}

/// Joins payloads into a frame; the frames of spatial layers follow one another.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Whether the last payload ended its layer frame.
    ended: bool,
    temporal: Temporal,
}

impl FrameFormat for Assembly {
    fn begins(&self, payload: &[u8]) -> bool {
        Descriptor::parse(payload).is_some_and(|it| it.begins_frame())
    }

    /// Frames that are not shown have the timestamp of the frame behind them.
    fn separates(&self, _: &[u8]) -> bool {
        false
    }

    fn is_open(&self) -> bool {
        !self.ended
    }

    fn reset(&mut self) {
        self.ended = true;
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        let descriptor = Descriptor::parse(payload).ok_or(DropReason::Malformed)?;
        let begins = descriptor.flags & B != 0;
        if descriptor.payload.is_empty() || begins != self.ended {
            return Err(DropReason::Malformed);
        }
        self.ended = descriptor.flags & E != 0;
        if begins {
            let (layer, is_first) = (descriptor.temporal(), frame.is_empty());
            self.temporal = if is_first {
                layer
            } else {
                self.temporal.with(layer)
            };
        }
        frame.extend_from_slice(descriptor.payload);
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        if !self.ended {
            return Err(DropReason::Malformed);
        }
        Ok(FrameHeader::parse(frame).key.into())
    }

    fn temporal(&self) -> Temporal {
        self.temporal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_both_modes_are_passed_over() {
        let payload = |bytes: &[u8]| Descriptor::parse(bytes).map(|it| it.payload.to_vec());
        assert_eq!(payload(&[0x08, 9]), Some(vec![9]));
        assert_eq!(payload(&[0x88, 0x11, 9]), Some(vec![9]));
        // Layers, with TL0PICIDX only in non-flexible mode.
        assert_eq!(payload(&[0xa8, 0x80, 1, 0x02, 7, 9]), Some(vec![9]));
        assert_eq!(payload(&[0xb8, 0x80, 1, 0x02, 9]), Some(vec![9]));
        // Two references in flexible mode.
        assert_eq!(payload(&[0xd8, 0x80, 1, 0x03, 0x04, 9]), Some(vec![9]));
        // Two layers with sizes, a group of two pictures with one reference.
        let structure = [0x38, 0, 1, 0, 1, 0, 2, 0, 2, 2, 0x00, 0x04, 1, 9];
        let bytes = [&[0x8a, 0x80, 1][..], &structure].concat();
        assert_eq!(payload(&bytes), Some(vec![9]));
        for cut in 1..bytes.len() - 1 {
            assert_eq!(payload(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(
            payload(&[0xd8, 0x80, 1, 3, 3, 3, 9]),
            None,
            "four references"
        );
    }

    #[test]
    fn switching_points_are_those_of_the_specification_and_those_of_encoders() {
        let temporal = |flags: u8, layers: u8| {
            let bytes = [flags | L | B | E, layers, 0, 9];
            let it = Descriptor::parse(&bytes).expect("whole").temporal();
            (it.layer, it.needs, it.opens)
        };
        assert_eq!(temporal(P, 0x00), (0, 0, 0));
        assert_eq!(temporal(P, U), (0, 0, 7));
        assert_eq!(temporal(P, 1 << 5 | U), (1, 0, 1));
        assert_eq!(temporal(P, 2 << 5 | U), (2, 1, 2));
        assert_eq!(temporal(P, 2 << 5), (2, 2, 0));
        assert_eq!(temporal(0, 1 << 5), (1, 0, 0));
        // The upper spatial layer of a picture is no switching point.
        let (mut assembly, mut frame) = (Assembly::default(), Vec::new());
        assembly.reset();
        for layers in [1 << 5 | U, 1 << 5 | 2] {
            let taken = assembly.take(&[P | L | B | E, layers, 0, 9], &mut frame);
            assert_eq!(taken, Ok(()));
        }
        let picture = FrameFormat::temporal(&assembly);
        assert_eq!((picture.layer, picture.needs, picture.opens), (1, 1, 0));
    }

    #[test]
    fn only_the_lowest_layer_begins_a_picture() {
        let begins = |bytes: &[u8]| Assembly::default().begins(bytes);
        assert!(begins(&[0x88, 1, 9]));
        assert!(!begins(&[0x80, 1, 9]));
        assert!(!begins(&[0xa8, 1, 0x02, 0, 9]), "the second layer");
    }
}
