//! Requests that wait for an answer of another thread.

use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::server::Refusal;
use glassline_rtsp::server::{Access, Srtp, Way};

/// What a client asked of a path that is looked up in the media folder.
#[derive(Debug)]
pub(super) enum PendingRequest {
    /// DESCRIBE; with a cipher, the tracks go as SRTP.
    Describe { cipher: Option<Cipher> },
    /// SETUP of a track.
    SetUp(Wanted),
}

/// A track that a client wants set up.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The index of the track; `None` where the stream as a whole is named.
    pub(super) track: Option<usize>,
    pub(super) way: Way,
    /// The track goes as SRTP.
    pub(super) srtp: Option<Box<Srtp>>,
}

impl Wanted {
    /// The index of the track in a stream of so many tracks.
    ///
    /// # Errors
    /// There is no such track, or more than one where the stream as a whole is named.
    pub(super) fn index(&self, tracks: usize) -> Result<usize, Refusal> {
        match self.track {
            Some(track) if track < tracks => Ok(track),
            Some(_) => Err(Refusal::NotFound),
            None if tracks == 1 => Ok(0),
            None => Err(Refusal::AggregateNotAllowed),
        }
    }
}

/// The name and password of a user, and what they are shown for.
#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) access: Access,
    pub(super) path: String,
}
