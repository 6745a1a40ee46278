use glassline_media::Ssrc;

use super::{RawPacket, feedback_format, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Full intra request (FIR): commands for keyframes (RFC 5104 §4.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullIntraRequest {
    /// SSRC of the receiver that requests.
    pub sender: Ssrc,
    /// SSRC from which a keyframe is requested, and number of the command. A number that is
    /// repeated is the same command and must be ignored.
    pub requests: Vec<(Ssrc, u8)>,
}

impl FullIntraRequest {
    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("FIR", 0, 8)?;
        let requests = raw.body[8..]
            .chunks_exact(8)
            .map(|entry| {
                let ssrc = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
                (Ssrc(ssrc), entry[4])
            })
            .collect();
        Ok(Self {
            sender: raw.ssrc(0),
            requests,
        })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let format = feedback_format::FULL_INTRA;
        write_packet(out, format, packet_type::PAYLOAD_FEEDBACK, |out| {
            put_u32(out, self.sender.0);
            // The media source of the common header is not used and is zero.
            put_u32(out, 0);
            for &(ssrc, number) in &self.requests {
                put_u32(out, ssrc.0);
                out.extend_from_slice(&[number, 0, 0, 0]);
            }
        });
    }
}
