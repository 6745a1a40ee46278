use std::time::Instant;

/// The state of a stream's source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The source is being set up for the first time.
    Connecting,
    /// The source is not fetched, because nobody needs the stream. It begins when somebody does.
    Idle,
    /// The source publishes units.
    Live {
        /// Instant at which the source began to publish.
        since: Instant,
    },
    /// The source failed and will be tried again.
    Down {
        /// Reason, as a text for people.
        detail: String,
    },
    /// The source ended and will not be tried again.
    Ended {
        /// Reason, as a text for people.
        detail: String,
    },
}

impl State {
    /// Returns the name of the state in JSON and on pages.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Idle => "idle",
            Self::Live { .. } => "live",
            Self::Down { .. } => "down",
            Self::Ended { .. } => "ended",
        }
    }

    /// Returns the reason of a failure or end; `None` for other states.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Down { detail } | Self::Ended { detail } => Some(detail),
            Self::Connecting | Self::Idle | Self::Live { .. } => None,
        }
    }
}

/// The prospect of tracks that a request may wait for while a stream has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prospect {
    /// Nothing begins because somebody asks.
    #[default]
    None,
    /// The source begins when somebody needs the stream, or fails.
    OnDemand,
    /// Something is published in place of the source if the source fails.
    StandIn,
}

/// How long a hub lists a stream that has no publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamLifetime {
    /// The stream is listed always: the configuration names it.
    Configured,
    /// The stream is listed always: the configuration names it, and clients publish it.
    Awaited,
    /// The stream is listed for [`Limits::departed_span`](crate::Limits::departed_span), so
    /// that its publisher may return.
    #[default]
    Published,
    /// The stream is listed only while it has a publisher or a holder: its publisher will not
    /// return under this name.
    Transient,
}

impl StreamLifetime {
    /// Returns whether the configuration names the stream.
    pub(super) const fn is_lasting(self) -> bool {
        matches!(self, Self::Configured | Self::Awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_names_and_failures_have_reasons() {
        let detail = || "cable".to_owned();
        let states = [
            (State::Connecting, "connecting", None),
            (State::Idle, "idle", None),
            (
                State::Live {
                    since: Instant::now(),
                },
                "live",
                None,
            ),
            (State::Down { detail: detail() }, "down", Some("cable")),
            (State::Ended { detail: detail() }, "ended", Some("cable")),
        ];
        for (state, name, detail) in states {
            assert_eq!((state.as_str(), state.detail()), (name, detail));
        }
    }
}
