//! Broadcasts between the servers of a cluster: units of the hub as they are (container `bursts`).
//!
//! ```text
//! edge                                                      server that has the stream, or pulls it
//! Session::read_units ─ path "edge,…,nonce/NAME" ─► Origin::serve_nodes ─► NodeRequest ─ accept
//!   UnitBroadcastReader ◄─ catalog: provenance, tracks ──── UnitBroadcast::describe
//!   UnitReader ◄─ a group a keyframe, an object a unit ──── UnitBroadcast::write
//!   request_keyframe ─ datagram: track number ────────────► UnitBroadcast::keyframe_requested
//! ```
//!
//! An object holds all of a unit: the packets' cut and prefixes, the coded bytes, times, stamps and
//! what a forwarded packet keeps. So nothing is packetized twice, and codecs that have no name in
//! ordinary catalogs pass. Each layer of a track is a track of the broadcast.
//!
//! Nothing is announced by name: a server asks for the stream that it needs, and is refused with a
//! reason at once. The asking servers are in the request's path, so that a circle of servers that ask
//! each other is noticed by the first one that finds itself in it.

mod broadcast;
mod catalog;
mod object;
mod reader;
mod requests;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use broadcast::UnitBroadcast;
pub use catalog::{
    DrawnCode, NodeName, NodeNameError, PATH_MAX, Provenance, UnitCatalog, UnitCatalogError,
};
#[cfg(any(test, fuzzing))]
pub use object::parse_unit;
pub use object::{ObjectError, ReceivedUnit, SentStamps};
pub use reader::{KeyframeRequester, PeerClock, ReadError, UnitBroadcastReader, UnitReader};
pub use requests::{NodeRequest, NodeRequests, RequestRefusal};

/// The clock that a server stamps units with for other servers: nanoseconds since an instant of its
/// choice. All sessions of a server share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock(Instant);

impl NodeClock {
    /// Makes a clock that counts from `epoch`, the start of the server.
    pub const fn since(epoch: Instant) -> Self {
        Self(epoch)
    }

    /// Returns the instant that the clock counts from.
    pub const fn epoch(self) -> Instant {
        self.0
    }

    /// Returns the stamp of `at` in ns; 0 before the epoch.
    pub fn stamp(self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.0))
    }
}

/// Returns `time` in ns.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
