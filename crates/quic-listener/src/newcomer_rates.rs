//! How many first packets of QUIC connections are decrypted.

use std::net::IpAddr;
use std::time::Instant;

use glassline_quic::NewcomerRates;
use glassline_runtime::{SourceRates, TokenBucket};

/// Packets of one source prefix that are decrypted without a proof of its address: a second, and in
/// a burst. A browser begins a connection with two or three, and more clients of one prefix than
/// that need a round trip more.
const UNPROVEN_PER_S: f64 = 200.0;
const UNPROVEN_AT_ONCE: f64 = 400.0;

/// The rate of all source prefixes together, whose addresses may all be forged. At 20 µs a packet,
/// these take a thirtieth of a core.
const ALL_PER_S: f64 = 1500.0;
const ALL_AT_ONCE: f64 = 3000.0;

/// Packets of one source prefix whose address is proven, beside those above. All clients may come
/// from one address, through a balancer that replaces theirs.
const PROVEN_PER_S: f64 = 2000.0;
const PROVEN_AT_ONCE: f64 = 4000.0;

/// Retry packets of the server. At 7 µs each, these take a seventh of a core. A client whose packet
/// is one of more than that sends the packet again.
const RETRIES_PER_S: f64 = 20_000.0;
const RETRIES_AT_ONCE: f64 = 4000.0;

/// The rates of one listener.
#[derive(Debug)]
pub(super) struct ListenerRates {
    unproven: SourceRates,
    all: TokenBucket,
    proven: SourceRates,
    retries: TokenBucket,
}

impl Default for ListenerRates {
    fn default() -> Self {
        Self {
            unproven: SourceRates::new(UNPROVEN_PER_S, UNPROVEN_AT_ONCE),
            all: TokenBucket::new(ALL_PER_S, ALL_AT_ONCE),
            proven: SourceRates::new(PROVEN_PER_S, PROVEN_AT_ONCE),
            retries: TokenBucket::new(RETRIES_PER_S, RETRIES_AT_ONCE),
        }
    }
}

impl NewcomerRates for ListenerRates {
    fn take_unproven(&mut self, peer: IpAddr, now: Instant) -> bool {
        // One source above its own rate takes nothing from others.
        self.unproven.take(peer, now) && self.all.take(now)
    }

    fn take_proven(&mut self, peer: IpAddr, now: Instant) -> bool {
        self.proven.take(peer, now)
    }

    fn take_retry(&mut self, _: IpAddr, now: Instant) -> bool {
        // No rate by address: whoever forges a client's address would keep the client out.
        self.retries.take(now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn one_source_above_its_rate_leaves_the_packets_of_others() {
        let (mut rates, now) = (ListenerRates::default(), Instant::now());
        let taken = (0..50_000).filter(|_| rates.take_unproven(host(1), now));
        assert_eq!(taken.count() as f64, UNPROVEN_AT_ONCE);
        assert!(rates.take_unproven(host(2), now));
        assert!(rates.take_proven(host(1), now), "a proof is another matter");
    }

    #[test]
    fn forged_sources_have_one_rate_together() {
        let (mut rates, now) = (ListenerRates::default(), Instant::now());
        let taken = (0..50_000).filter(|number| rates.take_unproven(host(*number), now));
        assert!(taken.count() as f64 <= ALL_AT_ONCE);
        assert!(rates.take_proven(host(60_000), now));
    }
}
