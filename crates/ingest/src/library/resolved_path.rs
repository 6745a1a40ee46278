//! Resolves a name to a file that may be played.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use glassline_demux::Format;

const NAME_BYTES_MAX: usize = 1024;

/// A file below the library's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    /// Path of the file with all links resolved.
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// Size and modification time, which tell one content of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
}

/// Returns whether `name` is a valid name of a media file: a relative path without hidden parts,
/// with an extension of media. Files of some extensions are refused when they are opened, with the
/// reason.
pub(super) fn is_media_name(name: &str) -> bool {
    is_name(name) && is_media(Path::new(name))
}

fn is_name(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.len() <= NAME_BYTES_MAX && !name.contains(['\\', '\0']) && name.split('/').all(is_plain)
}

fn is_media(path: &Path) -> bool {
    Format::of(path).is_some() || Format::unread(path).is_some()
}

/// Resolves `name` below `folder`. Returns `None` if there is no such file, if a link leads out of
/// the folder, or if it is not a regular file. Reads the disk.
pub(super) fn resolve(folder: &Path, name: &str) -> Option<ResolvedPath> {
    is_media_name(name).then(|| locate(folder, name)).flatten()
}

/// Returns whether `folder` has a file called `name` whose extension is of no media that is known.
/// Reads the disk.
pub(super) fn is_other_file(folder: &Path, name: &str) -> bool {
    is_name(name) && !is_media(Path::new(name)) && locate(folder, name).is_some()
}

fn locate(folder: &Path, name: &str) -> Option<ResolvedPath> {
    let folder = folder.canonicalize().ok()?;
    // Opening a pipe or a device would block the thread.
    let path = folder.join(name).canonicalize().ok()?;
    let inside = path.strip_prefix(&folder).ok()?;
    let is_hidden = |part: &std::ffi::OsStr| part.as_encoded_bytes().starts_with(b".");
    if inside.iter().any(is_hidden) {
        return None;
    }
    let meta = path.metadata().ok().filter(Metadata::is_file)?;
    let stamp = Stamp {
        bytes: meta.len(),
        modified: meta.modified().ok(),
    };
    Some(ResolvedPath { path, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_that_trick_are_no_files() {
        for good in [
            "a.ogg",
            "films/b c.h264",
            "x/y/z.OGG",
            "ä.ogg",
            "a..ogg",
            "a.aiff",
        ] {
            assert!(is_media_name(good), "{good}");
        }
        let long = format!("{}.ogg", "x".repeat(NAME_BYTES_MAX));
        for bad in [
            "",
            "/a.ogg",
            "../a.ogg",
            "x/../a.ogg",
            "x/./a.ogg",
            "x//a.ogg",
            ".a.ogg",
            ".x/a.ogg",
            "a.ogg/",
            "x\\..\\a.ogg",
            "a\0.ogg",
            "a.txt",
            "passwd",
            &long,
        ] {
            assert!(!is_media_name(bad), "{bad:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_may_lead_around_the_folder_but_not_out_of_it() {
        use std::os::unix::fs::symlink;
        let root = std::env::temp_dir().join(format!("glassline-path-{}", std::process::id()));
        let folder = root.join("media");
        fs::create_dir_all(folder.join("films/.cut")).expect("folders");
        for file in [
            "secret.ogg",
            "media/a.ogg",
            "media/films/b.ogg",
            "media/films/.cut/c.ogg",
        ] {
            fs::write(root.join(file), file).expect("a file");
        }
        let link = |to: &Path, name: &str| symlink(to, folder.join(name)).expect("a link");
        link(&root.join("secret.ogg"), "out.ogg");
        link(&root, "up");
        link(&folder.join("films/b.ogg"), "b.ogg");
        link(&folder.join("films/.cut/c.ogg"), "c.ogg");
        fs::create_dir(folder.join("d.ogg")).expect("a folder");
        let found = |name: &str| resolve(&folder, name).map(|it| it.stamp.bytes);
        let results = [
            "a.ogg",
            "films/b.ogg",
            "b.ogg",
            "out.ogg",
            "up/secret.ogg",
            "c.ogg",
            "d.ogg",
            "e.ogg",
            "up/media/a.ogg",
        ]
        .map(found);
        fs::write(folder.join("notes.txt"), "x").expect("a file");
        let is_other = ["notes.txt", "a.ogg", "none.txt", "../x.txt", "films"]
            .map(|name| is_other_file(&folder, name));
        let same = resolve(&folder, "b.ogg") == resolve(&folder, "films/b.ogg");
        fs::remove_dir_all(&root).expect("cleaned up");
        let expected = [
            Some(11),
            Some(17),
            Some(17),
            None,
            None,
            None,
            None,
            None,
            Some(11),
        ];
        assert_eq!(results, expected);
        assert!(same);
        assert_eq!(is_other, [true, false, false, false, false]);
    }
}
