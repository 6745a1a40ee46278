//! MPEG transport stream payloads (RFC 2250 §2): whole transport packets without a payload
//! header.

use glassline_media::{Codec, UnitBuilder};

use super::PacketizeError;
use super::assembly::{AudioFormat, DropReason};

/// Length of a transport stream packet in bytes (ISO/IEC 13818-1 §2.4.3).
const PACKET_BYTES: usize = 188;
/// First byte of every transport stream packet.
const SYNC: u8 = 0x47;

/// Puts as many whole transport packets into a payload as `payload_max` bytes can hold.
pub(super) fn packetize(
    packets: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    if !is_whole(packets) {
        return Err(PacketizeError::Malformed {
            codec: Codec::MpegTs,
            reason: "not whole packets of 188 bytes that begin with 0x47",
        });
    }
    for piece in packets.chunks((payload_max / PACKET_BYTES).max(1) * PACKET_BYTES) {
        out.push(piece);
    }
    Ok(())
}

fn is_whole(packets: &[u8]) -> bool {
    packets.len().is_multiple_of(PACKET_BYTES)
        && packets
            .iter()
            .step_by(PACKET_BYTES)
            .all(|first| *first == SYNC)
}

/// Returns whether a program association table, which a receiver needs first, begins in one of
/// the packets (ISO/IEC 13818-1 §2.4.4.3). Multiplexers repeat it several times a second, and
/// most of them before keyframes, while the flag for random access is often not set.
fn has_program_table(packets: &[u8]) -> bool {
    packets
        .chunks(PACKET_BYTES)
        .any(|packet| matches!(packet, [_, high, 0, ..] if high & 0x5f == 0x40))
}

/// Passes payloads on as units. They are not frames: their timestamps are the times of sending.
#[derive(Debug)]
pub(super) struct Assembly;

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        if !is_whole(payload) {
            return Err(DropReason::Malformed);
        }
        units.push((0, payload.to_vec()));
        Ok(())
    }

    fn is_keyframe(&self, unit: &[u8]) -> bool {
        has_program_table(unit)
    }
}
