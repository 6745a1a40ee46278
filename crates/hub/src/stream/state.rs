use std::time::Instant;

/// What a stream's source is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The source is being set up for the first time.
    Connecting,
    /// Units are coming in.
    Live {
        /// Since when.
        since: Instant,
    },
    /// The source failed and will be tried again.
    Down {
        /// Why, for people.
        detail: String,
    },
    /// The source came to its end and will not be tried again.
    Ended {
        /// Why, for people.
        detail: String,
    },
}

impl State {
    /// The word in JSON and on pages.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live { .. } => "live",
            Self::Down { .. } => "down",
            Self::Ended { .. } => "ended",
        }
    }

    /// The reason, where there is one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Down { detail } | Self::Ended { detail } => Some(detail),
            Self::Connecting | Self::Live { .. } => None,
        }
    }
}

/// How long a hub lists a stream that has no publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamLifetime {
    /// For ever: the configuration names the stream.
    Configured,
    /// For [`Limits::departed_span`](crate::Limits::departed_span), in which its publisher may come back.
    #[default]
    Published,
    /// No longer than somebody holds the stream: its publisher will not come back under
    /// this name.
    Transient,
}
