//! Failed logins by the address that they come from.
//!
//! A wrong password or token costs its address a token of a bucket. Without tokens, logins of that
//! address are refused before anything is compared or hashed, so that guessing is slow and costs
//! the server little. The table is bounded; so are the lines in the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use glassline_runtime::{Counter, SourcePrefix, TokenBucket};
use parking_lot::Mutex;

use super::{Listener, LoginError, Requester};

/// Failed logins that an address may have at once, and how many a second it gains. A person
/// mistypes a few times, and an office shares one address; a program that guesses gets some 1,800
/// guesses an hour.
const FAILURES_AT_ONCE: f64 = 20.0;
const FAILURES_PER_S: f64 = 0.5;

/// Most addresses in the table: about 2 MB.
const ADDRESSES_MAX: usize = 16_384;

/// Interval at which failures of one address are logged, and lines a second of all addresses.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const LINES_AT_ONCE: f64 = 10.0;
const LINES_PER_S: f64 = 0.5;

/// Most characters of a name in the log.
const NAME_CHARS_MAX: usize = 32;

/// Failed logins since the server started, by listener.
#[derive(Debug, Default)]
pub struct LoginCounters {
    by_listener: [FailureCounters; Listener::ALL.len()],
}

/// Failed logins of one listener.
#[derive(Debug, Default)]
pub struct FailureCounters {
    /// Passwords and tokens that were wrong.
    pub wrong: Counter,
    /// Logins refused unseen, because their address had failed too often.
    pub limited: Counter,
    /// Logins refused because too many passwords waited to be hashed.
    pub busy: Counter,
}

impl LoginCounters {
    /// Returns the counters of a listener.
    pub fn of(&self, listener: Listener) -> &FailureCounters {
        &self.by_listener[listener as usize]
    }
}

/// The addresses whose logins have failed.
#[derive(derive_more::Debug)]
#[debug("LoginLimit {{ addresses: {:?}, .. }}", self.table.lock().addresses.len())]
pub(super) struct LoginLimit {
    table: Mutex<Table>,
    counters: LoginCounters,
}

struct Table {
    addresses: HashMap<SourcePrefix, Failures>,
    lines: TokenBucket,
}

/// The failed logins of one address.
struct Failures {
    bucket: TokenBucket,
    latest: Instant,
    logged: Option<Instant>,
    /// Failures since the latest line in the log.
    unlogged: u64,
}

impl LoginLimit {
    pub(super) fn new() -> Self {
        let table = Table {
            addresses: HashMap::new(),
            lines: TokenBucket::new(LINES_PER_S, LINES_AT_ONCE),
        };
        Self {
            table: Mutex::new(table),
            counters: LoginCounters::default(),
        }
    }

    pub(super) const fn counters(&self) -> &LoginCounters {
        &self.counters
    }

    /// Begins to check a login, which takes a token of the address until it has succeeded.
    ///
    /// # Errors
    /// [`LoginError::Limited`] if the address has failed too often.
    pub(super) fn begin(&self, by: &Requester, now: Instant) -> Result<(), LoginError> {
        let mut table = self.table.lock();
        let failures = table.failures(SourcePrefix::from(by.address()), now);
        if failures.bucket.take(now) {
            return Ok(());
        }
        let retry_after = failures.bucket.wait();
        drop(table);
        self.counters.of(by.listener()).limited.add(1);
        self.log(by, None, now);
        Err(LoginError::Limited { retry_after })
    }

    /// Returns whether a login of the address would be checked.
    pub(super) fn may_begin(&self, by: &Requester, now: Instant) -> bool {
        let mut table = self.table.lock();
        let entry = table.addresses.get_mut(&SourcePrefix::from(by.address()));
        entry.is_none_or(|failures| {
            let has_one = failures.bucket.take(now);
            if has_one {
                failures.bucket.put_back();
            }
            has_one
        })
    }

    /// Notes that the login was right: it costs nothing.
    pub(super) fn succeed(&self, by: &Requester, now: Instant) {
        let mut table = self.table.lock();
        let prefix = SourcePrefix::from(by.address());
        if let Entry::Occupied(mut entry) = table.addresses.entry(prefix) {
            entry.get_mut().bucket.put_back();
            if entry.get().bucket.is_full(now) && entry.get().unlogged == 0 {
                entry.remove();
            }
        }
    }

    /// Counts a login that was not checked because the server was busy.
    pub(super) fn count_busy(&self, by: &Requester) {
        self.counters.of(by.listener()).busy.add(1);
    }

    /// Counts a wrong login; `user` is the name that it had, `None` for a token.
    pub(super) fn fail(&self, by: &Requester, user: Option<&str>, now: Instant) {
        self.counters.of(by.listener()).wrong.add(1);
        self.log(by, user, now);
    }

    /// Writes a line about the failures of an address, unless there was one just now.
    fn log(&self, by: &Requester, user: Option<&str>, now: Instant) {
        let from = SourcePrefix::from(by.address());
        let mut table = self.table.lock();
        let Table { addresses, lines } = &mut *table;
        let Some(failures) = addresses.get_mut(&from) else {
            return;
        };
        failures.unlogged += 1;
        failures.latest = now;
        let is_silent = failures.logged.is_some_and(|at| now < at + LINE_INTERVAL);
        if is_silent || !lines.take(now) {
            return;
        }
        failures.logged = Some(now);
        let count = std::mem::take(&mut failures.unlogged);
        drop(table);
        let user = user.map(|name| name.chars().take(NAME_CHARS_MAX).collect::<String>());
        let (user, listener) = (user.as_deref(), by.listener().as_str());
        tracing::warn!(%from, listener, user, failures = count, "logins failed: a wrong name, password or token");
    }
}

impl Table {
    /// Returns the entry of an address. If the table is full, addresses leave it whose buckets are
    /// full again, and else the half that has been silent for longest.
    fn failures(&mut self, prefix: SourcePrefix, now: Instant) -> &mut Failures {
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&prefix) {
            self.addresses.retain(|_, it| !it.bucket.is_full(now));
            if self.addresses.len() > ADDRESSES_MAX / 2 {
                let mut latest: Vec<_> = self.addresses.values().map(|it| it.latest).collect();
                let middle = latest.len() / 2;
                let (_, median, _) = latest.select_nth_unstable(middle);
                let median = *median;
                self.addresses.retain(|_, it| it.latest > median);
            }
        }
        self.addresses.entry(prefix).or_insert_with(|| Failures {
            bucket: TokenBucket::new(FAILURES_PER_S, FAILURES_AT_ONCE),
            latest: now,
            logged: None,
            unlogged: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn from(number: u32) -> Requester {
        Requester::direct(IpAddr::V4(Ipv4Addr::from(number)), Listener::Http)
    }

    fn fail(limit: &LoginLimit, by: &Requester, now: Instant) -> bool {
        let begun = limit.begin(by, now).is_ok();
        if begun {
            limit.fail(by, Some("eve"), now);
        }
        begun
    }

    #[test]
    fn failures_of_an_address_cost_that_address_alone() {
        let (limit, now) = (LoginLimit::new(), Instant::now());
        let (stranger, other) = (from(1), from(2));
        let checked = (0..100).filter(|_| fail(&limit, &stranger, now)).count();
        assert_eq!(checked, 20);
        let refused = limit.begin(&stranger, now).expect_err("no token is left");
        let retry_after = Duration::from_secs(2);
        assert_eq!(refused, LoginError::Limited { retry_after });
        assert_eq!(limit.begin(&other, now), Ok(()));
        assert!(fail(&limit, &stranger, now + retry_after));
        assert!(!fail(&limit, &stranger, now + retry_after));
        let counters = limit.counters().of(Listener::Http);
        assert_eq!((counters.wrong.get(), counters.limited.get()), (21, 82));
    }

    #[test]
    fn right_logins_cost_nothing_and_leave_no_trace() {
        let (limit, now) = (LoginLimit::new(), Instant::now());
        for _ in 0..1_000 {
            limit.begin(&from(1), now).expect("a token is there");
            limit.succeed(&from(1), now);
        }
        assert_eq!(limit.table.lock().addresses.len(), 0);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_that_failed_last() {
        let (limit, start) = (LoginLimit::new(), Instant::now());
        for number in 0..100_000 {
            let now = start + Duration::from_micros(number.into());
            fail(&limit, &from(number), now);
            assert!(limit.table.lock().addresses.len() <= ADDRESSES_MAX);
        }
        let newest = SourcePrefix::from(from(99_999).address());
        assert!(limit.table.lock().addresses.contains_key(&newest));
    }
}
