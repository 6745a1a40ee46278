//! The path to the peer: the selected pair of candidates.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use crate::sdp::CandidateKind;
use crate::{Transport, turn};

/// The selected pair of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Transport protocol that carries the datagrams between the two ends.
    pub transport: Transport,
    /// Local candidate of the pair.
    pub local: PathEnd,
    /// Remote candidate of the pair.
    pub remote: PathEnd,
    /// Round-trip time of the last connectivity check; `None` for an ICE-lite end, which sends
    /// none.
    pub round_trip: Option<Duration>,
    /// Our TURN server through which the path goes, if it does.
    pub relay: Option<turn::Server>,
}

/// One end of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// Address at which the end receives. For a relayed candidate it is on the TURN server.
    pub address: SocketAddr,
    /// Type of the candidate. The peer's is as the peer stated it; peer-reflexive if it did
    /// not.
    pub kind: CandidateKind,
}

impl Path {
    /// Returns whether the path goes through a TURN server of either end.
    pub fn is_relayed(&self) -> bool {
        let ends = [&self.local, &self.remote];
        ends.iter().any(|end| end.kind == CandidateKind::Relay)
    }
}

/// The kind of a datagram if frames of TURN servers are considered.
pub(super) enum Unwrapped {
    /// The datagram is not from a TURN server of ours.
    Direct,
    /// The datagram was a message of the TURN server, which has been handled.
    Consumed,
    /// The datagram contains one of the peer, at `range`.
    Relayed {
        peer: SocketAddr,
        relayed: SocketAddr,
        range: Range<usize>,
    },
}
