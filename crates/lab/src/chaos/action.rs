//! What the harness can do to a server: names, and how each action is judged.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Kind of an action. Its name is the one of `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Binding requests with random user names.
    FloodStun,
    /// DTLS client hellos from an address without a session.
    FloodDtls,
    /// RTSP connections, each with one request.
    FloodRtsp,
    /// HTTP connections, each with one request.
    FloodHttp,
    /// QUIC Initial packets, each of which asks for a new connection.
    FloodQuic,
    /// Connections with the beginning of a request or of a TLS handshake.
    HalfOpen,
    /// Connections with a whole request that stay open, from several addresses.
    HoldConnections,
    /// Random bytes to every port, some of which begin like a protocol's.
    GarbageStrangers,
    /// Viewers over WebRTC and RTSP that send garbage once they play.
    GarbageViewers,
    /// Authentic RTCP and data records of a connected WebRTC peer, with broken contents.
    GarbageSealed,
    /// RTP, RTCP and frames of publishers that record over RTSP, with broken contents.
    GarbageRecording,
    /// Broken streams and datagrams of authorized MoQ sessions, on raw QUIC and WebTransport.
    GarbageMoq,
    /// Broken requests and interleaved frames in every state of an RTSP connection.
    GarbageRtsp,
    /// Broken requests on HTTP connections that stay open.
    GarbageHttp,
    /// A publisher is killed and started again.
    KillPublisher,
    /// A publisher is stopped for five seconds.
    StopPublisher,
    /// The process of a group of viewers is stopped for five seconds.
    StopViewers,
    /// The server is stopped for five seconds.
    StopServer,
    /// The server is killed and started again.
    KillServer,
    /// Nobody reads the server's log for five seconds, while strangers cause lines.
    StallLog,
    /// The server runs with a log on a full disk.
    FillDisk,
    /// The server has no file descriptor left.
    FillDescriptors,
    /// The calendar of the server's process jumps; needs a server with debug assertions.
    StepClock,
    /// Users, certificate and configuration are broken, and read again by SIGHUP.
    Reload,
    /// One shard panics; needs a server with debug assertions.
    Panic,
    /// Logins with wrong passwords.
    Logins,
    /// Viewers join and vanish.
    Churn,
    /// The server of a cluster that has the publisher is killed and started again.
    ClusterKillOwner,
    /// A server of a cluster through which another one pulls is killed and started again.
    ClusterKillRelay,
    /// The server that has the publisher is stopped for a second.
    ClusterStopOwner,
    /// NATS comes back without any record.
    ClusterEmptyStore,
    /// A server with another secret comes.
    ClusterWrongSecret,
    /// A server comes whose name another one has.
    ClusterTakenName,
    /// A reload adds a source whose stream the server pulls.
    ClusterReload,
    /// The calendar of the server that has the publisher is an hour off; needs a server with debug
    /// assertions.
    ClusterStepClock,
    /// Every server of a cluster is stopped by SIGTERM and started again, one after the other.
    ClusterRestart,
    /// Bad clients all the time, and publishers that restart every 20 s.
    Soak,
}

/// Names of the kinds, in the order of the tables.
const NAMES: [(Kind, &str); 37] = [
    (Kind::FloodStun, "flood-stun"),
    (Kind::FloodDtls, "flood-dtls"),
    (Kind::FloodRtsp, "flood-rtsp"),
    (Kind::FloodHttp, "flood-http"),
    (Kind::FloodQuic, "flood-quic"),
    (Kind::HalfOpen, "half-open"),
    (Kind::HoldConnections, "hold-connections"),
    (Kind::GarbageStrangers, "garbage-strangers"),
    (Kind::GarbageViewers, "garbage-viewers"),
    (Kind::GarbageSealed, "garbage-sealed"),
    (Kind::GarbageRecording, "garbage-recording"),
    (Kind::GarbageMoq, "garbage-moq"),
    (Kind::GarbageRtsp, "garbage-rtsp"),
    (Kind::GarbageHttp, "garbage-http"),
    (Kind::KillPublisher, "kill-publisher"),
    (Kind::StopPublisher, "stop-publisher"),
    (Kind::StopViewers, "stop-viewers"),
    (Kind::StopServer, "stop-server"),
    (Kind::KillServer, "kill-server"),
    (Kind::StallLog, "stall-log"),
    (Kind::FillDisk, "fill-disk"),
    (Kind::FillDescriptors, "fill-descriptors"),
    (Kind::StepClock, "step-clock"),
    (Kind::Reload, "reload"),
    (Kind::Panic, "panic"),
    (Kind::Logins, "logins"),
    (Kind::Churn, "churn"),
    (Kind::ClusterKillOwner, "cluster-kill-owner"),
    (Kind::ClusterKillRelay, "cluster-kill-relay"),
    (Kind::ClusterStopOwner, "cluster-stop-owner"),
    (Kind::ClusterEmptyStore, "cluster-empty-store"),
    (Kind::ClusterWrongSecret, "cluster-wrong-secret"),
    (Kind::ClusterTakenName, "cluster-taken-name"),
    (Kind::ClusterReload, "cluster-reload"),
    (Kind::ClusterStepClock, "cluster-step-clock"),
    (Kind::ClusterRestart, "cluster-restart"),
    (Kind::Soak, "soak"),
];

/// Error for a text that names no kind of action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no action is called '{0}'; there are {all}", all = Kind::names())]
pub struct UnknownKind(String);

impl Kind {
    /// All kinds, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(kind, _)| *kind)
    }

    /// Name of the kind.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(kind, _)| *kind == self);
        found.map_or("action", |(_, name)| name)
    }

    fn names() -> String {
        NAMES.map(|(_, name)| name).join(", ")
    }

    /// Whether the server itself is interrupted, so that all viewers lose video by design.
    pub const fn interrupts_server(self) -> bool {
        matches!(self, Self::StopServer | Self::KillServer | Self::FillDisk)
    }

    /// Whether the server, or one of its shards, has other memory afterwards: a new process's, or
    /// that of the symbols which a panic's backtrace read.
    pub const fn starts_anew(self) -> bool {
        matches!(self, Self::KillServer | Self::FillDisk | Self::Panic)
    }

    /// Longest time from the end of a planned interruption until all its viewers have video.
    pub const fn back_within(self) -> Option<Duration> {
        match self {
            Self::KillServer | Self::FillDisk | Self::KillPublisher | Self::Panic => {
                Some(Duration::from_secs(3))
            }
            // A killed publisher's name is free after 2 s of silence.
            Self::Soak => Some(Duration::from_secs(5)),
            Self::StopServer | Self::StopViewers | Self::StopPublisher => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(kind, _)| *kind)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// An action of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Action {
    /// Kind of attack, fault or interruption.
    pub kind: Kind,
    /// Events a second: datagrams, connections, logins or joins.
    pub rate: u32,
    /// Number of connections or viewers that are held or made in all.
    pub count: usize,
    /// Time that the action lasts.
    pub time: Duration,
    /// Seed of the action's own choices.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_that_is_read_back() {
        for kind in Kind::all() {
            assert_eq!(kind.name().parse::<Kind>(), Ok(kind));
        }
        let error = "flood".parse::<Kind>().expect_err("no kind").to_string();
        assert!(error.contains("flood-stun") && error.contains("'flood'"));
    }
}
