//! The grammar of H.264: which NAL units make one picture (clauses 7.4.1.2.3 and 7.4.1.2.4),
//! and whether the output order differs from the decoding order (8.2.1).

pub(crate) mod parameter_sets;
mod picture_order;
mod unended;

use glassline_media::{Track, VideoParameters};
use h264_reader::nal::NalHeader;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::slice::{DecRefPicMarking, MemoryManagementControlOperation, SliceHeader};
use h264_reader::nal::sps::{FrameMbsFlags, PicOrderCntType, ProfileIdc, SeqParameterSet};
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use crate::elementary::annexb::{self, nal_type};
use crate::elementary::grammar::{
    Content, Grammar, Leading, Opening, OutputOrder, Role, Set, VideoFacts,
};
use crate::elementary::h264::parameter_sets::{
    ParameterSets, is_common_format, reorder_max, timing,
};
use crate::error::Reason;

use picture_order::PictureOrder;

/// `profile_idc` of the Baseline profile.
const BASELINE: u8 = 66;

/// Parser of an H.264 byte stream that finds the access units.
#[derive(Default)]
pub(crate) struct H264 {
    sets: ParameterSets,
    /// First slice of the current primary picture, and the picture's output order.
    picture: Option<(Slice, OutputOrder)>,
    /// Whether the current access unit has a slice.
    has_slice: bool,
    order: Order,
}

impl Grammar for H264 {
    const NAME: &'static str = "H.264";
    const EXPECTED: &'static str = "raw H.264 video (Annex B)";
    const SETS: &'static [Set] = &[Set::Sequence, Set::Picture];

    fn is_parameter_set(first: u8) -> bool {
        matches!(first & 0x1f, nal_type::SPS | nal_type::PPS)
    }

    fn is_delimiter(first: u8) -> bool {
        first & 0x1f == nal_type::AUD
    }

    fn push(&mut self, nal: &[u8]) -> Result<Role, (Role, Reason)> {
        let kind = nal_type(nal);
        match kind {
            nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR => Ok(self.push_slice(nal)),
            nal_type::SEI..=nal_type::AUD | 14..=18 => {
                let begins_unit = std::mem::take(&mut self.has_slice);
                let role = |content| Role {
                    begins_unit,
                    content,
                };
                let content = match kind {
                    nal_type::SPS => Content::ParameterSet(Set::Sequence),
                    nal_type::PPS => Content::ParameterSet(Set::Picture),
                    _ => return Ok(role(Content::Other)),
                };
                match self.sets.put(nal) {
                    Ok(()) => Ok(role(content)),
                    Err(reason) => Err((role(Content::Other), reason)),
                }
            }
            _ => Ok(Role {
                begins_unit: false,
                content: Content::Other,
            }),
        }
    }

    fn sets_for(&self, pps: u32) -> Option<Vec<u8>> {
        let needed = self.sets.needed_by(pps)?;
        let nals = std::iter::once(needed.sps).chain(needed.all_pps);
        Some(annexb::join(nals))
    }

    fn reorder_max(&self, pps: u32) -> Option<u32> {
        let (sequence, _) = self.sets.of_picture(pps)?;
        // Neither Baseline nor order count type 2 allows B-frames (A.2.1, 8.2.1.3), whatever
        // annex E says.
        let never = sequence.profile_idc == ProfileIdc::from(BASELINE)
            || sequence.pic_order_cnt == PicOrderCntType::TypeTwo;
        match never {
            true => Some(0),
            false => reorder_max(sequence),
        }
    }

    fn forget_order(&mut self) {
        self.order = Order::default();
    }

    fn opening(&self, pps: u32) -> Option<Opening> {
        let needed = self.sets.needed_by(pps)?;
        let (sequence, _) = self.sets.of_picture(pps)?;
        let (width, height) = sequence.pixel_dimensions().ok()?;
        Some(Opening {
            track: Track::h264(VideoParameters {
                sps: needed.sps.to_vec(),
                pps: needed.pps.to_vec(),
                width,
                height,
                reordered: false,
            }),
            timing: timing(sequence),
            common_format: is_common_format(sequence),
        })
    }
}

impl H264 {
    fn push_unreadable(&mut self, slice: &Unreadable) -> Role {
        // Without the slice's fields, the first macroblock is the best indication.
        let begins_unit = self.has_slice && slice.first_macroblock == Some(0);
        if begins_unit {
            self.picture = None;
        }
        self.has_slice = true;
        Role {
            begins_unit,
            content: match slice.orphan {
                true => Content::OrphanSlice,
                false => Content::DamagedSlice,
            },
        }
    }

    fn push_slice(&mut self, nal: &[u8]) -> Role {
        let slice = match Slice::parse(nal, &self.sets) {
            Ok(slice) => slice,
            Err(unreadable) => return self.push_unreadable(&unreadable),
        };
        if slice.redundant {
            // A redundant copy of a picture that is already here (7.4.1.2.4).
            return Role {
                begins_unit: false,
                content: Content::Other,
            };
        }
        let current = self.picture.filter(|(first, _)| first.continues_in(&slice));
        let begins_unit = self.has_slice && current.is_none();
        let output_order = match current {
            Some((_, output_order)) => output_order,
            None => self.output_order(&slice, nal),
        };
        self.picture = current.or(Some((slice, output_order)));
        self.has_slice = true;
        Role {
            begins_unit,
            content: Content::Picture(VideoFacts {
                keyframe: slice.idr,
                pps: slice.pps,
                field: slice.bottom_field.is_some(),
                output_order,
                reordered: slice.bidirectional && self.order.is_late,
                leading: Leading::No,
            }),
        }
    }

    /// Returns the output order of the picture that begins with this slice.
    fn output_order(&mut self, slice: &Slice, nal: &[u8]) -> OutputOrder {
        let Some((sequence, _)) = self.sets.of_picture(slice.pps) else {
            return self.order.next_without_reordering(slice.idr);
        };
        if reorder_max(sequence) == Some(0) {
            return self.order.next_without_reordering(slice.idr);
        }
        let resets = slice.reference && !slice.idr && forgets_all(nal, &self.sets);
        self.order.push(slice, sequence, resets)
    }
}

/// Returns whether the picture marks all earlier ones as unused and restarts the counts
/// (`memory_management_control_operation` 5, 7.4.3.3).
fn forgets_all(nal: &[u8], sets: &ParameterSets) -> bool {
    let Some(Ok(header)) = nal.first().map(|&first| NalHeader::new(first)) else {
        return false;
    };
    let mut bits = BitReader::new(ByteReader::skipping_h264_header(nal));
    let Ok((slice, ..)) = SliceHeader::from_bits(sets.context(), &mut bits, header) else {
        return false;
    };
    let Some(DecRefPicMarking::Adaptive(operations)) = slice.dec_ref_pic_marking else {
        return false;
    };
    let all = |operation: &_| {
        matches!(
            operation,
            MemoryManagementControlOperation::AllRefPicturesUnused
        )
    };
    operations.iter().any(all)
}

/// The fields of a slice header that distinguish pictures (7.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    first_macroblock: u32,
    bidirectional: bool,
    pps: u32,
    frame_number: u32,
    /// Whether the picture is a bottom field; `None` for a whole frame.
    bottom_field: Option<bool>,
    reference: bool,
    idr: bool,
    idr_number: u32,
    order_lsb: u32,
    order_deltas: [i32; 2],
    colour_plane: u8,
    redundant: bool,
}

/// A slice whose header cannot be read.
struct Unreadable {
    first_macroblock: Option<u32>,
    /// Whether its parameter sets are missing.
    orphan: bool,
}

impl Slice {
    fn parse(nal: &[u8], sets: &ParameterSets) -> Result<Self, Unreadable> {
        let mut bits = BitReader::new(ByteReader::skipping_h264_header(nal));
        let first_macroblock = bits.read_ue("first_mb_in_slice").ok();
        let unreadable = || Unreadable {
            first_macroblock,
            orphan: false,
        };
        let first = first_macroblock.ok_or_else(unreadable)?;
        let kind = bits.read_ue("slice_type").map_err(|_| unreadable())?;
        let pps = bits
            .read_ue("pic_parameter_set_id")
            .map_err(|_| unreadable())?;
        if kind > 9 || pps > 255 {
            return Err(unreadable());
        }
        let (sequence, picture) = sets.of_picture(pps).ok_or(Unreadable {
            first_macroblock,
            orphan: true,
        })?;
        let header = nal.first().copied().unwrap_or_default();
        let mut slice = Self {
            first_macroblock: first,
            bidirectional: kind % 5 == 1,
            pps,
            frame_number: 0,
            bottom_field: None,
            reference: header & 0x60 != 0,
            idr: header & 0x1f == nal_type::IDR,
            idr_number: 0,
            order_lsb: 0,
            order_deltas: [0; 2],
            colour_plane: 0,
            redundant: false,
        };
        slice
            .read_rest(&mut bits, sequence, picture)
            .map_err(|_| unreadable())?;
        Ok(slice)
    }

    fn read_rest<B: BitRead>(
        &mut self,
        bits: &mut B,
        sequence: &SeqParameterSet,
        picture: &PicParameterSet,
    ) -> Result<(), BitReaderError> {
        if sequence.chroma_info.separate_colour_plane_flag {
            self.colour_plane = bits.read(2, "colour_plane_id")?;
        }
        let frame_bits = u32::from(sequence.log2_max_frame_num());
        self.frame_number = bits.read(frame_bits, "frame_num")?;
        let may_be_field = sequence.frame_mbs_flags != FrameMbsFlags::Frames;
        if may_be_field && bits.read_bool("field_pic_flag")? {
            self.bottom_field = Some(bits.read_bool("bottom_field_flag")?);
        }
        if self.idr {
            self.idr_number = bits.read_ue("idr_pic_id")?;
        }
        let has_bottom =
            picture.bottom_field_pic_order_in_frame_present_flag && self.bottom_field.is_none();
        match sequence.pic_order_cnt {
            PicOrderCntType::TypeZero {
                log2_max_pic_order_cnt_lsb_minus4,
            } => {
                let order_bits = u32::from(log2_max_pic_order_cnt_lsb_minus4) + 4;
                self.order_lsb = bits.read(order_bits, "pic_order_cnt_lsb")?;
                if has_bottom {
                    self.order_deltas[0] = bits.read_se("delta_pic_order_cnt_bottom")?;
                }
            }
            PicOrderCntType::TypeOne {
                delta_pic_order_always_zero_flag: false,
                ..
            } => {
                self.order_deltas[0] = bits.read_se("delta_pic_order_cnt")?;
                if has_bottom {
                    self.order_deltas[1] = bits.read_se("delta_pic_order_cnt")?;
                }
            }
            PicOrderCntType::TypeOne { .. } | PicOrderCntType::TypeTwo => {}
        }
        if picture.redundant_pic_cnt_present_flag {
            self.redundant = bits.read_ue("redundant_pic_cnt")? > 0;
        }
        Ok(())
    }

    /// Returns whether `next` is a slice of the same primary picture (7.4.1.2.4).
    ///
    /// Beyond the clause, a second slice at macroblock 0 begins another picture, since some
    /// encoders send every picture as an IDR picture with the same number.
    fn continues_in(&self, next: &Self) -> bool {
        let starts_again = next.first_macroblock == 0
            && self.first_macroblock == 0
            && next.colour_plane == self.colour_plane;
        !starts_again
            && self.frame_number == next.frame_number
            && self.pps == next.pps
            && self.bottom_field == next.bottom_field
            && self.reference == next.reference
            && self.idr == next.idr
            && self.idr_number == next.idr_number
            && self.order_lsb == next.order_lsb
            && self.order_deltas == next.order_deltas
    }
}

/// Output order of pictures. It also notes pictures that are output before one that is decoded
/// earlier; B slices alone do not reorder anything.
#[derive(Debug, Default)]
struct Order {
    counts: PictureOrder,
    /// Count of the current picture, and the highest count since the sequence began.
    current: i64,
    highest: Option<i64>,
    /// Whether the current picture is output before one that was decoded earlier.
    is_late: bool,
}

impl Order {
    fn push(&mut self, slice: &Slice, sequence: &SeqParameterSet, resets: bool) -> OutputOrder {
        let order = self.counts.push(slice, sequence, resets);
        let begins_sequence = slice.idr || resets;
        self.highest = self.highest.max(Some(self.current));
        if begins_sequence {
            self.highest = None;
        }
        self.current = order;
        self.is_late = self.highest.is_some_and(|highest| order < highest);
        OutputOrder {
            begins_sequence,
            order,
        }
    }

    /// Returns the order of a picture in a stream whose parameter sets exclude reordering.
    fn next_without_reordering(&mut self, begins_sequence: bool) -> OutputOrder {
        self.is_late = false;
        self.current += 1;
        self.highest = None;
        OutputOrder {
            begins_sequence,
            order: self.current,
        }
    }
}
