use glassline_media::Ssrc;

use super::{RawPacket, feedback_format, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Picture loss indication (PLI): a decoder lost video and needs a keyframe (RFC 4585 §6.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureLossIndication {
    /// SSRC of the receiver that requests.
    pub sender: Ssrc,
    /// SSRC from which a keyframe is requested.
    pub media: Ssrc,
}

impl PictureLossIndication {
    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("PLI", 0, 8)?;
        Ok(Self {
            sender: raw.ssrc(0),
            media: raw.ssrc(4),
        })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let format = feedback_format::PICTURE_LOSS;
        write_packet(out, format, packet_type::PAYLOAD_FEEDBACK, |out| {
            put_u32(out, self.sender.0);
            put_u32(out, self.media.0);
        });
    }
}
