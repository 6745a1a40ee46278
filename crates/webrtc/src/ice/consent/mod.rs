//! Consent of the peer to be sent to at an address (RFC 7675), for an end that is ICE-lite.
//!
//! An ICE-lite end is told by the peer where to send: it sends no checks, so any source address
//! that the peer can forge could be named. This end therefore sends checks of its own. Nobody but
//! the owner of an address sees the random transaction of a check to it, so that a response proves
//! the address. A full ICE agent answers such checks (RFC 8445 §7.3).
//!
//! ```text
//!  request from an unknown address ─► check ─► response ─► proven: media may go there
//!                                       └► six times in 5 s, then not again for 10 s
//!  path: a check every 4 to 6 s, 30 s without a response end the session if there ever was one
//! ```

use std::time::{Duration, Instant};

use aws_lc_rs::hmac;

use super::check::{self, TransactionId};
use super::integrity::stun_is_authentic;
use crate::TransportAddress;
use crate::sdp::IceCredentials;

/// Most addresses whose consent is remembered.
const ADDRESSES_MAX: usize = 16;
/// Waits between the checks of one round. The last one is the wait for the last response.
const WAITS: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1500),
    Duration::from_millis(2000),
];
/// Time from the begin of a round without a response until another round may begin. An address
/// that belongs to a victim is not asked more often.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// Shortest interval between the rounds for the path in use, and how much longer it may be
/// (RFC 7675 §5.1: 5 s, multiplied by a random number from 0.8 to 1.2).
const INTERVAL_MIN: Duration = Duration::from_secs(4);
const INTERVAL_SPREAD: Duration = Duration::from_secs(2);
/// Time for which a response is valid (RFC 7675 §5.1).
const VALID: Duration = Duration::from_secs(30);
/// Time for a path that nothing proved during the handshake.
const UNPROVEN_MAX: Duration = Duration::from_secs(5);
/// Most rounds for new addresses that may begin at once, and the time in which one more may begin.
/// The checks answer requests whose source may be forged, so their rate is bounded.
const ROUNDS_MAX: u32 = 16;
const ROUND_EVERY: Duration = Duration::from_millis(250);

/// The addresses of one peer, and which of them it consented to be sent to.
pub(super) struct Consent {
    /// Key that the transactions are drawn with.
    key: hmac::Key,
    drawn: u64,
    tie_breaker: u64,
    addresses: Vec<CheckedAddress>,
    counts: CheckCounts,
    rounds_left: u32,
    rounds_counted: Instant,
    /// When the handshake was done; `None` before.
    connected: Option<Instant>,
}

/// Checks that were sent and answered since the session began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckCounts {
    pub(super) sent: u32,
    pub(super) answered: u32,
}

/// An address that checks were sent to.
struct CheckedAddress {
    address: TransportAddress,
    /// The server's address that the checks are sent from.
    local: TransportAddress,
    transaction: TransactionId,
    /// When the round began, and the number of checks that were sent since.
    began: Instant,
    sent: usize,
    /// When the next check or the next round is due.
    next: Option<Instant>,
    /// Whether a check waits to be sent.
    is_due: bool,
    /// When the address was proven last, by a response or by the handshake.
    proven: Option<Instant>,
    /// Whether the peer ever answered a check there after the handshake. Some publishers answer
    /// only until they send media.
    answers: bool,
}

impl Consent {
    /// `secret`: random bytes that the peer does not know.
    pub(super) fn new(secret: &[u8; 32], tie_breaker: u64, now: Instant) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            drawn: 0,
            tie_breaker,
            addresses: Vec::new(),
            counts: CheckCounts::default(),
            rounds_left: ROUNDS_MAX,
            rounds_counted: now,
            connected: None,
        }
    }

    /// Returns how many checks were sent and answered.
    pub(super) const fn counts(&self) -> CheckCounts {
        self.counts
    }

    /// Returns whether the peer proved at most 30 s ago that it receives at `address`.
    pub(super) fn is_proven(&self, address: TransportAddress, now: Instant) -> bool {
        let proven = self.find(address).and_then(|checked| checked.proven);
        proven.is_some_and(|at| now.saturating_duration_since(at) < VALID)
    }

    /// Returns the address that was proven last.
    pub(super) fn latest(&self) -> Option<(TransportAddress, TransportAddress)> {
        let proven = self
            .addresses
            .iter()
            .filter(|checked| checked.proven.is_some());
        let latest = proven.max_by_key(|checked| checked.proven);
        latest.map(|checked| (checked.address, checked.local))
    }

    /// Returns whether the handshake is done.
    pub(super) const fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Notes that the handshake is done, over `path`.
    pub(super) fn connect(&mut self, path: Option<TransportAddress>, now: Instant) {
        self.connected = Some(now);
        self.follow(path, now);
    }

    /// Counts `address` as proven without a check.
    pub(super) fn prove(
        &mut self,
        address: TransportAddress,
        local: TransportAddress,
        now: Instant,
    ) {
        let checked = self.entry(address, local, None, now);
        checked.proven = Some(now);
    }

    /// Begins to check `address`, unless it is proven or was asked a short time ago.
    pub(super) fn ask(
        &mut self,
        address: TransportAddress,
        local: TransportAddress,
        path: Option<TransportAddress>,
        now: Instant,
    ) {
        if self.is_proven(address, now) {
            return;
        }
        let checked_before = self.find(address).filter(|checked| checked.sent > 0);
        if checked_before.is_some_and(|it| now.saturating_duration_since(it.began) < HOLD_OFF) {
            return;
        }
        let gained = now.saturating_duration_since(self.rounds_counted);
        let gained =
            u32::try_from(gained.as_millis() / ROUND_EVERY.as_millis()).unwrap_or(u32::MAX);
        if gained > 0 {
            self.rounds_counted = now;
            self.rounds_left = self.rounds_left.saturating_add(gained).min(ROUNDS_MAX);
        }
        let Some(left) = self.rounds_left.checked_sub(1) else {
            return;
        };
        self.rounds_left = left;
        let transaction = self.draw();
        self.entry(address, local, path, now)
            .begin(transaction, now);
    }

    /// Takes a datagram from `source` that may be the response to a check. Returns whether it is,
    /// so that the address is proven. `pwd`: the peer's password.
    pub(super) fn take_response(
        &mut self,
        source: TransportAddress,
        datagram: &[u8],
        pwd: &str,
        path: Option<TransportAddress>,
        now: Instant,
    ) -> bool {
        let Some(transaction) = check::response_transaction(datagram) else {
            return false;
        };
        let awaited = |it: &&mut CheckedAddress| {
            it.address == source && it.sent > 0 && it.transaction == transaction
        };
        let Some(checked) = self.addresses.iter_mut().find(awaited) else {
            return false;
        };
        if !stun_is_authentic(datagram, pwd) {
            return false;
        }
        self.counts.answered = self.counts.answered.saturating_add(1);
        checked.proven = Some(now);
        checked.answers |= self.connected.is_some();
        checked.is_due = false;
        checked.next = (path == Some(source)).then(|| now + interval(transaction));
        true
    }

    /// Keeps up the consent for `path`, which is in use from now on.
    pub(super) fn follow(&mut self, path: Option<TransportAddress>, now: Instant) {
        let Some(path) = path.filter(|_| self.is_connected()) else {
            return;
        };
        if let Some(checked) = self.addresses.iter_mut().find(|it| it.address == path)
            && checked.next.is_none()
            && checked.proven.is_some()
        {
            checked.next = Some(now + interval(checked.transaction));
        }
    }

    /// Returns when the session ends unless `path` is proven before; `None` if the peer never
    /// answered a check there, so that silence means nothing.
    pub(super) fn deadline(&self, path: Option<TransportAddress>) -> Option<Instant> {
        let connected = self.connected?;
        let checked = self.find(path?);
        match checked.and_then(|checked| checked.proven.map(|at| (at, checked.answers))) {
            Some((at, true)) => Some(at + VALID),
            Some((_, false)) => None,
            None => Some(connected + UNPROVEN_MAX),
        }
    }

    /// Drops what was checked under the former credentials. The peer's consent for `path` goes on.
    pub(super) fn restart(&mut self, path: Option<TransportAddress>, now: Instant) {
        self.addresses.retain(|it| Some(it.address) == path);
        for checked in &mut self.addresses {
            checked.is_due = false;
            checked.sent = 0;
            checked.next = checked.answers.then_some(now + INTERVAL_MIN);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.addresses
            .iter()
            .filter_map(|checked| checked.next)
            .min()
    }

    /// Makes the checks due that are to be sent at `now`.
    pub(super) fn handle_timeout(&mut self, path: Option<TransportAddress>, now: Instant) {
        for index in 0..self.addresses.len() {
            let checked = &mut self.addresses[index];
            if checked.next.is_none_or(|at| at > now) {
                continue;
            }
            let is_answered = checked.proven.is_some_and(|at| at >= checked.began);
            if checked.sent > 0 && !is_answered && checked.sent < WAITS.len() {
                checked.is_due = true;
                checked.next = None;
            } else if path == Some(checked.address)
                && (is_answered || checked.answers || checked.sent == 0)
            {
                let transaction = self.draw();
                self.addresses[index].begin(transaction, now);
            } else {
                checked.next = None;
            }
        }
    }

    /// Returns whether a check waits to be sent.
    pub(super) fn has_checks(&self) -> bool {
        self.addresses.iter().any(|checked| checked.is_due)
    }

    /// Writes the next check over `out`. Returns its source and its destination.
    pub(super) fn poll_transmit(
        &mut self,
        out: &mut Vec<u8>,
        local: &IceCredentials,
        remote: &IceCredentials,
    ) -> Option<(TransportAddress, TransportAddress)> {
        let checked = self.addresses.iter_mut().find(|checked| checked.is_due)?;
        checked.is_due = false;
        let elapsed: Duration = WAITS[..=checked.sent.min(WAITS.len() - 1)].iter().sum();
        checked.next = Some(checked.began + elapsed);
        checked.sent += 1;
        self.counts.sent = self.counts.sent.saturating_add(1);
        check::write_request(out, checked.transaction, local, remote, self.tie_breaker);
        Some((checked.local, checked.address))
    }

    fn find(&self, address: TransportAddress) -> Option<&CheckedAddress> {
        self.addresses
            .iter()
            .find(|checked| checked.address == address)
    }

    /// Returns the entry of `address`. A new one replaces the oldest if there are too many.
    fn entry(
        &mut self,
        address: TransportAddress,
        local: TransportAddress,
        path: Option<TransportAddress>,
        now: Instant,
    ) -> &mut CheckedAddress {
        let known = self.addresses.iter().position(|it| it.address == address);
        let place = known.unwrap_or_else(|| {
            if self.addresses.len() >= ADDRESSES_MAX {
                let spare = self.addresses.iter().enumerate();
                let spare = spare.filter(|(_, it)| Some(it.address) != path);
                let oldest = spare.min_by_key(|(_, it)| (it.proven, it.began));
                let oldest = oldest.map_or(0, |(place, _)| place);
                self.addresses.swap_remove(oldest);
            }
            self.addresses.push(CheckedAddress {
                address,
                local,
                transaction: [0; 12],
                began: now,
                sent: 0,
                next: None,
                is_due: false,
                proven: None,
                answers: false,
            });
            self.addresses.len() - 1
        });
        let checked = &mut self.addresses[place];
        checked.local = local;
        checked
    }

    /// Returns a transaction that nobody can guess.
    fn draw(&mut self) -> TransactionId {
        self.drawn += 1;
        let tag = hmac::sign(&self.key, &self.drawn.to_be_bytes());
        let mut transaction = [0; 12];
        transaction.copy_from_slice(&tag.as_ref()[..12]);
        transaction
    }
}

impl CheckedAddress {
    /// Begins a round of checks.
    fn begin(&mut self, transaction: TransactionId, now: Instant) {
        self.transaction = transaction;
        self.began = now;
        self.sent = 0;
        self.is_due = true;
        self.next = None;
    }
}

/// Returns 4 to 6 s, as the random `transaction` chooses.
fn interval(transaction: TransactionId) -> Duration {
    INTERVAL_MIN + INTERVAL_SPREAD * u32::from(transaction[0]) / 255
}

#[cfg(test)]
mod tests;
