//! Which folder was at which path, so that a disk that is not mounted, and disks that were swapped, are
//! noticed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use glassline_runtime::{private_file, small_file};

use crate::folder::FolderId;

/// Largest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// The folders that were written to before.
#[derive(Debug, Default)]
pub(super) struct KnownFolders {
    /// The file that keeps them; `None` keeps them as long as the server runs.
    file: Option<PathBuf>,
    folders: BTreeMap<PathBuf, FolderId>,
}

/// The remark about a folder that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recognized {
    /// The folder is the one of before, or a new one.
    Expected,
    /// Another folder was at the path before. The text says so.
    Swapped(String),
}

impl KnownFolders {
    /// Reads the file. One that cannot be read is begun anew.
    pub(super) fn read(file: Option<PathBuf>) -> Self {
        let text = file
            .as_ref()
            .and_then(|it| small_file::read(it, BYTES_MAX).ok());
        let folders = text.and_then(|it| serde_json::from_slice(&it).ok());
        Self {
            file,
            folders: folders.unwrap_or_default(),
        }
    }

    /// Returns which folder was at `path`.
    pub(super) fn at(&self, path: &Path) -> Option<FolderId> {
        self.folders.get(path).copied()
    }

    /// Notes that the folder `id` is at `path`.
    pub(super) fn note(&mut self, path: &Path, id: FolderId) -> Recognized {
        let before = self.folders.get(path).copied();
        if before == Some(id) {
            return Recognized::Expected;
        }
        let elsewhere = self.folders.iter().find(|(_, it)| **it == id);
        let recognized = match (before, elsewhere) {
            (None, None) => Recognized::Expected,
            (_, Some((other, _))) => Recognized::Swapped(format!(
                "its recordings were at {} before: were disks swapped?",
                other.display()
            )),
            (Some(_), None) => Recognized::Swapped(
                "it has other recordings than before: is another disk mounted there?".to_owned(),
            ),
        };
        self.folders.insert(path.to_owned(), id);
        // A mount point without its disk is still there.
        self.folders.retain(|it, _| it.exists());
        self.write();
        recognized
    }

    fn write(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let text = serde_json::to_string_pretty(&self.folders).expect("plain data");
        if let Err(error) = private_file::replace(file, &text) {
            let file = file.display();
            tracing::warn!(%file, %error, "which disks have recordings cannot be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::scratch::Scratch;

    #[test]
    fn two_disks_that_were_swapped_are_noticed_after_a_restart() {
        let scratch = Scratch::new();
        let paths = ["a", "b"].map(|it| scratch.path().join(it));
        // The server has kept nothing before, so not even the folder is there.
        let file = Some(scratch.path().join("state").join("recordings.json"));
        let ids = paths
            .each_ref()
            .map(|it| Folder::open(it, None).expect("a folder").id());
        let mut known = KnownFolders::read(file.clone());
        assert_eq!(known.note(&paths[0], ids[0]), Recognized::Expected);
        assert_eq!(known.note(&paths[1], ids[1]), Recognized::Expected);
        let mut known = KnownFolders::read(file.clone());
        assert_eq!(known.at(&paths[1]), Some(ids[1]));
        assert_eq!(known.note(&paths[0], ids[0]), Recognized::Expected);
        let Recognized::Swapped(text) = known.note(&paths[0], ids[1]) else {
            panic!("another disk is at the path");
        };
        assert!(text.contains("/b before"), "{text}");
        let another = Folder::open(&scratch.path().join("c"), None).expect("a folder");
        let Recognized::Swapped(text) = known.note(&paths[0], another.id()) else {
            panic!("a disk that nobody knows is at the path");
        };
        assert!(text.contains("another disk"), "{text}");
    }
}
