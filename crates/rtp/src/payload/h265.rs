//! H.265 payloads (RFC 7798): single NAL unit packets, aggregation packets and fragmentation
//! units, in decoding order, without DONL fields.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use glassline_media::annexb::LONG_START_CODE;
use glassline_media::{Codec, Track, UnitBuilder};

use super::nal_units::{Assembly, Fragment, Packet, Role, Syntax};
use super::{UnsupportedFormat, equal_pieces, parameter, parameter_set, push_parameter};

/// Types of NAL units (H.265 table 7-1) and of RTP payloads (RFC 7798 §4.4).
pub mod nal {
    /// First type of intra random access point (IRAP) pictures, which begin a keyframe.
    pub const IRAP_FIRST: u8 = 16;
    /// Last IRAP type, reserved types included.
    pub const IRAP_LAST: u8 = 23;
    /// Last type of coded slice segments.
    pub const SLICE_LAST: u8 = 31;
    /// Video parameter set (VPS).
    pub const VPS: u8 = 32;
    /// Sequence parameter set (SPS).
    pub const SPS: u8 = 33;
    /// Picture parameter set (PPS).
    pub const PPS: u8 = 34;
    /// Access unit delimiter (AUD).
    pub const AUD: u8 = 35;
    /// Filler data. Types 36 and 37, between this and the delimiter, end sequence and
    /// bitstream.
    pub const FILLER: u8 = 38;
    /// Supplemental enhancement information in front of the coded picture.
    pub const PREFIX_SEI: u8 = 39;
    /// Aggregation packet (AP) of several NAL units.
    pub const AP: u8 = 48;
    /// Fragmentation unit (FU) of one NAL unit.
    pub const FU: u8 = 49;
    /// PACI packet, whose header extension is not used in practice.
    pub const PACI: u8 = 50;
}

/// Returns the type in the first byte of a NAL unit or RTP payload, 0–63.
pub const fn nal_type(first: u8) -> u8 {
    first >> 1 & 0x3f
}

/// Returns `general_profile_idc` of the track's first `sprop-sps` (H.265 §7.3.3): 1 for Main, 2
/// for Main 10. `None` if the track's format parameters have no parameter sets.
pub fn profile(track: &Track) -> Option<u8> {
    // The NAL unit header is followed by a byte of other fields; profile space and tier share
    // the byte of the profile.
    const PROFILE_OFFSET: usize = HEADER_BYTES + 1;
    let sets = parameter(&track.format_parameters, "sprop-sps")?;
    // Twelve characters of base64 are nine bytes.
    let head = STANDARD_NO_PAD.decode(sets.get(..12)?).ok()?;
    head.get(PROFILE_OFFSET).map(|byte| byte & 0x1f)
}

/// Names of the format parameters with parameter sets (RFC 7798 §7.1), in the order that a decoder
/// needs.
const SETS: [&str; 3] = ["sprop-vps", "sprop-sps", "sprop-pps"];

/// Returns the NAL units in the track's format parameters `sprop-vps`, `sprop-sps` and `sprop-pps`
/// (RFC 7798 §7.1).
pub fn sets_of(track: &Track) -> Vec<Vec<u8>> {
    let lists = SETS.into_iter();
    lists
        .filter_map(|name| parameter(&track.format_parameters, name))
        .flat_map(|list| list.split(',').filter_map(parameter_set))
        .collect()
}

/// Adds parameter sets (VPS, SPS, PPS) to the format parameters of a track that has none.
pub fn describe(track: &mut Track, sets: [&[u8]; 3]) {
    if !sets_of(track).is_empty() {
        return;
    }
    for (name, set) in SETS.into_iter().zip(sets) {
        push_parameter(&mut track.format_parameters, name, &STANDARD.encode(set));
    }
}

/// Length of a NAL unit header in bytes; every payload begins with one (RFC 7798 §1.1.4).
const HEADER_BYTES: usize = 2;
/// Length of payload header and FU header in bytes (RFC 7798 §4.4.3).
const FU_BYTES: usize = 3;
/// Start bit of an FU header.
const FU_START: u8 = 0x80;
/// End bit of an FU header.
const FU_END: u8 = 0x40;
/// Bits of the NAL unit type in an FU header.
const FU_TYPE: u8 = 0x3f;
/// Length of the size field of each NAL unit in an aggregation packet (RFC 7798 §4.4.2).
const SIZE_BYTES: usize = 2;

/// Splits the NAL units of one access unit into payloads of at most `payload_max` bytes, as
/// [`h264::packetize`](crate::h264::packetize) does: consecutive units that fit one payload are
/// aggregated, larger ones are split into fragments of equal size. Delimiters, end marks,
/// filler and units without a complete header are dropped.
pub fn packetize<'a>(
    nals: impl Iterator<Item = &'a [u8]>,
    payload_max: usize,
    out: &mut UnitBuilder,
) {
    let mut group: Vec<&[u8]> = Vec::new();
    let mut bytes = HEADER_BYTES;
    for unit in nals.filter(|unit| is_carried(unit)) {
        if bytes + SIZE_BYTES + unit.len() > payload_max.min(usize::from(u16::MAX)) {
            flush(&mut group, out);
            bytes = HEADER_BYTES;
        }
        if unit.len() > payload_max {
            fragment(unit, payload_max, out);
        } else {
            group.push(unit);
            bytes += SIZE_BYTES + unit.len();
        }
    }
    flush(&mut group, out);
}

fn is_carried(unit: &[u8]) -> bool {
    unit.len() > HEADER_BYTES && !matches!(nal_type(unit[0]), nal::AUD..=nal::FILLER | 48..)
}

fn flush(group: &mut Vec<&[u8]>, out: &mut UnitBuilder) {
    match group.as_slice() {
        [] => {}
        [unit] => {
            out.frame_only(&LONG_START_CODE);
            out.push(unit);
        }
        units => {
            out.wire_only(&aggregate_header(units));
            for unit in units {
                // The caller keeps the whole below 64 KiB.
                out.wire_only(&(unit.len() as u16).to_be_bytes());
                out.frame_only(&LONG_START_CODE);
                out.coded(unit);
            }
            out.end_packet();
        }
    }
    group.clear();
}

/// Returns the payload header of an aggregation packet: the lowest layer and temporal
/// identifier of its units, and the forbidden bit if any unit has it (RFC 7798 §4.4.2).
fn aggregate_header(units: &[&[u8]]) -> [u8; HEADER_BYTES] {
    let forbidden = units.iter().fold(0, |bits, unit| bits | unit[0] & 0x80);
    let layer = |unit: &&[u8]| (unit[0] & 1) << 5 | unit[1] >> 3;
    let layer = units.iter().map(layer).min().unwrap_or(0);
    let temporal = units.iter().map(|unit| unit[1] & 7).min().unwrap_or(1);
    [
        forbidden | nal::AP << 1 | layer >> 5,
        (layer & 0x1f) << 3 | temporal,
    ]
}

fn fragment(unit: &[u8], payload_max: usize, out: &mut UnitBuilder) {
    let (header, body) = unit.split_at(HEADER_BYTES);
    out.frame_only(&LONG_START_CODE);
    out.frame_only(header);
    let mut start = FU_START;
    let mut fragments = equal_pieces(body, payload_max.saturating_sub(FU_BYTES)).peekable();
    while let Some(fragment) = fragments.next() {
        let last = fragments.peek().is_none();
        out.wire_only(&[
            header[0] & 0x81 | nal::FU << 1,
            header[1],
            start | if last { FU_END } else { 0 } | nal_type(header[0]),
        ]);
        out.coded(fragment);
        out.end_packet();
        start = 0;
    }
}

/// The NAL units and payloads of H.265.
#[derive(Debug)]
pub(super) struct H265;

/// Supplemental enhancement information behind the coded picture.
const SUFFIX_SEI: u8 = 40;

impl Syntax for H265 {
    const HEADER_BYTES: usize = HEADER_BYTES;
    const SPS: u8 = nal::SPS;
    const SEI: u8 = nal::PREFIX_SEI;

    fn kind(first: u8) -> u8 {
        nal_type(first)
    }

    fn is_unit(kind: u8) -> bool {
        kind < nal::AP
    }

    #[inline]
    fn fragment(payload: &[u8]) -> Option<Fragment<'_>> {
        match payload {
            [first, second, header, body @ ..] if nal_type(*first) == nal::FU => Some(Fragment {
                header: [first & 0x81 | (header & FU_TYPE) << 1, *second],
                begins: header & FU_START != 0,
                ends: header & FU_END != 0,
                body,
            }),
            _ => None,
        }
    }

    fn packet(payload: &[u8]) -> Packet<'_> {
        let [first, _, rest @ ..] = payload else {
            return Packet::Malformed;
        };
        match (nal_type(*first), rest) {
            // A fragment without its third byte, too.
            (_, []) | (nal::FU, _) => Packet::Malformed,
            (0..nal::AP, _) => Packet::Single,
            (nal::AP, units) => Packet::Aggregate(units),
            (nal::PACI, _) => Packet::Unsupported,
            // Reserved types are ignored (RFC 7798 §4.4).
            _ => Packet::Reserved,
        }
    }

    /// An SPS or a PPS does not certainly begin a unit: the set before it may be lost.
    fn role(first: u8, body: Option<u8>) -> Role {
        match nal_type(first) {
            nal::AUD | nal::VPS | nal::PREFIX_SEI => Role::Lead,
            nal::SPS | nal::PPS => Role::Set,
            kind @ 0..=nal::SLICE_LAST => Role::Slice {
                // `first_slice_segment_in_pic_flag` (H.265 §7.3.6.1).
                first: body.is_some_and(|byte| byte & 0x80 != 0),
                keyframe: (nal::IRAP_FIRST..=nal::IRAP_LAST).contains(&kind),
            },
            36..=nal::FILLER | SUFFIX_SEI => Role::Trail,
            _ => Role::Other,
        }
    }

    /// The place of `slice_type` depends on the PPS. Intra pictures without other pictures behind them
    /// that need earlier ones are IRAP pictures anyway.
    fn is_intra(_: &[u8]) -> bool {
        false
    }
}

/// Creates the format for `track`.
///
/// # Errors
/// [`UnsupportedFormat::Mode`] if packets are sent in another order than they are decoded in.
pub(super) fn assembly(track: &Track) -> Result<Assembly<H265>, UnsupportedFormat> {
    let differs = parameter(&track.format_parameters, "sprop-max-don-diff");
    match differs.filter(|value| *value != "0") {
        None => Ok(Assembly::default()),
        Some(value) => Err(UnsupportedFormat::Mode {
            codec: Codec::H265,
            parameter: format!("sprop-max-don-diff={value}"),
            advice: "send NAL units in decoding order",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_that_of_the_parameter_sets() {
        // libx265 of FFmpeg, Main.
        let sets = "sprop-sps=QgEBAWAAAAMAkAAAAwAAAwAeoDCBBZZKkkyvAWgIAAADAAgAAAMAyEA=";
        let track = |text: &str| Track::new(Codec::H265).with_format_parameters(text);
        assert_eq!(profile(&track(sets)), Some(1));
        assert_eq!(profile(&track("sprop-sps=QgEB")), None, "cut short");
        assert_eq!(profile(&track("")), None);
    }
}
