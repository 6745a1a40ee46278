use glassline_media::Bits;

use super::{F_NRI_BITS, FU_END, FU_START, nal, nal_type};
use crate::payload::nal_units::{Fragment, Packet, Role, Syntax};

/// The NAL units and payloads of H.264.
#[derive(Debug)]
pub(crate) struct H264;

/// First and last type of NAL units that payloads carry as they are. Type 0 occurs where a start code
/// is taken for a NAL unit.
const UNITS: std::ops::RangeInclusive<u8> = 0..=23;
/// Coded slice data partitions, of which the first has the slice header.
const PARTITION_A: u8 = 2;
const PARTITION_C: u8 = 4;

impl Syntax for H264 {
    const HEADER_BYTES: usize = 1;
    const SPS: u8 = nal::SPS;
    const SEI: u8 = nal::SEI;

    fn kind(first: u8) -> u8 {
        nal_type(first)
    }

    fn is_unit(kind: u8) -> bool {
        UNITS.contains(&kind)
    }

    #[inline]
    fn fragment(payload: &[u8]) -> Option<Fragment<'_>> {
        match payload {
            [indicator, header, body @ ..] if nal_type(*indicator) == nal::FU_A => Some(Fragment {
                header: [indicator & F_NRI_BITS | nal_type(*header), 0],
                begins: header & FU_START != 0,
                ends: header & FU_END != 0,
                body,
            }),
            _ => None,
        }
    }

    fn packet(payload: &[u8]) -> Packet<'_> {
        match nal_type(payload[0]) {
            // A fragment without its second byte.
            nal::FU_A => Packet::Malformed,
            1..=23 => Packet::Single,
            nal::STAP_A => Packet::Aggregate(&payload[1..]),
            // Receivers ignore reserved types (RFC 6184 §5.4).
            0 | 30 | 31 => Packet::Reserved,
            _ => Packet::Unsupported,
        }
    }

    /// A picture parameter set does not certainly begin a unit: the SPS before it may be lost (H.264
    /// §7.4.1.2.3).
    fn role(first: u8, body: Option<u8>) -> Role {
        match nal_type(first) {
            nal::AUD | nal::SPS | nal::SEI => Role::Lead,
            nal::PPS => Role::Set,
            kind @ (nal::SLICE | PARTITION_A | nal::IDR) => Role::Slice {
                // `first_mb_in_slice` is zero if its Exp-Golomb code is the single bit 1.
                first: body.is_some_and(|byte| byte & 0x80 != 0),
                keyframe: kind == nal::IDR,
            },
            3..=PARTITION_C => Role::Slice {
                first: false,
                keyframe: false,
            },
            nal::END_OF_SEQUENCE..=nal::FILLER => Role::Trail,
            _ => Role::Other,
        }
    }

    fn recovery(payload: &mut Bits<'_>) -> Option<u32> {
        payload.exp_golomb()
    }

    fn is_intra(slice: &[u8]) -> bool {
        /// Values of `slice_type` (table 7-6) modulo 5: I and SI.
        const INTRA: [u32; 2] = [2, 4];
        let mut bits = Bits::new(slice.get(Self::HEADER_BYTES..).unwrap_or_default());
        let first_macroblock = bits.exp_golomb();
        let kind = first_macroblock.and_then(|_| bits.exp_golomb());
        kind.is_some_and(|kind| INTRA.contains(&(kind % 5)))
    }
}
