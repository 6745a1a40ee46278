//! What comes with an offer, and why it may be turned down.

use std::net::SocketAddr;

use glassline_hub::{State, StreamName};
use glassline_webrtc::AcceptError;
use glassline_webrtc::sdp::{Error, SessionDescription};

use super::admission::Full;

/// Both ends of the connection that a session is negotiated by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionAddresses {
    /// The far end.
    pub(crate) peer: SocketAddr,
    /// Which of our addresses the peer reached: one that it can reach for media too.
    pub(crate) local: SocketAddr,
}

/// An SDP offer, and how it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) sdp: &'a str,
    pub(crate) connection: ConnectionAddresses,
}

impl Offer<'_> {
    /// The kind of the first `m=` section that is not data channels, if there is one.
    ///
    /// # Errors
    /// The offer is not SDP.
    pub(crate) fn media(&self) -> Result<Option<String>, Error> {
        let offer = SessionDescription::parse(self.sdp)?;
        let mut sections = offer.media.into_iter().filter(|media| !media.is_rejected());
        let media = sections.find(|media| media.kind != "application");
        Ok(media.map(|media| media.kind))
    }
}

/// Why an offer makes no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferError {
    /// No stream or file has this name.
    #[error("there is no stream called '{0}'")]
    NoStream(String),
    /// The file of this name cannot be played; the log says why.
    #[error("'{0}' cannot be played")]
    BrokenFile(String),
    /// The stream has no tracks yet, or no longer.
    #[error("stream '{stream}' is {}", state.as_str())]
    NotLive {
        /// Which.
        stream: StreamName,
        /// What it is instead.
        state: State,
    },
    /// As many sessions or handshakes as there may be.
    #[error(transparent)]
    Full(#[from] Full),
    /// The offer is broken, or has nothing that can be sent.
    #[error(transparent)]
    Refused(#[from] AcceptError),
}

impl From<Error> for OfferError {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}
