//! DV payloads (RFC 6469): whole DIF blocks without a payload header.

use glassline_media::{Codec, UnitBuilder};

use super::PacketizeError;
use super::assembly::{DropReason, Entry, FrameFormat};

/// Length of a DIF block in bytes (IEC 61834-2).
const BLOCK_BYTES: usize = 80;

/// Splits a frame between its DIF blocks into payloads of at most `payload_max` bytes, of equal
/// size except for a shorter last one.
pub(super) fn packetize(
    frame: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    if !frame.len().is_multiple_of(BLOCK_BYTES) {
        return Err(PacketizeError::Malformed {
            codec: Codec::Dv,
            reason: "not a whole number of DIF blocks of 80 bytes",
        });
    }
    let blocks = frame.len() / BLOCK_BYTES;
    let count = blocks.div_ceil((payload_max / BLOCK_BYTES).max(1)).max(1);
    for piece in frame.chunks(blocks.div_ceil(count).max(1) * BLOCK_BYTES) {
        out.push(piece);
    }
    Ok(())
}

/// Joins payloads into a frame.
#[derive(Debug)]
pub(super) struct Assembly;

impl FrameFormat for Assembly {
    /// Recognizes the header block of the first DIF sequence: section type 0, sequence 0, block
    /// 0 of the first channel (IEC 61834-2, the ID of a block).
    fn begins(&self, payload: &[u8]) -> bool {
        matches!(payload, [kind, sequence, 0, ..] if kind >> 5 == 0 && sequence & 0xf8 == 0)
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        if !payload.len().is_multiple_of(BLOCK_BYTES) {
            return Err(DropReason::Malformed);
        }
        frame.extend_from_slice(payload);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        Ok(Entry::Keyframe)
    }
}
