use glassline_media::UnitBuilder;
use glassline_media::annexb::LONG_START_CODE;

use super::{F_NRI_BITS, FU_END, FU_HEADER_BYTES, FU_START, nal, nal_type};

/// Splits the NAL units of one access unit, without start codes, into payloads of at most
/// `payload_max` bytes (at least 3).
///
/// Consecutive units that fit one payload together are aggregated (STAP-A), so that parameter
/// sets and SEI travel with the slices. A unit that does not fit is split into fragments (FU-A)
/// of equal size, only the last of which may be shorter, as segmentation offload needs.
/// Delimiters, end marks and filler are dropped: the marker bit and the timestamp carry the
/// same information. Empty units are skipped. The last packet is ended; there may be none.
pub fn packetize<'a>(
    nals: impl Iterator<Item = &'a [u8]>,
    payload_max: usize,
    out: &mut UnitBuilder,
) {
    let mut group = Group::default();
    for unit in nals.filter(|unit| is_carried(unit)) {
        if group.bytes_with(unit) > payload_max.min(AGGREGATE_MAX) {
            group.flush(out);
        }
        if unit.len() > payload_max {
            fragment(unit, payload_max, out);
        } else {
            group.add(unit);
        }
    }
    group.flush(out);
}

fn is_carried(unit: &[u8]) -> bool {
    unit.first().is_some_and(|&first| {
        !matches!(
            nal_type(first),
            nal::AUD | nal::END_OF_SEQUENCE | nal::END_OF_STREAM | nal::FILLER
        )
    })
}

/// Largest STAP-A, in bytes: its size fields have 16 bits.
const AGGREGATE_MAX: usize = u16::MAX as usize;
/// Length of a STAP-A's own header in bytes.
const STAP_HEADER_BYTES: usize = 1;
/// Length of the size field of each NAL unit in a STAP-A, in bytes.
const STAP_SIZE_BYTES: usize = 2;

/// Consecutive units that fit one payload together.
#[derive(Default)]
struct Group<'a> {
    units: Vec<&'a [u8]>,
    bytes: usize,
}

impl<'a> Group<'a> {
    /// Returns the size of a STAP-A of this group and `unit`.
    fn bytes_with(&self, unit: &[u8]) -> usize {
        STAP_HEADER_BYTES + self.bytes + STAP_SIZE_BYTES + unit.len()
    }

    fn add(&mut self, unit: &'a [u8]) {
        self.units.push(unit);
        self.bytes += STAP_SIZE_BYTES + unit.len();
    }

    fn flush(&mut self, out: &mut UnitBuilder) {
        match self.units.as_slice() {
            [] => {}
            [unit] => {
                out.frame_only(&LONG_START_CODE);
                out.push(unit);
            }
            units => {
                out.wire_only(&[aggregate_header(units)]);
                for unit in units {
                    // `bytes_with` keeps the sum below AGGREGATE_MAX.
                    out.wire_only(&(unit.len() as u16).to_be_bytes());
                    out.frame_only(&LONG_START_CODE);
                    out.coded(unit);
                }
                out.end_packet();
            }
        }
        self.units.clear();
        self.bytes = 0;
    }
}

/// Returns the header of a STAP-A: the forbidden bit if any unit has it, and the highest
/// `nal_ref_idc` of all units (RFC 6184 §5.7).
fn aggregate_header(units: &[&[u8]]) -> u8 {
    let (mut forbidden, mut importance) = (0, 0);
    for unit in units {
        forbidden |= unit[0] & 0x80;
        importance = importance.max(unit[0] & 0x60);
    }
    forbidden | importance | nal::STAP_A
}

fn fragment(unit: &[u8], payload_max: usize, out: &mut UnitBuilder) {
    let (first, body) = (unit[0], &unit[1..]);
    let room = payload_max.saturating_sub(FU_HEADER_BYTES).max(1);
    let count = body.len().div_ceil(room);
    // Rounding up makes all fragments equal except the last, which is not longer.
    let size = body.len().div_ceil(count);
    let mut start = FU_START;
    out.frame_only(&LONG_START_CODE);
    out.frame_only(&[first]);
    let mut fragments = body.chunks(size).peekable();
    while let Some(fragment) = fragments.next() {
        let end = if fragments.peek().is_none() {
            FU_END
        } else {
            0
        };
        out.wire_only(&[
            first & F_NRI_BITS | nal::FU_A,
            start | end | nal_type(first),
        ]);
        out.coded(fragment);
        out.end_packet();
        start = 0;
    }
}
