//! What operators changed: who, when, from where, and with which result.
//!
//! The newest changes are kept in memory, for the API and the dashboard; each one is a line of the
//! log, too, which keeps what memory forgets. Only what an operator with a credential asked for is
//! noted, or somebody on this machine while none is needed: strangers cannot push anything out.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::auth::Role;

/// Most changes that are kept; some 300 kB.
const CHANGES_MAX: usize = 1_000;

/// Most characters of a target and of a reason.
const CHARS_MAX: usize = 200;

/// Something that an operator asked for, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Name of the operator: a user, a token, or whom a signed token names.
    pub(crate) who: String,
    pub(crate) role: Role,
    /// Address that the request came from.
    pub(crate) from: IpAddr,
    /// Operation as the API's document names it, like `putSource`.
    pub(crate) action: &'static str,
    /// Method and path of the request.
    pub(crate) target: String,
    /// Status of the answer.
    pub(crate) status: u16,
    /// Why the change was refused; `None` if it was not.
    pub(crate) reason: Option<String>,
}

/// A change with its place in the log.
#[derive(Clone, Debug)]
pub(crate) struct RecordedChange {
    /// Number of the change since the server started, from 1.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) change: Change,
}

/// The newest changes.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    newest_last: VecDeque<RecordedChange>,
}

impl AuditLog {
    /// Notes a change that was asked for at the time `at`, and writes it to the log.
    pub(crate) fn note(&self, mut change: Change, at: SystemTime) {
        change.target = shortened(&change.target);
        // Several mistakes of a file stand in a line each.
        let reason = change.reason.map(|it| it.replace('\n', "; "));
        change.reason = reason.as_deref().map(shortened);
        let Change {
            who,
            role,
            from,
            action,
            target,
            status,
            reason,
        } = &change;
        let reason = reason.as_deref();
        tracing::info!(%who, %role, %from, action, %target, status, reason, "audit: an operator's request");
        let mut kept = self.lock();
        kept.count += 1;
        let number = kept.count;
        if kept.newest_last.len() >= CHANGES_MAX {
            kept.newest_last.pop_front();
        }
        kept.newest_last
            .push_back(RecordedChange { number, at, change });
    }

    /// Returns the changes that are kept, the newest first.
    pub(crate) fn newest(&self) -> Vec<RecordedChange> {
        self.lock().newest_last.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(text: &str) -> String {
    let visible = text.chars().filter(|it| !it.is_control());
    visible.take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_newest_changes_are_kept_and_their_texts_are_bounded() {
        let log = AuditLog::default();
        for number in 0..1_500_u16 {
            let change = Change {
                who: "ann".to_owned(),
                role: Role::Admin,
                from: Ipv4Addr::LOCALHOST.into(),
                action: "putSource",
                target: format!("PUT /{number}\n{}", "x".repeat(10_000)),
                status: 201,
                reason: None,
            };
            log.note(change, SystemTime::UNIX_EPOCH);
        }
        let kept = log.newest();
        assert_eq!(kept.len(), CHANGES_MAX);
        assert_eq!((kept[0].number, kept[999].number), (1_500, 501));
        assert!(kept[0].change.target.starts_with("PUT /1499x"));
        assert_eq!(kept[0].change.target.len(), CHARS_MAX);
    }
}
