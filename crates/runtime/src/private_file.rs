//! Files that only the server's user may read, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces the file at `path` as a whole: after a crash there is the old content or the new one.
/// Nobody but the server's user can read it, nor a folder that is made for it.
///
/// # Errors
/// Returns the error of the system; the old content is then still there.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = folder_of(path);
    if let Some(folder) = folder {
        make_folder(folder)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    // A file left by a crash may have other rights.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private_file(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    // The new name is on the disk only when its folder is.
    match folder {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Makes a folder, and those above it, which only the server's user can read. Folders that exist stay
/// as they are.
///
/// # Errors
/// Returns the error of the system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Opens a file to read it and to add to its end. The file and its folder are made if they do not exist.
///
/// # Errors
/// Returns the error of the system.
pub fn appending(path: &Path) -> io::Result<File> {
    if let Some(folder) = folder_of(path) {
        make_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).append(true).create(true).open(path)
}

/// Returns the folder of a file; `None` for one of the working directory.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|it| *it != Path::new(""))
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
