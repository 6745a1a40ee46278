//! Video without a container: H.264 and H.265 as NAL units with start codes, split into access
//! units.
//!
//! ```text
//! annexb: NAL units ─► h264, h265 (each a Grammar) ─► video: index, access units
//!                      what begins a unit, which sets    display_order: when each is shown
//! ```

use glassline_media::Codec;

pub mod annexb;
pub(crate) mod display_order;
pub(crate) mod grammar;
pub(crate) mod h264;
pub(crate) mod h265;
pub(crate) mod video;

/// Returns width and height in pixels after cropping, from a sequence parameter set of H.264 or
/// H.265: a whole NAL unit without start code. `None` for other codecs and other NAL units, and for
/// a set that cannot be read.
pub fn frame_size(codec: Codec, nal: &[u8]) -> Option<(u32, u32)> {
    match codec {
        Codec::H264 if nal.first().is_some_and(|first| first & 0x1f == 7) => {
            let read = h264::parameter_sets::sequence(nal);
            read.ok().map(|(_, size)| size)
        }
        Codec::H265 => h265::parameter_sets::frame_size(nal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{self, Sequence};

    #[test]
    fn sizes_are_read_from_sequence_parameter_sets_only() {
        let sps = synthetic::sps(Sequence::default());
        assert_eq!(frame_size(Codec::H264, &sps), Some((64, 48)));
        // scottlamb/retina#102.
        let junk = [&sps[..], &[0x80, 0, 0x41, 0x9a]].concat();
        assert_eq!(frame_size(Codec::H264, &junk), Some((64, 48)));
        assert_eq!(frame_size(Codec::Vp8, &sps), None);
        assert_eq!(frame_size(Codec::H264, &sps[..3]), None);
        assert_eq!(frame_size(Codec::H264, &[]), None);
        assert_eq!(frame_size(Codec::H265, &sps), None);
    }
}
