//! AC-3 payloads (RFC 4184): whole frames, or a fragment of one, behind a header with the
//! number of frames or fragments.

use glassline_media::{Codec, UnitBuilder};

use super::assembly::{AudioFormat, DropReason};
use super::{PacketizeError, equal_pieces};

/// Frame type in the header's first byte (§4.1.1): whole frames.
const WHOLE: u8 = 0;
/// The first fragment, with at least the first five eighths of the frame, which can be checked
/// and decoded alone.
const FIRST_LONG: u8 = 1;
/// The first fragment, with less of the frame.
const FIRST_SHORT: u8 = 2;
/// Any other fragment of a frame.
const OTHER: u8 = 3;
/// Length of the payload header in bytes.
const HEADER_BYTES: usize = 2;

/// Number of samples per channel in a frame (ATSC A/52 §4.1).
const FRAME_SAMPLES: u32 = 1536;

/// Puts a frame into one payload or into fragments of equal size.
pub(super) fn packetize(
    frame: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    let pieces = equal_pieces(frame, payload_max.saturating_sub(HEADER_BYTES));
    let count = u8::try_from(pieces.len()).map_err(|_| PacketizeError::TooLong {
        bytes: frame.len(),
        max: 255 * payload_max,
    })?;
    if frame.len() < 5 || frame[..2] != SYNC {
        return Err(PacketizeError::Malformed {
            codec: Codec::Ac3,
            reason: "it does not begin with 0x0b77",
        });
    }
    for (piece, number) in pieces.zip(0..) {
        let kind = match number {
            0 if count == 1 => WHOLE,
            0 if piece.len() * 8 >= frame.len() * 5 => FIRST_LONG,
            0 => FIRST_SHORT,
            _ => OTHER,
        };
        out.wire_only(&[kind, count]);
        out.coded(piece);
        out.end_packet();
    }
    Ok(())
}

/// Sync word with which a frame begins.
const SYNC: [u8; 2] = [0x0b, 0x77];

/// Bitrates in kbit/s by half of `frmsizecod` (ATSC A/52 table 5.18).
const RATES_KBPS: [u16; 19] = [
    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
];

/// Returns the length of the frame at the start of `bytes`, from its header (ATSC A/52 §5.3.1).
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let [0x0b, 0x77, _, _, code, ..] = bytes else {
        return None;
    };
    let kbps = usize::from(*RATES_KBPS.get(usize::from(code & 0x3f) / 2)?);
    let words = match code >> 6 {
        0 => kbps * 2,
        1 => kbps * 96_000 / 44_100 + usize::from(code & 1),
        2 => kbps * 3,
        _ => return None,
    };
    Some(2 * words)
}

/// Splits payloads into frames.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    open: Vec<u8>,
    /// Number of fragments of the current frame that are still to come.
    missing: u8,
}

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        let [kind, number, bytes @ ..] = payload else {
            return Err(DropReason::Malformed);
        };
        let first = kind & 3 != OTHER;
        if bytes.is_empty() || *number == 0 || first != (self.missing == 0) {
            return Err(DropReason::Malformed);
        }
        match kind & 3 {
            WHOLE => split(bytes, *number, units),
            _ => {
                if first {
                    self.missing = *number;
                    self.open.clear();
                }
                self.open.extend_from_slice(bytes);
                self.missing -= 1;
                if self.missing == 0 {
                    units.push((0, std::mem::take(&mut self.open)));
                }
                Ok(())
            }
        }
    }

    /// The loss of a first fragment is noticed by the next one, which is malformed then.
    fn on_loss(&mut self) -> bool {
        self.open.clear();
        std::mem::take(&mut self.missing) != 0
    }

    fn pending_bytes(&self) -> usize {
        self.open.len()
    }
}

/// Splits a payload into `count` frames. A single frame is taken without reading its header.
fn split(mut bytes: &[u8], count: u8, units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
    for number in 0..u32::from(count) {
        let last = number + 1 == u32::from(count);
        let size = if last {
            bytes.len()
        } else {
            frame_bytes(bytes).ok_or(DropReason::Malformed)?
        };
        let (frame, rest) = bytes.split_at_checked(size).ok_or(DropReason::Malformed)?;
        if frame.is_empty() {
            return Err(DropReason::Malformed);
        }
        units.push((FRAME_SAMPLES * number, frame.to_vec()));
        bytes = rest;
    }
    Ok(())
}
