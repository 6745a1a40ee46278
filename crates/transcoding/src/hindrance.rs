//! Why browsers cannot show video.

use glassline_hub::Stream;
use glassline_media::{Track, TrackIndex};
use glassline_rtp::payload::is_recovery_point;

/// The reason why browsers cannot show the video of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Browsers do not decode the codec.
    Codec,
    /// The viewer at hand does not decode the codec, as others do.
    Viewer,
    /// Browsers show B-frames in the wrong order.
    BFrames,
    /// Browsers begin with IDR pictures, and not at recovery points.
    NoIdrFrames,
}

impl Hindrance {
    /// Returns what hinders all browsers from showing a track of `stream`; `None` if nothing is known
    /// of.
    pub fn of(stream: &Stream, index: TrackIndex, track: &Track) -> Option<Self> {
        if !track.is_played_by_browsers() {
            return Some(Self::Codec);
        }
        if track.video.reordered {
            return Some(Self::BFrames);
        }
        let keyframe = stream.latest_keyframe(index)?;
        is_recovery_point(track.codec, &keyframe).then_some(Self::NoIdrFrames)
    }

    /// Returns the name of the hindrance for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Codec => "codec",
            Self::Viewer => "viewer",
            Self::BFrames => "b_frames",
            Self::NoIdrFrames => "no_idr_frames",
        }
    }

    /// Returns what browsers do with such video.
    pub(crate) const fn effect(self) -> &'static str {
        match self {
            Self::Codec => "is a codec that browsers do not decode",
            Self::Viewer => "is a codec that this browser does not decode",
            Self::BFrames => "with B-frames: browsers show them in the wrong order",
            Self::NoIdrFrames => {
                "without IDR pictures: browsers begin with these, and not at recovery points (intra refresh)"
            }
        }
    }

    /// Returns the settings of sources with which browsers show the video as it is.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Codec | Self::Viewer => {
                "have the source send H.264 without B-frames (cameras: codec H.264; ffmpeg: -c:v libx264 \
                 -bf 0)"
            }
            Self::BFrames => {
                "turn B-frames off at the source (ffmpeg: -bf 0; OBS: B-frames 0; x264enc of GStreamer: \
                 bframes=0; cameras: profile Baseline, or smart codec off)"
            }
            Self::NoIdrFrames => {
                "turn intra refresh off at the source (ffmpeg: -intra-refresh 0, with a keyframe interval \
                 of 1 or 2 s; x264enc of GStreamer: intra-refresh=false; cameras: a fixed I-frame interval)"
            }
        }
    }
}
