//! Who is kept away from streams for some time, because an operator said so.
//!
//! ```text
//! operator ─► Exclusions ◄─ each login that was granted: by this user or address, for this stream?
//! ```
//!
//! Listeners ask after all other rights. As long as nobody is kept away, that is a look at one number.
//! The list is of this server and of this run: a right that is to be gone for good is taken away from
//! its user.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassline_runtime::SourcePrefix;
use parking_lot::Mutex;

/// Most exclusions at a time: whoever needs more has a firewall.
pub const EXCLUSIONS_MAX: usize = 1_000;

/// Longest time of an exclusion.
pub const EXCLUSION_MAX: Duration = Duration::from_secs(7 * 86_400);

/// A client that is kept away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excluded {
    /// Everybody of this address; of its /64 network if it is of IPv6.
    Address(IpAddr),
    /// The user of this name, from every address.
    User(String),
}

/// A client as exclusions see it.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Address that the client comes from.
    pub address: IpAddr,
    /// Name whose rights the client uses, if it uses a name's.
    pub user: Option<&'a str>,
}

/// Somebody who is kept away from streams until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Number of the exclusion, by which it is lifted.
    pub number: u64,
    /// A client that is kept away.
    pub whom: Excluded,
    /// The stream that it is for; `None` for all.
    pub stream: Option<String>,
    /// End of the exclusion.
    pub until: Instant,
}

/// All exclusions of a server.
#[derive(Debug, Default)]
pub struct Exclusions {
    /// Number of exclusions, so that nobody waits for a lock where there are none.
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    latest: u64,
    exclusions: Vec<Exclusion>,
}

/// There are as many exclusions as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{EXCLUSIONS_MAX} are kept away already: lift one, or block the address in a firewall")]
pub struct TooManyExclusions;

impl Exclusions {
    /// Keeps `whom` away from `stream`, or from all streams, until a time. An exclusion of the same client
    /// from the same stream is replaced.
    ///
    /// # Errors
    /// Returns [`TooManyExclusions`] if there are [`EXCLUSIONS_MAX`].
    pub fn add(
        &self,
        whom: Excluded,
        stream: Option<String>,
        until: Instant,
        now: Instant,
    ) -> Result<Exclusion, TooManyExclusions> {
        let mut list = self.list.lock();
        list.exclusions.retain(|it| {
            let is_same = it.whom == whom && it.stream == stream;
            it.until > now && !is_same
        });
        if list.exclusions.len() >= EXCLUSIONS_MAX {
            return Err(TooManyExclusions);
        }
        list.latest += 1;
        let exclusion = Exclusion {
            number: list.latest,
            whom,
            stream,
            until,
        };
        list.exclusions.push(exclusion.clone());
        self.count.store(list.exclusions.len(), Ordering::Release);
        Ok(exclusion)
    }

    /// Lets whoever exclusion `number` keeps away come back. Returns false if there is no such exclusion.
    pub fn lift(&self, number: u64) -> bool {
        let mut list = self.list.lock();
        let before = list.exclusions.len();
        list.exclusions.retain(|it| it.number != number);
        self.count.store(list.exclusions.len(), Ordering::Release);
        list.exclusions.len() < before
    }

    /// Returns the exclusions at `now`, the newest first.
    pub fn listed(&self, now: Instant) -> Vec<Exclusion> {
        let list = self.list.lock();
        let present = list.exclusions.iter().filter(|it| it.until > now);
        present.rev().cloned().collect()
    }

    /// Returns the time until which `guest` is kept away at `now` from a stream that `concerns` it; `None`
    /// if it is not. An exclusion from all streams always holds.
    pub fn until(
        &self,
        guest: Guest<'_>,
        concerns: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Option<Instant> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let list = self.list.lock();
        let holds = list.exclusions.iter().filter(|it| {
            let is_for = it.stream.as_deref().is_none_or(&concerns);
            is_for && it.until > now && it.whom.is(guest)
        });
        holds.map(|it| it.until).max()
    }
}

impl Excluded {
    fn is(&self, guest: Guest<'_>) -> bool {
        match self {
            Self::Address(address) => {
                SourcePrefix::from(*address) == SourcePrefix::from(guest.address)
            }
            Self::User(name) => guest.user == Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn guest<'a>(address: &str, user: Option<&'a str>) -> Guest<'a> {
        Guest {
            address: address.parse().expect("an address"),
            user,
        }
    }

    fn address(text: &str) -> Excluded {
        Excluded::Address(text.parse().expect("an address"))
    }

    fn cam() -> Option<String> {
        Some("cam".to_owned())
    }

    #[test]
    fn an_exclusion_holds_for_its_stream_and_until_its_end() {
        let (exclusions, now) = (Exclusions::default(), Instant::now());
        let is_away = |stream: &str, at| {
            let guest = guest("192.0.2.7", None);
            exclusions.until(guest, |it| it == stream, at).is_some()
        };
        assert!(!is_away("cam", now));
        let made = exclusions.add(address("192.0.2.7"), cam(), now + HOUR, now);
        let made = made.expect("a place");
        assert!(is_away("cam", now) && !is_away("yard", now));
        assert!(!is_away("cam", now + HOUR), "the hour is over");
        assert!(exclusions.listed(now + HOUR).is_empty());
        assert!(exclusions.lift(made.number) && !exclusions.lift(made.number));
        assert!(!is_away("cam", now));
    }

    #[test]
    fn a_user_is_kept_away_everywhere_and_a_network_of_ipv6_as_a_whole() {
        let (exclusions, now) = (Exclusions::default(), Instant::now());
        let add = |whom| exclusions.add(whom, None, now + HOUR, now);
        add(Excluded::User("bob".to_owned())).expect("a place");
        add(address("2001:db8:1:2::1")).expect("a place");
        let is_away = |guest| exclusions.until(guest, |_| false, now).is_some();
        assert!(is_away(guest("192.0.2.7", Some("bob"))));
        assert!(is_away(guest("2001:db8:1:2:ffff::9", Some("ann"))));
        assert!(!is_away(guest("2001:db8:1:3::1", Some("ann"))));
        assert!(!is_away(guest("192.0.2.7", None)));
    }

    #[test]
    fn the_list_is_bounded_and_the_same_client_counts_once() {
        let (exclusions, now) = (Exclusions::default(), Instant::now());
        for number in 0..EXCLUSIONS_MAX {
            let whom = Excluded::User(number.to_string());
            exclusions
                .add(whom, None, now + HOUR, now)
                .expect("a place");
        }
        let more = exclusions.add(address("192.0.2.1"), None, now + HOUR, now);
        assert_eq!(more, Err(TooManyExclusions));
        let same = Excluded::User("7".to_owned());
        let again = exclusions.add(same, None, now + 2 * HOUR, now);
        assert_eq!(again.expect("its own place").until, now + 2 * HOUR);
        assert_eq!(exclusions.listed(now).len(), EXCLUSIONS_MAX);
        let later = now + HOUR;
        let more = exclusions.add(address("192.0.2.1"), None, later + HOUR, later);
        assert!(more.is_ok(), "those that are over have left");
    }
}
