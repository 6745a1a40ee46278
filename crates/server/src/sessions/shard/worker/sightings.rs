//! Addresses at which sessions were seen by an authentic check, without being found by them yet.
//!
//! A response to a check of ours names no session. The session that it is for may be owned by
//! another shard, because the address is new and its datagrams arrive here. Or the address may
//! still lead to another session, which used it before.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::runtime::TokenBucket;
use crate::sessions::record::SessionRecord;

/// Number of addresses that are remembered. One that finds its place taken replaces the other,
/// whose peer repeats its check.
const PLACES: usize = 256;
/// Most datagrams of one address that are passed on, in a second and at once.
const PASSED_PER_S: f64 = 50.0;
const PASSED_AT_ONCE: f64 = 25.0;

/// The addresses, in a table of fixed size.
#[derive(Debug)]
pub(super) struct Sightings {
    places: Box<[Option<Sighting>]>,
}

#[derive(Debug)]
struct Sighting {
    address: SocketAddr,
    record: Weak<SessionRecord>,
    allowance: TokenBucket,
}

impl Default for Sightings {
    fn default() -> Self {
        Self {
            places: std::iter::repeat_with(|| None).take(PLACES).collect(),
        }
    }
}

impl Sightings {
    /// Notes that an authentic check for the session of `record` came from `address`. Returns
    /// whether one more datagram from there may be passed on.
    pub(super) fn note(
        &mut self,
        address: SocketAddr,
        record: &Arc<SessionRecord>,
        now: Instant,
    ) -> bool {
        let sighting = &mut self.places[place(address)];
        let is_same = sighting.as_ref().is_some_and(|sighting| {
            sighting.address == address && Weak::as_ptr(&sighting.record) == Arc::as_ptr(record)
        });
        if !is_same {
            *sighting = Some(Sighting {
                address,
                record: Arc::downgrade(record),
                allowance: TokenBucket::new(PASSED_PER_S, PASSED_AT_ONCE),
            });
        }
        sighting
            .as_mut()
            .is_some_and(|sighting| sighting.allowance.take(now))
    }

    /// Returns the session that was seen at `address`, if a datagram from there may be passed on.
    pub(super) fn take(&mut self, address: SocketAddr, now: Instant) -> Option<Arc<SessionRecord>> {
        let sighting = self.places[place(address)].as_mut();
        let sighting = sighting.filter(|sighting| sighting.address == address)?;
        if !sighting.allowance.take(now) {
            return None;
        }
        sighting.record.upgrade()
    }
}

/// Returns the place of an address: its port and the last bits of its host, mixed.
fn place(address: SocketAddr) -> usize {
    let host = match address.ip() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            (bits ^ (bits >> 64)) as u32
        }
    };
    let mixed = (host ^ u32::from(address.port()) << 16).wrapping_mul(0x9e37_79b1);
    (mixed >> 24) as usize % PLACES
}
