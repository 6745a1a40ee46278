use std::collections::HashMap;
use std::time::{Duration, Instant};

use blake2::Blake2sMac256;
use blake2::digest::Mac;
use glassline_runtime::SourcePrefix;
use parking_lot::Mutex;

/// Time for which a checked pair is not checked again: as long as a player's session, and short
/// enough that a memory dump tells little.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Most pairs that are remembered; others are checked each time.
const PAIRS_MAX: usize = 4096;

/// Keyed hash of a name, a password, and the address that they came from.
pub(super) type Pair = [u8; 32];

/// Names and passwords that were checked a short time ago, as hashes that mean nothing without this
/// run's key.
///
/// A pair is remembered for the address that it came from. If it were remembered for all, an
/// address that may guess no more could still try guesses against the pairs of others.
#[derive(derive_more::Debug)]
#[debug("CheckedPairs {{ pairs: {:?}, .. }}", self.until.lock().len())]
pub(super) struct CheckedPairs {
    mac: Blake2sMac256,
    until: Mutex<HashMap<Pair, Instant>>,
}

impl CheckedPairs {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self {
            mac: Blake2sMac256::new(&key.into()),
            until: Mutex::default(),
        }
    }

    pub(super) fn key(&self, from: SourcePrefix, user: &str, password: &str) -> Pair {
        let mut mac = self.mac.clone();
        mac.update(&from.octets());
        // The name's length stands in front, so that no part of the name can pass as part of the
        // password.
        mac.update(&(user.len() as u64).to_be_bytes());
        mac.update(user.as_bytes());
        mac.update(password.as_bytes());
        mac.finalize().into_bytes().into()
    }

    pub(super) fn has(&self, pair: &Pair, now: Instant) -> bool {
        self.until
            .lock()
            .get(pair)
            .is_some_and(|until| now < *until)
    }

    pub(super) fn remember(&self, pair: Pair, now: Instant) {
        let mut until = self.until.lock();
        if until.len() >= PAIRS_MAX {
            until.retain(|_, until| now < *until);
        }
        if until.len() < PAIRS_MAX {
            until.insert(pair, now + REMEMBERED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> SourcePrefix {
        SourcePrefix::from(std::net::IpAddr::from([127, 0, 0, 1]))
    }

    #[test]
    fn pairs_are_remembered_for_a_while_and_never_mixed() {
        let (verified, now) = (CheckedPairs::new([1; 32]), Instant::now());
        let pair = verified.key(here(), "ann", "secret");
        assert!(!verified.has(&pair, now));
        verified.remember(pair, now);
        assert!(verified.has(&verified.key(here(), "ann", "secret"), now));
        assert!(!verified.has(&pair, now + REMEMBERED));
        for (user, password) in [("anns", "ecret"), ("ann", "Secret"), ("", "annsecret")] {
            assert!(
                !verified.has(&verified.key(here(), user, password), now),
                "{user}"
            );
        }
        let away = SourcePrefix::from(std::net::IpAddr::from([192, 0, 2, 1]));
        assert_ne!(verified.key(away, "ann", "secret"), pair);
        assert_ne!(
            CheckedPairs::new([2; 32]).key(here(), "ann", "secret"),
            pair
        );
    }

    #[test]
    fn a_flood_of_pairs_is_bounded() {
        let (verified, now) = (CheckedPairs::new([1; 32]), Instant::now());
        for number in 0..=PAIRS_MAX {
            verified.remember(verified.key(here(), "user", &number.to_string()), now);
        }
        assert_eq!(verified.until.lock().len(), PAIRS_MAX);
        // There is room again when old pairs have expired.
        let later = now + REMEMBERED;
        verified.remember(verified.key(here(), "user", "new"), later);
        assert_eq!(verified.until.lock().len(), 1);
    }
}
