//! Files that are looked at every few seconds, and read once a change has settled.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use glassline_events::{Event, EventKind, Severity};

use super::Error;

/// Content that is read from files.
pub(super) trait Files {
    fn paths(&self) -> Vec<&Path>;

    /// Goes on with what could not be put in force when it was read. Returns what has changed, for people.
    fn go_on(&mut self) -> Option<String> {
        None
    }

    /// Reads the files. Returns whether the content has changed.
    fn read(&mut self) -> Result<bool, Error>;
}

/// Modification time and length of a file; `None` if it does not exist.
type Stamp = Option<(SystemTime, u64)>;

/// Stamps of files by their paths.
type Stamps = BTreeMap<PathBuf, Stamp>;

/// Files with their stamps at the time when they were read.
#[derive(Debug)]
pub(super) struct Watched<T> {
    pub(super) files: T,
    read: Stamps,
    /// Stamps at the latest check.
    seen: Stamps,
}

impl<T: Files> Watched<T> {
    pub(super) fn new(files: T) -> Self {
        let now = stamps(&files);
        Self {
            files,
            read: now.clone(),
            seen: now,
        }
    }

    /// Reads the files called `what` if they have changed, or if `is_asked`. Returns what became of
    /// that, for operators.
    pub(super) fn look(&mut self, is_asked: bool, what: &str) -> Option<Event> {
        let now = stamps(&self.files);
        let is_settled = now == self.seen;
        let is_due = is_asked || (is_settled && now != self.read);
        self.seen.clone_from(&now);
        if !is_due {
            let text = self.files.go_on()?;
            tracing::info!("{what}: {text}");
            return Some(Event {
                kind: EventKind::Reload,
                severity: Severity::Good,
                subject: what.to_owned(),
                text,
                reason: None,
            });
        }
        // An error is logged once, until the file changes again.
        self.read = now;
        let read = self.files.read();
        self.follow_paths();
        let (severity, text, reason) = match read {
            Ok(true) => {
                let text = "read again: the new content is in force";
                tracing::info!("{what} {text}");
                (Severity::Good, text, None)
            }
            Ok(false) if is_asked => {
                let text = "read again: nothing has changed";
                tracing::info!("{what} {text}");
                (Severity::Neutral, text, None)
            }
            Ok(false) => return None,
            Err(error) => {
                let text = "not read again: the previous content stays in force";
                tracing::error!(%error, "{what} {text}");
                // One mistake a line; an event has one line.
                let reason = error.to_string().replace('\n', "; ");
                (Severity::Bad, text, Some(reason))
            }
        };
        Some(Event {
            kind: EventKind::Reload,
            severity,
            subject: what.to_owned(),
            text: text.to_owned(),
            reason,
        })
    }

    /// Takes the stamps of files that the content has named since it was read.
    fn follow_paths(&mut self) {
        let mut now = stamps(&self.files);
        for (path, stamp) in &mut now {
            if let Some(read) = self.read.get(path) {
                *stamp = *read;
            }
        }
        self.read.clone_from(&now);
        self.seen = now;
    }
}

fn stamps(files: &impl Files) -> Stamps {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    let paths = files.paths().into_iter();
    paths.map(|path| (path.to_owned(), stamp(path))).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A file whose reads are counted.
    struct Counted {
        path: PathBuf,
        reads: Cell<u32>,
    }

    impl Files for Counted {
        fn paths(&self) -> Vec<&Path> {
            vec![&self.path]
        }

        fn read(&mut self) -> Result<bool, Error> {
            self.reads.set(self.reads.get() + 1);
            match fs::read(&self.path) {
                Ok(_) => Ok(true),
                Err(_) => Err(Error::NoUsers(self.path.clone())),
            }
        }
    }

    #[test]
    fn a_change_is_read_once_it_has_settled_and_a_broken_file_once() {
        let name = format!("glassline-reload-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "a").expect("written");
        let counted = Counted {
            path: path.clone(),
            reads: Cell::new(0),
        };
        let mut watched = Watched::new(counted);
        let mut reads_at = |is_asked| {
            watched.look(is_asked, "test");
            watched.files.reads.get()
        };
        assert_eq!(reads_at(false), 0);
        fs::write(&path, "ab").expect("written");
        assert_eq!(reads_at(false), 0, "it may still be written");
        fs::write(&path, "abc").expect("written");
        assert_eq!(reads_at(false), 0);
        assert_eq!(reads_at(false), 1);
        assert_eq!(reads_at(false), 1);
        assert_eq!(reads_at(true), 2, "as often as it is asked for");
        fs::remove_file(&path).expect("there");
        assert_eq!(reads_at(false), 2);
        assert_eq!(reads_at(false), 3);
        assert_eq!(reads_at(false), 3, "gone once");
        fs::write(&path, "abcd").expect("written");
        assert_eq!(reads_at(true), 4, "at once");
        assert_eq!(reads_at(false), 4);
        fs::remove_file(&path).expect("there");
    }
}
