//! MPEG audio payloads (RFC 2250 §3.5): whole frames behind a header of zeros, or a fragment
//! behind its offset in the frame.

use glassline_media::{Codec, UnitBuilder};

use super::assembly::{AudioFormat, DropReason};
use super::{PacketizeError, equal_pieces};

/// Length of the header in bytes: two bytes that must be zero, two of the fragment's offset.
const HEADER_BYTES: usize = 4;

/// Puts a frame into one payload or into fragments of equal size.
pub(super) fn packetize(
    frame: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    // A receiver finds the end of a frame only by its header.
    if Frame::parse(frame).is_none_or(|header| header.bytes != frame.len()) {
        return Err(PacketizeError::Malformed {
            codec: Codec::MpegAudio,
            reason: "it does not have the length that its header states",
        });
    }
    let mut offset = 0usize;
    for piece in equal_pieces(frame, payload_max.saturating_sub(HEADER_BYTES)) {
        let [high, low] = u16::try_from(offset)
            .map_err(|_| PacketizeError::TooLong {
                bytes: frame.len(),
                max: usize::from(u16::MAX),
            })?
            .to_be_bytes();
        out.wire_only(&[0, 0, high, low]);
        out.coded(piece);
        out.end_packet();
        offset += piece.len();
    }
    Ok(())
}

/// The fields of a frame header that are needed (ISO/IEC 11172-3 §2.4.2.3, 13818-3 §2.4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    bytes: usize,
    samples: u32,
    rate: u32,
}

/// Bitrates in kbit/s of index 1..=14: MPEG-1 layers I, II, III; MPEG-2 layer I, layers II and
/// III.
const RATES_KBPS: [[u32; 14]; 5] = [
    [
        32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
    ],
    [
        32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
    ],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

impl Frame {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [0xff, version, rates, ..] = bytes else {
            return None;
        };
        if version & 0xe0 != 0xe0 {
            return None;
        }
        // 3 is MPEG-1, 2 is MPEG-2 at half its rates, 0 is MPEG-2.5 at a quarter.
        let (first, halvings) = match version >> 3 & 3 {
            3 => (true, 0),
            2 => (false, 1),
            0 => (false, 2),
            _ => return None,
        };
        let layer = 4 - (version >> 1 & 3);
        let row = match (first, layer) {
            (true, 1..=3) => usize::from(layer) - 1,
            (false, 1) => 3,
            (false, 2 | 3) => 4,
            _ => return None,
        };
        let index = usize::from(rates >> 4).checked_sub(1)?;
        let kbps = RATES_KBPS[row].get(index)?;
        let rate = [44_100, 48_000, 32_000].get(usize::from(rates >> 2 & 3))? >> halvings;
        let padding = u32::from(rates >> 1 & 1);
        let (samples, bytes) = match (layer, first) {
            (1, _) => (384, (12_000 * kbps / rate + padding) * 4),
            (3, false) => (576, 72_000 * kbps / rate + padding),
            _ => (1152, 144_000 * kbps / rate + padding),
        };
        Some(Self {
            bytes: bytes as usize,
            samples,
            rate,
        })
    }
}

/// Splits payloads into frames.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The beginning of a fragmented frame.
    open: Vec<u8>,
}

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        let [_, _, high, low, bytes @ ..] = payload else {
            return Err(DropReason::Malformed);
        };
        let offset = usize::from(u16::from_be_bytes([*high, *low]));
        if offset != self.open.len() {
            return Err(DropReason::Malformed);
        }
        if offset == 0 {
            return self.frames(bytes, units);
        }
        self.open.extend_from_slice(bytes);
        let whole = Frame::parse(&self.open).map_or(0, |frame| frame.bytes);
        match self.open.len().cmp(&whole) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => units.push((0, std::mem::take(&mut self.open))),
            std::cmp::Ordering::Greater => return Err(DropReason::Malformed),
        }
        Ok(())
    }

    fn on_loss(&mut self) -> bool {
        !std::mem::take(&mut self.open).is_empty()
    }

    fn pending_bytes(&self) -> usize {
        self.open.len()
    }
}

impl Assembly {
    /// Splits a payload into frames. An incomplete frame is the beginning of a fragmented one,
    /// if it is the only frame of its payload.
    fn frames(
        &mut self,
        mut bytes: &[u8],
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), DropReason> {
        let mut nanos = 0u64;
        let mut alone = true;
        while !bytes.is_empty() {
            let frame = Frame::parse(bytes).ok_or(DropReason::Malformed)?;
            let Some((whole, rest)) = bytes.split_at_checked(frame.bytes) else {
                if !alone {
                    return Err(DropReason::Malformed);
                }
                self.open.extend_from_slice(bytes);
                return Ok(());
            };
            let ticks = nanos * 90_000 / 1_000_000_000;
            units.push((ticks as u32, whole.to_vec()));
            nanos += u64::from(frame.samples) * 1_000_000_000 / u64::from(frame.rate);
            (bytes, alone) = (rest, false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_sizes_are_those_of_the_standards() {
        let frame = |bytes: [u8; 3]| Frame::parse(&bytes).map(|it| (it.bytes, it.samples, it.rate));
        assert_eq!(
            frame([0xff, 0xfb, 0x90]),
            Some((417, 1152, 44_100)),
            "128 kbit/s"
        );
        assert_eq!(
            frame([0xff, 0xfb, 0x92]),
            Some((418, 1152, 44_100)),
            "padded"
        );
        assert_eq!(
            frame([0xff, 0xfd, 0xa4]),
            Some((576, 1152, 48_000)),
            "layer II"
        );
        assert_eq!(
            frame([0xff, 0xf3, 0x84]),
            Some((192, 576, 24_000)),
            "MPEG-2"
        );
        assert_eq!(frame([0xff, 0xfb, 0x00]), None, "free format");
        assert_eq!(frame([0xff, 0xfb, 0xf0]), None);
        assert_eq!(frame([0xff, 0xeb, 0x90]), None, "a reserved version");
    }
}
