//! What is transcoded, audio or video.

use glassline_media::{Codec, Kind, Track};
use glassline_transcode::{AudioSource, VideoSource};

/// A track that is transcoded, as far as its description knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranscodingSource {
    /// Audio, which becomes Opus.
    Audio(AudioSource),
    /// Video with B-frames, which becomes H.264 without them.
    Video(VideoSource),
}

impl TranscodingSource {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Audio(_) => Kind::Audio,
            Self::Video(_) => Kind::Video,
        }
    }

    pub(super) fn codec(self) -> Codec {
        match self {
            Self::Audio(source) => source.codec(),
            Self::Video(source) => source.codec(),
        }
    }

    /// Returns the track that viewers are offered.
    pub(super) fn transcoded(self) -> Track {
        match self {
            Self::Audio(source) => source.transcoded(),
            Self::Video(source) => source.transcoded(),
        }
    }

    /// Returns what is missing of the transcoded track, if anything is.
    pub(super) fn loss(self) -> Option<String> {
        match self {
            Self::Audio(source) => source.loss(),
            Self::Video(_) => None,
        }
    }
}
