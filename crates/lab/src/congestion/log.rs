//! A log of outcomes on disk, so that a run of hours can be stopped and resumed.
//!
//! The file has JSON lines: the first describes the run, each other one is an [`Outcome`]. A line
//! that was cut off by the end of a process is dropped when the file is opened again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::outcome::Outcome;

/// Longest line of a log, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Description of a run. Outcomes belong together only if all fields are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Name of the population.
    pub population: String,
    /// Version of the population.
    pub population_version: u32,
    /// Digest of the population's text, in hexadecimal.
    pub population_digest: String,
    /// Seed that decides which sessions are drawn.
    pub seed: u64,
    /// Whether sessions are drawn from the seeds that nothing is tuned on.
    pub held_out: bool,
    /// Virtual duration of each session, in ms.
    pub duration_ms: u64,
    /// Digest of the program, in hexadecimal, since other code has other outcomes.
    pub program: String,
}

/// The reason why a log cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused to open, read or write the file.
    #[error("{file}: {source}", file = file.display())]
    Io {
        /// Path of the log.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is no log of `bench congestion`.
    #[error(
        "{file}, line {line}: this is no log of `glassline bench congestion`: {reason}; \
         name another file",
        file = file.display()
    )]
    Alien {
        /// Path of the file.
        file: PathBuf,
        /// Line of the file, from 1.
        line: usize,
        /// The fault that it has.
        reason: String,
    },
    /// The log belongs to another run.
    #[error(
        "{file} holds outcomes of another run: its {what} is {theirs}, now it is {ours}; \
         name another file, or remove this one to begin anew",
        file = file.display()
    )]
    Other {
        /// Path of the file.
        file: PathBuf,
        /// Name of the field that differs.
        what: &'static str,
        /// Value in the file.
        theirs: String,
        /// Value of this run.
        ours: String,
    },
}

/// A log that outcomes are appended to.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log at `path`, or makes a new one. Returns the outcomes that it holds, too.
    pub fn open(path: &Path, head: &Head) -> Result<(Self, Vec<Outcome>), LogError> {
        let failed = |source| LogError::Io {
            file: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(failed)?;
        let (known, outcomes, end) = read(&file, path)?;
        let mut log = Self {
            path: path.to_owned(),
            file,
        };
        log.file.set_len(end).map_err(failed)?;
        log.file.seek(SeekFrom::End(0)).map_err(failed)?;
        match known {
            Some(known) => known.agrees(head, path)?,
            None => log.line(head)?,
        }
        Ok((log, outcomes))
    }

    /// Appends `outcome` to the log.
    pub fn add(&mut self, outcome: &Outcome) -> Result<(), LogError> {
        self.line(outcome)
    }

    /// Writes a line at once, so that a process that is killed leaves at most one incomplete
    /// line.
    fn line(&mut self, value: &impl Serialize) -> Result<(), LogError> {
        let mut text = serde_json::to_string(value).expect("plain data becomes JSON");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| LogError::Io {
            file: self.path.clone(),
            source,
        })
    }
}

/// Digest of a program or a text, to compare two of them (FNV-1a over words of eight bytes).
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reads the head and the outcomes of `file`, and the offset at which its last whole line ends.
fn read(file: &File, path: &Path) -> Result<(Option<Head>, Vec<Outcome>, u64), LogError> {
    let mut reader = BufReader::new(file);
    let (mut head, mut outcomes, mut end) = (None, Vec::new(), 0);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut bounded = io::Read::take(&mut reader, LINE_BYTES_MAX);
        let read = bounded.read_until(b'\n', &mut text);
        let read = read.map_err(|source| LogError::Io {
            file: path.to_owned(),
            source,
        })?;
        if !text.ends_with(b"\n") && (read as u64) < LINE_BYTES_MAX {
            break;
        }
        let alien = |reason: String| LogError::Alien {
            file: path.to_owned(),
            line,
            reason,
        };
        if !text.ends_with(b"\n") {
            return Err(alien("a line does not end with a newline".to_owned()));
        }
        if head.is_none() {
            let found = serde_json::from_slice(&text);
            head = Some(found.map_err(|error| alien(error.to_string()))?);
        } else {
            let found = serde_json::from_slice(&text);
            outcomes.push(found.map_err(|error| alien(error.to_string()))?);
        }
        end += read as u64;
    }
    Ok((head, outcomes, end))
}

impl Head {
    fn agrees(&self, now: &Self, path: &Path) -> Result<(), LogError> {
        let other = |what, theirs: String, ours: String| LogError::Other {
            file: path.to_owned(),
            what,
            theirs,
            ours,
        };
        let whole = |head: &Self| {
            format!(
                "{} {} ({})",
                head.population, head.population_version, head.population_digest
            )
        };
        let drawn = |head: &Self| match head.held_out {
            true => format!("{} (held out)", head.seed),
            false => head.seed.to_string(),
        };
        let seconds = |head: &Self| format!("{} ms", head.duration_ms);
        let parts: [(&str, String, String); 4] = [
            ("population", whole(self), whole(now)),
            ("seed", drawn(self), drawn(now)),
            ("session time", seconds(self), seconds(now)),
            ("program", self.program.clone(), now.program.clone()),
        ];
        let differing = parts.into_iter().find(|(_, theirs, ours)| theirs != ours);
        differing.map_or(Ok(()), |(what, theirs, ours)| {
            Err(other(what, theirs, ours))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::outcome::example;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let folder = std::env::temp_dir().join(format!("glassline-log-{name}-{id}"));
            std::fs::create_dir_all(&folder).expect("a folder");
            Self(folder)
        }

        fn log(&self) -> PathBuf {
            self.0.join("run.jsonl")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn head() -> Head {
        Head {
            population: "study2019".to_owned(),
            population_version: 1,
            population_digest: "abc".to_owned(),
            seed: 1,
            held_out: false,
            duration_ms: 120_000,
            program: "f00".to_owned(),
        }
    }

    #[test]
    fn a_run_goes_on_where_it_stopped_even_within_a_line() {
        let folder = Folder::new("resume");
        let (mut log, before) = Log::open(&folder.log(), &head()).expect("a new log");
        assert!(before.is_empty());
        log.add(&example(0, "cubic", "home")).expect("it is added");
        log.add(&example(0, "glide", "home")).expect("it is added");
        drop(log);
        let text = std::fs::read_to_string(folder.log()).expect("written");
        std::fs::write(folder.log(), &text[..text.len() - 30]).expect("cut off");
        let (mut log, before) = Log::open(&folder.log(), &head()).expect("the same run");
        assert_eq!(before, [example(0, "cubic", "home")]);
        log.add(&example(0, "glide", "home")).expect("it is added");
        drop(log);
        assert_eq!(std::fs::read_to_string(folder.log()).expect("read"), text);
    }

    #[test]
    fn outcomes_of_another_run_are_not_mixed_in() {
        let folder = Folder::new("other");
        drop(Log::open(&folder.log(), &head()).expect("a new log"));
        let changed = |change: fn(&mut Head)| {
            let mut head = head();
            change(&mut head);
            let error = Log::open(&folder.log(), &head).expect_err("another run");
            error.to_string()
        };
        assert!(changed(|it| it.seed = 2).contains("seed is 1, now it is 2"));
        assert!(changed(|it| it.held_out = true).contains("1 (held out)"));
        assert!(changed(|it| it.program = "b0b".to_owned()).contains("program"));
        assert!(changed(|it| it.population_digest = String::new()).contains("population"));
        assert!(changed(|it| it.duration_ms = 1).contains("session time"));
    }

    #[test]
    fn files_that_are_no_logs_are_named_and_left_alone() {
        let folder = Folder::new("alien");
        for text in ["hello\n", "{}\n", "[1]\n{}\n"] {
            std::fs::write(folder.log(), text).expect("written");
            let error = Log::open(&folder.log(), &head()).expect_err("no log");
            assert!(error.to_string().contains("line 1"), "{error}");
            let left = std::fs::read_to_string(folder.log()).expect("read");
            assert_eq!(left, text);
        }
        let error = Log::open(&folder.0.join("no/such.jsonl"), &head()).expect_err("no folder");
        assert!(error.to_string().contains("such.jsonl"), "{error}");
    }
}
