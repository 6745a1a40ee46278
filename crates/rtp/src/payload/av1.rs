//! AV1 payloads (RTP Payload Format For AV1, version 1.0.0, of the Alliance for Open Media): OBU
//! elements without their own size behind an aggregation header.
//!
//! Temporal units have the low-overhead format: each OBU with its size. Temporal delimiters, tile
//! lists and padding are not sent (§5).

use glassline_media::{Codec, UnitBuilder};

use super::PacketizeError;
use super::assembly::{DropReason, Entry, FrameFormat};

/// Aggregation header (§4.4): the first element continues the last element of the previous
/// packet.
const Z: u8 = 0x80;
/// The last element continues in the next packet.
const Y: u8 = 0x40;
/// Number of elements. If it is 0 each element has a length; otherwise the last one has none.
const W_SHIFT: u32 = 4;
/// Bits of the number of elements in the aggregation header.
const W: u8 = 0x30;
/// A new coded video sequence begins.
const N: u8 = 0x08;

/// Most elements in a packet that we send: as many as `W` can count.
const ELEMENTS_MAX: usize = 3;

/// OBU header (AV1 bitstream specification §5.3.2): an extension byte follows.
const EXTENSION: u8 = 0x04;
/// A size field follows.
const HAS_SIZE: u8 = 0x02;

const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;
/// Last of the types of frames and of their parts.
const REDUNDANT_FRAME_HEADER: u8 = 7;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;

const fn obu_type(header: u8) -> u8 {
    header >> 3 & 0x0f
}

/// Splits a temporal unit into payloads of at most `payload_max` bytes, of nearly equal size
/// except for the last one.
///
/// Payloads are split within OBUs, not between them. Chromium takes a payload whose last element
/// ends for the end of a frame, wherever the marker is; if only hidden frames came before, its
/// decoder shows nothing for them, fails, and waits for the next keyframe.
pub(super) fn packetize(
    unit: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    let elements = elements(unit)?;
    let bytes: usize = elements.iter().map(|it| it.len() + LENGTH_BYTES).sum();
    let count = bytes.div_ceil(payload_max.saturating_sub(1).max(1)).max(1);
    let limit = (bytes.div_ceil(count) + 1).clamp(MIN_BYTES, payload_max.max(MIN_BYTES));
    // Encoders may repeat the sequence header before frames that need earlier ones.
    let mut n = if is_keyframe(unit) { N } else { 0 };
    let mut packet = Elements::default();
    for (index, element) in elements.iter().enumerate() {
        let is_last = index + 1 == elements.len();
        let mut from = 0;
        while from < element.len() {
            let room = packet.room(limit);
            if room == 0 {
                packet.flush(0, &mut n, out);
                continue;
            }
            let to = element.len().min(from + room);
            packet.continues |= packet.pieces.is_empty() && from > 0;
            let ends_between = to == element.len() && !is_last && !packet.fits(to - from, limit);
            let to = if ends_between && to - from > 1 {
                to - 1
            } else {
                to
            };
            packet.add(Piece { element, from, to });
            from = to;
            if from < element.len() {
                packet.flush(Y, &mut n, out);
            }
        }
    }
    packet.flush(0, &mut n, out);
    Ok(())
}

/// Length of the length field of an element below 16 KiB, in bytes of LEB128.
const LENGTH_BYTES: usize = 2;
/// Smallest packet that is made: header, a length field, and a part of two elements.
const MIN_BYTES: usize = 8;

/// An OBU as packets carry it: its header without a size field, and its body.
struct Element<'a> {
    header: [u8; 2],
    header_bytes: usize,
    body: &'a [u8],
}

impl<'a> Element<'a> {
    fn new(obu: &Obu<'a>) -> Self {
        Self {
            header: [obu.header & !HAS_SIZE, obu.extension.unwrap_or(0)],
            header_bytes: 1 + usize::from(obu.extension.is_some()),
            body: obu.body,
        }
    }

    fn len(&self) -> usize {
        self.header_bytes + self.body.len()
    }

    /// Returns the header as in the coded frame, with the size of the body.
    fn sized_header(&self) -> Vec<u8> {
        let mut header = vec![self.header[0] | HAS_SIZE];
        header.extend_from_slice(&self.header[1..self.header_bytes]);
        write_leb128(self.body.len(), &mut header);
        header
    }
}

/// The bytes `from..to` of an element.
#[derive(Clone, Copy)]
struct Piece<'a> {
    element: &'a Element<'a>,
    from: usize,
    to: usize,
}

impl Piece<'_> {
    const fn len(&self) -> usize {
        self.to - self.from
    }

    fn write(&self, out: &mut UnitBuilder) {
        let Element {
            header,
            header_bytes,
            body,
        } = self.element;
        if self.from == 0 {
            out.frame_only(&self.element.sized_header());
        }
        out.wire_only(&header[self.from.min(*header_bytes)..self.to.min(*header_bytes)]);
        let of_body = |at: usize| at.saturating_sub(*header_bytes);
        out.coded(&body[of_body(self.from)..of_body(self.to)]);
    }
}

/// The elements of the packet that is being built.
#[derive(Default)]
struct Elements<'a> {
    pieces: Vec<Piece<'a>>,
    bytes: usize,
    continues: bool,
}

impl<'a> Elements<'a> {
    /// Returns the number of bytes of another element that fit.
    fn room(&self, limit: usize) -> usize {
        if self.pieces.len() == ELEMENTS_MAX {
            return 0;
        }
        limit.saturating_sub(1 + self.bytes + self.length_bytes())
    }

    /// Returns whether another element fits behind a piece of `bytes` bytes.
    fn fits(&self, bytes: usize, limit: usize) -> bool {
        let length_bytes = if bytes < 0x80 { 1 } else { LENGTH_BYTES };
        self.pieces.len() + 1 < ELEMENTS_MAX
            && 1 + self.bytes + self.length_bytes() + bytes + length_bytes < limit
    }

    fn add(&mut self, piece: Piece<'a>) {
        self.bytes += self.length_bytes() + piece.len();
        self.pieces.push(piece);
    }

    /// Length of the length field that the last element needs once another one follows.
    fn length_bytes(&self) -> usize {
        match self.pieces.last() {
            Some(last) if last.len() < 0x80 => 1,
            Some(_) => LENGTH_BYTES,
            None => 0,
        }
    }

    /// Writes the packet, if there is one. `y`: the `Y` bit, set if the last element continues.
    fn flush(&mut self, y: u8, n: &mut u8, out: &mut UnitBuilder) {
        let Some((last, others)) = self.pieces.split_last() else {
            return;
        };
        let z = if self.continues { Z } else { 0 };
        let count = (self.pieces.len() as u8) << W_SHIFT;
        out.wire_only(&[z | y | count | std::mem::take(n)]);
        for piece in others {
            let mut length = Vec::with_capacity(LENGTH_BYTES);
            write_leb128(piece.len(), &mut length);
            out.wire_only(&length);
            piece.write(out);
        }
        last.write(out);
        out.end_packet();
        *self = Self::default();
    }
}

/// Returns the OBUs of a temporal unit that are sent.
fn elements(unit: &[u8]) -> Result<Vec<Element<'_>>, PacketizeError> {
    let mut elements = Vec::new();
    let mut rest = unit;
    while !rest.is_empty() {
        let (obu, more) = split_obu(rest).ok_or(PacketizeError::Malformed {
            codec: Codec::Av1,
            reason: "an OBU's size points past the end",
        })?;
        rest = more;
        if !is_left_out(obu.header) {
            elements.push(Element::new(&obu));
        }
    }
    Ok(elements)
}

const fn is_left_out(header: u8) -> bool {
    matches!(obu_type(header), TEMPORAL_DELIMITER | TILE_LIST | PADDING)
}

/// One OBU: its header, its extension byte if it has one, and its body.
struct Obu<'a> {
    header: u8,
    extension: Option<u8>,
    body: &'a [u8],
}

/// Splits off the OBU at the start of `bytes`; returns it and what follows. An OBU without a
/// size extends to the end.
fn split_obu(bytes: &[u8]) -> Option<(Obu<'_>, &[u8])> {
    let (&header, mut rest) = bytes.split_first()?;
    let mut extension = None;
    if header & EXTENSION != 0 {
        let (&byte, more) = rest.split_first()?;
        extension = Some(byte);
        rest = more;
    }
    let (body, rest) = if header & HAS_SIZE != 0 {
        let (size, more) = read_leb128(rest)?;
        more.split_at_checked(size)?
    } else {
        (rest, &[][..])
    };
    let obu = Obu {
        header,
        extension,
        body,
    };
    Some((obu, rest))
}

/// Reads an LEB128 number of at most eight bytes and 32 bits (AV1 §4.10.5). Returns it and what
/// follows.
fn read_leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let value = usize::try_from(u32::try_from(value).ok()?).ok()?;
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns whether the payload begins a coded video sequence.
pub(super) fn begins_keyframe(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| first & (Z | N) == N)
}

/// Joins payloads into a temporal unit without a temporal delimiter.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The beginning of an OBU that continues in the next packet.
    open: Vec<u8>,
    is_open: bool,
}

impl Assembly {
    /// Takes an element. `more`: the element continues in the next packet.
    fn element(&mut self, bytes: &[u8], more: bool, frame: &mut Vec<u8>) -> Result<(), DropReason> {
        self.open.extend_from_slice(bytes);
        self.is_open = more;
        if more {
            return Ok(());
        }
        let obu = std::mem::take(&mut self.open);
        let (obu, rest) = split_obu(&obu).ok_or(DropReason::Malformed)?;
        if !rest.is_empty() {
            return Err(DropReason::Malformed);
        }
        if is_left_out(obu.header) {
            return Ok(());
        }
        frame.push(obu.header | HAS_SIZE);
        frame.extend(obu.extension);
        write_leb128(obu.body.len(), frame);
        frame.extend_from_slice(obu.body);
        Ok(())
    }
}

impl FrameFormat for Assembly {
    /// Only a new sequence certainly begins a unit. An OBU that begins need not be the first of
    /// its unit, and what follows a loss cannot be decoded before a keyframe anyway.
    fn begins(&self, payload: &[u8]) -> bool {
        begins_keyframe(payload)
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn has_picture(&self, mut frame: &[u8]) -> bool {
        while let Some((obu, rest)) = split_obu(frame) {
            if matches!(obu_type(obu.header), FRAME_HEADER..=REDUNDANT_FRAME_HEADER) {
                return true;
            }
            frame = rest;
        }
        false
    }

    fn reset(&mut self) {
        self.open.clear();
        self.is_open = false;
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        let (&header, mut rest) = payload.split_first().ok_or(DropReason::Malformed)?;
        if rest.is_empty() || (header & Z != 0) != self.is_open {
            return Err(DropReason::Malformed);
        }
        let count = (header & W) >> W_SHIFT;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let element = if count != 0 && number == count {
                std::mem::take(&mut rest)
            } else {
                let (length, more) = read_leb128(rest).ok_or(DropReason::Malformed)?;
                let (element, more) = more.split_at_checked(length).ok_or(DropReason::Malformed)?;
                rest = more;
                element
            };
            let more = rest.is_empty() && header & Y != 0;
            if element.is_empty() && !self.is_open {
                continue;
            }
            self.element(element, more, frame)?;
        }
        if number < count {
            return Err(DropReason::Malformed);
        }
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        if self.is_open {
            return Err(DropReason::Malformed);
        }
        Ok(is_keyframe(frame).into())
    }

    fn pending_bytes(&self) -> usize {
        self.open.len()
    }
}

/// Returns whether a decoder can start at the unit: it has a sequence header, and its first frame
/// is a key frame that is shown (AV1 specification §7.6.2). Behind a hidden key frame, which is shown
/// later, come frames that need those before it.
fn is_keyframe(unit: &[u8]) -> bool {
    /// `reduced_still_picture_header`, behind the profile and `still_picture` (§5.5.1).
    const REDUCED: u8 = 0x08;
    /// `show_existing_frame`, `frame_type` (0 for a key frame) and `show_frame` (§5.9.2).
    const FLAGS: u8 = 0xf0;
    const SHOWN_KEY_FRAME: u8 = 0x10;
    let mut rest = unit;
    let mut sequence = None;
    while let Some((obu, more)) = split_obu(rest) {
        rest = more;
        match obu_type(obu.header) {
            SEQUENCE_HEADER => sequence = obu.body.first(),
            FRAME | FRAME_HEADER => {
                let is_start = |first: &u8| first & FLAGS == SHOWN_KEY_FRAME;
                // A still picture has no such flags, and its sequence no other frame.
                let is_still = |first: &u8| first & REDUCED != 0;
                return sequence.is_some_and(|first| {
                    is_still(first) || obu.body.first().is_some_and(is_start)
                });
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex};
    use proptest::prelude::*;

    use super::*;

    /// The payloads of a temporal unit with frames of these lengths.
    fn payloads(lengths: &[usize], max: usize) -> Vec<Vec<u8>> {
        let mut unit = vec![TEMPORAL_DELIMITER << 3 | HAS_SIZE, 0];
        for length in lengths {
            unit.push(FRAME << 3 | HAS_SIZE);
            write_leb128(*length, &mut unit);
            unit.resize(unit.len() + length, 7);
        }
        let mut out = UnitBuilder::default();
        packetize(&unit, max, &mut out).expect("OBUs");
        let stamps = Stamps::arrived(Instant::now());
        let built = out.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
        let built = built.expect("payloads");
        let payloads = (0..built.packet_count()).filter_map(|at| built.payload(at));
        payloads.map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn a_unit_begins_a_sequence_where_a_shown_key_frame_follows_its_header() {
        let sequence = [SEQUENCE_HEADER << 3 | HAS_SIZE, 1, 0];
        let still = [SEQUENCE_HEADER << 3 | HAS_SIZE, 1, 0x18];
        let frame = |first: u8| [FRAME << 3 | HAS_SIZE, 1, first];
        for (unit, expected) in [
            ([&sequence[..], &frame(0x10)].concat(), true),
            ([&still[..], &frame(0x80)].concat(), true),
            // Hidden, another type of frame, and an earlier frame shown again.
            ([&sequence[..], &frame(0x00)].concat(), false),
            ([&sequence[..], &frame(0x30)].concat(), false),
            ([&sequence[..], &frame(0x80)].concat(), false),
            (frame(0x10).to_vec(), false),
            ([&sequence[..], &frame(0x30), &frame(0x10)].concat(), false),
            (sequence.to_vec(), false),
            (Vec::new(), false),
        ] {
            assert_eq!(is_keyframe(&unit), expected, "{unit:02x?}");
            let mut out = UnitBuilder::default();
            packetize(&unit, 1_200, &mut out).expect("OBUs");
            let stamps = Stamps::arrived(Instant::now());
            let built = out.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
            let begins = built.is_some_and(|it| it.payload(0).is_some_and(begins_keyframe));
            assert_eq!(begins, expected, "{unit:02x?}");
        }
    }

    proptest! {
        /// Chromium takes the end of an OBU at the end of a payload for the end of a frame, so a
        /// frame behind hidden ones was lost where a payload happened to end with one of them.
        #[test]
        fn only_the_last_payload_of_a_unit_ends_with_the_end_of_an_obu(
            lengths in prop::collection::vec(
                prop_oneof![1usize..6, 1usize..300, 1usize..9_000],
                1..12,
            ),
            max in 20usize..1_200,
        ) {
            let payloads = payloads(&lengths, max);
            for (at, payload) in payloads.iter().enumerate() {
                prop_assert!(payload.len() <= max);
                prop_assert_eq!(payload[0] & Z != 0, at > 0, "begins within an OBU: {}", at);
                let is_last = at + 1 == payloads.len();
                prop_assert_eq!(payload[0] & Y != 0, !is_last, "ends within an OBU: {}", at);
            }
        }
    }
}
