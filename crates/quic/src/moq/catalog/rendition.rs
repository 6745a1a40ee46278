use glassline_media::{Bitrate, Track};

use crate::moq::codec::Framing;

/// One encoding of the video or audio.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendition {
    /// Name of its track in the broadcast.
    pub name: String,
    /// Codec and parameters, as far as the catalog names them.
    pub track: Track,
    /// How frames are packed.
    pub framing: Framing,
    /// Parameter sets that a decoder needs, as NAL units without start codes.
    pub sets: Vec<Vec<u8>>,
    /// Highest bitrate, if the catalog names one.
    pub bitrate: Option<Bitrate>,
}

/// The reason why a rendition cannot be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsupportedRendition {
    /// The hub does not carry this codec.
    #[error("codec `{0}` is not supported")]
    Codec(String),
    /// The container is not `legacy`.
    #[error("container `{0}` is not supported: publish with `legacy`")]
    Container(String),
    /// The track belongs to another broadcast.
    #[error("its track is in another broadcast")]
    Elsewhere,
}
