use glassline_media::{Bitrate, Track};

use crate::moq::codec::Framing;

/// One way in which video or audio is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendition {
    /// Of its track in the broadcast.
    pub name: String,
    /// What it is, as far as it is told.
    pub track: Track,
    /// How frames are put together.
    pub framing: Framing,
    /// Parameter sets that decoders need, NAL units without start codes.
    pub sets: Vec<Vec<u8>>,
    /// The most that it takes, if told.
    pub bitrate: Option<Bitrate>,
}

/// Why a rendition is not carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// Nothing that the hub has.
    #[error("codec `{0}` is not carried")]
    Codec(String),
    /// Not the plain one.
    #[error("container `{0}` is not read: publish with `legacy`")]
    Container(String),
    /// In another broadcast.
    #[error("its track is in another broadcast")]
    Elsewhere,
}
