//! Picture order counts of H.264 (clause 8.2.1), which determine the output order.

use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};

use super::Slice;

/// State for computing the counts of successive pictures.
#[derive(Debug, Default)]
pub(super) struct PictureOrder {
    /// Count of the last reference picture, for type 0.
    msb: i64,
    lsb: i64,
    /// Frame number of the last picture, for types 1 and 2.
    frame_number: i64,
    frame_number_offset: i64,
}

/// Counts of the two fields of a picture; for a single field both are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    top: i64,
    bottom: i64,
}

impl PictureOrder {
    /// Returns the count of the next picture, from its first slice. `resets`: whether the
    /// picture marks all earlier ones as unused (`memory_management_control_operation` 5), as
    /// an IDR picture does, and counts from zero.
    pub(super) fn push(&mut self, slice: &Slice, sequence: &SeqParameterSet, resets: bool) -> i64 {
        let fields = match &sequence.pic_order_cnt {
            PicOrderCntType::TypeZero {
                log2_max_pic_order_cnt_lsb_minus4,
            } => self.type_zero(slice, 16 << log2_max_pic_order_cnt_lsb_minus4),
            PicOrderCntType::TypeOne {
                offset_for_non_ref_pic,
                offset_for_top_to_bottom_field,
                offsets_for_ref_frame,
                ..
            } => {
                let number = self.absolute_number(slice, sequence);
                let skipped = i64::from(*offset_for_non_ref_pic);
                let expected = expected(slice, number, offsets_for_ref_frame, skipped);
                let between = i64::from(*offset_for_top_to_bottom_field);
                type_one(slice, expected, between)
            }
            PicOrderCntType::TypeTwo => {
                let number = self.absolute_number(slice, sequence);
                let order = 2 * number - i64::from(!slice.reference);
                Fields {
                    top: order,
                    bottom: order,
                }
            }
        };
        let order = fields.top.min(fields.bottom);
        if !resets {
            return order;
        }
        self.msb = 0;
        self.lsb = match slice.bottom_field {
            Some(true) => 0,
            _ => fields.top - order,
        };
        (self.frame_number, self.frame_number_offset) = (0, 0);
        0
    }

    fn type_zero(&mut self, slice: &Slice, modulus: i64) -> Fields {
        if slice.idr {
            (self.msb, self.lsb) = (0, 0);
        }
        let lsb = i64::from(slice.order_lsb);
        let ahead = lsb - self.lsb;
        let msb = if ahead <= -modulus / 2 {
            self.msb + modulus
        } else if ahead > modulus / 2 {
            self.msb - modulus
        } else {
            self.msb
        };
        if slice.reference {
            (self.msb, self.lsb) = (msb, lsb);
        }
        let top = msb + lsb;
        let bottom = match slice.bottom_field {
            None => top + i64::from(slice.order_deltas[0]),
            Some(_) => top,
        };
        Fields { top, bottom }
    }

    /// Returns `FrameNumOffset + frame_num`, which continues where `frame_num` wraps.
    fn absolute_number(&mut self, slice: &Slice, sequence: &SeqParameterSet) -> i64 {
        let number = i64::from(slice.frame_number);
        if slice.idr {
            self.frame_number_offset = 0;
        } else if self.frame_number > number {
            self.frame_number_offset += 1 << sequence.log2_max_frame_num();
        }
        self.frame_number = number;
        self.frame_number_offset + number
    }
}

/// Returns `expectedPicOrderCnt` of 8.2.1.2.
fn expected(slice: &Slice, number: i64, offsets: &[i32], skipped: i64) -> i64 {
    let length = offsets.len() as i64;
    let number = if length == 0 { 0 } else { number };
    let number = number - i64::from(!slice.reference && number > 0);
    let mut expected = 0;
    if number > 0 {
        let (cycles, within) = ((number - 1) / length, (number - 1) % length);
        let sum: i64 = offsets.iter().map(|&offset| i64::from(offset)).sum();
        let rest = offsets.iter().take(within as usize + 1);
        let rest: i64 = rest.map(|&offset| i64::from(offset)).sum();
        expected = cycles.saturating_mul(sum).saturating_add(rest);
    }
    expected.saturating_add(if slice.reference { 0 } else { skipped })
}

fn type_one(slice: &Slice, expected: i64, between: i64) -> Fields {
    let [first, second] = slice.order_deltas.map(i64::from);
    let expected = expected.saturating_add(first);
    match slice.bottom_field {
        None => Fields {
            top: expected,
            bottom: expected.saturating_add(between + second),
        },
        Some(false) => Fields {
            top: expected,
            bottom: expected,
        },
        Some(true) => Fields {
            top: expected.saturating_add(between),
            bottom: expected.saturating_add(between),
        },
    }
}
