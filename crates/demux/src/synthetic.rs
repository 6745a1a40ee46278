//! Synthetic streams for tests, written bit by bit. Parameter sets and slice headers are real;
//! slice data is filler.

use crate::elementary::annexb::nal_type;

/// Writes bits and Exp-Golomb codes (H.264 clause 9.1).
#[derive(Default)]
struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    fn u(&mut self, count: u32, value: u64) -> &mut Self {
        self.bits
            .extend((0..count).rev().map(|bit| value >> bit & 1 == 1));
        self
    }

    fn ue(&mut self, value: u32) -> &mut Self {
        let code = u64::from(value) + 1;
        let length = code.ilog2();
        self.u(length, 0).u(length + 1, code)
    }

    /// Returns the NAL unit with header, stop bit and emulation prevention.
    fn nal(&self, header: u8, filler: usize) -> Vec<u8> {
        let mut bits = self.bits.clone();
        bits.push(true);
        bits.resize(bits.len().next_multiple_of(8), false);
        let mut payload: Vec<u8> = bits
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |sum, &bit| sum << 1 | u8::from(bit)))
            .collect();
        payload.extend(std::iter::repeat_n(0xa5, filler));
        let mut nal = vec![header];
        for byte in payload {
            if byte <= 3 && nal.len() > 2 && nal.ends_with(&[0, 0]) {
                nal.push(3);
            }
            nal.push(byte);
        }
        nal
    }
}

/// Fields of a synthetic sequence parameter set.
#[derive(Clone, Copy)]
pub(crate) struct Sequence {
    /// Values of `num_units_in_tick` and `time_scale`.
    pub(crate) timing: Option<(u32, u32)>,
    pub(crate) interlaced: bool,
    /// Value of `max_num_reorder_frames` (ITU-T H.264 §E.2.1); `None` leaves it out.
    pub(crate) reorder: Option<u32>,
    pub(crate) width_in_macroblocks: u32,
    /// Whether the order count follows the frame number (order type 1): 4 from one picture to
    /// the next, 2 less for non-reference pictures.
    pub(crate) order_by_number: bool,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            timing: None,
            interlaced: false,
            reorder: None,
            width_in_macroblocks: 4,
            order_by_number: false,
        }
    }
}

/// Returns a sequence parameter set: Main profile, 64 × 48, picture order type 0 with 6 bits,
/// frame numbers of 4 bits.
pub(crate) fn sps(sequence: Sequence) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.u(8, 77).u(8, 0).u(8, 30).ue(0);
    bits.ue(0);
    match sequence.order_by_number {
        // These are the types 1 and 0. An Exp-Golomb code of 4 is the number -2, one of 7 is 4.
        true => bits.ue(1).u(1, 1).ue(4).ue(0).ue(1).ue(7),
        false => bits.ue(0).ue(2),
    };
    bits.ue(1).u(1, 0);
    bits.ue(sequence.width_in_macroblocks - 1).ue(2);
    bits.u(1, u64::from(!sequence.interlaced));
    if sequence.interlaced {
        bits.u(1, 0);
    }
    bits.u(1, 1).u(1, 0);
    if sequence.timing.is_none() && sequence.reorder.is_none() {
        return bits.u(1, 0).nal(0x67, 0);
    }
    bits.u(1, 1).u(4, 0);
    match sequence.timing {
        Some((units, scale)) => bits.u(1, 1).u(32, units.into()).u(32, scale.into()).u(1, 1),
        None => bits.u(1, 0),
    };
    bits.u(3, 0);
    match sequence.reorder {
        Some(frames) => bits
            .u(2, 3)
            .ue(0)
            .ue(0)
            .ue(9)
            .ue(9)
            .ue(frames)
            .ue(frames.max(1)),
        None => bits.u(1, 0),
    };
    bits.nal(0x67, 0)
}

/// Returns a picture parameter set of this number.
pub(crate) fn pps(id: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.ue(id).ue(0).u(2, 0).ue(0).ue(0).ue(0).u(3, 0);
    bits.ue(0).ue(0).ue(0).u(3, 0);
    bits.nal(0x68, 0)
}

/// The fields of a slice header.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slice {
    pub(crate) first_macroblock: u32,
    /// Slice type: 0 is P, 1 is B, 2 is I.
    pub(crate) kind: u32,
    pub(crate) pps: u32,
    pub(crate) frame_number: u32,
    /// For interlaced sequences, `Some(bottom)` is a field.
    pub(crate) field: Option<bool>,
    pub(crate) interlaced: bool,
    pub(crate) order: u32,
    pub(crate) idr: Option<u32>,
    pub(crate) disposable: bool,
    /// Whether the sequence has `order_by_number`.
    pub(crate) order_by_number: bool,
}

pub(crate) fn slice(slice: Slice) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.ue(slice.first_macroblock).ue(slice.kind).ue(slice.pps);
    bits.u(4, u64::from(slice.frame_number % 16));
    if slice.interlaced {
        bits.u(1, u64::from(slice.field.is_some()));
        if let Some(bottom) = slice.field {
            bits.u(1, u64::from(bottom));
        }
    }
    if let Some(number) = slice.idr {
        bits.ue(number);
    }
    if !slice.order_by_number {
        bits.u(6, u64::from(slice.order % 64));
    }
    let kind = slice.idr.map_or(nal_type::SLICE, |_| nal_type::IDR);
    let importance = if slice.disposable { 0 } else { 0x60 };
    bits.nal(importance | kind, 40)
}

/// An access unit delimiter.
pub(crate) const AUD: &[u8] = &[0x09, 0xf0];

/// Supplemental enhancement information without a meaning.
pub(crate) const SEI: &[u8] = &[0x06, 0x05, 0x01, 0x55, 0x80];

/// Joins NAL units with start codes of four and three bytes in turn.
pub(crate) fn stream<N: AsRef<[u8]>>(nals: &[N]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, nal) in nals.iter().enumerate() {
        bytes.extend([[0, 0, 0, 1].as_slice(), &[0, 0, 1]][index % 2]);
        bytes.extend(nal.as_ref());
    }
    bytes
}

/// Returns a stream of `pictures` pictures, with an IDR picture and its parameter sets every
/// `distance`.
pub(crate) fn progressive(pictures: u32, distance: u32, sequence: Sequence) -> Vec<u8> {
    let mut nals = Vec::new();
    for number in 0..pictures {
        let place = number % distance;
        let idr = (place == 0).then_some(number / distance % 2);
        if idr.is_some() {
            nals.extend([sps(sequence), pps(0)]);
        }
        nals.push(slice(Slice {
            kind: if place == 0 { 2 } else { 0 },
            frame_number: place,
            order: place * 2,
            idr,
            interlaced: sequence.interlaced,
            ..Slice::default()
        }));
    }
    stream(&nals)
}

/// Returns an Opus packet of 20 ms that contains its number.
pub(crate) fn opus_packet(number: usize) -> Vec<u8> {
    let mut packet = vec![31 << 3 | 4];
    packet.extend(u32::try_from(number).expect("few packets").to_le_bytes());
    packet
}

/// Returns `OpusHead` of family 0.
pub(crate) fn opus_head(channels: u8, pre_skip: u16) -> Vec<u8> {
    let mut head = b"OpusHead\x01".to_vec();
    head.push(channels);
    head.extend(pre_skip.to_le_bytes());
    head.extend(48_000u32.to_le_bytes());
    head.extend([0, 0, 0]);
    head
}

/// Returns a logical stream written by the `ogg` crate: `per_page` packets in each page, and
/// the last granule position `end`.
pub(crate) fn ogg_opus(
    serial: u32,
    packets: &[Vec<u8>],
    per_page: usize,
    pre_skip: u16,
    end: u64,
) -> Vec<u8> {
    use ogg::writing::{PacketWriteEndInfo as End, PacketWriter};
    let mut writer = PacketWriter::new(Vec::new());
    let mut write = |data: Vec<u8>, end, granule| {
        writer
            .write_packet(data, serial, end, granule)
            .expect("memory can be written");
    };
    write(opus_head(2, pre_skip), End::EndPage, 0);
    write(b"OpusTags\0\0\0\0\0\0\0\0".to_vec(), End::EndPage, 0);
    for (index, packet) in packets.iter().enumerate() {
        let done = index + 1;
        let samples: u64 = packets[..done]
            .iter()
            .map(|packet| u64::from(crate::audio::opus::samples(packet).expect("a valid packet")))
            .sum();
        match () {
            () if done == packets.len() => write(packet.clone(), End::EndStream, end),
            () if done % per_page == 0 => write(packet.clone(), End::EndPage, samples),
            () => write(packet.clone(), End::NormalPacket, samples),
        }
    }
    writer.into_inner()
}
