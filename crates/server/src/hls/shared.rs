//! What all renditions of a stream share while they are written.

use std::sync::Arc;

use glassline_hls::{Numbers, Terms};
use glassline_media::MediaTime;

use super::dates::Dates;

/// Parts by which players stay behind the end (§4.4.3.8).
pub(super) const PARTS_BEHIND: u32 = 3;

/// The parts that all renditions of a stream share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Promises of each playlist, but for the longest part.
    pub(super) terms: Terms,
    /// Time on the stream's timeline from which all renditions count.
    pub(super) origin: Option<MediaTime>,
    pub(super) dates: Dates,
    /// Numbers with which playlists begin.
    pub(super) first: Numbers,
    /// Number of discontinuities since the first segment.
    pub(super) changes: u64,
    /// Window of passes, and the pass of files that come to be in it.
    pub(super) window: u64,
    pub(super) pass: String,
}

impl Shared {
    /// Returns the folder of the files of a rendition, relative to its playlist.
    pub(super) fn folder(&self, rendition: &str) -> Arc<str> {
        format!("../{}/{rendition}", self.pass).into()
    }
}

/// The effect of a unit beside its own rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Nothing,
    /// There is a first part, or a rendition.
    Grown,
    /// Another sequence of timestamps or other parameters began.
    Header,
}
