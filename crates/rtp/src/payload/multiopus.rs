//! Payloads of multichannel Opus: a packet of RFC 7845 §5.1.1 as it is. No RFC defines them; WebRTC
//! implementations and GStreamer agree on the name `multiopus`.
//!
//! Packets that fit no payload, as those of eight channels at high bitrates, continue in further
//! payloads of the same timestamp, and the last one has the marker.

use glassline_media::UnitBuilder;

use super::assembly::{DropReason, Entry, FrameFormat};
use super::equal_pieces;

/// Splits a packet into payloads of equal size except for a shorter last one.
pub(super) fn packetize(packet: &[u8], payload_max: usize, out: &mut UnitBuilder) {
    for piece in equal_pieces(packet, payload_max) {
        out.push(piece);
    }
}

/// Joins payloads into a packet.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    has_begun: bool,
}

impl FrameFormat for Assembly {
    /// Nothing in a payload tells whether it continues a packet. So behind a loss all payloads of
    /// the next timestamp are left out.
    fn begins(&self, _: &[u8]) -> bool {
        !self.has_begun
    }

    fn reset(&mut self) {
        self.has_begun = true;
    }

    fn take(&mut self, payload: &[u8], packet: &mut Vec<u8>) -> Result<(), DropReason> {
        packet.extend_from_slice(payload);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        Ok(Entry::Keyframe)
    }
}
