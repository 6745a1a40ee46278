use super::refusal::Refusal;

/// The reason why a session, broadcast or track has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The peer refuses the token, the user or the access.
    #[error("the peer refuses: not authorized")]
    Unauthorized,
    /// The peer closed the session with this reason.
    #[error("the peer closed the session: {0}")]
    Closed(String),
    /// The QUIC connection failed.
    #[error("the connection ended: {0}")]
    Network(String),
    /// One of the ends broke the protocol.
    #[error("MoQ protocol error: {0}")]
    Protocol(String),
    /// The session was opened for reading only.
    #[error("the session was opened to read only")]
    ReadOnly,
}

impl Ended {
    pub(super) fn of(error: moq_net::Error) -> Self {
        use moq_net::{Error, SessionError};
        match error {
            Error::Unauthorized | Error::Session(SessionError::Unauthorized) => Self::Unauthorized,
            Error::Session(SessionError::App(code)) => Self::Closed(Refusal::named(code)),
            Error::Session(error) => Self::Closed(error.to_string()),
            Error::Transport(text) => Self::Network(text),
            other => Self::Protocol(other.to_string()),
        }
    }
}
