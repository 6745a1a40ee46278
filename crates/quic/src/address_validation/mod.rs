//! Address validation during a flood (RFC 9000 §8.1), before anything of a stranger is decrypted.
//!
//! ```text
//! UDP socket ─► AddressValidator::judge ─┬─► pass:  noq derives keys, decrypts, keeps state
//!               plain header, token      ├─► retry: a Retry packet from here, nothing is kept
//!                                        └─► drop
//! ```
//!
//! noq derives keys for each first packet of a connection, because it decrypts the packet before a
//! server may ask for a proof of the address. That takes some 20 µs, so a forger of first packets
//! could keep a core busy. Here only the plain header is read. While few newcomers come, all of them
//! pass. Above the rates of [`NewcomerRates`] a newcomer has to prove its address: the newcomer gets a
//! Retry packet and sends the token of that packet back, which takes a round trip.
//!
//! Packets of connections pass by their first byte.

#[cfg(any(test, fuzzing))]
mod fuzzing;
mod initial;
mod retry;
mod socket;
mod token;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use initial::{FirstPacket, InitialHeader};
use retry::RetryWriter;

#[cfg(any(test, fuzzing))]
pub use fuzzing::first_packet;
pub(crate) use socket::ValidatedSocket;
pub(crate) use token::TokenKey;

/// How many packets of newcomers are decrypted: the caller's rates, by address.
pub trait NewcomerRates: fmt::Debug + Send + Sync + 'static {
    /// Counts a packet in the name of `peer`, which anybody may have sent. Returns false if there
    /// are so many that the sender has to prove its address first.
    fn take_unproven(&mut self, peer: IpAddr, now: Instant) -> bool;

    /// Counts a packet of a newcomer that has proven that it receives what is sent to `peer`.
    /// Returns false if there are so many that the packet is dropped.
    fn take_proven(&mut self, peer: IpAddr, now: Instant) -> bool;

    /// Counts a Retry packet to `peer`. Returns false if there are so many that none is sent.
    fn take_retry(&mut self, peer: IpAddr, now: Instant) -> bool;
}

/// The counts of newcomers' packets above the rates, since the socket was opened.
#[derive(Debug, Default)]
pub struct AddressValidationCounters {
    retried: AtomicU64,
    dropped: AtomicU64,
}

impl AddressValidationCounters {
    /// Returns how many packets were answered by a Retry packet.
    pub fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }

    /// Returns how many packets were dropped: of addresses that are proven and send too many, above
    /// the rate of Retry packets, of QUIC versions without one here, and those whose answer the
    /// socket did not take.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn count_retried(&self, packets: u64) {
        self.retried.fetch_add(packets, Ordering::Relaxed);
    }

    fn count_dropped(&self, packets: u64) {
        self.dropped.fetch_add(packets, Ordering::Relaxed);
    }
}

/// The verdict about a datagram.
#[derive(Debug, PartialEq, Eq)]
enum Verdict<'a> {
    Pass,
    Retry(InitialHeader<'a>),
    Drop,
}

/// The time of a verdict, by both clocks.
#[derive(Clone, Copy, Debug)]
struct Now {
    instant: Instant,
    /// The time that tokens state.
    system: SystemTime,
}

/// Judges the datagrams of a server's socket.
#[derive(Debug)]
struct AddressValidator {
    rates: Box<dyn NewcomerRates>,
    key: Arc<TokenKey>,
}

impl AddressValidator {
    /// Judges a datagram of `peer`. `now` is read only for packets of newcomers.
    fn judge<'a>(
        &mut self,
        datagram: &'a [u8],
        peer: SocketAddr,
        now: impl FnOnce() -> Now,
    ) -> Verdict<'a> {
        let packet = initial::parse(datagram);
        if packet == FirstPacket::Other {
            return Verdict::Pass;
        }
        if packet == FirstPacket::TooShort {
            return Verdict::Drop;
        }
        let now = now();
        if self.rates.take_unproven(peer.ip(), now.instant) {
            return Verdict::Pass;
        }
        let FirstPacket::Initial(header) = packet else {
            return Verdict::Drop;
        };
        if self.key.proves(header.token, peer, now.system) {
            return match self.rates.take_proven(peer.ip(), now.instant) {
                true => Verdict::Pass,
                false => Verdict::Drop,
            };
        }
        let is_answered =
            retry::has_version(header.version) && self.rates.take_retry(peer.ip(), now.instant);
        match is_answered {
            true => Verdict::Retry(header),
            false => Verdict::Drop,
        }
    }
}

#[cfg(test)]
mod tests;
