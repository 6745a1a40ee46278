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
    /// Payload of UDP.
    pub bytes: Vec<u8>,
}

impl Datagram {
    /// A datagram from one end of a pair to the other, between [`End::address`]es.
    pub const fn between_ends(from: End, bytes: Vec<u8>) -> Self {
        Self {
            from: from.address(),
            to: from.other().address(),
            bytes,
        }
    }
}

/// One host of a [`Network`](crate::Network): a protocol core, and whatever a test
/// does with what comes out of it.
///
/// The network calls the methods in this order at each moment: [`Self::handle`] for
/// every datagram that has arrived, [`Self::end_batch`] if there was one,
/// [`Self::handle_timeout`] if it is due, [`Self::poll_transmit`] until it is `None`.
/// A core's events are best taken within these methods, because they may be what makes
/// it send something else.
pub trait Node {
    /// Whether datagrams to `address` belong to this node. Asked anew for each datagram:
    /// a node that moves misses what is on its way to its old address.
    fn is_at(&self, address: SocketAddr) -> bool;

    /// Takes a datagram that arrived at `now`.
    fn handle(&mut self, now: Instant, datagram: Datagram);

    /// All datagrams that arrived together have been handed in.
    fn end_batch(&mut self, now: Instant) {
        let _ = now;
    }

    /// The next datagram to leave at `now`, if there is one.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram>;

    /// When [`Self::handle_timeout`] is due; `None` if it is not.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// The time that [`Self::poll_timeout`] told has come.
    fn handle_timeout(&mut self, now: Instant);

    /// How the node stands, for the message of a run that makes no progress.
    fn state(&self) -> String;
}

impl End {
    /// Address of a node that has no use for addresses of its own, in the range for
    /// documentation (RFC 5737).
    pub const fn address(self) -> SocketAddr {
        let host = match self {
            Self::A => 1,
            Self::B => 2,
        };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), 5000)
    }
}
