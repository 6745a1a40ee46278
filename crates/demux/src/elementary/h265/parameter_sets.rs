//! Parses the parameter sets of H.265 (ITU-T H.265 clauses 7.3.2 and E.2.1), as far as a
//! demuxer needs them.

use std::collections::BTreeMap;

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use super::HEADER_BYTES;
use crate::elementary::annexb::PARAMETER_SET_BYTES_MAX;
use crate::elementary::grammar::Set;
use crate::error::Reason;

/// Most pixels of a side that level 6.2 allows for any shape; more are damage.
const SIDE_PIXELS_MAX: u32 = 16_888;

/// A number of pictures and the seconds that they last.
type Timing = (u64, u64);

/// The latest parameter sets of a stream by number; at most 16 + 16 + 64 sets of 4 KiB.
#[derive(Default)]
pub(super) struct ParameterSets {
    video: BTreeMap<u8, (Vec<u8>, Option<Timing>)>,
    sequence: BTreeMap<u32, (Vec<u8>, SequenceSet)>,
    picture: BTreeMap<u32, (Vec<u8>, PictureSet)>,
}

/// Fields of a sequence parameter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SequenceSet {
    video: u8,
    /// Width in pixels after cropping.
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) separate_planes: bool,
    /// Number of bits of `slice_pic_order_cnt_lsb`.
    pub(super) order_bits: u32,
    /// Number of pictures that may precede another one in decoding order and follow it in
    /// output order.
    pub(super) reorder_max: u32,
    pub(super) common_format: bool,
    pub(super) timing: Option<Timing>,
}

/// Fields of a picture parameter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PictureSet {
    sequence: u32,
    pub(super) has_output_flag: bool,
    /// Value of `num_extra_slice_header_bits` (ITU-T H.265 §7.4.3.3.1), 0–7.
    pub(super) extra_bits: u32,
}

/// Parameter sets as NAL units without start codes.
pub(super) struct Needed<'a> {
    pub(super) vps: &'a [u8],
    pub(super) sps: &'a [u8],
    pub(super) all_pps: Vec<&'a [u8]>,
    /// Timing of the video parameter set.
    pub(super) timing: Option<Timing>,
}

impl ParameterSets {
    /// Stores a parameter set, given as a whole NAL unit.
    pub(super) fn put(&mut self, set: Set, nal: &[u8]) -> Result<(), Reason> {
        let name = match set {
            Set::Video => "video",
            Set::Sequence => "sequence",
            Set::Picture => "picture",
        };
        let damaged = |detail: String| Reason::ParameterSet { set: name, detail };
        if nal.len() >= PARAMETER_SET_BYTES_MAX {
            return Err(damaged(format!(
                "longer than {PARAMETER_SET_BYTES_MAX} bytes"
            )));
        }
        let mut bits = BitReader::new(ByteReader::skipping_bytes(nal, HEADER_BYTES));
        let read = match set {
            Set::Video => video(&mut bits).map(|(number, timing)| {
                self.video.insert(number, (nal.to_vec(), timing));
            }),
            Set::Sequence => sequence(&mut bits).map(|(number, set)| {
                self.sequence.insert(number, (nal.to_vec(), set));
            }),
            Set::Picture => picture(&mut bits).map(|(number, set)| {
                self.picture.insert(number, (nal.to_vec(), set));
            }),
        };
        read.map_err(|invalid| damaged(invalid.0))
    }

    /// Returns the parsed sets that a picture with picture parameter set `number` uses.
    pub(super) fn of_picture(&self, number: u32) -> Option<(&SequenceSet, &PictureSet)> {
        let (_, picture) = self.picture.get(&number)?;
        let (_, sequence) = self.sequence.get(&picture.sequence)?;
        Some((sequence, picture))
    }

    /// Returns the parameter sets that a decoder needs to start at a picture with picture
    /// parameter set `number`.
    pub(super) fn needed_by(&self, number: u32) -> Option<Needed<'_>> {
        let (_, picture) = self.picture.get(&number)?;
        let (sps, sequence) = self.sequence.get(&picture.sequence)?;
        let (vps, timing) = self.video.get(&sequence.video)?;
        let pictures = self.picture.values();
        let same = pictures.filter(|(_, other)| other.sequence == picture.sequence);
        Some(Needed {
            vps,
            sps,
            all_pps: same.map(|(nal, _)| nal.as_slice()).collect(),
            timing: *timing,
        })
    }
}

/// Returns width and height in pixels, from a sequence parameter set given as a whole NAL unit; `None`
/// for another NAL unit, and for a set that cannot be read.
pub(crate) fn frame_size(nal: &[u8]) -> Option<(u32, u32)> {
    let is_sequence = nal.first().is_some_and(|first| first >> 1 & 0x3f == 33);
    if !is_sequence || nal.len() >= PARAMETER_SET_BYTES_MAX {
        return None;
    }
    let mut bits = BitReader::new(ByteReader::skipping_bytes(nal, HEADER_BYTES));
    let (_, set) = sequence(&mut bits).ok()?;
    Some((set.width, set.height))
}

/// The fault of a parameter set.
struct Invalid(String);

impl From<BitReaderError> for Invalid {
    fn from(error: BitReaderError) -> Self {
        Self(format!("{error:?}"))
    }
}

/// Reads an Exp-Golomb code. A value above `max` is an error.
fn bounded<B: BitRead>(bits: &mut B, name: &'static str, max: u32) -> Result<u32, Invalid> {
    match bits.read_ue(name)? {
        value if value <= max => Ok(value),
        value => Err(Invalid(format!("{name} is {value}, above {max}"))),
    }
}

fn skip_codes<B: BitRead>(bits: &mut B, names: &[&'static str]) -> Result<(), Invalid> {
    for name in names {
        bits.read_ue(name)?;
    }
    Ok(())
}

/// Reads number and timing of a video parameter set (7.3.2.1).
fn video<B: BitRead>(bits: &mut B) -> Result<(u8, Option<Timing>), Invalid> {
    let number = bits.read(4, "vps_video_parameter_set_id")?;
    bits.skip(8, "vps_base_layer flags, vps_max_layers_minus1")?;
    let layers: u32 = bits.read(3, "vps_max_sub_layers_minus1")?;
    bits.skip(17, "vps_temporal_id_nesting_flag, reserved")?;
    profile_tier_level(bits, layers)?;
    ordering(bits, layers)?;
    let layer_id_max: u32 = bits.read(6, "vps_max_layer_id")?;
    let layer_sets = bounded(bits, "vps_num_layer_sets_minus1", 1023)?;
    bits.skip(layer_sets * (layer_id_max + 1), "layer_id_included_flag")?;
    let has_timing = bits.read_bool("vps_timing_info_present_flag")?;
    Ok((number, has_timing.then(|| timing(bits)).transpose()?))
}

/// Reads the timing. A tick is a picture (E.3.1); in field sequences that is a field.
fn timing<B: BitRead>(bits: &mut B) -> Result<Timing, Invalid> {
    let ticks: u32 = bits.read(32, "num_units_in_tick")?;
    let scale: u32 = bits.read(32, "time_scale")?;
    Ok((scale.into(), ticks.into()))
}

/// Reads number and contents of a sequence parameter set (7.3.2.2).
fn sequence<B: BitRead>(bits: &mut B) -> Result<(u32, SequenceSet), Invalid> {
    let video = bits.read(4, "sps_video_parameter_set_id")?;
    let layers: u32 = bits.read(3, "sps_max_sub_layers_minus1")?;
    bits.skip(1, "sps_temporal_id_nesting_flag")?;
    profile_tier_level(bits, layers)?;
    let number = bounded(bits, "sps_seq_parameter_set_id", 15)?;
    let chroma = bounded(bits, "chroma_format_idc", 3)?;
    let separate_planes = chroma == 3 && bits.read_bool("separate_colour_plane_flag")?;
    let (width, height) = size(bits, chroma)?;
    let depths = [
        bits.read_ue("bit_depth_luma_minus8")?,
        bits.read_ue("bit_depth_chroma_minus8")?,
    ];
    let order_bits = 4 + bounded(bits, "log2_max_pic_order_cnt_lsb_minus4", 12)?;
    let reorder = ordering(bits, layers)?;
    let mut set = SequenceSet {
        video,
        width,
        height,
        separate_planes,
        order_bits,
        reorder_max: reorder,
        common_format: chroma == 1 && depths == [0, 0],
        timing: None,
    };
    skip_tools(bits, order_bits)?;
    if bits.read_bool("vui_parameters_present_flag")? {
        set.timing = usability(bits)?;
    }
    Ok((number, set))
}

/// Reads the size in pixels after cropping.
fn size<B: BitRead>(bits: &mut B, chroma: u32) -> Result<(u32, u32), Invalid> {
    let width = bounded(bits, "pic_width_in_luma_samples", SIDE_PIXELS_MAX)?;
    let height = bounded(bits, "pic_height_in_luma_samples", SIDE_PIXELS_MAX)?;
    let mut crop = [0; 4];
    if bits.read_bool("conformance_window_flag")? {
        for side in &mut crop {
            *side = bounded(bits, "conf_win_offset", SIDE_PIXELS_MAX)?;
        }
    }
    let (across, down) = match chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    let width = width.saturating_sub((crop[0] + crop[1]) * across);
    let height = height.saturating_sub((crop[2] + crop[3]) * down);
    if width == 0 || height == 0 {
        return Err(Invalid(format!("it says {width} x {height} pixels")));
    }
    Ok((width, height))
}

/// Skips `profile_tier_level` (7.3.3), which a demuxer does not need.
fn profile_tier_level<B: BitRead>(bits: &mut B, layers: u32) -> Result<(), Invalid> {
    const PROFILE_BITS: u32 = 88;
    const LEVEL_BITS: u32 = 8;
    bits.skip(PROFILE_BITS + LEVEL_BITS, "general_profile_tier_level")?;
    let mut skipped = 0;
    for _ in 0..layers {
        let profile = bits.read_bool("sub_layer_profile_present_flag")?;
        let level = bits.read_bool("sub_layer_level_present_flag")?;
        skipped += u32::from(profile) * PROFILE_BITS + u32::from(level) * LEVEL_BITS;
    }
    if layers > 0 {
        skipped += (8 - layers) * 2;
    }
    Ok(bits.skip(skipped, "sub_layer_profile_tier_level")?)
}

/// Reads the number of pictures that may precede another one in decoding order and follow it in
/// output order, for the highest layer.
fn ordering<B: BitRead>(bits: &mut B, layers: u32) -> Result<u32, Invalid> {
    let each = bits.read_bool("sub_layer_ordering_info_present_flag")?;
    let mut reorder = 0;
    for _ in 0..if each { layers + 1 } else { 1 } {
        bits.read_ue("max_dec_pic_buffering_minus1")?;
        reorder = bits.read_ue("max_num_reorder_pics")?;
        bits.read_ue("max_latency_increase_plus1")?;
    }
    Ok(reorder)
}

/// Skips the fields between the order of pictures and the VUI.
fn skip_tools<B: BitRead>(bits: &mut B, order_bits: u32) -> Result<(), Invalid> {
    skip_codes(
        bits,
        &[
            "log2_min_luma_coding_block_size_minus3",
            "log2_diff_max_min_luma_coding_block_size",
            "log2_min_luma_transform_block_size_minus2",
            "log2_diff_max_min_luma_transform_block_size",
            "max_transform_hierarchy_depth_inter",
            "max_transform_hierarchy_depth_intra",
        ],
    )?;
    if bits.read_bool("scaling_list_enabled_flag")?
        && bits.read_bool("sps_scaling_list_data_present_flag")?
    {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2, "amp, sample_adaptive_offset")?;
    if bits.read_bool("pcm_enabled_flag")? {
        bits.skip(8, "pcm_sample_bit_depths")?;
        skip_codes(bits, &["log2_min_pcm_size", "log2_diff_pcm_size"])?;
        bits.skip(1, "pcm_loop_filter_disabled_flag")?;
    }
    skip_reference_sets(bits)?;
    if bits.read_bool("long_term_ref_pics_present_flag")? {
        let count = bounded(bits, "num_long_term_ref_pics_sps", 32)?;
        bits.skip(count * (order_bits + 1), "lt_ref_pic_poc_lsb_sps")?;
    }
    Ok(bits.skip(2, "sps_temporal_mvp, strong_intra_smoothing")?)
}

/// Skips the structure `scaling_list_data` (ITU-T H.265 §7.3.4), of which nothing is used.
fn skip_scaling_lists<B: BitRead>(bits: &mut B) -> Result<(), Invalid> {
    for size in 0..4 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if !bits.read_bool("scaling_list_pred_mode_flag")? {
                bits.read_ue("scaling_list_pred_matrix_id_delta")?;
                continue;
            }
            if size > 1 {
                bits.read_se("scaling_list_dc_coef_minus8")?;
            }
            for _ in 0..64.min(1 << (4 + 2 * size)) {
                bits.read_se("scaling_list_delta_coef")?;
            }
        }
    }
    Ok(())
}

/// Skips all `st_ref_pic_set` (7.3.7), each of which may depend on the one before.
fn skip_reference_sets<B: BitRead>(bits: &mut B) -> Result<(), Invalid> {
    let sets = bounded(bits, "num_short_term_ref_pic_sets", 64)?;
    let mut pictures = 0;
    for set in 0..sets {
        if set > 0 && bits.read_bool("inter_ref_pic_set_prediction_flag")? {
            bits.skip(1, "delta_rps_sign")?;
            bits.read_ue("abs_delta_rps_minus1")?;
            let mut kept = 0;
            for _ in 0..=pictures {
                let used = bits.read_bool("used_by_curr_pic_flag")?;
                kept += u32::from(used || bits.read_bool("use_delta_flag")?);
            }
            pictures = kept;
        } else {
            let negative = bounded(bits, "num_negative_pics", 16)?;
            let positive = bounded(bits, "num_positive_pics", 16)?;
            pictures = negative + positive;
            for _ in 0..pictures {
                bits.read_ue("delta_poc_minus1")?;
                bits.skip(1, "used_by_curr_pic_flag")?;
            }
        }
    }
    Ok(())
}

/// Reads the timing in `vui_parameters` (E.2.1).
fn usability<B: BitRead>(bits: &mut B) -> Result<Option<Timing>, Invalid> {
    const EXTENDED_SHAPE: u8 = 255;
    if bits.read_bool("aspect_ratio_info_present_flag")?
        && bits.read::<u8>(8, "aspect_ratio_idc")? == EXTENDED_SHAPE
    {
        bits.skip(32, "sar_width, sar_height")?;
    }
    if bits.read_bool("overscan_info_present_flag")? {
        bits.skip(1, "overscan_appropriate_flag")?;
    }
    if bits.read_bool("video_signal_type_present_flag")? {
        bits.skip(4, "video_format, video_full_range_flag")?;
        if bits.read_bool("colour_description_present_flag")? {
            bits.skip(24, "colour_primaries and the like")?;
        }
    }
    if bits.read_bool("chroma_loc_info_present_flag")? {
        skip_codes(bits, &["chroma_sample_loc_top", "chroma_sample_loc_bottom"])?;
    }
    bits.skip(3, "neutral_chroma, field_seq, frame_field_info")?;
    if bits.read_bool("default_display_window_flag")? {
        skip_codes(bits, &["def_disp_win_offset"; 4])?;
    }
    let has_timing = bits.read_bool("vui_timing_info_present_flag")?;
    has_timing.then(|| timing(bits)).transpose()
}

/// Reads number and contents of a picture parameter set (7.3.2.3).
fn picture<B: BitRead>(bits: &mut B) -> Result<(u32, PictureSet), Invalid> {
    let number = bounded(bits, "pps_pic_parameter_set_id", 63)?;
    let sequence = bounded(bits, "pps_seq_parameter_set_id", 15)?;
    bits.skip(1, "dependent_slice_segments_enabled_flag")?;
    let has_output_flag = bits.read_bool("output_flag_present_flag")?;
    let extra_bits = bits.read(3, "num_extra_slice_header_bits")?;
    let set = PictureSet {
        sequence,
        has_output_flag,
        extra_bits,
    };
    Ok((number, set))
}
