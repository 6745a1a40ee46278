//! Operators who signed in with a browser: a random secret each, known by its hash alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngCore as _;

use super::operator::Operator;
use super::token_digest::{TokenDigest, digest_of};

/// Longest time that a browser stays signed in: a working day.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Most browsers that are signed in, and most of one user or token. The one that signed in first
/// makes room.
const ALL_MAX: usize = 512;
const OF_ONE_MAX: usize = 16;

/// The cookie and the role that a browser gets when its operator signs in.
pub struct SignIn {
    /// Secret that the browser shows with each request.
    pub secret: String,
    /// Time until the browser has to sign in again.
    pub lasts: Duration,
}

/// The browsers that are signed in.
#[derive(Default, derive_more::Debug)]
#[debug("SignIns {{ browsers: {:?}, .. }}", self.table.lock().len())]
pub(super) struct SignIns {
    table: Mutex<HashMap<TokenDigest, Entry>>,
}

struct Entry {
    operator: Operator,
    begun: Instant,
    until: Instant,
}

impl SignIns {
    /// Adds a browser; `lasts` bounds its time below [`LIFETIME`].
    pub(super) fn begin(
        &self,
        operator: Operator,
        lasts: Option<Duration>,
        now: Instant,
    ) -> SignIn {
        let mut bytes = [0_u8; 32];
        rand::rng().fill_bytes(&mut bytes);
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let lasts = lasts.map_or(LIFETIME, |it| it.min(LIFETIME));
        let mut table = self.table.lock();
        table.retain(|_, it| now < it.until);
        let id = operator.id();
        make_room(&mut table, OF_ONE_MAX, |it| it.operator.id() == id);
        make_room(&mut table, ALL_MAX, |_| true);
        let until = now + lasts;
        let begun = now;
        let entry = Entry {
            operator,
            begun,
            until,
        };
        table.insert(digest_of(&secret), entry);
        SignIn { secret, lasts }
    }

    pub(super) fn get(&self, secret: &str, now: Instant) -> Option<Operator> {
        let table = self.table.lock();
        let entry = table.get(&digest_of(secret))?;
        (now < entry.until).then(|| entry.operator.clone())
    }

    pub(super) fn end(&self, secret: &str) {
        self.table.lock().remove(&digest_of(secret));
    }
}

/// Removes the oldest of those that `is_counted`, if there are `max` of them.
fn make_room(
    table: &mut HashMap<TokenDigest, Entry>,
    max: usize,
    is_counted: impl Fn(&Entry) -> bool,
) {
    let counted = || table.iter().filter(|(_, it)| is_counted(it));
    if counted().count() < max {
        return;
    }
    let oldest = counted().min_by_key(|(_, it)| it.begun);
    if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Auth, Listener, Requester, Users};
    use super::*;

    fn operator() -> Operator {
        let users = Users::new(&Auth::default());
        let here = Requester::direct([127, 0, 0, 1].into(), Listener::Admin);
        users.operator_here(&here).expect("nobody has a role")
    }

    #[test]
    fn a_browser_is_signed_in_until_its_time_is_over_or_it_signs_out() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let first = sign_ins.begin(operator(), None, now);
        assert_eq!((first.secret.len(), first.lasts), (64, LIFETIME));
        assert!(sign_ins.get(&first.secret, now).is_some());
        assert!(sign_ins.get(&first.secret, now + LIFETIME).is_none());
        let minute = Duration::from_secs(60);
        let second = sign_ins.begin(operator(), Some(minute), now);
        assert_ne!(first.secret, second.secret);
        assert_eq!(second.lasts, minute, "no longer than the token");
        assert!(sign_ins.get(&second.secret, now + minute).is_none());
        sign_ins.end(&first.secret);
        assert!(sign_ins.get(&first.secret, now).is_none());
        assert!(sign_ins.get("", now).is_none());
    }

    #[test]
    fn one_operator_has_a_bounded_number_of_browsers_and_the_oldest_goes() {
        let (sign_ins, start) = (SignIns::default(), Instant::now());
        let secrets: Vec<_> = (0..100)
            .map(|number| {
                let now = start + Duration::from_secs(number);
                sign_ins.begin(operator(), None, now).secret
            })
            .collect();
        assert_eq!(sign_ins.table.lock().len(), OF_ONE_MAX);
        let now = start + Duration::from_secs(100);
        assert!(sign_ins.get(&secrets[0], now).is_none());
        assert!(sign_ins.get(&secrets[99], now).is_some());
    }
}
