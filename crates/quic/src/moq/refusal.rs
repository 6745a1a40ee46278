/// The reason why a client is refused, as the peer receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Token, user or access is not accepted.
    #[error("not authorized")]
    Unauthorized,
    /// The catalog or the frames contradict themselves, or cannot be carried.
    #[error("the published media contradict their catalog, or cannot be carried")]
    Malformed,
    /// No stream can have this name.
    #[error("no stream can have this name")]
    Name,
    /// Another client publishes under this name.
    #[error("another source publishes this stream")]
    Busy,
    /// The server has as many clients or streams as it may have.
    #[error("the server is full")]
    Full,
    /// The server shuts down.
    #[error("the server shuts down")]
    Shutdown,
    /// The streams that the client reads are offered anew; it may come back at once.
    #[error("the streams are offered anew: connect again")]
    Restart,
    /// Another owner of the stream's name has a newer claim.
    #[error("another server publishes the stream under a newer claim")]
    Superseded,
    /// Servers would pull a stream from each other in a circle, or over too many servers.
    #[error("the servers would pull the stream in a circle, or over too many servers")]
    Loop,
    /// An operator of the server ended the session.
    #[error("an operator of the server ended the session")]
    Dismissed,
    /// A camera or file of the server has the name.
    #[error("a camera or file of the server has this name: publish under another name")]
    Configured,
}

impl Refusal {
    const ALL: [Self; 11] = [
        Self::Unauthorized,
        Self::Malformed,
        Self::Name,
        Self::Busy,
        Self::Full,
        Self::Shutdown,
        Self::Restart,
        Self::Superseded,
        Self::Loop,
        Self::Dismissed,
        Self::Configured,
    ];

    /// Returns this refusal's number among the error codes of applications.
    pub(super) const fn app(self) -> u16 {
        self as u16
    }

    pub(super) fn error(self) -> moq_net::Error {
        match self {
            Self::Unauthorized => moq_net::Error::Unauthorized,
            other => moq_net::Error::App(other.app()),
        }
    }

    pub(super) fn code(self) -> u32 {
        moq_net::SessionError::from(&self.error()).to_code()
    }

    /// Returns the meaning of a peer's code, if it is one of ours.
    pub(super) fn named(code: u16) -> String {
        let known = Self::ALL.into_iter().find(|it| it.app() == code);
        known.map_or_else(|| format!("code {code}"), |it| it.to_string())
    }
}
