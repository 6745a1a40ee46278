//! Requests that wait for an answer of another thread.

use glassline_access::auth::{Login, Question};
use glassline_media::TrackIndex;
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::server::Refusal;
use glassline_rtsp::server::{Access, SelectedTransport, Srtp};

use super::wished_layer::WishedLayer;

/// A request that waits until a path was looked up in the media folder.
#[derive(Debug)]
pub(super) enum PendingRequest {
    /// DESCRIBE; with a cipher, the tracks are sent as SRTP.
    Describe {
        cipher: Option<Cipher>,
        layer: WishedLayer,
    },
    /// SETUP of a track.
    SetUp(TrackRequest),
}

impl PendingRequest {
    /// Returns the layer that the URL names.
    pub(super) const fn layer(&self) -> &WishedLayer {
        match self {
            Self::Describe { layer, .. } => layer,
            Self::SetUp(request) => &request.layer,
        }
    }
}

/// The track of a SETUP request.
#[derive(Clone, Debug)]
pub(super) struct TrackRequest {
    /// The index of the track; `None` where the stream as a whole is named.
    pub(super) track: Option<TrackIndex>,
    /// The layer that the URL names.
    pub(super) layer: WishedLayer,
    pub(super) transport: SelectedTransport,
    /// Parameters of SRTP if the track is sent as SRTP.
    pub(super) srtp: Option<Box<Srtp>>,
}

impl TrackRequest {
    /// Returns the index of the track in a stream of `tracks` tracks.
    ///
    /// # Errors
    /// Returns the refusal if there is no such track, or more than one where the URL names the
    /// whole stream.
    pub(super) fn index(&self, tracks: usize) -> Result<TrackIndex, Refusal> {
        match self.track {
            Some(track) if track.get() < tracks => Ok(track),
            Some(_) => Err(Refusal::NotFound),
            None if tracks == 1 => Ok(TrackIndex(0)),
            None => Err(Refusal::AggregateNotAllowed),
        }
    }
}

/// Credentials whose check takes time.
#[derive(PartialEq, Eq, derive_more::Debug)]
pub(super) enum SlowCheck {
    /// The password must be hashed.
    #[debug("password of {user}")]
    Password {
        /// Name of the user.
        user: String,
        /// Password to compare with the user's hash.
        password: String,
    },
    /// The signature of this token must be verified.
    #[debug("token")]
    Token(String),
    /// The webhook must be asked.
    #[debug("{_0:?}")]
    Question(Box<Question>),
}

/// Credentials whose check takes time, and the access that they are presented for.
#[derive(Debug)]
pub(super) struct Credentials {
    /// Login that the check belongs to.
    pub(super) login: Login,
    pub(super) check: SlowCheck,
    pub(super) access: Access,
    pub(super) path: String,
}
