//! Vorbis (RFC 5215) and Theora (draft-barbato-avt-rtp-theora-01) payloads: the identifier of the
//! packed headers, then packets or a fragment of one, each behind its length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use glassline_media::{Track, UnitBuilder};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::{equal_pieces, parameter};

/// Length of the payload header in bytes: identifier; fragment type, data type and number of
/// packets; length of the first packet.
const HEADER_BYTES: usize = 6;

/// Fragment type (RFC 5215 §2.2) of a payload with whole packets.
const UNCUT: u8 = 0;
/// Fragment type of the first fragment of a packet.
const FIRST: u8 = 1;
/// Fragment type of the last fragment of a packet.
const LAST: u8 = 3;
/// Position of the fragment type in the fourth byte of a payload.
const FRAGMENT_SHIFT: u32 = 6;
/// Bits of the data type; not zero for headers and comments.
const DATA_TYPE: u8 = 0x30;

/// Identifier of the packed headers that decode a payload; every payload begins with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identifier([u8; 3]);

impl Identifier {
    /// Returns the identifier of the first packed headers in the track's `configuration` (RFC
    /// 5215 §3.2.1), behind a count of four bytes; 0 if there is none.
    pub(super) fn of(track: &Track) -> Self {
        const COUNT_BYTES: usize = 4;
        // Twelve characters of base64 are nine bytes; no more need be decoded.
        let text = parameter(&track.format_parameters, "configuration").unwrap_or_default();
        let head = text.get(..12).unwrap_or_default();
        let bytes = STANDARD_NO_PAD.decode(head).unwrap_or_default();
        let identifier = bytes.get(COUNT_BYTES..COUNT_BYTES + 3);
        Self(identifier.map_or([0; 3], |it| [it[0], it[1], it[2]]))
    }
}

/// Puts a packet into one payload or into fragments of equal size.
pub(super) fn packetize(
    packet: &[u8],
    Identifier(identifier): Identifier,
    payload_max: usize,
    out: &mut UnitBuilder,
) {
    if packet.is_empty() {
        return;
    }
    let mut pieces = equal_pieces(packet, payload_max.saturating_sub(HEADER_BYTES));
    let count = pieces.len();
    for (number, piece) in pieces.by_ref().enumerate() {
        let kind = match number {
            _ if count == 1 => UNCUT << FRAGMENT_SHIFT | 1,
            0 => FIRST << FRAGMENT_SHIFT,
            _ if number + 1 == count => LAST << FRAGMENT_SHIFT,
            _ => 2 << FRAGMENT_SHIFT,
        };
        out.wire_only(&identifier);
        out.wire_only(&[kind]);
        // A piece fits a datagram and is far below 64 KiB.
        out.wire_only(&(piece.len() as u16).to_be_bytes());
        out.coded(piece);
        out.end_packet();
    }
}

/// Joins payloads into packets of Theora. Vorbis is not received: its packets do not contain
/// their durations, so several packets in one payload could not be given their timestamps.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    fragmented: bool,
}

impl FrameFormat for Assembly {
    fn begins(&self, payload: &[u8]) -> bool {
        payload
            .get(3)
            .is_some_and(|kind| matches!(kind >> FRAGMENT_SHIFT, UNCUT | FIRST))
    }

    fn is_open(&self) -> bool {
        self.fragmented
    }

    fn reset(&mut self) {
        self.fragmented = false;
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        let [_, _, _, kind, high, low, bytes @ ..] = payload else {
            return Err(DropReason::Malformed);
        };
        if kind & DATA_TYPE != 0 {
            // Headers in band are ignored; those of the session description apply.
            return Ok(());
        }
        let fragment = kind >> FRAGMENT_SHIFT;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let piece = bytes.get(..length).ok_or(DropReason::Malformed)?;
        let begins = matches!(fragment, UNCUT | FIRST);
        if begins != frame.is_empty() || begins == self.fragmented {
            return Err(DropReason::Malformed);
        }
        if fragment == UNCUT && kind & 0x0f != 1 {
            // Several frames of one timestamp.
            return Err(DropReason::Unsupported);
        }
        self.fragmented = !matches!(fragment, UNCUT | LAST);
        frame.extend_from_slice(piece);
        Ok(())
    }

    /// Reads the first bits of a packet (Theora specification §7.1): 0 for data, then 0 for
    /// intra.
    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        if self.fragmented {
            return Err(DropReason::Malformed);
        }
        Ok(frame.first().is_some_and(|first| first & 0xc0 == 0).into())
    }
}
