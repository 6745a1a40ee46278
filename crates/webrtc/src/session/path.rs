//! The way to the peer: which pair of candidates is in use.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use crate::sdp::CandidateKind;
use crate::turn;

/// The pair of candidates in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Our end.
    pub local: PathEnd,
    /// The peer's end.
    pub remote: PathEnd,
    /// The round trip of the last connectivity check; an ICE-lite end makes none.
    pub round_trip: Option<Duration>,
    /// The TURN server of ours that it goes through.
    pub relay: Option<turn::Server>,
}

/// One end of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// Where datagrams come to; a relayed candidate's is on the TURN server.
    pub address: SocketAddr,
    /// How it was learnt. A peer's is as it says itself, peer-reflexive if it said nothing.
    pub kind: CandidateKind,
}

impl Path {
    /// Datagrams go through a TURN server of either end.
    pub fn is_relayed(&self) -> bool {
        let ends = [&self.local, &self.remote];
        ends.iter().any(|end| end.kind == CandidateKind::Relay)
    }
}

/// What a datagram was before it was unwrapped.
pub(super) enum Unwrapped {
    /// It came from no relay.
    Direct,
    /// A relay's own.
    Consumed,
    /// A peer's, in this part of it.
    Relayed {
        peer: SocketAddr,
        relayed: SocketAddr,
        range: Range<usize>,
    },
}
