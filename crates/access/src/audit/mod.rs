//! What operators changed: who, when, from where, and with which result.
//!
//! ```text
//! change ─► Entries: kept apart, or counted ─► number ─► log, target AUDIT ─► AuditFile: fsync ─► answer
//!                                   └► API and dashboard
//! ```
//!
//! Changes of users, tokens and sources are evidence: each one is an entry, a line of the log and of
//! the file, whatever else is asked for. All others are counted by operator, action and minute, so
//! that a program that repeats one writes few lines. The answer to a change waits for its line of
//! the file. Only what an operator with a credential asked for is noted, or somebody on this machine
//! while none is needed: strangers cannot push anything out.

mod entries;
mod file;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use glassline_runtime::{BlockingPool, is_deceptive};
use parking_lot::Mutex;

use crate::auth::Role;
use entries::Entries;
use file::AuditFile;

/// Target of the log's lines about changes. A log must neither limit nor drop them as it does with
/// lines that strangers cause: their number is bounded here.
pub const AUDIT: &str = "glassline_server::audit";

/// Most characters of a target and of a reason.
const CHARS_MAX: usize = 200;

/// Something that an operator asked for, or an export by a viewer, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the operator: a user, a token, or whom a signed token names.
    pub who: String,
    /// Role of the operator at the time of the change; `None` for a viewer who exported a recording.
    pub role: Option<Role>,
    /// Address that the request came from.
    pub from: IpAddr,
    /// Operation as the API's document names it, like `putSource`.
    pub action: &'static str,
    /// Method and path of the request.
    pub target: String,
    /// Status of the answer.
    pub status: u16,
    /// The reason why the change was refused; `None` if it was not.
    pub reason: Option<String>,
}

/// A change with its place in the log.
#[derive(Clone, Debug)]
pub struct RecordedChange {
    /// Number of the entry, from 1 and without gaps; it goes on after a restart if there is a file.
    pub number: u64,
    /// Time of the first request of the minute that asked for the change.
    pub at: SystemTime,
    /// Content of the change.
    pub change: Change,
    /// How often the change was asked for within the minute.
    pub count: u64,
}

/// The newest changes, and the file of all of them.
#[derive(Debug)]
pub struct AuditLog {
    /// Writes to the disk, one at a time.
    writing: BlockingPool,
    entries: Mutex<Entries>,
    /// Held while an entry gets its number and is written, so that lines are in order.
    file: Mutex<Option<AuditFile>>,
}

impl AuditLog {
    /// Opens the file of changes beside the file at `state_file`. Without it, and if it cannot be
    /// used, the changes are in memory and in the log.
    pub fn open(state_file: Option<&Path>) -> Self {
        let opened = state_file.map(|it| AuditFile::open(it.with_extension("audit.jsonl")));
        let (file, count) = opened.map_or((None, 0), |(file, last)| (Some(file), last));
        Self {
            writing: BlockingPool::new(1),
            entries: Mutex::new(Entries::after(count)),
            file: Mutex::new(file),
        }
    }

    /// Notes a change that was asked for at the time `at`, and writes it to the log and the file.
    /// Another one like it within the minute is counted alone.
    pub async fn note(self: &Arc<Self>, mut change: Change, at: SystemTime) {
        change.who = shortened(&change.who);
        change.target = shortened(&change.target);
        // Several mistakes of a file stand in a line each.
        let reason = change.reason.map(|it| it.replace('\n', "; "));
        change.reason = reason.as_deref().map(shortened);
        if self.entries.lock().count_again(&change, at) {
            return;
        }
        let log = Arc::clone(self);
        // A disk may take its time.
        let written = self.writing.run(move || log.write(change, at)).await;
        if written.is_err() {
            tracing::error!("writing a change of an operator panicked");
        }
    }

    /// Writes how often the changes of past minutes were repeated; with `None`, those of this minute,
    /// too, because the server ends.
    pub fn settle(&self, now: Option<SystemTime>) {
        let mut file = self.file.lock();
        let settled = self.entries.lock().take_repeated(now);
        for entry in settled {
            put(&mut file, &entry);
        }
    }

    /// Returns the changes that are kept, the newest first.
    pub fn newest(&self) -> Vec<RecordedChange> {
        self.entries.lock().newest()
    }

    fn write(&self, change: Change, at: SystemTime) {
        let mut file = self.file.lock();
        let mut entries = self.entries.lock();
        // Another one may have come meanwhile.
        if entries.count_again(&change, at) {
            return;
        }
        let entry = entries.add(change, at);
        drop(entries);
        put(&mut file, &entry);
    }
}

/// Writes an entry to the log and to the file.
fn put(file: &mut Option<AuditFile>, entry: &RecordedChange) {
    let RecordedChange {
        number,
        change,
        count,
        ..
    } = entry;
    let Change {
        who,
        role,
        from,
        action,
        target,
        status,
        reason,
    } = change;
    let (reason, repeated) = (reason.as_deref(), (*count > 1).then_some(count));
    tracing::info!(target: AUDIT, number, %who, role = role.map(tracing::field::display), %from, action, %target, status, reason, count = repeated, "audit: an operator's request");
    if let Some(file) = file {
        file.append(entry);
    }
}

fn shortened(text: &str) -> String {
    let visible = text.chars().filter(|it| !is_deceptive(*it));
    visible.take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    pub(super) fn change(action: &'static str, target: &str) -> Change {
        Change {
            who: "ann".to_owned(),
            role: Some(Role::Admin),
            from: Ipv4Addr::LOCALHOST.into(),
            action,
            target: target.to_owned(),
            status: 200,
            reason: None,
        }
    }

    #[tokio::test]
    async fn harmless_changes_neither_hide_nor_push_out_new_tokens() {
        let folder = std::env::temp_dir().join(format!("glassline-audit-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("ours");
        let state_file = folder.join("api.json");
        let log = Arc::new(AuditLog::open(Some(&state_file)));
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for number in 0..17_000_u64 {
            let at = start + Duration::from_millis(number * 10);
            let harmless = change("requestKeyframe", "POST /api/v1/streams/demo/keyframe");
            log.note(harmless, at).await;
            if number % 2_000 == 1_000 {
                let token = format!("PUT /api/v1/tokens/EVIL{number}");
                log.note(change("putToken", &token), at).await;
            }
        }
        log.settle(None);
        let has_tokens = |texts: &[String]| {
            let mut evil: Vec<_> = texts.iter().filter(|it| it.contains("EVIL")).collect();
            evil.dedup();
            evil.len()
        };
        let newest = log.newest();
        let targets: Vec<_> = newest.iter().map(|it| it.change.target.clone()).collect();
        assert_eq!(has_tokens(&targets), 8, "in the list");
        assert!(targets.len() < 20, "{targets:?}");
        let harmless = newest
            .iter()
            .filter(|it| it.change.action == "requestKeyframe");
        assert_eq!(harmless.map(|it| it.count).sum::<u64>(), 17_000);
        let text = fs::read_to_string(folder.join("api.audit.jsonl")).expect("written");
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(has_tokens(&lines), 8, "in the file");
        assert!(lines.len() < 30, "{text}");
        // The numbers of another run go on, and show whether an entry is missing.
        let again = Arc::new(AuditLog::open(Some(&state_file)));
        again.note(change("deleteToken", "DELETE /x"), start).await;
        assert_eq!(again.newest()[0].number, newest[0].number + 1);
        let mut numbers: Vec<_> = newest.iter().map(|it| it.number).collect();
        numbers.reverse();
        assert_eq!(numbers, (1..=newest[0].number).collect::<Vec<_>>());
        fs::remove_dir_all(folder).expect("ours");
    }

    #[tokio::test]
    async fn the_texts_of_an_entry_are_bounded_and_plain() {
        let log = Arc::new(AuditLog::open(None));
        let long = format!("PUT /\u{202e}a\n{}", "x".repeat(10_000));
        log.note(change("putSource", &long), SystemTime::UNIX_EPOCH)
            .await;
        let kept = log.newest();
        assert!(kept[0].change.target.starts_with("PUT /ax"));
        assert_eq!(kept[0].change.target.len(), CHARS_MAX);
    }
}
