//! Addresses at which sessions were seen by an authentic check, without being found by them yet.
//!
//! A response to a check of ours names no session, and neither do reports and other data. The
//! session that they are for may be owned by another shard, because the address is new and its
//! datagrams arrive here. Or the address may still lead to another session, which used it before.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use glassline_runtime::TokenBucket;
use glassline_webrtc::TransportAddress;

use crate::sessions::record::SessionRecord;

/// Number of addresses that are remembered. One that finds its place taken replaces the other,
/// whose peer repeats its check.
const PLACES: usize = 256;
/// Most STUN messages of one address that are passed on, in a second and at once.
const PASSED_PER_S: f64 = 50.0;
const PASSED_AT_ONCE: f64 = 25.0;
/// Most other datagrams of one address that are passed on, in a second and at once: some times the
/// reports of a viewer. They have an allowance of their own, so that no report takes the place of
/// the check that moves the peer.
const REPORTS_PER_S: f64 = 200.0;
const REPORTS_AT_ONCE: f64 = 50.0;
/// Most other datagrams of all addresses that are passed on, in a second and at once.
const ALL_REPORTS_PER_S: f64 = 2_000.0;
const ALL_REPORTS_AT_ONCE: f64 = 200.0;

/// Kind of a datagram that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// A response to a check.
    Response,
    /// RTCP, RTP or DTLS. The owner of the session finds out whether the datagram is authentic.
    Data,
}

/// The addresses, in a table of fixed size.
#[derive(Debug)]
pub(super) struct Sightings {
    places: Box<[Option<Sighting>]>,
    /// Allowance for data of all addresses.
    data: TokenBucket,
}

#[derive(Debug)]
struct Sighting {
    address: TransportAddress,
    record: Weak<SessionRecord>,
    allowance: TokenBucket,
    data: TokenBucket,
}

impl Default for Sightings {
    fn default() -> Self {
        Self {
            places: std::iter::repeat_with(|| None).take(PLACES).collect(),
            data: TokenBucket::new(ALL_REPORTS_PER_S, ALL_REPORTS_AT_ONCE),
        }
    }
}

impl Sightings {
    /// Notes that an authentic check for the session of `record` came from `address`. Returns
    /// whether one more datagram from there may be passed on.
    pub(super) fn note(
        &mut self,
        address: TransportAddress,
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
                data: TokenBucket::new(REPORTS_PER_S, REPORTS_AT_ONCE),
            });
        }
        sighting
            .as_mut()
            .is_some_and(|sighting| sighting.allowance.take(now))
    }

    /// Returns the session that was seen at `address`, if a datagram of this kind from there may be
    /// passed on.
    pub(super) fn take(
        &mut self,
        address: TransportAddress,
        kind: Passed,
        now: Instant,
    ) -> Option<Arc<SessionRecord>> {
        let sighting = self.places[place(address)].as_mut();
        let sighting = sighting.filter(|sighting| sighting.address == address)?;
        let may_pass = match kind {
            Passed::Response => sighting.allowance.take(now),
            Passed::Data => sighting.data.take(now) && self.data.take(now),
        };
        sighting.record.upgrade().filter(|_| may_pass)
    }
}

/// Returns the place of an address: its port and the last bits of its host, mixed.
fn place(address: TransportAddress) -> usize {
    let host = match address.socket.ip() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            (bits ^ (bits >> 64)) as u32
        }
    };
    let mixed = (host ^ u32::from(address.socket.port()) << 16).wrapping_mul(0x9e37_79b1);
    (mixed >> 24) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::super::fuzzing::in_scene;
    use super::*;

    /// Returns a socket's address as sessions know it.
    fn known<T: From<SocketAddr>>(socket: SocketAddr) -> T {
        T::from(socket)
    }

    fn address(host: &str, port: u16) -> SocketAddr {
        SocketAddr::new(host.parse().expect("an address"), port)
    }

    #[test]
    fn addresses_that_differ_in_anything_are_spread_over_all_places() {
        let spread = |addresses: &mut dyn Iterator<Item = SocketAddr>| {
            let places: HashSet<_> = addresses.map(|it| place(known(it))).collect();
            assert!(places.iter().all(|it| *it < PLACES));
            places.len()
        };
        // Of 256 addresses at random, 162 places are taken on average.
        let ports = |host| spread(&mut (40_000..40_256).map(|port| address(host, port)));
        assert!(ports("192.0.2.7") > 100 && ports("2001:db8::7") > 100);
        assert!(ports("255.255.2.7") > 100);
        let numbers = |before: &str, behind: &str| {
            let host = |number: u32| format!("{before}{number:x}{behind}");
            spread(&mut (1..257).map(|number| address(&host(number), 5000)))
        };
        assert!(numbers("2001:db8::", "") > 100);
        assert!(numbers("2001:db8:0:", "::1") > 100);
        let hosts = (0..=255).map(|last| address(&format!("192.0.2.{last}"), 5000));
        assert!(spread(&mut hosts.into_iter()) > 100);
    }

    #[test]
    fn a_sighting_leads_to_its_session_fifty_times_a_second() {
        in_scene(|scene| {
            let now = Instant::now();
            scene.join(0);
            scene.join(1);
            let [first, second] = [0, 1].map(|at| Arc::clone(scene.record(at)));
            let here = address("192.0.2.7", 5000);
            let mut sightings = Sightings::default();
            assert!(sightings.take(known(here), Passed::Response, now).is_none());
            assert!(sightings.note(known(here), &first, now));
            let taken = sightings
                .take(known(here), Passed::Response, now)
                .expect("seen");
            assert!(Arc::ptr_eq(&taken, &first));
            // One that shares the place, and nothing else.
            let ports = (1..=u16::MAX).map(|port| address("192.0.2.8", port));
            let same = |it: &SocketAddr| place(known(*it)) == place(known(here));
            let other = ports.into_iter().find(same).expect("many ports");
            assert!(
                sightings
                    .take(known(other), Passed::Response, now)
                    .is_none()
            );
            let left = (2..40).filter(|_| sightings.note(known(here), &first, now));
            assert_eq!(left.count(), 23, "25 at once");
            assert!(sightings.take(known(here), Passed::Response, now).is_none());
            let later = now + Duration::from_millis(100);
            let left = (0..40).filter(|_| {
                sightings
                    .take(known(here), Passed::Response, later)
                    .is_some()
            });
            assert_eq!(left.count(), 5, "in a tenth of a second");
            assert!(
                sightings.note(known(here), &second, later),
                "another session"
            );
            let taken = sightings
                .take(known(here), Passed::Response, later)
                .expect("seen");
            assert!(Arc::ptr_eq(&taken, &second));
            assert!(sightings.note(known(other), &second, later));
            assert!(
                sightings
                    .take(known(here), Passed::Response, later)
                    .is_none(),
                "replaced"
            );
        });
    }

    #[test]
    fn data_has_an_allowance_of_its_own_for_each_address_and_for_all() {
        in_scene(|scene| {
            let now = Instant::now();
            scene.join(0);
            let record = Arc::clone(scene.record(0));
            let mut sightings = Sightings::default();
            let passed = |sightings: &mut Sightings, port: u16, kind: Passed| {
                let here = known(address("192.0.2.7", port));
                let takes = (0..1000).take_while(|_| sightings.take(here, kind, now).is_some());
                takes.count()
            };
            assert_eq!(passed(&mut sightings, 5000, Passed::Data), 0, "not seen");
            assert!(sightings.note(known(address("192.0.2.7", 5000)), &record, now));
            assert_eq!(passed(&mut sightings, 5000, Passed::Data), 50);
            assert_eq!(passed(&mut sightings, 5000, Passed::Response), 24);
            let mut all = 50;
            for port in 5001..5100 {
                sightings.note(known(address("192.0.2.7", port)), &record, now);
                all += passed(&mut sightings, port, Passed::Data);
            }
            assert_eq!(all, 200);
        });
    }
}
