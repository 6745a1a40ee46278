//! AAC payloads (RFC 3640): access units behind headers with their sizes. Units are sent in
//! mode `AAC-hbr` (§3.3.6), one per packet, and received in any mode whose headers have only
//! sizes and indices.

use glassline_media::{Codec, Track, UnitBuilder};

use super::assembly::{AudioFormat, DropReason};
use super::{PacketizeError, UnsupportedFormat, equal_pieces, parameter};

/// Length of the AU headers section: the number of bits of all headers, then one header of 13
/// bits of size and 3 bits of index.
const HEADERS_BYTES: usize = 4;
/// Length of an index and of an index difference in mode `AAC-hbr`, in bits.
const USUAL_INDEX_BITS: u32 = 3;

/// Longest access unit in bytes: its size has 13 bits.
const UNIT_BYTES_MAX: usize = (1 << 13) - 1;

/// Number of samples of an access unit, unless the session description has another number.
const UNIT_SAMPLES: u32 = 1024;

/// Puts a unit into one payload, or into fragments of equal size, each with the size of the
/// whole unit (§3.2.3).
pub(super) fn packetize(
    unit: &[u8],
    payload_max: usize,
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    if unit.len() > UNIT_BYTES_MAX {
        return Err(PacketizeError::TooLong {
            bytes: unit.len(),
            max: UNIT_BYTES_MAX,
        });
    }
    let [high, low] = ((unit.len() as u16) << 3).to_be_bytes();
    for piece in equal_pieces(unit, payload_max.saturating_sub(HEADERS_BYTES)) {
        out.wire_only(&[0, 16, high, low]);
        out.coded(piece);
        out.end_packet();
    }
    Ok(())
}

/// Splits payloads into access units.
#[derive(Debug)]
pub(super) struct Assembly {
    size_bits: u32,
    /// Lengths of the index and of the index difference, as far as the description has them.
    index_bits: Option<u32>,
    index_delta_bits: Option<u32>,
    unit_samples: u32,
    /// A fragmented unit of which payloads are missing.
    open: Option<Open>,
}

/// A fragmented unit: its full size, and the bytes so far.
#[derive(Debug)]
struct Open {
    size: usize,
    data: Vec<u8>,
}

impl Assembly {
    /// Reads the lengths of the AU header fields from the track's format parameters.
    ///
    /// # Errors
    /// [`UnsupportedFormat::Mode`] if AU headers have more fields than size and index.
    pub(super) fn new(track: &Track) -> Result<Self, UnsupportedFormat> {
        let text = &track.format_parameters;
        let refuse = |name: &str, value: &str, advice| {
            Err(UnsupportedFormat::Mode {
                codec: Codec::Aac,
                parameter: format!("{name}={value}"),
                advice,
            })
        };
        for name in [
            "ctsdeltalength",
            "dtsdeltalength",
            "randomaccessindication",
            "streamstateindication",
            "auxiliarydatasizelength",
        ] {
            if let Some(value) = parameter(text, name).filter(|value| *value != "0") {
                return refuse(name, value, "send mode=AAC-hbr without further fields");
            }
        }
        let bits = |name| parameter(text, name).and_then(|value| value.parse().ok());
        // Parameters that are absent have the values that all senders use.
        let size_bits = bits("sizelength").unwrap_or(13);
        if !(1..=16).contains(&size_bits) {
            let value = size_bits.to_string();
            return refuse("sizelength", &value, "send mode=AAC-hbr, sizelength=13");
        }
        Ok(Self {
            size_bits,
            index_bits: bits("indexlength").map(|bits| bits.min(16)),
            index_delta_bits: bits("indexdeltalength").map(|bits| bits.min(16)),
            unit_samples: bits("constantduration")
                .filter(|samples| (1..=1 << 16).contains(samples))
                .unwrap_or(UNIT_SAMPLES),
            open: None,
        })
    }

    /// Reads the sizes in the AU headers section. Returns them and what follows the section
    /// (§3.2.1).
    ///
    /// The indices are not looked at: no sender of AAC interleaves units, but some count in them.
    fn sizes<'a>(&self, payload: &'a [u8]) -> Result<(Vec<usize>, &'a [u8]), DropReason> {
        let (bits, rest) = payload.split_first_chunk().ok_or(DropReason::Malformed)?;
        let bits = u32::from(u16::from_be_bytes(*bits));
        let (headers, rest) = rest
            .split_at_checked(bits.div_ceil(8) as usize)
            .ok_or(DropReason::Malformed)?;
        // Where the description has no lengths, the headers tell whether they are those of AAC-hbr or
        // absent.
        let is_usual = bits.is_multiple_of(self.size_bits + USUAL_INDEX_BITS);
        let index_bits = self
            .index_bits
            .unwrap_or(if is_usual { USUAL_INDEX_BITS } else { 0 });
        let step = self.size_bits + self.index_delta_bits.unwrap_or(index_bits);
        let first = self.size_bits + index_bits;
        if bits < first {
            return Ok((Vec::new(), rest));
        }
        let further = (first..).step_by(step as usize);
        let further = further.take_while(|at| at + step <= bits);
        let sizes = std::iter::once(0).chain(further);
        let sizes = sizes.map(|at| read_bits(headers, at, self.size_bits) as usize);
        Ok((sizes.collect(), rest))
    }

    fn fragment(
        &mut self,
        size: usize,
        bytes: &[u8],
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), DropReason> {
        let mut open = match self.open.take() {
            Some(open) if open.size == size => open,
            Some(_) => return Err(DropReason::Malformed),
            None => Open {
                size,
                data: Vec::new(),
            },
        };
        open.data.extend_from_slice(bytes);
        match open.data.len().cmp(&size) {
            std::cmp::Ordering::Equal => units.push((0, without_adts(&open.data).to_vec())),
            std::cmp::Ordering::Less => self.open = Some(open),
            std::cmp::Ordering::Greater => return Err(DropReason::Malformed),
        }
        Ok(())
    }
}

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        let (sizes, mut rest) = self.sizes(payload)?;
        if let [size] = sizes[..]
            && (size > rest.len() || self.open.is_some())
        {
            return self.fragment(size, rest, units);
        }
        if self.open.take().is_some() || sizes.is_empty() {
            return Err(DropReason::Malformed);
        }
        for (size, number) in sizes.into_iter().zip(0..) {
            let (unit, more) = rest.split_at_checked(size).ok_or(DropReason::Malformed)?;
            rest = more;
            if !unit.is_empty() {
                let unit = without_adts(unit).to_vec();
                units.push((self.unit_samples.wrapping_mul(number), unit));
            }
        }
        Ok(())
    }

    fn on_loss(&mut self) -> bool {
        self.open.take().is_some()
    }

    fn pending_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.data.len())
    }
}

/// Returns a unit without the ADTS header (ISO/IEC 13818-7 §6.2) that some cameras leave on it.
fn without_adts(unit: &[u8]) -> &[u8] {
    const CHECKSUM_ABSENT: u8 = 1;
    let [0xff, second, _, a, b, c, blocks, ..] = *unit else {
        return unit;
    };
    let length = usize::from(a & 3) << 11 | usize::from(b) << 3 | usize::from(c >> 5);
    let header_bytes = match second & CHECKSUM_ABSENT {
        0 => 9,
        _ => 7,
    };
    // Layer 0, and a single block of samples. No other unit begins with twelve ones.
    let is_header = second & 0xf6 == 0xf0 && blocks & 3 == 0 && length == unit.len();
    match unit.get(header_bytes..) {
        Some(bare) if is_header => bare,
        _ => unit,
    }
}

/// Reads `count` bits (at most 16) from bit `at` on; bits past the end are zero.
fn read_bits(bytes: &[u8], at: u32, count: u32) -> u32 {
    (at..at + count).fold(0, |value, at| {
        let byte = bytes.get(at as usize / 8).copied().unwrap_or(0);
        value << 1 | u32::from(byte >> (7 - at % 8) & 1)
    })
}
