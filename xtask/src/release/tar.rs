//! Archives in the format of POSIX (ustar), the same for the same files.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::package::at;

/// Size of a block; everything is filled up to whole ones.
const BLOCK: usize = 512;

/// Longest name in a header's field.
const NAME_BYTES_MAX: usize = 100;

/// A file or folder of an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Path without a slash in front; folders end in one.
    pub(super) path: String,
    pub(super) content: Content,
    pub(super) mode: u32,
    /// Number of user and group.
    pub(super) owner: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Folder,
    File(Vec<u8>),
}

impl Entry {
    pub(super) fn folder(path: &str) -> Self {
        Self {
            path: format!("{path}/"),
            content: Content::Folder,
            mode: 0o755,
            owner: 0,
        }
    }

    pub(super) fn file(path: &str, content: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            content: Content::File(content),
            mode: 0o644,
            owner: 0,
        }
    }

    pub(super) fn program(path: &str, content: Vec<u8>) -> Self {
        Self {
            mode: 0o755,
            ..Self::file(path, content)
        }
    }
}

/// Writes an archive of `entries` with the time `seconds` since 1970.
///
/// # Errors
/// A path is too long for a header, or `to` cannot be written.
pub(super) fn write(entries: &[Entry], seconds: u64, to: &mut impl Write) -> io::Result<()> {
    for entry in entries {
        let (bytes, kind): (&[u8], u8) = match &entry.content {
            Content::Folder => (&[], b'5'),
            Content::File(bytes) => (bytes, b'0'),
        };
        let header = Header {
            path: &entry.path,
            mode: entry.mode,
            owner: entry.owner,
            bytes: bytes.len() as u64,
            seconds,
            kind,
        };
        to.write_all(&header.block()?)?;
        to.write_all(bytes)?;
        to.write_all(&[0; BLOCK][..filling(bytes.len())])?;
    }
    to.write_all(&[0; 2 * BLOCK])
}

fn filling(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK) - bytes
}

struct Header<'a> {
    path: &'a str,
    mode: u32,
    owner: u32,
    bytes: u64,
    seconds: u64,
    kind: u8,
}

impl Header<'_> {
    fn block(&self) -> io::Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        if self.path.len() > NAME_BYTES_MAX {
            let text = format!("{} is too long a name for an archive", self.path);
            return Err(io::Error::other(text));
        }
        let mut put =
            |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, self.path);
        put(100, &format!("{:07o}", self.mode));
        put(108, &format!("{:07o}", self.owner));
        put(116, &format!("{:07o}", self.owner));
        put(124, &format!("{:011o}", self.bytes));
        put(136, &format!("{:011o}", self.seconds));
        // The sum is taken with spaces in its own place.
        put(148, "        ");
        put(257, "ustar");
        put(263, "00");
        block[156] = self.kind;
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        Ok(block)
    }
}

/// Writes an archive of everything below `folder`, in the order of names.
///
/// # Errors
/// A file cannot be read, or the archive cannot be written.
pub(super) fn of_folder(folder: &Path, archive: &Path, seconds: u64) -> Result<(), String> {
    let mut entries = Vec::new();
    collect(folder, "", &mut entries)?;
    let file = fs::File::create(archive).map_err(|error| at(archive, &error))?;
    let mut file = BufWriter::new(file);
    let written = write(&entries, seconds, &mut file).and_then(|()| file.flush());
    written.map_err(|error| at(archive, &error))
}

fn collect(folder: &Path, below: &str, entries: &mut Vec<Entry>) -> Result<(), String> {
    let read = fs::read_dir(folder).map_err(|error| at(folder, &error))?;
    let mut paths: Vec<_> = read.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.sort_unstable();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{below}{name}");
        if path.is_dir() {
            entries.push(Entry::folder(&name));
            collect(&path, &format!("{name}/"), entries)?;
        } else {
            let bytes = fs::read(&path).map_err(|error| at(&path, &error))?;
            entries.push(Entry::file(&name, bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process;

    #[test]
    fn tar_reads_what_was_written() {
        let folder = std::env::temp_dir().join(format!("glassline-tar-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("ours");
        let entries = [
            Entry::folder("usr"),
            Entry::program("usr/program", vec![7; 1_000]),
            Entry {
                owner: 65_532,
                ..Entry::file("usr/own", b"x".to_vec())
            },
        ];
        let mut bytes = Vec::new();
        write(&entries, 1_000_000_000, &mut bytes).expect("short names");
        assert_eq!(bytes.len() % BLOCK, 0);
        let archive = folder.join("a.tar");
        fs::write(&archive, &bytes).expect("ours");
        let mut tar = Command::new("tar");
        tar.args([
            "--list",
            "--verbose",
            "--numeric-owner",
            "--utc",
            "--full-time",
            "--file",
        ]);
        let listed = process::output_of(tar.arg(&archive)).expect("tar reads it");
        let expected = [
            "drwxr-xr-x 0/0 0 2001-09-09 01:46:40 usr/",
            "-rwxr-xr-x 0/0 1000 2001-09-09 01:46:40 usr/program",
            "-rw-r--r-- 65532/65532 1 2001-09-09 01:46:40 usr/own",
        ];
        let listed: Vec<String> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(listed, expected);
        let long = Entry::file(&"x".repeat(101), Vec::new());
        assert!(write(&[long], 0, &mut Vec::new()).is_err());
        fs::remove_dir_all(folder).expect("ours");
    }
}
