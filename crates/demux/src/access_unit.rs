//! Which NAL units make one picture (H.264 clauses 7.4.1.2.3 and 7.4.1.2.4), and
//! whether pictures are shown in the order they are sent (8.2.1).

use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::sps::{FrameMbsFlags, PicOrderCntType, SeqParameterSet};
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use crate::annexb::nal_type;
use crate::error::Reason;
use crate::parameter_sets::{ParameterSets, promises_order};

/// What a NAL unit means for the access unit it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// It begins a new access unit.
    pub(crate) begins_unit: bool,
    /// What it is.
    pub(crate) content: Content,
}

/// What a NAL unit is, as far as a demuxer cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Slice of a primary picture.
    Picture(PictureFacts),
    /// A slice whose parameter sets are missing.
    OrphanSlice,
    /// A slice whose header is damaged or cut.
    DamagedSlice,
    /// Sequence parameter set.
    Sps,
    /// Picture parameter set.
    Pps,
    /// Anything else.
    Other,
}

/// What a slice tells of its picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureFacts {
    /// A decoder can start here.
    pub(crate) idr: bool,
    /// Number of its picture parameter set.
    pub(crate) pps: u32,
    /// One field of an interlaced picture.
    pub(crate) field: bool,
    /// It is shown before a picture that was sent earlier.
    pub(crate) reordered: bool,
}

/// Follows a stream of NAL units and says where access units begin.
#[derive(Default)]
pub(crate) struct Splitter {
    sets: ParameterSets,
    /// First slice of the current primary picture.
    picture: Option<Slice>,
    /// A picture's slice was seen in the current access unit.
    has_slice: bool,
    order: Order,
}

impl Splitter {
    /// Takes the next NAL unit: its first bytes, all of a parameter set.
    ///
    /// Errors on a damaged parameter set; the unit then counts as [`Content::Other`].
    pub(crate) fn push(&mut self, nal: &[u8]) -> Result<Role, (Role, Reason)> {
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
                    nal_type::SPS => Content::Sps,
                    nal_type::PPS => Content::Pps,
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

    fn push_unreadable(&mut self, slice: &Unreadable) -> Role {
        // Without its fields, the first macroblock is the best hint there is.
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

    /// The parameter sets given so far.
    pub(crate) fn sets(&self) -> &ParameterSets {
        &self.sets
    }

    fn push_slice(&mut self, nal: &[u8]) -> Role {
        let slice = match Slice::parse(nal, &self.sets) {
            Ok(slice) => slice,
            Err(unreadable) => return self.push_unreadable(&unreadable),
        };
        if slice.redundant {
            // A spare copy of a picture that is already here (7.4.1.2.4).
            return Role {
                begins_unit: false,
                content: Content::Other,
            };
        }
        let continues = self
            .picture
            .is_some_and(|picture| picture.continues_in(&slice));
        let begins_unit = self.has_slice && !continues;
        let sequence = self
            .sets
            .of_picture(slice.pps)
            .map(|(sequence, _)| sequence);
        let reordered = sequence.is_some_and(|sps| self.order.push(&slice, !continues, sps));
        if !continues {
            self.picture = Some(slice);
        }
        self.has_slice = true;
        Role {
            begins_unit,
            content: Content::Picture(PictureFacts {
                idr: slice.idr,
                pps: slice.pps,
                field: slice.bottom_field.is_some(),
                reordered,
            }),
        }
    }
}

/// The fields of a slice header that tell pictures apart (7.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    first_macroblock: u32,
    bidirectional: bool,
    pps: u32,
    frame_number: u32,
    /// `None` for a whole frame.
    bottom_field: Option<bool>,
    reference: bool,
    idr: bool,
    idr_number: u32,
    order_lsb: u32,
    order_deltas: [i32; 2],
    colour_plane: u8,
    redundant: bool,
}

/// A slice header that cannot be read.
struct Unreadable {
    first_macroblock: Option<u32>,
    /// Its parameter sets are missing.
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

    /// `next` is a slice of the same primary picture (7.4.1.2.4).
    ///
    /// Beyond the clause: a second slice at macroblock 0 is another picture, since
    /// encoders exist that send every picture as an IDR of the same number.
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

/// Follows picture order counts to see B-frames that are shown before a picture
/// sent earlier (8.2.1.1). B slices alone do no harm.
#[derive(Default)]
struct Order {
    /// Of the last reference picture.
    reference_msb: i64,
    reference_lsb: i64,
    /// Of the current picture.
    current: i64,
    /// Highest of the pictures before the current one, since the last IDR.
    highest: Option<i64>,
}

impl Order {
    /// True if `slice` belongs to a picture that is shown out of turn.
    fn push(&mut self, slice: &Slice, first: bool, sequence: &SeqParameterSet) -> bool {
        let PicOrderCntType::TypeZero {
            log2_max_pic_order_cnt_lsb_minus4,
        } = sequence.pic_order_cnt
        else {
            // Type 2 is in order by definition; type 1 is too rare to compute.
            let may_reorder = matches!(sequence.pic_order_cnt, PicOrderCntType::TypeOne { .. });
            return may_reorder && slice.bidirectional && !promises_order(sequence);
        };
        if first {
            self.begin_picture(slice, 16 << log2_max_pic_order_cnt_lsb_minus4);
        }
        let late = self.highest.is_some_and(|highest| self.current < highest);
        late && slice.bidirectional && !promises_order(sequence)
    }

    fn begin_picture(&mut self, slice: &Slice, modulus: i64) {
        self.highest = self.highest.max(Some(self.current));
        if slice.idr {
            (self.reference_msb, self.reference_lsb) = (0, 0);
            self.highest = None;
        }
        let lsb = i64::from(slice.order_lsb);
        let ahead = lsb - self.reference_lsb;
        let msb = if ahead <= -modulus / 2 {
            self.reference_msb + modulus
        } else if ahead > modulus / 2 {
            self.reference_msb - modulus
        } else {
            self.reference_msb
        };
        self.current = msb + lsb;
        if slice.reference {
            (self.reference_msb, self.reference_lsb) = (msb, lsb);
        }
    }
}
