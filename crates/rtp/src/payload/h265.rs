//! H.265 payloads (RFC 7798): single NAL unit packets, aggregation packets and fragmentation
//! units, in decoding order. Ours have no decoding order numbers.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use glassline_media::annexb::LONG_START_CODE;
use glassline_media::{Bits, Track, UnitBuilder};

use super::assembly::{DropReason, Entry, FrameFormat};
use super::nal_units::{Assembly, Fragment, Packet, Role, Syntax};
use super::{equal_pieces, parameter, parameter_set, push_parameter};

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
            // The end of a sequence, for example, has no body.
            (0..nal::AP, []) => Packet::Reserved,
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

    /// `recovery_poc_cnt` is a signed distance in the order of display, in which a picture takes one step
    /// or more. Pictures from the present one on are right if it is negative.
    fn recovery(payload: &mut Bits<'_>) -> Option<u32> {
        // Positive numbers have the odd codes (H.265 §9.2.2).
        let code = payload.exp_golomb()?;
        Some(if code % 2 == 1 { code / 2 + 1 } else { 0 })
    }

    /// The place of `slice_type` depends on the PPS. Intra pictures without other pictures behind them
    /// that need earlier ones are IRAP pictures anyway.
    fn is_intra(_: &[u8]) -> bool {
        false
    }
}

/// Returns whether the payloads of `track` have decoding order numbers (RFC 7798 §7.1).
pub(super) fn is_numbered(track: &Track) -> bool {
    let value = |name| parameter(&track.format_parameters, name);
    ["sprop-max-don-diff", "sprop-depack-buf-nalus"]
        .into_iter()
        .filter_map(value)
        .any(|value| value.parse().is_ok_and(|number: u32| number > 0))
}

/// H.265 whose payloads have decoding order numbers (DONL and DOND). They are left out, and the NAL
/// units are taken in the order in which they come, since cameras send no other one.
#[derive(Debug, Default)]
pub(super) struct NumberedAssembly {
    plain: Assembly<H265>,
}

/// Length of the decoding order number of the first NAL unit in a payload (DONL).
const DONL_BYTES: usize = 2;
/// Length of the difference to it, in front of each further unit of an aggregate (DOND).
const DOND_BYTES: usize = 1;

/// Returns `payload` without its decoding order numbers (RFC 7798 §4.4).
fn without_numbers(payload: &[u8]) -> Vec<u8> {
    let header_bytes = match payload.first().map(|first| nal_type(*first)) {
        Some(nal::FU) => FU_BYTES,
        _ => HEADER_BYTES,
    };
    let (header, rest) = payload
        .split_at_checked(header_bytes)
        .unwrap_or((payload, &[]));
    let behind = |bytes: usize| rest.get(bytes..).unwrap_or_default();
    let mut plain = header.to_vec();
    match header {
        [_, _, ends] if ends & FU_START == 0 => plain.extend_from_slice(rest),
        [first, _] if nal_type(*first) == nal::AP => {
            let mut rest = behind(DONL_BYTES);
            while let Some((size, _)) = rest.split_first_chunk() {
                let end = SIZE_BYTES + usize::from(u16::from_be_bytes(*size));
                let (unit, more) = rest.split_at(end.min(rest.len()));
                plain.extend_from_slice(unit);
                rest = more.get(DOND_BYTES..).unwrap_or_default();
            }
        }
        _ => plain.extend_from_slice(behind(DONL_BYTES)),
    }
    plain
}

impl FrameFormat for NumberedAssembly {
    fn begins(&self, payload: &[u8]) -> bool {
        self.plain.begins(&without_numbers(payload))
    }

    fn continues(&self, payload: &[u8]) -> bool {
        self.plain.continues(&without_numbers(payload))
    }

    fn separates(&self, payload: &[u8]) -> bool {
        self.plain.separates(&without_numbers(payload))
    }

    fn is_open(&self) -> bool {
        self.plain.is_open()
    }

    fn has_picture(&self, frame: &[u8]) -> bool {
        self.plain.has_picture(frame)
    }

    fn reset(&mut self) {
        self.plain.reset();
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        self.plain.take(&without_numbers(payload), frame)
    }

    fn finish(&mut self, frame: &mut Vec<u8>, after_gap: bool) -> Result<Entry, DropReason> {
        self.plain.finish(frame, after_gap)
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::Codec;

    use super::super::nal_units::recovery;
    use super::super::{Recovery, is_recovery_point};
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

    /// Access units of VPS, SPS, PPS, these units, and a slice of a P picture.
    fn unit(units: &[&[u8]]) -> Vec<u8> {
        let sets: [&[u8]; 3] = [&[0x40, 1, 0x0c], &[0x42, 1, 1], &[0x44, 1, 0xc1]];
        let slice: &[u8] = &[0x02, 1, 0xd0, 9];
        let nals = sets.iter().chain(units).chain([&slice]);
        nals.flat_map(|nal| [&LONG_START_CODE[..], nal].concat())
            .collect()
    }

    #[test]
    fn a_recovery_point_counts_pictures_in_the_order_of_display() {
        let of = |sei: &[u8]| recovery::<H265>(&unit(&[sei]));
        let frames = Recovery::Frames;
        for (payload, expected) in [
            // recovery_poc_cnt, exact_match_flag (1), broken_link_flag (0) and the alignment.
            (&[0b1101_0000][..], frames(0)),
            (&[0b0101_0100], frames(1)),
            (&[0b0000_0111, 0b0101_0100], frames(29)),
            (&[0b0001_0111, 0b0100_0000], frames(0)),
            (&[0, 1, 0xff, 0xfd, 0x40], frames(32_767)),
            (&[0], frames(0)),
        ] {
            let length = u8::try_from(payload.len()).expect("short");
            // A picture timing is in front.
            let sei = [&[0x4e, 1, 1, 2, 0, 4, 6, length], payload, &[0x80]].concat();
            assert_eq!(of(&sei), expected, "{payload:?}");
        }
        assert_eq!(of(&[0x4e, 1, 1, 2, 0, 4, 0x80]), Recovery::Refresh);
        assert_eq!(of(&[0x4e]), Recovery::Refresh, "cut off");
        for irap in [19, 21] {
            assert_eq!(of(&[irap << 1, 1, 0xaf, 7]), Recovery::Keyframe, "{irap}");
        }
    }

    /// Chromium shows nothing of such a unit before an IRAP picture comes.
    #[test]
    fn a_unit_without_irap_slices_is_known_by_its_payloads() {
        let is_without = |nals: &[&[u8]], payload_max| {
            let mut out = UnitBuilder::default();
            packetize(nals.iter().copied(), payload_max, &mut out);
            let at = std::time::Instant::now();
            let stamps = glassline_media::Stamps::arrived(at);
            let time = glassline_media::MediaTime::ZERO;
            let unit = out.build(glassline_media::TrackIndex(0), time, true, stamps);
            is_recovery_point(Codec::H265, &unit.expect("packets"))
        };
        let (vps, sps, pps): (&[u8], &[u8], &[u8]) =
            (&[0x40, 1, 0x0c], &[0x42, 1, 1], &[0x44, 1, 0xc1]);
        let trail = [&[0x02, 1, 0xd0][..], &[9; 3000]].concat();
        for payload_max in [1_000, 4_000] {
            assert!(is_without(&[vps, sps, pps, &trail], payload_max));
            // IDR_N_LP, CRA and BLA_W_RADL.
            for kind in [20, 21, 17] {
                let irap = [&[kind << 1, 1, 0xaf][..], &[9; 3000]].concat();
                assert!(!is_without(&[vps, sps, pps, &irap], payload_max), "{kind}");
            }
            assert!(!is_without(&[&trail], payload_max), "without sets");
        }
    }

    #[test]
    fn decoding_order_numbers_are_left_out() {
        use super::super::Depacketizer;
        // Each number is 0x0102, and each difference 0x05.
        let sets: &[u8] = &[
            0x60, 1, 1, 2, 0, 3, 0x40, 1, 0x0c, 5, 0, 3, 0x42, 1, 1, 5, 0, 3, 0x44, 1, 0xc1,
        ];
        let single: &[u8] = &[0x02, 1, 1, 2, 0xd0, 9];
        let packets: [(u32, bool, &[u8]); 4] = [
            (0, false, sets),
            (0, false, &[0x62, 1, 0x80 | 19, 1, 2, 0xaf, 7]),
            (0, true, &[0x62, 1, 0x40 | 19, 8]),
            (1, true, single),
        ];
        for numbered in ["sprop-max-don-diff=1", "sprop-depack-buf-nalus=2"] {
            let track = Track::new(Codec::H265).with_format_parameters(numbered);
            let mut depacketizer = Depacketizer::new(&track).expect("supported");
            for ((timestamp, marker, payload), sequence) in packets.into_iter().zip(1..) {
                depacketizer.push(sequence, timestamp, marker, payload);
            }
            let keyframe = depacketizer.poll().expect("a keyframe");
            assert!(keyframe.is_keyframe());
            let sets = [
                0, 0, 0, 1, 0x40, 1, 0x0c, 0, 0, 0, 1, 0x42, 1, 1, 0, 0, 0, 1, 0x44, 1, 0xc1,
            ];
            let slice = [0, 0, 0, 1, 0x26, 1, 0xaf, 7, 8];
            assert_eq!(keyframe.data, [&sets[..], &slice].concat());
            let next = depacketizer.poll().expect("a frame");
            assert_eq!(next.data, [0, 0, 0, 1, 2, 1, 0xd0, 9]);
        }
        let absent = Track::new(Codec::H265).with_format_parameters("sprop-max-don-diff=0");
        assert!(!is_numbered(&absent));
    }

    #[test]
    fn a_unit_without_a_body_costs_nothing() {
        use super::super::Depacketizer;
        let mut depacketizer = Depacketizer::new(&Track::new(Codec::H265)).expect("known");
        depacketizer.push(1, 0, false, &[0x26, 1, 0xaf, 7]);
        // The end of the sequence, which is two bytes long.
        depacketizer.push(2, 0, true, &[36 << 1, 1]);
        let unit = depacketizer.poll().expect("the keyframe");
        assert_eq!(unit.data, [0, 0, 0, 1, 0x26, 1, 0xaf, 7]);
    }

    proptest::prelude::proptest! {
        #[test]
        fn no_payload_without_numbers_panics(payload: Vec<u8>) {
            let plain = without_numbers(&payload);
            proptest::prelude::prop_assert!(plain.len() <= payload.len());
        }
    }
}
