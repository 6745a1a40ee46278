//! The lists of a server that `glassline api list` shows.

use clap::ValueEnum;

/// The kinds of lists that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Streams with their state.
    Streams,
    /// Sources of streams.
    Sources,
    /// Files of the media folder.
    Files,
    /// Viewers over WebRTC.
    Viewers,
    /// Publishers over WHIP.
    Publishers,
    /// Clients over RTSP.
    RtspClients,
    /// Sessions over QUIC.
    QuicSessions,
    /// Tracks that are transcoded.
    Transcodings,
    /// Connections that failed lately.
    Failures,
    /// The events of the server and its streams.
    Events,
    /// Users with their rights.
    Users,
    /// Tokens with their rights.
    Tokens,
    /// The changes by operators.
    Audit,
}

impl Kind {
    /// Returns the path of the list below `/api/v1`, and the member of the answer that has it.
    pub(super) const fn place(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Streams => (&["streams"], "streams"),
            Self::Sources => (&["sources"], "sources"),
            Self::Files => (&["files"], "files"),
            Self::Viewers => (&["webrtc", "viewers"], "viewers"),
            Self::Publishers => (&["webrtc", "publishers"], "publishers"),
            Self::RtspClients => (&["rtsp", "clients"], "clients"),
            Self::QuicSessions => (&["quic", "sessions"], "sessions"),
            Self::Transcodings => (&["transcodings"], "transcodings"),
            Self::Failures => (&["failures"], "failures"),
            Self::Events => (&["events"], "events"),
            Self::Users => (&["users"], "users"),
            Self::Tokens => (&["tokens"], "tokens"),
            Self::Audit => (&["audit"], "changes"),
        }
    }

    /// Returns the members that a table has.
    pub(super) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Streams => &["name", "status", "viewers", "bitrate_bps", "detail"],
            Self::Sources => &["name", "kind", "origin", "source", "problem"],
            Self::Files => &["name", "page"],
            Self::Viewers => &["stream", "viewer"],
            Self::Publishers => &["stream", "publisher", "connected_s"],
            Self::RtspClients => &["stream", "address", "transport", "state", "lag_ms", "skips"],
            Self::QuicSessions => &["id", "peer", "publishes", "reads", "open_s"],
            Self::Transcodings => &["stream", "from", "to", "viewers", "cpu_ratio", "trouble"],
            Self::Failures => &["stream", "protocol", "stage", "source", "count", "reason"],
            Self::Events => &["at_ms", "kind", "subject", "text", "count", "reason"],
            Self::Users | Self::Tokens => &["name", "role", "read", "publish", "origin"],
            Self::Audit => &[
                "number", "who", "role", "from", "status", "target", "reason",
            ],
        }
    }
}
