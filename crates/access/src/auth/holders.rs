//! Those who hold a token: users for as long as their token lasts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::holder_name::{is_holder, name_of_digest};
use super::known_tokens::{KnownToken, KnownTokens};
use super::verifiers::Verifiers;
use super::{Role, StreamRights};

/// Most holders at the same time, some 20 MB. Beyond that, those make room that logged in first.
const HOLDERS_MAX: usize = 65_536;

/// Somebody who holds a token.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) rights: StreamRights,
    /// The role of the holder on the admin port.
    pub(super) role: Option<Role>,
    /// Whom the token names (`sub`), to be shown to people.
    pub(super) subject: Option<String>,
    pub(super) origin: HolderOrigin,
    /// End of the rights.
    pub(super) until: Instant,
}

/// Where the rights of a holder come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderOrigin {
    /// A token that the server knows, whose rights end when it is deleted.
    Known,
    /// A token that the identity provider signed.
    Provider,
    /// An answer of the webhook.
    Webhook,
    /// A ticket of another server of the cluster.
    Ticket,
}

/// Time for which a known token is remembered: as good as forever.
const FOREVER: Duration = Duration::from_secs(1 << 30);

impl Holder {
    /// Creates the holder of a token that the server knows.
    pub(super) fn of_known(token: &KnownToken, now: Instant) -> Self {
        Self {
            rights: token.rights.clone(),
            role: token.role,
            subject: Some(token.name.to_string()),
            origin: HolderOrigin::Known,
            until: now + FOREVER,
        }
    }
}

/// The holders of tokens that were right, by name.
#[derive(Debug, Default)]
pub(super) struct Holders {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<String, (u64, Arc<Holder>)>,
    /// Number of logins, by which the oldest are found.
    logins: u64,
}

impl Holders {
    /// Returns the holder of this name, unless the rights have ended.
    pub(super) fn get(&self, name: &str, now: Instant) -> Option<Arc<Holder>> {
        if !is_holder(name) {
            return None;
        }
        let table = self.table.lock();
        let (_, holder) = table.by_name.get(name)?;
        (now < holder.until).then(|| Arc::clone(holder))
    }

    /// Adds a holder, or replaces what was known of it.
    pub(super) fn insert(&self, name: &str, holder: Holder) {
        let mut table = self.table.lock();
        if table.by_name.len() >= HOLDERS_MAX && !table.by_name.contains_key(name) {
            table.make_room();
        }
        table.logins += 1;
        let login = table.logins;
        table
            .by_name
            .insert(name.to_owned(), (login, Arc::new(holder)));
    }

    /// Gives the holders of known tokens the rights that `tokens` have now, and removes those whose
    /// token is gone.
    pub(super) fn renew(&self, tokens: &KnownTokens) {
        let now = Instant::now();
        let named = tokens.iter().map(|it| (name_of_digest(&it.digest), it));
        let named: HashMap<_, _> = named.collect();
        let mut table = self.table.lock();
        table.by_name.retain(|name, (_, holder)| {
            if holder.origin != HolderOrigin::Known {
                return true;
            }
            let Some(token) = named.get(name) else {
                return false;
            };
            *holder = Arc::new(Holder::of_known(token, now));
            true
        });
    }

    /// Removes those whose rights come from a provider or a webhook that `after` does not have any
    /// more.
    pub(super) fn end_of_others(&self, before: &Verifiers, after: &Verifiers) {
        let (provider, webhook) = (before.has_provider_of(after), before.has_webhook_of(after));
        if provider && webhook {
            return;
        }
        let mut table = self.table.lock();
        table.by_name.retain(|_, (_, holder)| match holder.origin {
            HolderOrigin::Provider => provider,
            HolderOrigin::Webhook => webhook,
            HolderOrigin::Known | HolderOrigin::Ticket => true,
        });
    }

    /// Removes those whose rights have ended. Returns whether there were any.
    pub(super) fn expire(&self, now: Instant) -> bool {
        let mut table = self.table.lock();
        let before = table.by_name.len();
        table.by_name.retain(|_, (_, holder)| now < holder.until);
        let has_expired = table.by_name.len() < before;
        if table.by_name.is_empty() {
            table.by_name.shrink_to_fit();
        }
        has_expired
    }
}

impl Table {
    /// Removes the half that logged in first.
    fn make_room(&mut self) {
        let mut logins: Vec<u64> = self.by_name.values().map(|(login, _)| *login).collect();
        let middle = logins.len() / 2;
        let (_, median, _) = logins.select_nth_unstable(middle);
        let median = *median;
        self.by_name.retain(|_, (login, _)| *login > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Pattern;
    use crate::auth::holder_name::{PREFIX, name_of};

    fn holder(until: Instant) -> Holder {
        Holder {
            rights: StreamRights {
                read: vec![Pattern::parse("cam*").expect("a pattern")],
                ..StreamRights::default()
            },
            role: None,
            subject: None,
            origin: HolderOrigin::Provider,
            until,
        }
    }

    #[test]
    fn holders_are_known_until_their_token_ends() {
        let (holders, now) = (Holders::default(), Instant::now());
        let name = name_of("e.e.e");
        assert_eq!(name.len(), PREFIX.len() + 32);
        assert!(is_holder(&name) && !is_holder("ann"));
        let later = now + Duration::from_secs(10);
        holders.insert(&name, holder(later));
        assert!(holders.get(&name, now).is_some());
        assert!(holders.get(&name, later).is_none());
        assert!(holders.get(&name_of("e.e.f"), now).is_none());
        assert!(!holders.expire(now));
        assert!(holders.expire(later));
        assert!(holders.get(&name, now).is_none());
    }

    #[test]
    fn a_flood_of_tokens_is_bounded_and_the_newest_stay() {
        let (holders, now) = (Holders::default(), Instant::now());
        let later = now + Duration::from_secs(10);
        for number in 0..=HOLDERS_MAX {
            holders.insert(&name_of(&number.to_string()), holder(later));
        }
        assert!(holders.table.lock().by_name.len() <= HOLDERS_MAX);
        let newest = name_of(&HOLDERS_MAX.to_string());
        assert!(holders.get(&newest, now).is_some());
        assert!(holders.get(&name_of("0"), now).is_none());
    }
}
