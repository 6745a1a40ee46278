//! What is transcoded, audio or video.

use glassline_media::{Codec, Kind, Track};
use glassline_transcode::{AudioSource, VideoSource};

use super::hindrance::Hindrance;

/// A track that is transcoded, as far as its description knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranscodingSource {
    /// Audio, which becomes Opus.
    Audio(AudioSource),
    /// Video that browsers cannot show for this reason, which becomes H.264 that they can.
    Video(VideoSource, Hindrance),
    /// Video of which smaller layers are made.
    Ladder(VideoSource),
}

impl TranscodingSource {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Audio(_) => Kind::Audio,
            Self::Video(..) | Self::Ladder(_) => Kind::Video,
        }
    }

    pub(super) fn codec(self) -> Codec {
        match self {
            Self::Audio(source) => source.codec(),
            Self::Video(source, _) | Self::Ladder(source) => source.codec(),
        }
    }

    /// Returns the track that viewers are offered.
    pub(super) fn transcoded(self) -> Track {
        match self {
            Self::Audio(source) => source.transcoded(),
            Self::Video(source, _) | Self::Ladder(source) => source.transcoded(),
        }
    }

    /// Returns what the work is for, as the log says it.
    pub(super) const fn purpose(self) -> &'static str {
        match self {
            Self::Audio(_) => "audio is transcoded for browsers",
            Self::Video(..) => "video is transcoded for browsers",
            Self::Ladder(_) => "lower layers are encoded for those who need them",
        }
    }

    /// Returns what is missing of the transcoded track, if anything is.
    pub(super) fn loss(self) -> Option<String> {
        match self {
            Self::Audio(source) => source.loss(),
            Self::Video(..) | Self::Ladder(_) => None,
        }
    }

    /// Returns whether the present `track` needs no transcoding any more. An IDR picture that comes after
    /// all is followed by recovery points again, as after a loss.
    pub(super) const fn is_over(self, track: &Track) -> bool {
        match self {
            Self::Video(_, Hindrance::BFrames) => !track.video.reordered,
            Self::Video(..) | Self::Audio(_) | Self::Ladder(_) => false,
        }
    }
}
