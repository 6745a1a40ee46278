//! VP8 and VP9 ("VP Codec ISO Media File Format Binding", version 1).

use bytes::BufMut as _;
use glassline_media::{Bits, MediaUnit, Track};

use super::{CmafTrack, Described, start_of, video_track};
use crate::boxes::{BoxKind, put_full_box};
use crate::sample::Conversion;

/// Fields of the `vpcC` box.
struct Configuration {
    size: (u32, u32),
    profile: u8,
    bits: u8,
    /// Subsampling: 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    chroma: u8,
    full_range: bool,
    /// Primaries, transfer and matrix (ISO/IEC 23001-8).
    colour: [u8; 3],
}

/// Describes VP8 from the header of a keyframe (RFC 6386 §9.1).
pub(super) fn vp8(track: &Track, keyframe: &MediaUnit) -> Result<Described, &'static str> {
    let start = start_of(keyframe);
    let size = match start.get(..10) {
        Some(&[first, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1]) if first & 1 == 0 => {
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            (side(w0, w1), side(h0, h1))
        }
        _ => (track.video.width, track.video.height),
    };
    if size.0 == 0 || size.1 == 0 {
        return Err("its keyframe states no size");
    }
    let configuration = Configuration {
        size,
        profile: start.first().map_or(0, |first| first >> 1 & 7),
        bits: 8,
        chroma: 1,
        full_range: false,
        colour: [2; 3],
    };
    Ok(described(b"vp08", &configuration))
}

/// Describes VP9 from the uncompressed header of a keyframe (VP9 specification §6.2).
pub(super) fn vp9(track: &Track, keyframe: &MediaUnit) -> Result<Described, &'static str> {
    let start = start_of(keyframe);
    let mut configuration = read_vp9(&start).ok_or("its keyframe has no header of VP9")?;
    // A frame with several spatial layers begins with the smallest one.
    let known = (track.video.width, track.video.height);
    if known.0 > configuration.size.0 && known.1 > configuration.size.1 {
        configuration.size = known;
    }
    Ok(described(b"vp09", &configuration))
}

fn described(kind: &BoxKind, configuration: &Configuration) -> Described {
    Described {
        track: track(kind, configuration),
        conversion: Conversion::Plain,
    }
}

fn track(kind: &BoxKind, it: &Configuration) -> CmafTrack {
    video_track(kind, it.size, |out| {
        put_full_box(out, b"vpcC", 1, 0, |out| {
            out.put_slice(&[it.profile, level(it.size.0, it.size.1)]);
            out.put_u8(it.bits << 4 | it.chroma << 1 | u8::from(it.full_range));
            out.put_slice(&it.colour);
            out.put_u16(0);
        });
    })
}

/// Returns ten times the lowest level that has room for pictures of this size at 60 per second.
fn level(width: u32, height: u32) -> u8 {
    const LEVELS: [(u64, u8); 8] = [
        (36_864, 10),
        (73_728, 11),
        (122_880, 20),
        (245_760, 21),
        (552_960, 30),
        (983_040, 31),
        (2_228_224, 41),
        (8_912_896, 51),
    ];
    let pixels = u64::from(width) * u64::from(height);
    let fits = LEVELS.iter().find(|(most, _)| pixels <= *most);
    fits.map_or(61, |(_, level)| *level)
}

fn read_vp9(start: &[u8]) -> Option<Configuration> {
    let mut bits = Bits::new(start);
    if bits.take(2)? != 2 {
        return None;
    }
    let (low, high) = (bits.take(1)?, bits.take(1)?);
    let profile = high << 1 | low;
    if profile == 3 {
        bits.skip(1);
    }
    let shows_existing = bits.bit()?;
    let is_inter = bits.bit()?;
    let _shown_and_resilient = bits.take(2)?;
    if shows_existing || is_inter || bits.take(24)? != 0x49_8342 {
        return None;
    }
    let depth = match profile >= 2 && bits.bit()? {
        true => 12,
        false if profile >= 2 => 10,
        false => 8,
    };
    let space = bits.take(3)?;
    let (full_range, chroma) = match space {
        // RGB is never subsampled.
        7 => {
            bits.skip(if profile & 1 == 1 { 1 } else { 0 });
            (true, 3)
        }
        _ => {
            let range = bits.bit()?;
            let chroma = match profile & 1 == 1 {
                true => {
                    let (x, y, _reserved) = (bits.bit()?, bits.bit()?, bits.bit()?);
                    match (x, y) {
                        (true, true) => 1,
                        (true, false) => 2,
                        _ => 3,
                    }
                }
                false => 1,
            };
            (range, chroma)
        }
    };
    let size = (bits.take(16)? + 1, bits.take(16)? + 1);
    Some(Configuration {
        size,
        profile: profile as u8,
        bits: depth,
        chroma,
        full_range,
        colour: match space {
            1 => [6, 6, 6],
            2 => [1, 1, 1],
            3 => [6, 6, 6],
            4 => [7, 7, 7],
            5 => [9, 14, 9],
            7 => [1, 13, 0],
            _ => [2, 2, 2],
        },
    })
}
