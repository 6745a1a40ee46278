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

/// Most that two encodings of one video differ in the shape of their frames, in percent: sides are
/// rounded to what encoders take.
const SHAPE_PERCENT: u64 = 3;

impl Rendition {
    /// Returns whether this is a lower encoding of the same video as `better`, as far as the catalog
    /// tells: smaller frames of the same shape, or a lower bitrate where the sizes are equal or unknown.
    pub fn is_below(&self, better: &Self) -> bool {
        let size = |it: &Self| {
            let (width, height) = (it.track.video.width, it.track.video.height);
            (width > 0 && height > 0).then_some((u64::from(width), u64::from(height)))
        };
        let is_cheaper = || self.bitrate.is_some_and(|it| better.bitrate > Some(it));
        let (Some(ours), Some(theirs)) = (size(self), size(better)) else {
            return is_cheaper();
        };
        if ours == theirs {
            return is_cheaper();
        }
        let (across, along) = (ours.0 * theirs.1, ours.1 * theirs.0);
        ours.0 <= theirs.0
            && ours.1 <= theirs.1
            && across.abs_diff(along) * 100 <= SHAPE_PERCENT * along
    }
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
