use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use crate::End;

/// A datagram with the addresses that its IP and UDP headers would carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address that the datagram is for.
    pub to: SocketAddr,
    /// Payload of the UDP datagram.
    pub bytes: Vec<u8>,
}

impl Datagram {
    /// Returns a datagram from one end of a pair to the other, between [`End::address`]es.
    pub const fn between_ends(from: End, bytes: Vec<u8>) -> Self {
        Self {
            from: from.address(),
            to: from.other().address(),
            bytes,
        }
    }
}

/// A host of a [`Network`](crate::Network): a protocol core, with what a test does with its
/// output.
///
/// At each instant the network calls the methods in this order: [`Self::handle`] for every
/// datagram that has arrived, [`Self::end_batch`] if there was one,
/// [`Self::handle_timeout`] if it is due, [`Self::poll_transmit`] until it returns `None`.
/// A core's events should be taken within these methods, because the reaction to an event
/// may be to send something.
pub trait Node {
    /// Whether datagrams to `address` belong to this node. The network calls it for each
    /// datagram: a node that changes its address misses what is in flight to the old one.
    fn is_at(&self, address: SocketAddr) -> bool;

    /// Handles a datagram that arrived at `now`.
    fn handle(&mut self, now: Instant, datagram: Datagram);

    /// Ends a batch: all datagrams that arrived together have been handed in.
    fn end_batch(&mut self, now: Instant) {
        let _ = now;
    }

    /// Returns the next datagram to send at `now`, if there is one.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram>;

    /// Returns when [`Self::handle_timeout`] is due; `None` for never.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Handles the timeout that [`Self::poll_timeout`] announced.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the state of the node as text, for the message of a run that makes no
    /// progress.
    fn state(&self) -> String;
}

impl End {
    /// Returns an address for a node that has none of its own, from the range for
    /// documentation (RFC 5737).
    pub const fn address(self) -> SocketAddr {
        let host = match self {
            Self::A => 1,
            Self::B => 2,
        };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), 5000)
    }
}
