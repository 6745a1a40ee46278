//! A folder of recordings: its identity, its lock, and the names of its files.
//!
//! ```text
//! folder/.glassline/identity.json    which folder it is, so that mounts that were swapped are noticed
//!        .glassline/lock             held by the server that writes here
//!        .glassline/index.sqlite     the catalogue's index, which can be made anew
//!        site/cam1/2026-11-30/14-03-05.123Z.mp4
//!                             marks.jsonl, stages.jsonl
//! ```
//!
//! No component of a stream's name begins with a dot, so no stream has the folder of ours.

mod emptied;
mod identity;
mod layout;

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

pub(crate) use emptied::remove_empty_folders;
pub use identity::FolderId;
pub(crate) use layout::{FilePlace, MARKS_FILE, STAGES_FILE, day_folder};

/// Folder of the index and of notes, within a folder of recordings.
pub(crate) const OWN: &str = ".glassline";

/// A folder of recordings that this process may write to, for as long as the value lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    id: FolderId,
    /// Whether the folder was empty, and got its identity now.
    is_new: bool,
    /// The file that is locked.
    _lock: File,
}

/// Reason why recordings cannot be written to a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder, or a file of ours in it, cannot be made or read.
    #[error("recordings cannot be kept in {}: {action}: {error}", folder.display())]
    Io {
        /// Path of the folder.
        folder: PathBuf,
        /// The step that was tried.
        action: &'static str,
        /// The error that the system returned.
        error: io::Error,
    },
    /// Another process records into the folder.
    #[error(
        "another server records into {}{}: give each server a folder of its own, or stop the other one",
        folder.display(), Process(*process)
    )]
    Locked {
        /// Path of the folder.
        folder: PathBuf,
        /// Number of the process, if it is known.
        process: Option<u32>,
    },
    /// The folder had an identity and has none now: most likely its disk is not mounted.
    #[error(
        "{} has no recordings of this server any more, although it had: mount its disk again; to begin \
         anew in an empty folder, run `glassline recordings repair {}`",
        folder.display(), folder.display()
    )]
    Unmounted {
        /// Path of the folder.
        folder: PathBuf,
    },
}

struct Process(Option<u32>);

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |it| write!(f, " (process {it})"))
    }
}

impl FolderError {
    /// Returns whether it is the system that refuses, which may pass: a disk that is read-only or away.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Locked { .. })
    }
}

impl Folder {
    /// Opens the folder at `path`, which is made if it does not exist, for writing.
    ///
    /// `known` is the identity that the folder had before; with it, a folder without identity is taken
    /// for a mount point whose disk is missing.
    ///
    /// # Errors
    /// Returns [`FolderError`] with the folder, and what to do.
    pub fn open(path: &Path, known: Option<FolderId>) -> Result<Self, FolderError> {
        let own = path.join(OWN);
        let failed = |action| {
            move |error| FolderError::Io {
                folder: path.to_owned(),
                action,
                error,
            }
        };
        let before = identity::read(&own).map_err(failed("its identity cannot be read"))?;
        if before.is_none() && known.is_some() {
            return Err(FolderError::Unmounted {
                folder: path.to_owned(),
            });
        }
        std::fs::create_dir_all(&own).map_err(failed("the folder cannot be made"))?;
        let lock = lock(path, &own)?;
        let (id, is_new) = match before {
            Some(id) => (id, false),
            None => {
                let id = FolderId::draw();
                identity::write(&own, id).map_err(failed("its identity cannot be written"))?;
                (id, true)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            id,
            is_new,
            _lock: lock,
        })
    }

    /// Returns the identity of the folder at `path`, or `None` if it is no folder of recordings.
    ///
    /// # Errors
    /// Returns the system's error if the identity cannot be read.
    pub fn identity_of(path: &Path) -> io::Result<Option<FolderId>> {
        identity::read(&path.join(OWN))
    }

    /// Returns where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns which folder it is, wherever it is mounted.
    pub const fn id(&self) -> FolderId {
        self.id
    }

    /// Returns whether the folder was empty, and got its identity now.
    pub const fn is_new(&self) -> bool {
        self.is_new
    }
}

/// Locks the folder for this process. The system frees the lock when the process ends, however it does.
fn lock(path: &Path, own: &Path) -> Result<File, FolderError> {
    let failed = |error| FolderError::Io {
        folder: path.to_owned(),
        action: "its lock cannot be taken",
        error,
    };
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(own.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            return Err(FolderError::Locked {
                folder: path.to_owned(),
                process: read.ok().and_then(|_| text.trim().parse().ok()),
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let noted = file.set_len(0);
    noted
        .and_then(|()| write!(file, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_second_server_is_refused_and_a_mount_point_without_its_disk_too() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk");
        let first = Folder::open(&path, None).expect("an empty folder");
        assert!(first.is_new());
        let id = first.id();
        let refused = Folder::open(&path, None).expect_err("it is locked");
        assert!(!refused.may_pass());
        let own = std::process::id();
        let text = refused.to_string();
        assert!(text.contains(&format!("(process {own})")), "{text}");
        drop(first);
        let again = Folder::open(&path, Some(id)).expect("the lock is free");
        assert!(again.id() == id && !again.is_new());
        drop(again);
        let empty = scratch.path().join("empty");
        std::fs::create_dir(&empty).expect("a folder");
        let refused = Folder::open(&empty, Some(id)).expect_err("its disk is away");
        assert!(refused.to_string().contains("mount its disk"), "{refused}");
        assert_eq!(std::fs::read_dir(&empty).expect("a folder").count(), 0);
    }
}
