//! The file in which the server keeps what was made over the API.
//!
//! The file is the server's own: the operator's configuration is never written. It has a version, is
//! replaced as a whole, and can be read by the server's user only, since URLs of cameras have
//! passwords, and users have Digest secrets.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use glassline_access::auth::Name;
use glassline_config::SourceKeys;
use glassline_runtime::{private_file, small_file};
use serde::{Deserialize, Serialize};

use super::kept_logins::{KeptToken, KeptUser};

/// Version of the form that this server writes, and the only one that it reads.
const VERSION: u32 = 1;

/// Size beyond which the file does not grow, in bytes. A thousand sources have some 200 kB.
const BYTES_MAX: usize = 16 << 20;

/// Largest file that is read, in bytes: one that another version, or a person, let grow further does
/// not keep the server from its start.
const READ_BYTES_MAX: u64 = 256 << 20;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    /// Sources by the names of their streams.
    #[serde(default)]
    pub(super) sources: BTreeMap<String, SourceKeys>,
    /// Users by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) users: BTreeMap<Name, KeptUser>,
    /// Tokens by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tokens: BTreeMap<Name, KeptToken>,
}

/// The content with the version of its form, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    #[serde(flatten)]
    content: &'a Content,
}

/// The version alone, which is read before anything else is.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// No path is configured, and no folder for the server's files is known.
    #[error("there is no file to keep it in: set `admin.state_file` or `state_folder`")]
    NoPath,
    /// The file cannot be read or written.
    #[error("{}: {source}; `admin.state_file` names the file", .path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The content is not what this server writes.
    #[error(
        "{}: {reason}; nothing was changed: repair the file, or move it away to start without what was made over the API",
        .path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The fault, with line and column.
        reason: String,
    },
    /// Another version of the server wrote the file.
    #[error(
        "{}: the file has version {found}, and this server reads version {VERSION}: start the server that wrote it",
        .path.display()
    )]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version that the file has.
        found: u32,
    },
    /// The change would let the file grow too far.
    #[error(
        "what is made over the API would have {bytes} bytes, and its file has {BYTES_MAX} at most: delete sources, users or tokens first, or make shorter ones"
    )]
    Full {
        /// Size that the file would have.
        bytes: usize,
    },
    /// Somebody else changed the file since this server read it.
    #[error(
        "{}: something else has changed the file since the server read it: restart the server to read it again, and let each server have a file of its own",
        .path.display()
    )]
    Changed {
        /// Path of the file.
        path: PathBuf,
    },
}

/// The file, and what this server knows to be in it.
#[derive(Debug)]
pub(super) struct StateFile {
    path: Option<PathBuf>,
    /// The text that was read or written last; `None` without a file.
    known: Option<String>,
    content: Content,
}

impl StateFile {
    /// Returns how much the file has, for the log: it may be of another configuration, or of long ago.
    /// `None` if it has nothing.
    pub(super) fn summary(&self) -> Option<String> {
        let Content {
            sources,
            users,
            tokens,
        } = &self.content;
        let counts = [
            (sources.len(), "source"),
            (users.len(), "user"),
            (tokens.len(), "token"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, noun)| match count {
                1 => format!("1 {noun}"),
                _ => format!("{count} {noun}s"),
            })
            .collect();
        let path = self.path.as_ref()?.display();
        (!counts.is_empty()).then(|| format!("state {path}: {}", counts.join(", ")))
    }

    /// Reads the file at `path`; one that does not exist is empty.
    ///
    /// # Errors
    /// Returns [`StateFileError`] if the file cannot be read, or has something else.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self, StateFileError> {
        let Some(path) = path else {
            return Ok(Self {
                path: None,
                known: None,
                content: Content::default(),
            });
        };
        let known = read(&path)?;
        let bytes = known.as_ref().map_or(0, String::len);
        if bytes > BYTES_MAX {
            let path = path.display();
            tracing::warn!(%path, bytes, "the file of what was made over the API is larger than the {BYTES_MAX} bytes that this server lets it have: everything in it is in force, and nothing can be added until enough is deleted");
        }
        let content = known.as_deref().map(|text| parse(&path, text));
        let content = content.transpose()?.unwrap_or_default();
        let path = Some(path);
        Ok(Self {
            path,
            known,
            content,
        })
    }

    /// Returns what the file has.
    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// Writes `content`, which may always be smaller than what the file has.
    ///
    /// # Errors
    /// Returns [`StateFileError`] if the file would be too large, cannot be written, or is not as this
    /// server left it. The file is then as it was.
    pub(super) fn write(&mut self, content: &Content) -> Result<(), StateFileError> {
        let (text, before) = (text_of(content), self.known.as_ref().map_or(0, String::len));
        if text.len() > BYTES_MAX.max(before) {
            return Err(StateFileError::Full { bytes: text.len() });
        }
        self.replace(content, text)
    }

    /// Writes `content` again, which the file had before the last change.
    ///
    /// # Errors
    /// Returns [`StateFileError`] as [`write`](Self::write) does.
    pub(super) fn write_back(&mut self, content: &Content) -> Result<(), StateFileError> {
        self.replace(content, text_of(content))
    }

    fn replace(&mut self, content: &Content, text: String) -> Result<(), StateFileError> {
        let path = self.path.as_ref().ok_or(StateFileError::NoPath)?;
        if read(path)? != self.known {
            let path = path.clone();
            return Err(StateFileError::Changed { path });
        }
        let unusable = |source| StateFileError::Unusable {
            path: path.clone(),
            source,
        };
        private_file::replace(path, &text).map_err(unusable)?;
        self.known = Some(text);
        self.content = content.clone();
        Ok(())
    }
}

fn text_of(content: &Content) -> String {
    let version = VERSION;
    let written = Written { version, content };
    let mut text = serde_json::to_string_pretty(&written).expect("plain data");
    text.push('\n');
    text
}

fn read(path: &Path) -> Result<Option<String>, StateFileError> {
    match small_file::read_text(path, READ_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateFileError::Unusable {
            path: path.to_owned(),
            source,
        }),
    }
}

fn parse(path: &Path, text: &str) -> Result<Content, StateFileError> {
    let damaged = |error: serde_json::Error| StateFileError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let Version { version } = serde_json::from_str(text).map_err(damaged)?;
    if version != VERSION {
        return Err(StateFileError::Version {
            path: path.to_owned(),
            found: version,
        });
    }
    let mut value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
    if let Some(members) = value.as_object_mut() {
        members.remove("version");
    }
    serde_json::from_value(value).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(name: &str) -> PathBuf {
        let name = format!("glassline-stored-{}-{name}", std::process::id());
        std::env::temp_dir().join(name).join("state.json")
    }

    fn content(source: &str) -> Content {
        let keys = serde_json::json!({ "source": source, "on_demand": true });
        let keys = serde_json::from_value(keys).expect("a source");
        Content {
            sources: BTreeMap::from([("cam".to_owned(), keys)]),
            ..Content::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_only_this_user_reads_it() {
        let path = file("again");
        let mut state = StateFile::open(Some(path.clone())).expect("no file yet");
        assert_eq!(*state.content(), Content::default());
        assert_eq!(state.summary(), None);
        for source in [
            "rtsp://admin:secret@10.0.0.1/a",
            "rtsp://admin:secret@10.0.0.1/b",
        ] {
            state.write(&content(source)).expect("written");
            let read = StateFile::open(Some(path.clone())).expect("whole");
            assert_eq!(*read.content(), content(source));
            let told = format!("state {}: 1 source", path.display());
            assert_eq!(read.summary(), Some(told));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let rights = fs::metadata(&path).expect("there").permissions();
            assert_eq!(rights.mode() & 0o777, 0o600);
        }
        fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    }

    #[test]
    fn a_damaged_file_is_told_with_its_line_and_stays_as_it_is() {
        let path = file("damaged");
        fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
        let damaged = [
            ("{\"version\": 1,\n \"sources\": {\"cam\": {", "line 2"),
            ("not at all", "line 1"),
            ("", "line 1"),
            ("[]", "line 1"),
            ("{\"version\": 1, \"source\": {}}", "unknown field"),
            (
                "{\"version\": 1, \"sources\": {\"cam\": {\"sorce\": \"x\"}}}",
                "unknown field",
            ),
            ("{\"version\": 2}", "version 2"),
        ];
        for (text, told) in damaged {
            fs::write(&path, text).expect("ours");
            let error = StateFile::open(Some(path.clone()))
                .expect_err(text)
                .to_string();
            assert!(error.contains(told), "{text}: {error}");
            assert!(error.contains("state.json"), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    }

    #[test]
    fn what_somebody_else_wrote_is_not_overwritten() {
        let path = file("changed");
        let mut first = StateFile::open(Some(path.clone())).expect("no file yet");
        let mut second = StateFile::open(Some(path.clone())).expect("no file yet");
        first.write(&content("rtsp://a/")).expect("written");
        let refused = second.write(&content("rtsp://b/")).expect_err("refused");
        assert!(
            matches!(refused, StateFileError::Changed { .. }),
            "{refused}"
        );
        let read = StateFile::open(Some(path.clone())).expect("whole");
        assert_eq!(*read.content(), content("rtsp://a/"));
        fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    }

    #[test]
    fn a_file_does_not_grow_too_far_and_one_that_did_is_read_and_shrinks() {
        let path = file("full");
        let mut state = StateFile::open(Some(path.clone())).expect("no file yet");
        let mut all = content("rtsp://a/");
        state.write(&all).expect("written");
        let long = serde_json::json!({ "source": "x".repeat(240_000) });
        let long: SourceKeys = serde_json::from_value(long).expect("a source");
        for number in 0..69 {
            all.sources.insert(format!("s{number}"), long.clone());
        }
        state.write(&all).expect("written");
        let last = "s69".to_owned();
        all.sources.insert(last.clone(), long);
        let full = state.write(&all).expect_err("too large");
        assert!(matches!(full, StateFileError::Full { .. }), "{full}");
        let read = StateFile::open(Some(path.clone())).expect("it starts");
        assert!(!read.content().sources.contains_key(&last), "as it was");
        // Another version wrote the file.
        fs::write(&path, text_of(&all)).expect("ours");
        let mut state = StateFile::open(Some(path.clone())).expect("it starts");
        assert_eq!(*state.content(), all);
        all.sources.remove(&last);
        state.write(&all).expect("a deletion");
        state.write(&all).expect("no growth");
        fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    }

    #[test]
    fn without_a_path_nothing_is_kept_and_that_is_told() {
        let mut state = StateFile::open(None).expect("nothing to read");
        let refused = state.write(&Content::default()).expect_err("no file");
        assert!(
            refused.to_string().contains("admin.state_file"),
            "{refused}"
        );
    }
}
