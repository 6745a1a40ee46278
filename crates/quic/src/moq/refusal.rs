/// Why somebody is sent away, as the other end hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Token, user or right.
    #[error("not authorised")]
    Unauthorised,
    /// A catalog or frames that cannot be what they say.
    #[error("what was published is not what its catalog says, or cannot be carried")]
    Malformed,
    /// No stream can have that name.
    #[error("no stream can have this name")]
    Name,
    /// Somebody else publishes under that name.
    #[error("the stream has a source already")]
    Busy,
    /// As many as there may be.
    #[error("the server is full")]
    Full,
    /// It goes.
    #[error("the server shuts down")]
    Shutdown,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::Unauthorised,
        Self::Malformed,
        Self::Name,
        Self::Busy,
        Self::Full,
        Self::Shutdown,
    ];

    /// Ours among the codes that applications have.
    const fn app(self) -> u16 {
        self as u16
    }

    pub(super) fn error(self) -> moq_net::Error {
        match self {
            Self::Unauthorised => moq_net::Error::Unauthorized,
            other => moq_net::Error::App(other.app()),
        }
    }

    pub(super) fn code(self) -> u32 {
        moq_net::SessionError::from(&self.error()).to_code()
    }

    /// What a code of the other end's means, if it is ours.
    pub(super) fn named(code: u16) -> String {
        let known = Self::ALL.into_iter().find(|it| it.app() == code);
        known.map_or_else(|| format!("code {code}"), |it| it.to_string())
    }
}
