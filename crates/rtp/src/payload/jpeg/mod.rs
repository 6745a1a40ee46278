//! JPEG payloads (RFC 2435): the scan of a frame behind a header with its size, sampling and
//! restart interval; quantization tables are sent in band. All other properties of the frame are
//! fixed: three components, baseline coding, the standard Huffman tables. A frame with other Huffman
//! tables is coded anew, and one of 4:2:2 in MCUs of 16 rows becomes one of 8 rows; neither changes a
//! coefficient.

mod huffman;
mod jfif;
mod quantization;
mod recode;
mod stacked;

use glassline_media::UnitBuilder;

use super::PacketizeError;
use super::assembly::{DropReason, Entry, FrameFormat};
use jfif::Parameters;
use quantization::{TABLE_BYTES, Tables};

/// Length of the main header in bytes (RFC 2435 §3.1).
const MAIN_BYTES: usize = 8;
/// Length of the restart marker header in bytes (§3.1.7).
const RESTART_BYTES: usize = 4;
/// Length of the quantization table header in bytes (§3.1.8).
const TABLES_HEADER_BYTES: usize = 4;

/// First type that has restart markers.
const RESTARTS: u8 = 64;
/// Restart count of packets in which restart intervals are not counted: first and last bit set.
const NO_RESTART_COUNT: u16 = 0xffff;
/// Q value of tables that are in band and apply to this frame only.
const IN_BAND: u8 = 255;
/// First Q value of tables that are in band, or were in an earlier frame.
const DYNAMIC: u8 = 128;

/// Splits a frame into payloads of at most `payload_max` bytes, of equal size except for a
/// shorter last one.
///
/// # Errors
/// [`PacketizeError::UnsupportedFeature`] names the property of the frame that the format cannot represent.
pub(super) fn packetize(
    frame: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    let frame = jfif::parse(frame)?;
    let Parameters {
        sampling,
        width,
        height,
        restart_interval,
        tables,
    } = frame.parameters;
    // Fragment offsets have 24 bits.
    if frame.scan.len() >= 1 << 24 {
        return Err(PacketizeError::TooLong {
            bytes: frame.scan.len(),
            max: (1 << 24) - 1,
        });
    }
    let restarts = if restart_interval > 0 { RESTARTS } else { 0 };
    let headers = MAIN_BYTES + if restarts > 0 { RESTART_BYTES } else { 0 };
    let first_bytes = TABLES_HEADER_BYTES + tables.len();
    // The first payload has the tables and so much less of the scan, so that packets are equal.
    let room = payload_max.saturating_sub(headers).max(first_bytes + 1);
    let total = frame.scan.len() + first_bytes;
    let size = total.div_ceil(total.div_ceil(room)).max(first_bytes + 1);
    let mut file_headers = Vec::new();
    frame.parameters.write_headers(&mut file_headers);
    out.frame_only(&file_headers);
    let mut offset = 0;
    while offset < frame.scan.len() {
        let [_, offset_bytes @ ..] = (offset as u32).to_be_bytes();
        out.wire_only(&[0]);
        out.wire_only(&offset_bytes);
        out.wire_only(&[
            sampling | restarts,
            IN_BAND,
            (width.div_ceil(8)) as u8,
            (height.div_ceil(8)) as u8,
        ]);
        if restarts > 0 {
            out.wire_only(&restart_interval.to_be_bytes());
            out.wire_only(&NO_RESTART_COUNT.to_be_bytes());
        }
        let mut room = size;
        if offset == 0 {
            out.wire_only(&[0, 0]);
            out.wire_only(&(tables.len() as u16).to_be_bytes());
            out.wire_only(&tables);
            room -= first_bytes;
        }
        let end = frame.scan.len().min(offset + room);
        out.coded(&frame.scan[offset..end]);
        out.end_packet();
        offset = end;
    }
    out.frame_only(&jfif::END_OF_IMAGE);
    Ok(())
}

/// Joins payloads into a JFIF frame.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Length of the file headers in front of the scan, in bytes.
    header_bytes: usize,
    /// Tables that were in band once and apply from then on, by their Q (128–254).
    known: std::collections::BTreeMap<u8, Tables>,
}

impl Assembly {
    /// Returns the tables of a first payload with this Q, and what follows them.
    fn tables<'a>(&mut self, q: u8, rest: &'a [u8]) -> Result<(Tables, &'a [u8]), DropReason> {
        if q < DYNAMIC {
            let tables = quantization::by_factor(q).ok_or(DropReason::Unsupported)?;
            return Ok((tables, rest));
        }
        let [_, precision, high, low, rest @ ..] = rest else {
            return Err(DropReason::Malformed);
        };
        let bytes = usize::from(u16::from_be_bytes([*high, *low]));
        let (given, rest) = rest.split_at_checked(bytes).ok_or(DropReason::Malformed)?;
        // A single table serves for luminance and chrominance.
        let tables = match given.len() {
            0 if q != IN_BAND => *self.known.get(&q).ok_or(DropReason::Loss)?,
            TABLE_BYTES => quantization::join(given, given).ok_or(DropReason::Malformed)?,
            bytes if bytes == 2 * TABLE_BYTES => {
                let (luma, chroma) = given.split_at(TABLE_BYTES);
                quantization::join(luma, chroma).ok_or(DropReason::Malformed)?
            }
            _ => return Err(DropReason::Malformed),
        };
        if precision & 3 != 0 {
            // Tables of 16 bits an entry do not occur in baseline frames of 8 bits.
            return Err(DropReason::Unsupported);
        }
        if q != IN_BAND {
            self.known.insert(q, tables);
        }
        Ok((tables, rest))
    }
}

impl FrameFormat for Assembly {
    fn begins(&self, payload: &[u8]) -> bool {
        matches!(payload, [_, 0, 0, 0, _, _, _, _, ..])
    }

    fn reset(&mut self) {
        self.header_bytes = 0;
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        let [_, a, b, c, kind, q, width, height, rest @ ..] = payload else {
            return Err(DropReason::Malformed);
        };
        let offset = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let sampling = kind & !RESTARTS;
        if sampling > 1 || *width == 0 || *height == 0 {
            return Err(DropReason::Unsupported);
        }
        let (restart_interval, mut rest) = match (kind & RESTARTS != 0, rest) {
            (false, rest) => (0, rest),
            (true, [high, low, _, _, rest @ ..]) => (u16::from_be_bytes([*high, *low]), rest),
            (true, _) => return Err(DropReason::Malformed),
        };
        if offset != frame.len() - self.header_bytes.min(frame.len()) {
            return Err(DropReason::Malformed);
        }
        if offset == 0 && frame.is_empty() {
            let (tables, scan) = self.tables(*q, rest)?;
            rest = scan;
            let parameters = Parameters {
                sampling,
                width: u16::from(*width) * 8,
                height: u16::from(*height) * 8,
                restart_interval,
                tables,
            };
            parameters.write_headers(frame);
            self.header_bytes = frame.len();
        }
        frame.extend_from_slice(rest);
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, _: bool) -> Result<Entry, DropReason> {
        // Some senders include the end marker.
        if !frame.ends_with(&jfif::END_OF_IMAGE) {
            frame.extend_from_slice(&jfif::END_OF_IMAGE);
        }
        Ok(Entry::Keyframe)
    }
}

#[cfg(test)]
pub(super) mod tests;
