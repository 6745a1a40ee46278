use glassline_media::{Bitrate, Ssrc};

use super::{RawPacket, feedback_format, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Receiver estimated maximum bitrate (REMB): a receiver's estimate of the path's capacity
/// (draft-alvestrand-rmcat-remb-03 §2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remb {
    /// SSRC of the receiver that estimates.
    pub sender: Ssrc,
    /// Estimated bitrate; writing keeps its 18 highest bits.
    pub bitrate: Bitrate,
    /// SSRCs to whose total the estimate applies; at most 255 are written.
    pub sources: Vec<Ssrc>,
}

impl Remb {
    /// Returns whether a packet of application-layer feedback carries the name of REMB.
    pub(super) fn is(raw: RawPacket<'_>) -> bool {
        raw.body.get(8..12) == Some(NAME)
    }

    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("REMB", 0, FIXED_BYTES)?;
        let word = raw.u32(12);
        let count = (word >> 24) as usize;
        raw.need("REMB sources", FIXED_BYTES, count * 4)?;
        let exponent = word >> 18 & 0x3f;
        let mantissa = u64::from(word & MANTISSA_MAX as u32);
        let bits = u128::from(mantissa) << exponent;
        Ok(Self {
            sender: raw.ssrc(0),
            bitrate: Bitrate::from_bps(u64::try_from(bits).unwrap_or(BITRATE_MAX)),
            sources: (0..count)
                .map(|index| raw.ssrc(FIXED_BYTES + index * 4))
                .collect(),
        })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let sources = &self.sources[..self.sources.len().min(255)];
        let mut exponent = 0u32;
        let mut mantissa = self.bitrate.bps();
        while mantissa > MANTISSA_MAX {
            mantissa >>= 1;
            exponent += 1;
        }
        let format = feedback_format::APPLICATION;
        write_packet(out, format, packet_type::PAYLOAD_FEEDBACK, |out| {
            put_u32(out, self.sender.0);
            put_u32(out, 0);
            out.extend_from_slice(NAME);
            put_u32(
                out,
                (sources.len() as u32) << 24 | exponent << 18 | mantissa as u32,
            );
            sources.iter().for_each(|ssrc| put_u32(out, ssrc.0));
        });
    }
}

/// Unique identifier of the message (draft-alvestrand-rmcat-remb-03 §2.2).
const NAME: &[u8] = b"REMB";
/// Length of two SSRCs, the name, count and estimate, in bytes.
const FIXED_BYTES: usize = 16;
/// Largest mantissa of the estimate, a field of 18 bits.
const MANTISSA_MAX: u64 = 0x3_ffff;
/// Largest estimate of 64 bits that can be written; larger ones are read as this value.
const BITRATE_MAX: u64 = MANTISSA_MAX << 46;
