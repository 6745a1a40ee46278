//! H.264 payloads (RFC 6184), `packetization-mode=1`: single NAL unit packets, STAP-A and FU-A, in
//! decoding order.
//!
//! NAL units have no start code here. The other packet types belong to interleaved mode, which our
//! answers never accept; such packets are counted, and the units to which they belong are dropped.

mod packetizer;
mod syntax;

pub use packetizer::packetize;
pub(crate) use syntax::H264;

use crate::payload::nal_units::aggregated;

/// Types of NAL units (H.264 table 7-1) and of RTP payloads (RFC 6184 table 1).
pub mod nal {
    /// Coded slice of a non-IDR picture.
    pub const SLICE: u8 = 1;
    /// Coded slice of an IDR picture.
    pub const IDR: u8 = 5;
    /// Supplemental enhancement information (SEI).
    pub const SEI: u8 = 6;
    /// Sequence parameter set (SPS).
    pub const SPS: u8 = 7;
    /// Picture parameter set (PPS).
    pub const PPS: u8 = 8;
    /// Access unit delimiter (AUD).
    pub const AUD: u8 = 9;
    /// End of a coded video sequence.
    pub const END_OF_SEQUENCE: u8 = 10;
    /// End of the NAL unit stream.
    pub const END_OF_STREAM: u8 = 11;
    /// Filler data, which is not sent.
    pub const FILLER: u8 = 12;
    /// Single-time aggregation packet (STAP-A).
    pub const STAP_A: u8 = 24;
    /// Fragmentation unit without decoding order number (FU-A).
    pub const FU_A: u8 = 28;
}

/// Returns the type in the first byte of a NAL unit or RTP payload, 0–31.
pub const fn nal_type(first: u8) -> u8 {
    first & 0x1f
}

/// Returns whether the RTP payload contains, or begins, a slice of an IDR picture or a sequence
/// parameter set: a decoder may start with it.
pub fn payload_begins_keyframe(payload: &[u8]) -> bool {
    let begins = |kind: u8| kind == nal::IDR || kind == nal::SPS;
    match payload {
        [first, indicator, ..] if nal_type(*first) == nal::FU_A => {
            indicator & FU_START != 0 && begins(nal_type(*indicator))
        }
        [first, rest @ ..] if nal_type(*first) == nal::STAP_A => {
            aggregated(rest).any(|unit| unit.is_some_and(|unit| begins(nal_type(unit[0]))))
        }
        [first, ..] => begins(nal_type(*first)),
        [] => false,
    }
}

/// Start bit of an FU header (RFC 6184 §5.8).
const FU_START: u8 = 0x80;
/// End bit of an FU header.
const FU_END: u8 = 0x40;
/// Length of FU indicator and FU header in bytes.
const FU_HEADER_BYTES: usize = 2;
/// Forbidden bit and `nal_ref_idc` of a NAL unit header.
const F_NRI_BITS: u8 = 0xe0;

#[cfg(test)]
mod tests;
