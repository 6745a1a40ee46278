use std::collections::BTreeMap;

use h264_reader::Context;
use h264_reader::nal::pps::{PicParamSetId, PicParameterSet};
use h264_reader::nal::sps::{ChromaFormat, SeqParameterSet};
use h264_reader::rbsp::{BitReader, ByteReader};

use super::unended::Unended;
use crate::elementary::annexb::{PARAMETER_SET_BYTES_MAX, nal_type};
use crate::error::Reason;

/// Most pixels of a side that level 6.2 allows for any shape; more are damage.
const SIDE_PIXELS_MAX: u32 = 16_384;

/// The latest sequence and picture parameter sets of a stream by number, as a decoder has them
/// at the next slice.
///
/// There are at most 32 + 256 sets of 4 KiB.
#[derive(Default)]
pub(crate) struct ParameterSets {
    parsed: Context,
    sequence: BTreeMap<u8, Vec<u8>>,
    picture: BTreeMap<u8, Vec<u8>>,
}

/// Reads a sequence parameter set, given as a whole NAL unit. Returns the picture's width and height
/// in pixels, too.
pub(crate) fn sequence(nal: &[u8]) -> Result<(SeqParameterSet, (u32, u32)), String> {
    let bits = BitReader::new(ByteReader::skipping_h264_header(nal));
    let set = SeqParameterSet::from_bits(Unended(bits)).map_err(|e| format!("{e:?}"))?;
    let (width, height) = set.pixel_dimensions().map_err(|e| format!("{e:?}"))?;
    // The uncropped size is checked, too, since the parser multiplies it without a check.
    let sides = [set.pic_width_in_mbs(), set.pic_height_in_map_units()];
    if sides.iter().any(|&side| side > SIDE_PIXELS_MAX / 16) || width == 0 || height == 0 {
        return Err(format!("it says {width} x {height} pixels"));
    }
    Ok((set, (width, height)))
}

impl ParameterSets {
    /// Stores a sequence or picture parameter set, given as a whole NAL unit.
    pub(crate) fn put(&mut self, nal: &[u8]) -> Result<(), Reason> {
        let is_sequence = nal.first().map(|header| header & 0x1f) == Some(nal_type::SPS);
        let set = if is_sequence { "sequence" } else { "picture" };
        let damaged = |detail: String| Reason::ParameterSet { set, detail };
        if nal.len() >= PARAMETER_SET_BYTES_MAX {
            return Err(damaged(format!(
                "longer than {PARAMETER_SET_BYTES_MAX} bytes"
            )));
        }
        if is_sequence {
            self.put_sequence(nal).map_err(damaged)
        } else {
            self.put_picture(nal).map_err(damaged)
        }
    }

    /// Returns the parsed parameter sets.
    pub(crate) fn context(&self) -> &Context {
        &self.parsed
    }

    /// Returns the parsed sets that a picture with picture parameter set `id` uses.
    pub(crate) fn of_picture(&self, id: u32) -> Option<(&SeqParameterSet, &PicParameterSet)> {
        let picture = self.parsed.pps_by_id(PicParamSetId::from_u32(id).ok()?)?;
        let sequence = self.parsed.sps_by_id(picture.seq_parameter_set_id)?;
        Some((sequence, picture))
    }

    /// Returns the NAL units that a decoder needs to start at a picture with picture parameter
    /// set `id`: the sequence parameter set, and all picture parameter sets that refer to it.
    pub(crate) fn needed_by(&self, id: u32) -> Option<Needed<'_>> {
        let (sequence, picture) = self.of_picture(id)?;
        let sequence_id = sequence.seq_parameter_set_id;
        let pictures = self
            .parsed
            .pps()
            .filter(|pps| pps.seq_parameter_set_id == sequence_id);
        Some(Needed {
            sps: self.sequence.get(&sequence_id.id())?,
            pps: self.picture.get(&picture.pic_parameter_set_id.id())?,
            all_pps: pictures
                .filter_map(|pps| self.picture.get(&pps.pic_parameter_set_id.id()))
                .map(Vec::as_slice)
                .collect(),
        })
    }

    fn put_sequence(&mut self, nal: &[u8]) -> Result<(), String> {
        // An encoder repeats its sets before every keyframe; identical ones are not parsed
        // again.
        if self.sequence.values().any(|known| known == nal) {
            return Ok(());
        }
        let (set, _) = sequence(nal)?;
        self.sequence
            .insert(set.seq_parameter_set_id.id(), nal.to_vec());
        self.parsed.put_seq_param_set(set);
        Ok(())
    }

    fn put_picture(&mut self, nal: &[u8]) -> Result<(), String> {
        let bits = || BitReader::new(ByteReader::skipping_h264_header(nal));
        let set = PicParameterSet::from_bits(&self.parsed, bits())
            .or_else(|_| PicParameterSet::from_bits(&self.parsed, Unended(bits())))
            .map_err(|e| format!("{e:?}"))?;
        self.picture
            .insert(set.pic_parameter_set_id.id(), nal.to_vec());
        self.parsed.put_pic_param_set(set);
        Ok(())
    }
}

/// Parameter sets as NAL units without start codes.
pub(crate) struct Needed<'a> {
    pub(crate) sps: &'a [u8],
    pub(crate) pps: &'a [u8],
    pub(crate) all_pps: Vec<&'a [u8]>,
}

/// Returns a number of frames and the seconds that they last, from the timing of annex E,
/// unreduced and unchecked.
pub(crate) fn timing(sps: &SeqParameterSet) -> Option<(u64, u64)> {
    let timing = sps.vui_parameters.as_ref()?.timing_info.as_ref()?;
    // A tick is one field, and a frame has two (E.2.1, DeltaTfiDivisor).
    Some((
        u64::from(timing.time_scale),
        u64::from(timing.num_units_in_tick) * 2,
    ))
}

/// Returns the number of pictures that may precede another one in decoding order and follow it
/// in output order, from annex E; `None` if the set does not say.
pub(crate) fn reorder_max(sps: &SeqParameterSet) -> Option<u32> {
    let vui = sps.vui_parameters.as_ref();
    let restrictions = vui.and_then(|vui| vui.bitstream_restrictions.as_ref());
    match restrictions {
        Some(restrictions) => Some(restrictions.max_num_reorder_frames),
        None => has_intra_profile(sps).then_some(0),
    }
}

/// Returns whether the profile has nothing but intra pictures, which are output as they are decoded
/// (E.2.1, `max_num_reorder_frames`).
fn has_intra_profile(sps: &SeqParameterSet) -> bool {
    let may_be = matches!(u8::from(sps.profile_idc), 44 | 86 | 100 | 110 | 122 | 244);
    may_be && sps.constraint_flags.flag3()
}

/// Returns whether the format is 8-bit 4:2:0, which every browser shows.
pub(crate) fn is_common_format(sps: &SeqParameterSet) -> bool {
    let chroma = &sps.chroma_info;
    chroma.chroma_format == ChromaFormat::YUV420
        && chroma.bit_depth_luma_minus8 == 0
        && chroma.bit_depth_chroma_minus8 == 0
}
