//! The grammar of H.265: which NAL units make one picture (ITU-T H.265 clause 7.4.2.4.4), and
//! the output order of pictures (8.3.1).

pub(crate) mod parameter_sets;

use std::num::NonZeroUsize;

use glassline_media::{Codec, Track, VideoParameters};
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use crate::elementary::annexb;
use crate::elementary::grammar::{
    Content, Grammar, Leading, Opening, OutputOrder, Role, Set, VideoFacts,
};
use crate::error::Reason;
use crate::parameters;

use parameter_sets::{ParameterSets, PictureSet, SequenceSet};

/// Values of `nal_unit_type` (table 7-1).
mod nal_type {
    pub(super) const RADL_N: u8 = 6;
    pub(super) const RASL_N: u8 = 8;
    pub(super) const RASL_R: u8 = 9;
    /// The last of the types that alternate between reference and non-reference pictures.
    pub(super) const SUB_LAYER_LAST: u8 = 15;
    pub(super) const BLA_W_LP: u8 = 16;
    pub(super) const IDR_W_RADL: u8 = 19;
    pub(super) const IDR_N_LP: u8 = 20;
    pub(super) const CRA: u8 = 21;
    /// The last type of a slice.
    pub(super) const SLICE_LAST: u8 = 31;
    pub(super) const VPS: u8 = 32;
    pub(super) const SPS: u8 = 33;
    pub(super) const PPS: u8 = 34;
    pub(super) const AUD: u8 = 35;
    pub(super) const END_OF_SEQUENCE: u8 = 36;
    pub(super) const END_OF_BITSTREAM: u8 = 37;
    pub(super) const PREFIX_SEI: u8 = 39;
}

/// Bytes of a NAL unit header.
const HEADER_BYTES: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// Parser of an H.265 byte stream that finds the access units. Layers above the base layer (3D,
/// scalable) stay with their access unit.
#[derive(Default)]
pub(crate) struct H265 {
    sets: ParameterSets,
    /// Whether the current access unit has a slice.
    has_slice: bool,
    /// Whether no picture of the current coded video sequence has come yet.
    begins_sequence: bool,
    /// Whether the leading pictures of the last keyframe refer to pictures that are not in the
    /// stream.
    leading_lost: bool,
    started: bool,
    order: Order,
}

/// Computation of picture order counts (8.3.1).
#[derive(Default)]
struct Order {
    /// Parts of the count of the last picture that others may refer to.
    msb: i64,
    lsb: i64,
    highest: Option<i64>,
}

/// Fields at the start of a slice segment header (7.3.6.1).
struct Slice {
    first: bool,
    pps: u32,
    order_lsb: u32,
}

fn type_of(first: u8) -> u8 {
    first >> 1 & 0x3f
}

impl Grammar for H265 {
    const NAME: &'static str = "H.265";
    const EXPECTED: &'static str = "raw H.265 video (Annex B)";
    const SETS: &'static [Set] = &[Set::Video, Set::Sequence, Set::Picture];

    fn is_parameter_set(first: u8) -> bool {
        matches!(type_of(first), nal_type::VPS..=nal_type::PPS)
    }

    fn is_delimiter(first: u8) -> bool {
        type_of(first) == nal_type::AUD
    }

    fn push(&mut self, nal: &[u8]) -> Result<Role, (Role, Reason)> {
        let other = Role {
            begins_unit: false,
            content: Content::Other,
        };
        let &[first, second, ..] = nal else {
            return Ok(other);
        };
        // nuh_layer_id
        if first & 1 != 0 || second >> 3 != 0 {
            return Ok(other);
        }
        let set = match type_of(first) {
            kind @ ..=nal_type::SLICE_LAST => return Ok(self.push_slice(kind, nal)),
            nal_type::END_OF_SEQUENCE | nal_type::END_OF_BITSTREAM => {
                self.begins_sequence = true;
                return Ok(other);
            }
            nal_type::VPS => Some(Set::Video),
            nal_type::SPS => Some(Set::Sequence),
            nal_type::PPS => Some(Set::Picture),
            nal_type::AUD | nal_type::PREFIX_SEI | 41..=44 | 48..=55 => None,
            _ => return Ok(other),
        };
        let begins_unit = std::mem::take(&mut self.has_slice);
        let role = |content| Role {
            begins_unit,
            content,
        };
        let Some(set) = set else {
            return Ok(role(Content::Other));
        };
        match self.sets.put(set, nal) {
            Ok(()) => Ok(role(Content::ParameterSet(set))),
            Err(reason) => Err((role(Content::Other), reason)),
        }
    }

    fn sets_for(&self, pps: u32) -> Option<Vec<u8>> {
        let needed = self.sets.needed_by(pps)?;
        let nals = [needed.vps, needed.sps].into_iter().chain(needed.all_pps);
        Some(annexb::join(nals))
    }

    fn reorder_max(&self, pps: u32) -> Option<u32> {
        let (sequence, _) = self.sets.of_picture(pps)?;
        Some(sequence.reorder_max)
    }

    fn forget_order(&mut self) {
        self.order = Order::default();
    }

    fn opening(&self, pps: u32) -> Option<Opening> {
        let needed = self.sets.needed_by(pps)?;
        let (sequence, _) = self.sets.of_picture(pps)?;
        let format = parameters::h265([needed.vps], [needed.sps], needed.all_pps);
        let mut track = Track::new(Codec::H265).with_format_parameters(format);
        track.video = VideoParameters {
            width: sequence.width,
            height: sequence.height,
            ..VideoParameters::default()
        };
        Some(Opening {
            track,
            timing: sequence.timing.or(needed.timing),
            common_format: sequence.common_format,
        })
    }
}

impl H265 {
    fn push_slice(&mut self, kind: u8, nal: &[u8]) -> Role {
        // first_slice_segment_in_pic_flag
        let first = nal.get(2).is_some_and(|byte| byte & 0x80 != 0);
        let begins_unit = first && self.has_slice;
        let had_slice = std::mem::replace(&mut self.has_slice, true);
        let role = |content| Role {
            begins_unit,
            content,
        };
        let slice = match Slice::parse(kind, nal, &self.sets) {
            Ok(slice) => slice,
            Err(Unreadable::Orphan) => return role(Content::OrphanSlice),
            Err(Unreadable::Damaged) => return role(Content::DamagedSlice),
        };
        if !slice.first {
            // The first slice describes the picture, unless it was lost.
            return role(match had_slice {
                true => Content::Other,
                false => Content::DamagedSlice,
            });
        }
        let Some((sequence, _)) = self.sets.of_picture(slice.pps) else {
            return role(Content::OrphanSlice);
        };
        let (order_bits, promises_order) = (sequence.order_bits, sequence.reorder_max == 0);
        let temporal = nal[1] & 7;
        let keyframe = (nal_type::BLA_W_LP..=nal_type::CRA).contains(&kind);
        let begins_sequence =
            keyframe && (kind != nal_type::CRA || !self.started || self.begins_sequence);
        if keyframe {
            self.started = true;
            self.begins_sequence = false;
            // An IDR picture has no such leading pictures; those of a BLA picture refer to
            // pictures that were cut off.
            self.leading_lost = begins_sequence;
        }
        let leading = match (kind, self.leading_lost) {
            (nal_type::RASL_N | nal_type::RASL_R, true) => Leading::Lost,
            (nal_type::RASL_N | nal_type::RASL_R, false) => Leading::NeedsEarlier,
            _ => Leading::No,
        };
        let refers = temporal == 1
            && !(nal_type::RADL_N..=nal_type::RASL_R).contains(&kind)
            && !(kind < nal_type::SUB_LAYER_LAST && kind.is_multiple_of(2));
        let order = self.order.push(&slice, order_bits, begins_sequence, refers);
        let reordered = !promises_order && self.order.is_late(order);
        role(Content::Picture(VideoFacts {
            keyframe,
            pps: slice.pps,
            field: false,
            output_order: OutputOrder {
                begins_sequence,
                order,
            },
            reordered: reordered && leading != Leading::Lost,
            leading,
        }))
    }
}

impl Order {
    fn push(&mut self, slice: &Slice, bits: u32, begins_sequence: bool, refers: bool) -> i64 {
        let lsb = i64::from(slice.order_lsb);
        let modulus = 1i64 << bits;
        let ahead = lsb - self.lsb;
        let msb = if begins_sequence {
            self.highest = None;
            0
        } else if ahead <= -modulus / 2 {
            self.msb + modulus
        } else if ahead > modulus / 2 {
            self.msb - modulus
        } else {
            self.msb
        };
        if refers {
            (self.msb, self.lsb) = (msb, lsb);
        }
        msb + lsb
    }

    /// Returns whether a picture is output before one that was decoded earlier.
    fn is_late(&mut self, order: i64) -> bool {
        let late = self.highest.is_some_and(|highest| order < highest);
        self.highest = self.highest.max(Some(order));
        late
    }
}

/// The reason why a slice header cannot be read.
enum Unreadable {
    /// The slice's parameter sets are missing.
    Orphan,
    Damaged,
}

impl From<BitReaderError> for Unreadable {
    fn from(_: BitReaderError) -> Self {
        Self::Damaged
    }
}

impl Slice {
    fn parse(kind: u8, nal: &[u8], sets: &ParameterSets) -> Result<Self, Unreadable> {
        let mut bits = BitReader::new(ByteReader::skipping_bytes(nal, HEADER_BYTES));
        let first = bits.read_bool("first_slice_segment_in_pic_flag")?;
        // These are IRAP pictures and the types reserved for them.
        if (nal_type::BLA_W_LP..=23).contains(&kind) {
            bits.skip(1, "no_output_of_prior_pics_flag")?;
        }
        let pps = bits.read_ue("slice_pic_parameter_set_id")?;
        let (sequence, picture) = sets.of_picture(pps).ok_or(Unreadable::Orphan)?;
        let mut slice = Self {
            first,
            pps,
            order_lsb: 0,
        };
        if first {
            slice.read_order(kind, &mut bits, sequence, picture)?;
        }
        Ok(slice)
    }

    fn read_order<B: BitRead>(
        &mut self,
        kind: u8,
        bits: &mut B,
        sequence: &SequenceSet,
        picture: &PictureSet,
    ) -> Result<(), Unreadable> {
        bits.skip(picture.extra_bits, "slice_reserved_flag")?;
        if bits.read_ue("slice_type")? > 2 {
            return Err(Unreadable::Damaged);
        }
        if picture.has_output_flag {
            bits.skip(1, "pic_output_flag")?;
        }
        if sequence.separate_planes {
            bits.skip(2, "colour_plane_id")?;
        }
        if !matches!(kind, nal_type::IDR_W_RADL | nal_type::IDR_N_LP) {
            self.order_lsb = bits.read(sequence.order_bits, "slice_pic_order_cnt_lsb")?;
        }
        Ok(())
    }
}
