//! The file of all changes: a JSON object a line, which only the server's user can read.
//!
//! Each line is on the disk before the change is answered. A change that was repeated within its
//! minute has a second line with its number and the count. Full files are kept under older names, and
//! the oldest one is removed, so that the disk is bounded.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use glassline_runtime::{escaped_json, private_file, small_file};
use serde::{Deserialize, Serialize};

use super::RecordedChange;
use crate::auth::Role;

/// Size from which a file is full, and how many full ones are kept: some 200,000 changes.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FULL_FILES: u32 = 3;

/// Bytes at the end of a file in which the last number is looked for.
const TAIL_BYTES: u64 = 1 << 20;

/// One line of the file.
#[derive(Serialize)]
struct WrittenChange<'a> {
    number: u64,
    /// Calendar time in ms since 1970 (UTC).
    at_ms: u64,
    who: &'a str,
    role: Option<Role>,
    from: String,
    action: &'static str,
    target: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    count: u64,
}

/// A line as far as the next number depends on it.
#[derive(Deserialize)]
struct Numbered {
    number: u64,
}

/// The file, open for its next line.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    /// `None` until a line is written, and after an error.
    open: Option<Appending>,
    /// Whether the log has said that the file cannot be written.
    is_failing: bool,
}

#[derive(Debug)]
struct Appending {
    file: File,
    bytes: u64,
}

impl AuditFile {
    /// Opens the file at `path`, which is made with its first line, and returns the last number that it
    /// has.
    pub(super) fn open(path: PathBuf) -> (Self, u64) {
        let file = Self {
            path,
            open: None,
            is_failing: false,
        };
        let last = last_number(&file.path).and_then(|it| match it {
            0 => last_number(&file.full(1)),
            number => Ok(number),
        });
        let last = last.unwrap_or_else(|error| {
            let path = file.path.display();
            tracing::error!(%path, %error, "the file of operators' changes cannot be read: its numbers begin anew");
            0
        });
        (file, last)
    }

    /// Writes an entry, and waits until it is on the disk. An error is told in the log, which has the
    /// entry, too.
    pub(super) fn append(&mut self, entry: &RecordedChange) {
        let written = self.write(&line(entry));
        match &written {
            Ok(()) if self.is_failing => {
                tracing::info!("operators' changes are written to their file again");
            }
            Err(error) if !self.is_failing => {
                let path = self.path.display();
                tracing::error!(%path, %error, "operators' changes cannot be written to their file: the log alone has them");
            }
            _ => {}
        }
        self.is_failing = written.is_err();
        if self.is_failing {
            self.open = None;
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let appending = match self.open.take() {
            Some(appending) if appending.bytes < FILE_BYTES_MAX => appending,
            Some(_) => {
                self.rotate()?;
                appending(&self.path)?
            }
            None => {
                let found = appending(&self.path)?;
                match found.bytes < FILE_BYTES_MAX {
                    true => found,
                    false => {
                        drop(found);
                        self.rotate()?;
                        appending(&self.path)?
                    }
                }
            }
        };
        let appending = self.open.insert(appending);
        appending.file.write_all(line.as_bytes())?;
        appending.bytes += line.len() as u64;
        appending.file.sync_data()
    }

    /// Gives full files their older names; the oldest one is replaced.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..FULL_FILES).rev() {
            match fs::rename(self.full(number), self.full(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.full(1))
    }

    fn full(&self, number: u32) -> PathBuf {
        self.path.with_extension(format!("{number}.jsonl"))
    }
}

fn line(
    RecordedChange {
        number,
        at,
        change,
        count,
    }: &RecordedChange,
) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = WrittenChange {
        number: *number,
        at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        who: &change.who,
        role: change.role,
        from: change.from.to_string(),
        action: change.action,
        target: &change.target,
        status: change.status,
        reason: change.reason.as_deref(),
        count: *count,
    };
    let line = serde_json::to_string(&line).expect("plain data");
    format!("{}\n", escaped_json(&line))
}

/// Opens the file for its next line. A line that a crash has cut is ended.
fn appending(path: &Path) -> io::Result<Appending> {
    let mut file = private_file::appending(path)?;
    let bytes = file.metadata()?.len();
    let mut last = [b'\n'];
    if bytes > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(Appending { file, bytes })
}

/// Returns the highest number at the end of a file; 0 without one.
fn last_number(path: &Path) -> io::Result<u64> {
    let mut file = match small_file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let lines = tail.split(|byte| *byte == b'\n');
    let numbers = lines.filter_map(|it| serde_json::from_slice::<Numbered>(it).ok());
    Ok(numbers.map(|it| it.number).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::tests::change;
    use super::*;

    fn entry(number: u64) -> RecordedChange {
        RecordedChange {
            number,
            at: SystemTime::UNIX_EPOCH,
            change: change("putToken", "PUT /api/v1/tokens/a"),
            count: 1,
        }
    }

    #[test]
    fn a_full_file_makes_room_a_cut_line_costs_itself_and_numbers_go_on() {
        let name = format!("glassline-audit-file-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let path = folder.join("api.audit.jsonl");
        let (mut file, last) = AuditFile::open(path.clone());
        assert_eq!(last, 0);
        file.append(&entry(1));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let rights = fs::metadata(&path).expect("made").permissions();
            assert_eq!(rights.mode() & 0o777, 0o600);
        }
        // A crash within the second line.
        fs::write(&path, format!("{}{{\"number\":2,\"at", line(&entry(1)))).expect("ours");
        let (mut file, last) = AuditFile::open(path.clone());
        assert_eq!(last, 1);
        file.append(&entry(2));
        assert_eq!(AuditFile::open(path.clone()).1, 2);
        for round in 0..5 {
            let full = File::options().append(true).open(&path).expect("there");
            full.set_len(FILE_BYTES_MAX).expect("sparse");
            let (mut file, _) = AuditFile::open(path.clone());
            file.append(&entry(3 + round));
            assert_eq!(AuditFile::open(path.clone()).1, 3 + round);
        }
        let files = fs::read_dir(&folder).expect("ours").count();
        assert_eq!(files, 1 + 3, "the disk is bounded");
        fs::remove_dir_all(folder).expect("ours");
    }
}
