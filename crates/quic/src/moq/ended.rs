use super::refusal::Refusal;

/// Why a session, or something in it, is over.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The other end does not grant it: token, user or right.
    #[error("the other end refuses: not authorised")]
    Unauthorised,
    /// The other end said why.
    #[error("the other end closed the session: {0}")]
    Closed(String),
    /// The network, or the other end is gone.
    #[error("the connection ended: {0}")]
    Network(String),
    /// The protocol was broken, by either.
    #[error("MoQ: {0}")]
    Protocol(String),
    /// The session was opened to read.
    #[error("the session was opened to read only")]
    ReadOnly,
}

impl Ended {
    pub(super) fn of(error: moq_net::Error) -> Self {
        use moq_net::{Error, SessionError};
        match error {
            Error::Unauthorized | Error::Session(SessionError::Unauthorized) => Self::Unauthorised,
            Error::Session(SessionError::App(code)) => Self::Closed(Refusal::named(code)),
            Error::Session(error) => Self::Closed(error.to_string()),
            Error::Transport(text) => Self::Network(text),
            other => Self::Protocol(other.to_string()),
        }
    }
}
