//! Why browsers cannot show video that they decode.

use glassline_hub::Stream;
use glassline_media::{Track, TrackIndex};
use glassline_rtp::payload::is_recovery_point;

/// Why browsers cannot show the video of a track, although they decode its codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// Browsers show B-frames in the wrong order.
    BFrames,
    /// Browsers begin with IDR pictures, and not at recovery points.
    NoIdrFrames,
}

impl Hindrance {
    /// Returns what hinders browsers from showing a track of `stream`; `None` if nothing is known of.
    pub(crate) fn of(stream: &Stream, index: TrackIndex, track: &Track) -> Option<Self> {
        if track.video.reordered {
            return Some(Self::BFrames);
        }
        let keyframe = stream.latest_keyframe(index)?;
        is_recovery_point(track.codec, &keyframe).then_some(Self::NoIdrFrames)
    }

    /// Returns what browsers do with such video.
    pub(crate) const fn effect(self) -> &'static str {
        match self {
            Self::BFrames => "with B-frames: browsers show them in the wrong order",
            Self::NoIdrFrames => {
                "without IDR pictures: browsers begin with these, and not at recovery points (intra refresh)"
            }
        }
    }

    /// Returns the settings of sources with which browsers show the video as it is.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
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
