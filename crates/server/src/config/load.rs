//! Reads and writes [`Config`], and reports errors in a file.

use std::fmt;
use std::io;
use std::path::Path;

use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::config::Config;
use crate::spelling::nearest;

/// Largest file that is read. A configuration has a few kB; a larger file is a mistake (a video, a
/// log).
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Config {
    /// Parses YAML text; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// Returns [`Error`] with `name` and, if there is one, the line.
    pub fn from_yaml(text: &str, name: &str) -> Result<Self, Error> {
        // A file that has only comments means the defaults.
        if is_empty(text) {
            return Ok(Self::default());
        }
        parse(text, name)
    }

    /// Returns the effective configuration as YAML, with secrets hidden.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a configuration is plain data")
    }

    /// Returns the effective configuration as JSON, with secrets hidden.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a configuration is plain data")
    }

    /// Returns the JSON Schema of the file, for editors.
    pub fn schema() -> String {
        serde_json::to_string_pretty(&schemars::schema_for!(Self)).expect("a schema is plain data")
    }
}

/// Returns a file's text, and its name in errors.
pub(super) fn read(path: &Path) -> Result<(String, String), Error> {
    let name = path.display().to_string();
    if let Some((scheme, _)) = name.split_once("://") {
        // The rest of the URL may have a password.
        return Err(Error {
            file: format!("{scheme}://…"),
            place: None,
            reason:
                "it is a URL and no configuration file; a camera is served by --source NAME=URL"
                    .to_owned(),
        });
    }
    let unreadable = |reason: &dyn fmt::Display| Error {
        file: name.clone(),
        place: None,
        reason: reason.to_string(),
    };
    let bytes = std::fs::metadata(path)
        .map_err(|error| unreadable(&error))?
        .len();
    if bytes > FILE_BYTES_MAX {
        return Err(unreadable(&format_args!(
            "it has {bytes} bytes, more than the {FILE_BYTES_MAX} of a configuration file; a film is served by --source NAME=FILE"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            unreadable(&"it is no text file; a film is served by --source NAME=FILE")
        }
        _ => unreadable(&error),
    })?;
    Ok((text, name))
}

/// Returns whether the text has nothing but comments.
pub(super) fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// Parses YAML text that is not empty; `name` is the name of the file in errors.
pub(super) fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| Error::from_yaml(&error, name))
}

/// Passes the value of a YAML text to `seed`.
pub(super) fn feed<'de, V: DeserializeSeed<'de>>(
    text: &'de str,
    seed: V,
) -> Result<V::Value, serde_saphyr::Error> {
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), |inner| {
        seed.deserialize(inner)
    })
}

pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { with_snippet: false }
}

/// A problem in a configuration file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {reason}", Colons(.place))]
pub struct Error {
    /// The file as it was named.
    pub file: String,
    /// Line and column, both counted from 1.
    pub place: Option<(u64, u64)>,
    /// Description of the problem for people.
    pub reason: String,
}

impl Error {
    pub(super) fn from_yaml(error: &serde_saphyr::Error, name: &str) -> Self {
        let place = error
            .location()
            .map(|location| (location.line(), location.column()));
        Self {
            file: name.to_owned(),
            place,
            reason: reason(error),
        }
    }
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

pub(super) fn reason(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::SerdeUnknownField {
            field, expected, ..
        } => unknown_key(field, expected),
        serde_saphyr::Error::WithSnippet { error, .. } => reason(error),
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key '{key}' is there twice")
        }
        other => {
            let text = other.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            // The position is already in front.
            let (text, _) = text.split_once("\n").unwrap_or((&text, ""));
            let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
            plain(text).unwrap_or(text).to_owned()
        }
    }
}

/// Returns what to write in place of a value that the parser does not take; `None` if the parser
/// says that itself.
fn plain(text: &str) -> Option<&'static str> {
    Some(match text {
        "invalid socket address syntax" => {
            "this is no address: write an IP address and a port, like 0.0.0.0:8889 or '[::]:8889'"
        }
        "invalid IP address syntax" => "this is no IP address: write one like 192.0.2.7",
        "expected mapping start" => {
            "keys are expected here, like those of `http: {address: 0.0.0.0:8889}`"
        }
        "expected sequence start" => "a list is expected here, like [one, two]",
        "invalid u8" | "invalid u16" | "invalid u32" | "invalid u64" | "invalid usize" => {
            "this must be a whole number from 0 on"
        }
        "invalid bool" => "this must be true or false",
        _ => return None,
    })
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key '{key}': did you mean '{meant}'?"),
        None => format!(
            "unknown key '{key}': the keys here are {}",
            known.join(", ")
        ),
    }
}
