//! A folder for keys and certificates that the server itself makes or obtains.

#[cfg(unix)]
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glassline_runtime::{private_file, small_file};
use thiserror::Error;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A folder that only the server's user can read, with files that only that user can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFolder(PathBuf);

/// The reason why something cannot be kept.
#[derive(Debug, Error)]
pub enum StateError {
    /// No folder is configured, and the environment names none.
    #[error(
        "there is no folder for keys: set `state_folder`, or the variable STATE_DIRECTORY \
         (systemd: `StateDirectory=glassline`) or HOME"
    )]
    NoFolder,
    /// The folder cannot be made or used.
    #[error("cannot keep keys in {path}: {source}; set `state_folder` to a folder that this user may write", path = path.display())]
    Unusable {
        /// Path of the folder or file.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
}

/// Returns the folder for everything that the server keeps: the `configured` one, or that of the
/// service manager, or of the user.
///
/// # Errors
/// Returns [`StateError::NoFolder`] if none of them is known.
pub fn state_folder(configured: Option<&Path>) -> Result<PathBuf, StateError> {
    if let Some(folder) = configured {
        return Ok(folder.to_owned());
    }
    let of = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
    // systemd separates several folders by colons (systemd.exec(5)).
    if let Some(folders) = of("STATE_DIRECTORY") {
        let first = std::env::split_paths(&folders).next();
        return first.ok_or(StateError::NoFolder);
    }
    if let Some(folder) = of("XDG_STATE_HOME") {
        return Ok(Path::new(&folder).join("glassline"));
    }
    let home = of("HOME").ok_or(StateError::NoFolder)?;
    Ok(Path::new(&home).join(".local/state/glassline"))
}

impl StateFolder {
    /// Opens the folder `name` in `parent`, which is made if it does not exist. Both become readable
    /// by this user only if they are made here, and the inner one in any case.
    ///
    /// # Errors
    /// Returns [`StateError::Unusable`] with the path.
    pub(super) fn open(parent: &Path, name: &str) -> Result<Self, StateError> {
        let path = parent.join(name);
        make_private(&path).map_err(|source| StateError::Unusable {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    /// Returns the content of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns [`StateError::Unusable`] with the path.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, StateError> {
        let path = self.0.join(name);
        match small_file::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateError::Unusable { path, source }),
        }
    }

    /// Replaces a file as a whole: after a crash there is the old content or the new one.
    ///
    /// # Errors
    /// Returns [`StateError::Unusable`] with the path.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), StateError> {
        let path = self.0.join(name);
        private_file::replace(&path, text).map_err(|source| StateError::Unusable { path, source })
    }
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    private_file::make_folder(path)?;
    let rights = fs::metadata(path)?.permissions();
    match rights.mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(0o700)),
    }
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    private_file::make_folder(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_this_user_reads_the_folder_and_its_files() {
        let parent = std::env::temp_dir().join(format!("glassline-state-{}", std::process::id()));
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        let path = parent.join("keys");
        fs::create_dir_all(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        let folder = StateFolder::open(&parent, "keys").expect("a folder");
        assert_eq!(mode(&path), 0o700);
        assert_eq!(folder.read("a.pem").expect("readable"), None);
        fs::write(path.join("a.pem.new"), "of a crash").expect("ours");
        for text in ["one", "two"] {
            folder.write("a.pem", text).expect("written");
            assert_eq!(
                folder.read("a.pem").expect("readable").as_deref(),
                Some(text)
            );
            assert_eq!(mode(&path.join("a.pem")), 0o600);
        }
        assert!(!path.join("a.pem.new").exists());
        let file = path.join("a.pem");
        let error = StateFolder::open(&file, "below").expect_err("a file is no folder");
        assert!(error.to_string().contains("`state_folder`"), "{error}");
        fs::remove_dir_all(parent).expect("ours");
    }
}
