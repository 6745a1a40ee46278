use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use blake2::Blake2sMac256;
use blake2::digest::Mac;

/// Time for which a verified pair is not hashed again: as long as a player's session, and short
/// enough that a memory dump tells little.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Most pairs that are remembered; others are hashed each time.
const PAIRS_MAX: usize = 4096;

/// Keyed hash of a name and a password.
pub(super) type Pair = [u8; 32];

/// Recently verified names and passwords, as hashes that mean nothing without this run's key.
pub(super) struct Verified {
    mac: Blake2sMac256,
    until: Mutex<HashMap<Pair, Instant>>,
}

impl Verified {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self {
            mac: Blake2sMac256::new(&key.into()),
            until: Mutex::default(),
        }
    }

    pub(super) fn key(&self, user: &str, password: &str) -> Pair {
        let mut mac = self.mac.clone();
        // The name's length stands in front, so that no part of the name can pass as part of the
        // password.
        mac.update(&(user.len() as u64).to_be_bytes());
        mac.update(user.as_bytes());
        mac.update(password.as_bytes());
        mac.finalize().into_bytes().into()
    }

    pub(super) fn has(&self, pair: &Pair, now: Instant) -> bool {
        self.lock().get(pair).is_some_and(|until| now < *until)
    }

    pub(super) fn remember(&self, pair: Pair, now: Instant) {
        let mut until = self.lock();
        if until.len() >= PAIRS_MAX {
            until.retain(|_, until| now < *until);
        }
        if until.len() < PAIRS_MAX {
            until.insert(pair, now + REMEMBERED);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pair, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("pairs", &self.lock().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_remembered_for_a_while_and_never_mixed() {
        let (verified, now) = (Verified::new([1; 32]), Instant::now());
        let pair = verified.key("ann", "secret");
        assert!(!verified.has(&pair, now));
        verified.remember(pair, now);
        assert!(verified.has(&verified.key("ann", "secret"), now));
        assert!(!verified.has(&pair, now + REMEMBERED));
        for (user, password) in [("anns", "ecret"), ("ann", "Secret"), ("", "annsecret")] {
            assert!(!verified.has(&verified.key(user, password), now), "{user}");
        }
        assert_ne!(Verified::new([2; 32]).key("ann", "secret"), pair);
    }

    #[test]
    fn a_flood_of_pairs_is_bounded() {
        let (verified, now) = (Verified::new([1; 32]), Instant::now());
        for number in 0..=PAIRS_MAX {
            verified.remember(verified.key("user", &number.to_string()), now);
        }
        assert_eq!(verified.lock().len(), PAIRS_MAX);
        // There is room again when old pairs have expired.
        let later = now + REMEMBERED;
        verified.remember(verified.key("user", "new"), later);
        assert_eq!(verified.lock().len(), 1);
    }
}
