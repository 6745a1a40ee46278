//! Reads files of the configuration, and reports errors in them.

use std::fmt;
use std::io;
use std::path::Path;

use glassline_ingest::spelling::nearest;
use glassline_runtime::small_file;

/// Largest file that is read. A configuration has a few kB; a larger file is a mistake (a video, a
/// log).
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns a file's text, and its name in errors.
pub(super) fn read(path: &Path) -> Result<(String, String), Error> {
    let name = path.display().to_string();
    if let Some((scheme, _)) = name.split_once("://") {
        // The rest of the URL may have a password.
        return Err(Error {
            file: format!("{scheme}://…"),
            place: None,
            others: Vec::new(),
            reason:
                "it is a URL and no configuration file; a camera is served by --source NAME=URL"
                    .to_owned(),
        });
    }
    let unreadable = |reason: &dyn fmt::Display| Error {
        file: name.clone(),
        place: None,
        others: Vec::new(),
        reason: reason.to_string(),
    };
    let read = small_file::read_text_or_pipe(path, FILE_BYTES_MAX);
    let text = read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => unreadable(&format_args!(
            "it is no text file of at most {FILE_BYTES_MAX} bytes; a film is served by --source NAME=FILE"
        )),
        _ => unreadable(&error),
    })?;
    Ok((text, name))
}

/// Returns whether the text has nothing but comments.
pub(super) fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// A problem in a configuration file, with its position, and further ones if there are any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {reason}{}", Colons(.place), Lines(.others))]
pub struct Error {
    /// The file as it was named.
    pub file: String,
    /// Line and column, both counted from 1.
    pub place: Option<(u64, u64)>,
    /// Description of the problem for people.
    pub reason: String,
    /// The other problems that were found, without further ones of their own.
    pub others: Vec<Error>,
}

struct Colons<'a>(&'a Option<(u64, u64)>);

impl fmt::Display for Colons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// Further problems, one a line.
struct Lines<'a>(&'a [Error]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

/// Returns what to write in place of a value that the parser does not take; `None` if the parser
/// says that itself.
pub(super) fn plain(text: &str) -> Option<&'static str> {
    Some(match text {
        "invalid socket address syntax" => {
            "this is no address: write an IP address and a port, like 0.0.0.0:8889 or '[::]:8889'"
        }
        "invalid IP address syntax" => "this is no IP address: write one like 192.0.2.7",
        _ => return None,
    })
}

/// Keys at the top of configurations of MediaMTX and go2rtc.
const FOREIGN_KEYS: [&str; 5] = [
    "paths",
    "pathDefaults",
    "rtspAddress",
    "webrtcAddress",
    "streams",
];

pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    if FOREIGN_KEYS.contains(&key) && known.contains(&"sources") {
        return format!(
            "unknown key '{key}': of MediaMTX or go2rtc? `glassline config import FILE` makes a \
             configuration of this server"
        );
    }
    match nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key '{key}': did you mean '{meant}'?"),
        None => format!(
            "unknown key '{key}': the keys here are {}",
            known.join(", ")
        ),
    }
}
