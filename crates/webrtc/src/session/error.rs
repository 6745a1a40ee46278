use super::config::TRACKS_MAX;
use crate::{TransportAddress, sdp};

/// The reason why an offer cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The offer is not valid SDP. The peer is at fault: answer with HTTP 400.
    #[error(transparent)]
    Malformed(#[from] sdp::Error),
    /// The offer cannot receive what this end sends, or the reverse: answer with HTTP 406.
    #[error(transparent)]
    Negotiation(#[from] sdp::NegotiationError),
    /// The configuration has no address that a peer could reach.
    #[error("no usable local address among {0:?}: configure one that viewers can reach")]
    NoAddress(Vec<TransportAddress>),
    /// The secrets have too few tracks, or SSRCs that are equal. The caller is at fault.
    #[error("the session's secrets must name {TRACKS_MAX} tracks at most, with distinct SSRCs")]
    Secrets,
}

/// The reason why an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetAnswerError {
    /// The answer is invalid or agrees to nothing. The peer is at fault; the session cannot
    /// start.
    #[error(transparent)]
    Answer(#[from] sdp::AnswerError),
    /// The session was not dialed, or has its answer already.
    #[error("the session does not wait for an answer: it was not dialed, or has its answer")]
    NotAwaited,
    /// The secrets of the tracks have SSRCs that are equal. The caller is at fault.
    #[error("the session's secrets must have distinct SSRCs")]
    Secrets,
}
