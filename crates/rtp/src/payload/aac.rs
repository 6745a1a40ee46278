//! AAC payloads (RFC 3640): access units behind headers with their sizes. Units are sent in
//! mode `AAC-hbr` (§3.3.6), one per packet, and received in any mode whose headers have only
//! sizes and indices.

use glassline_media::{Codec, Track, UnitBuilder};

use super::assembly::{AudioFormat, DropReason};
use super::{PacketizeError, UnsupportedFormat, equal_pieces, parameter};

/// Length of the AU headers section: the number of bits of all headers, then one header of 13
/// bits of size and 3 bits of index.
const HEADERS_BYTES: usize = 4;
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
    index_bits: u32,
    index_delta_bits: u32,
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
            index_bits: bits("indexlength").unwrap_or(3).min(16),
            index_delta_bits: bits("indexdeltalength").unwrap_or(3).min(16),
            unit_samples: bits("constantduration")
                .filter(|samples| (1..=1 << 16).contains(samples))
                .unwrap_or(UNIT_SAMPLES),
            open: None,
        })
    }

    /// Reads the sizes in the AU headers section. Returns them and what follows the section
    /// (§3.2.1).
    fn sizes<'a>(&self, payload: &'a [u8]) -> Result<(Vec<usize>, &'a [u8]), DropReason> {
        let (bits, rest) = payload.split_first_chunk().ok_or(DropReason::Malformed)?;
        let bits = u32::from(u16::from_be_bytes(*bits));
        let (headers, rest) = rest
            .split_at_checked(bits.div_ceil(8) as usize)
            .ok_or(DropReason::Malformed)?;
        let mut sizes = Vec::new();
        let mut at = 0;
        loop {
            let index_bits = if at == 0 {
                self.index_bits
            } else {
                self.index_delta_bits
            };
            if at + self.size_bits + index_bits > bits {
                break;
            }
            sizes.push(read_bits(headers, at, self.size_bits) as usize);
            // Interleaved units, or serial numbers, which senders do not use.
            if read_bits(headers, at + self.size_bits, index_bits) != 0 {
                return Err(DropReason::Unsupported);
            }
            at += self.size_bits + index_bits;
        }
        Ok((sizes, rest))
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
            std::cmp::Ordering::Equal => units.push((0, open.data)),
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
                units.push((self.unit_samples.wrapping_mul(number), unit.to_vec()));
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

/// Reads `count` bits (at most 16) from bit `at` on; bits past the end are zero.
fn read_bits(bytes: &[u8], at: u32, count: u32) -> u32 {
    (at..at + count).fold(0, |value, at| {
        let byte = bytes.get(at as usize / 8).copied().unwrap_or(0);
        value << 1 | u32::from(byte >> (7 - at % 8) & 1)
    })
}
