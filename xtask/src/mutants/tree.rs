//! A copy of the checkout, at a path that stays, in which faults are put.
//!
//! The path stays so that a run builds again only what changed since the last one, and the copy
//! leaves the checkout alone while somebody edits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Copies what git would commit to `root`. Files that are the same already keep their times.
    ///
    /// # Errors
    /// Files could not be listed, read or written.
    pub(super) fn at(root: PathBuf) -> Result<Tree, String> {
        let tree = Tree { root };
        let mut list = Command::new("git");
        list.current_dir(process::root()).args(["ls-files", "-z"]);
        list.args(["--cached", "--others", "--exclude-standard"]);
        let listed = process::output_of(&mut list).ok_or("git ls-files failed")?;
        let listed: Vec<_> = listed.split('\0').filter(|it| !it.is_empty()).collect();
        tree.remove_others(&listed)?;
        for file in listed {
            let from = process::root().join(file);
            // A link stays what it points to, and a file that was deleted has no copy.
            if let Ok(content) = fs::read(&from) {
                tree.write(file, &content)?;
                let copied = fs::metadata(&from).map(|it| it.permissions());
                let set = copied.and_then(|it| fs::set_permissions(tree.path(file), it));
                set.map_err(|error| format!("{file}: {error}"))?;
            }
        }
        Ok(tree)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Writes a file unless it has this content already.
    pub(super) fn write(&self, file: &str, content: &[u8]) -> Result<(), String> {
        let path = self.path(file);
        if fs::read(&path).is_ok_and(|it| it == content) {
            return Ok(());
        }
        let told = |error| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(told)?;
        }
        fs::write(&path, content).map_err(told)
    }

    /// Removes files of an earlier copy that are not `listed`.
    fn remove_others(&self, listed: &[&str]) -> Result<(), String> {
        let known: std::collections::HashSet<_> = listed.iter().map(|it| self.path(it)).collect();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if !known.contains(&path) {
                    fs::remove_file(&path)
                        .map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
        }
        Ok(())
    }
}
