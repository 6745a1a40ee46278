use std::net::SocketAddr;

use super::config::TRACKS_MAX;
use crate::sdp;

/// Why an offer cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The offer is not SDP: the peer's fault, answer 400.
    #[error(transparent)]
    Malformed(#[from] sdp::Error),
    /// The offer does not meet what we send: answer 406.
    #[error(transparent)]
    Negotiation(#[from] sdp::NegotiationError),
    /// The configuration has no address that a peer could reach.
    #[error("no usable local address among {0:?}: configure one that viewers can reach")]
    NoAddress(Vec<SocketAddr>),
    /// Too few or equal numbers were drawn: our caller's fault.
    #[error("the session's secrets must name {TRACKS_MAX} tracks at most, with distinct SSRCs")]
    Secrets,
}

/// Why an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetAnswerError {
    /// The peer's fault; the session cannot start.
    #[error(transparent)]
    Answer(#[from] sdp::AnswerError),
    /// The session was not dialled, or has its answer already.
    #[error("no answer is awaited")]
    NotAwaited,
    /// Equal numbers were drawn for what is sent: our caller's fault.
    #[error("the session's secrets must have distinct SSRCs")]
    Secrets,
}
