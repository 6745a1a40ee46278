use std::time::Duration;

use super::TokenError;

/// The reason why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Name, password or token is wrong.
    #[error("wrong name, password or token")]
    Wrong,
    /// A token of the identity provider gives no right.
    #[error(transparent)]
    Token(TokenError),
    /// The address has failed too often.
    #[error("too many wrong logins from this address: wait {} s", .retry_after.as_secs().max(1))]
    Limited {
        /// Time until the next login of the address is checked.
        retry_after: Duration,
    },
    /// The webhook does not allow what the client asks for.
    #[error("the service that decides about rights does not allow this")]
    Refused,
    /// The webhook gave no clear answer in time.
    #[error(
        "the service that decides about rights gives no answer, so nobody is let in by it: \
         wait {} s", .retry_after.as_secs().max(1)
    )]
    NoAnswer {
        /// Time after which the client should try again.
        retry_after: Duration,
    },
    /// Too many logins wait to be checked.
    #[error("too many logins wait to be checked: wait {} s", .retry_after.as_secs().max(1))]
    Busy {
        /// Time after which the client should try again.
        retry_after: Duration,
    },
}

impl LoginError {
    /// Returns the time after which the client should try again, if waiting helps.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Wrong | Self::Refused | Self::Token(_) => None,
            Self::Limited { retry_after }
            | Self::NoAnswer { retry_after }
            | Self::Busy { retry_after } => Some(*retry_after),
        }
    }
}
