//! H.264 and H.265 (ISO/IEC 14496-15 §5.3.3.1 and §8.3.3.1).

use bytes::BufMut as _;
use glassline_demux::frame_size;
use glassline_media::annexb::nals;
use glassline_media::{Bits, Codec, MediaUnit, Track};

use super::{Described, start_of, video_track};
use crate::boxes::put_box;
use crate::sample::{Conversion, NalKinds, ParameterSets};

/// Describes H.264 from the parameter sets in a keyframe, or from those of the track.
pub(super) fn h264(track: &Track, keyframe: &MediaUnit) -> Result<Described, &'static str> {
    let mut sets = ParameterSets::new(NalKinds::H264);
    nals(&start_of(keyframe)).for_each(|nal| sets.add(nal));
    if !sets.is_complete() {
        [&track.video.sps, &track.video.pps]
            .iter()
            .for_each(|set| sets.add(set));
    }
    let (sequences, pictures) = (sets.of_kind(7), sets.of_kind(8));
    let (Some(sequence), Some(_)) = (sequences.first(), pictures.first()) else {
        return Err("its keyframe has no sequence and picture parameter sets");
    };
    let size = frame_size(Codec::H264, sequence).ok_or("its sequence parameter set is damaged")?;
    let [profile, constraints, level] = *sequence
        .get(1..)
        .and_then(<[u8]>::first_chunk)
        .ok_or("its sequence parameter set is cut off")?;
    let format = h264_format(sequence);
    let track = video_track(b"avc1", size, |out| {
        put_box(out, b"avcC", |out| {
            out.put_slice(&[1, profile, constraints, level, 0xff]);
            put_sets(out, 0xe0, &sequences[..sequences.len().min(31)]);
            put_sets(out, 0, &pictures[..pictures.len().min(255)]);
            if let Some([chroma, luma_bits, chroma_bits]) = format {
                out.put_slice(&[0xfc | chroma, 0xf8 | luma_bits, 0xf8 | chroma_bits, 0]);
            }
        });
    });
    Ok(Described {
        track,
        conversion: Conversion::Nals(sets),
    })
}

fn put_sets(out: &mut Vec<u8>, reserved: u8, sets: &[&[u8]]) {
    out.put_u8(reserved | sets.len() as u8);
    sets.iter().for_each(|set| put_set(out, set));
}

fn put_set(out: &mut Vec<u8>, set: &[u8]) {
    out.put_u16(u16::try_from(set.len()).unwrap_or(0));
    out.put_slice(set);
}

/// Returns chroma format and depths minus 8 of an H.264 sequence parameter set of a high profile
/// (ITU-T H.264 §7.3.2.1.1), which the configuration repeats.
fn h264_format(nal: &[u8]) -> Option<[u8; 3]> {
    let is_high = matches!(nal.get(1)?, 100 | 110 | 122 | 144 | 244);
    if !is_high {
        return None;
    }
    let payload = without_emulation(nal.get(4..)?);
    let mut bits = Bits::new(&payload);
    let _number = bits.exp_golomb()?;
    let chroma = bits.exp_golomb()?;
    if chroma == 3 {
        bits.bit()?;
    }
    let depths = [bits.exp_golomb()?, bits.exp_golomb()?];
    let byte = |value: u32| (value & 7) as u8;
    Some([(chroma & 3) as u8, byte(depths[0]), byte(depths[1])])
}

/// Describes H.265 from the parameter sets in a keyframe.
pub(super) fn h265(keyframe: &MediaUnit) -> Result<Described, &'static str> {
    let mut sets = ParameterSets::new(NalKinds::H265);
    nals(&start_of(keyframe)).for_each(|nal| sets.add(nal));
    if !sets.is_complete() {
        return Err("its keyframe has no video, sequence and picture parameter sets");
    }
    let sequences = sets.of_kind(33);
    let sequence = sequences.first().copied().unwrap_or_default();
    let size = frame_size(Codec::H265, sequence).ok_or("its sequence parameter set is damaged")?;
    let format = H265Format::read(sequence).ok_or("its sequence parameter set is cut off")?;
    let track = video_track(b"hvc1", size, |out| {
        put_box(out, b"hvcC", |out| {
            out.put_u8(1);
            out.put_slice(&format.profile_tier_level);
            // No bound of spatial segments, unknown parallelism, then the format of samples.
            out.put_u16(0xf000);
            out.put_slice(&[0xfc, 0xfc | format.chroma]);
            out.put_slice(&[0xf8 | format.luma_bits, 0xf8 | format.chroma_bits]);
            // The frame rate is not stated; lengths have four bytes.
            out.put_u16(0);
            out.put_u8(format.layers << 3 | format.nested << 2 | 3);
            out.put_u8(3);
            for kind in [32, 33, 34] {
                let list = sets.of_kind(kind);
                out.put_u8(0x80 | kind);
                out.put_u16(list.len() as u16);
                list.iter().for_each(|set| put_set(out, set));
            }
        });
    });
    Ok(Described {
        track,
        conversion: Conversion::Nals(sets),
    })
}

/// Fields of an H.265 sequence parameter set that the configuration repeats (ITU-T H.265 §7.3.2.2).
struct H265Format {
    profile_tier_level: [u8; 12],
    layers: u8,
    nested: u8,
    chroma: u8,
    luma_bits: u8,
    chroma_bits: u8,
}

impl H265Format {
    fn read(nal: &[u8]) -> Option<Self> {
        let payload = without_emulation(nal.get(2..)?);
        let mut bits = Bits::new(&payload);
        bits.skip(4);
        let layers = bits.take(3)?;
        let nested = bits.take(1)? as u8;
        let profile_tier_level = *payload.get(1..)?.first_chunk()?;
        bits.skip(96);
        let mut skipped = 0;
        for _ in 0..layers {
            skipped += if bits.bit()? { 88 } else { 0 };
            skipped += if bits.bit()? { 8 } else { 0 };
        }
        if layers > 0 {
            skipped += (8 - layers as usize) * 2;
        }
        bits.skip(skipped);
        let _number = bits.exp_golomb()?;
        let chroma = bits.exp_golomb()?;
        if chroma == 3 {
            bits.bit()?;
        }
        let _size = [bits.exp_golomb()?, bits.exp_golomb()?];
        if bits.bit()? {
            for _ in 0..4 {
                bits.exp_golomb()?;
            }
        }
        let depths = [bits.exp_golomb()?, bits.exp_golomb()?];
        Some(Self {
            profile_tier_level,
            layers: layers as u8 + 1,
            nested,
            chroma: (chroma & 3) as u8,
            luma_bits: (depths[0] & 7) as u8,
            chroma_bits: (depths[1] & 7) as u8,
        })
    }
}

/// Returns the bytes without emulation prevention (ITU-T H.264 §7.4.1).
fn without_emulation(bytes: &[u8]) -> Vec<u8> {
    let (mut payload, mut zeros) = (Vec::with_capacity(bytes.len()), 0);
    for &byte in bytes {
        let is_inserted = zeros >= 2 && byte == 3;
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        if !is_inserted {
            payload.push(byte);
        }
    }
    payload
}
