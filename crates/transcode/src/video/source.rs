//! What a track's description says of its video, and whether that can be transcoded.

use glassline_media::{Codec, Track, VideoParameters};
use thiserror::Error;

/// Most pixels of a picture: 1920 × 1088.
pub const PIXELS_MAX: usize = 1920 * 1088;

/// Profiles that are decoded, by `profile_idc`: Baseline, Main and High of 8 bits and 4:2:0.
const PROFILES: [u8; 3] = [66, 77, 100];

/// Constrained Baseline at level 3.1, which every browser decodes. Browsers that decode it at all
/// decode larger pictures, too.
const PROFILE_LEVEL: [u8; 3] = [0x42, 0xc0, 0x1f];

/// Video of a track that can be transcoded, as far as the track's description knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoSource {
    codec: Codec,
    width: u32,
    height: u32,
}

/// The reason why the video of a track cannot be transcoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UntranscodableVideo {
    /// There is no decoder for the codec.
    #[error(
        "there is no decoder for {codec}, only for H.264, H.265, MPEG-4 visual, MPEG-1/2 video and JPEG"
    )]
    Codec {
        /// Codec of the track.
        codec: Codec,
    },
    /// There is no decoder for this profile.
    #[error(
        "H.264 of profile {profile_idc} is not decoded, only 8 bits and 4:2:0 of Baseline, Main and \
         High (66, 77, 100)"
    )]
    Profile {
        /// `profile_idc` of the sequence parameter set.
        profile_idc: u8,
    },
    /// The pictures are too large.
    #[error(
        "encoder of {width} x {height} are not transcoded, at most {PIXELS_MAX} pixels: make them \
         smaller"
    )]
    Size {
        /// Width of the refused pictures, in pixels.
        width: u32,
        /// Height of the refused pictures, in pixels.
        height: u32,
    },
}

impl VideoSource {
    /// Reads the description of a track.
    ///
    /// # Errors
    /// Returns [`UntranscodableVideo`] if no decoder here takes the codec or the profile.
    pub fn of(track: &Track) -> Result<Self, UntranscodableVideo> {
        let codec = track.codec;
        if codec != Codec::H264 && program_names(codec).is_none() {
            return Err(UntranscodableVideo::Codec { codec });
        }
        if codec == Codec::H264
            && let Some([profile_idc, ..]) = track.video.profile_level_id()
            && !PROFILES.contains(&profile_idc)
        {
            return Err(UntranscodableVideo::Profile { profile_idc });
        }
        let (width, height) = (track.video.width, track.video.height);
        if width as usize * height as usize > PIXELS_MAX {
            return Err(UntranscodableVideo::Size { width, height });
        }
        Ok(Self {
            codec,
            width,
            height,
        })
    }

    /// Returns the codec of the coded video.
    pub const fn codec(self) -> Codec {
        self.codec
    }

    /// Returns the names of the codec in NUT and of FFmpeg's decoder; `None` if no program decodes it.
    pub(super) const fn program_names(self) -> Option<([u8; 4], &'static str)> {
        program_names(self.codec)
    }

    /// Returns whether a program decodes the video: there is no decoder of this crate.
    pub const fn needs_program(self) -> bool {
        !matches!(self.codec, Codec::H264)
    }

    /// Returns the track that the video becomes.
    pub fn transcoded(self) -> Track {
        Track::h264(VideoParameters {
            sps: [&[0x67][..], &PROFILE_LEVEL].concat(),
            width: self.width,
            height: self.height,
            ..VideoParameters::default()
        })
    }
}

/// Returns the names of a codec in NUT and of FFmpeg's decoder; `None` if it is not decoded so.
const fn program_names(codec: Codec) -> Option<([u8; 4], &'static str)> {
    match codec {
        Codec::H265 => Some((*b"HEVC", "hevc")),
        Codec::Mpeg4Visual => Some((*b"mp4v", "mpeg4")),
        Codec::MpegVideo => Some((*b"mpg2", "mpeg2video")),
        Codec::Jpeg => Some((*b"MJPG", "mjpeg")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn video(codec: Codec, sps: &[u8], width: u32, height: u32) -> Track {
        let mut track = Track::new(codec);
        track.video = VideoParameters {
            sps: sps.to_vec(),
            width,
            height,
            reordered: true,
            ..VideoParameters::default()
        };
        track
    }

    #[test]
    fn what_is_not_decoded_is_refused_with_the_reason() {
        let high = [0x67, 100, 0, 31];
        let source = VideoSource::of(&video(Codec::H264, &high, 1920, 1080)).expect("decoded");
        let made = source.transcoded();
        assert!(!made.video.reordered && made.codec == Codec::H264);
        assert_eq!(made.video.profile_level_id(), Some(PROFILE_LEVEL));
        assert_eq!((made.video.width, made.video.height), (1920, 1080));
        let unknown = video(Codec::H264, &[], 0, 0);
        assert!(VideoSource::of(&unknown).is_ok(), "told by the first frame");
        let refused = |track: &Track| VideoSource::of(track).expect_err("refused").to_string();
        for (track, reason) in [
            (video(Codec::Av1, &[], 640, 360), "no decoder for AV1"),
            (video(Codec::H265, &[], 3840, 2160), "3840 x 2160"),
            (
                video(Codec::H264, &[0x67, 110, 0, 31], 640, 360),
                "profile 110",
            ),
            (video(Codec::H264, &high, 3840, 2160), "3840 x 2160"),
        ] {
            let text = refused(&track);
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn limits_of_size_and_profile_are_exact() {
        let of = |profile, width, height| {
            VideoSource::of(&video(Codec::H264, &[0x67, profile, 0, 31], width, height))
        };
        for (width, height, is_taken) in [
            (1920, 1088, true),
            (1088, 1920, true),
            (1920, 1089, false),
            (2_088_961, 1, false),
            (2_088_960, 1, true),
        ] {
            let refused = UntranscodableVideo::Size { width, height };
            let expected = is_taken.then_some(()).ok_or(refused);
            assert_eq!(of(77, width, height).map(|_| ()), expected);
        }
        for (profile_idc, is_taken) in [
            (66, true),
            (77, true),
            (88, false),
            (100, true),
            (110, false),
            (122, false),
        ] {
            let refused = UntranscodableVideo::Profile { profile_idc };
            let expected = is_taken.then_some(Codec::H264).ok_or(refused);
            assert_eq!(of(profile_idc, 640, 360).map(VideoSource::codec), expected);
        }
    }

    #[test]
    fn what_a_program_decodes_is_told_from_the_rest() {
        let programs = [
            Codec::H265,
            Codec::Mpeg4Visual,
            Codec::MpegVideo,
            Codec::Jpeg,
        ];
        for codec in programs {
            let source = VideoSource::of(&Track::new(codec)).expect("FFmpeg decodes it");
            assert!(source.needs_program() && source.codec() == codec);
            assert_eq!(source.transcoded().codec, Codec::H264);
        }
        for codec in [Codec::Opus, Codec::Vp9] {
            let refused = Err(UntranscodableVideo::Codec { codec });
            assert_eq!(VideoSource::of(&Track::new(codec)), refused);
        }
        let made = VideoSource::of(&video(Codec::H264, &[], 640, 360)).expect("H.264");
        assert!(!made.needs_program());
        assert_eq!(made.transcoded().video.sps, [0x67, 0x42, 0xc0, 0x1f]);
    }
}
