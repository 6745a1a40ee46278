//! The configuration that is being made.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use glassline_access::auth::Account;

/// Sections of the configuration in the order in which they are written.
const SECTIONS: [&str; 8] = [
    "log", "http", "https", "tls", "media", "webrtc", "rtsp", "admin",
];

/// A configuration that is being made, and what could not be taken.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Section, key and value as YAML.
    settings: Vec<(&'static str, &'static str, String)>,
    /// Origins of pages that may embed the streams.
    pub(super) origins: Vec<String>,
    pub(super) users: Vec<Account>,
    /// Lines of the map of sources.
    sources: Vec<String>,
    notes: Vec<Note>,
}

/// A line that could not be taken, or not whole.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{line}: {key}: {why}")]
pub(crate) struct Note {
    pub(super) line: u64,
    pub(super) key: String,
    pub(super) why: String,
}

impl Draft {
    /// Notes that the value of `key` in `line` could not be taken.
    pub(super) fn note(&mut self, line: u64, key: &str, why: impl Into<String>) {
        self.notes.push(Note {
            line,
            key: key.to_owned(),
            why: why.into(),
        });
    }

    /// Sets a key of a section to `value`, which is YAML.
    pub(super) fn set(
        &mut self,
        section: &'static str,
        key: &'static str,
        value: impl Into<String>,
    ) {
        self.settings.push((section, key, value.into()));
    }

    /// Sets the address of a listener to that in `line`. Without a host, `:PORT`, it is that of all
    /// interfaces.
    pub(super) fn listen(&mut self, section: &'static str, line: u64, key: &str, text: &str) {
        match address(text) {
            Some(address) => self.set(section, "address", quoted(&address.to_string())),
            None => self.note(line, key, "no IP address and port: write IP:PORT"),
        }
    }

    /// Adds a source: its options are keys with values as YAML.
    pub(super) fn source(&mut self, name: &str, source: &str, options: &[(&str, String)]) {
        let (name, source) = (quoted(name), quoted(source));
        self.sources.push(match options {
            [] => format!("{name}: {source}"),
            options => {
                let options = options
                    .iter()
                    .map(|(key, value)| format!(", {key}: {value}"));
                format!(
                    "{name}: {{source: {source}{}}}",
                    options.collect::<String>()
                )
            }
        });
    }

    /// Adds a source that this server cannot have, as a comment.
    pub(super) fn comment(&mut self, name: &str, source: &str) {
        let line = format!("# {}: {}", quoted(name), quoted(source));
        self.sources.push(line.replace(['\n', '\r'], " "));
    }

    /// Returns the configuration, and what could not be taken.
    pub(super) fn finish(mut self, of: &str) -> (String, Vec<Note>) {
        let mut yaml = format!("# Made of a configuration of {of} by `glassline config import`.\n");
        let mut line = |text: &dyn fmt::Display| {
            writeln!(yaml, "{text}").expect("a string takes everything");
        };
        for section in SECTIONS {
            let keys = self.settings.iter().filter(|(of, ..)| *of == section);
            let keys: Vec<_> = keys.collect();
            if !keys.is_empty() {
                line(&format_args!("{section}:"));
            }
            for (_, key, value) in keys {
                line(&format_args!("  {key}: {value}"));
            }
        }
        if !self.origins.is_empty() {
            line(&format_args!("cors:\n  origins: {}", list(&self.origins)));
        }
        if !self.users.is_empty() {
            line(&"auth:\n  users:");
        }
        for user in &self.users {
            for text in user.to_yaml().lines() {
                line(&format_args!("    {text}"));
            }
        }
        if !self.sources.is_empty() {
            line(&"sources:");
        }
        for source in &self.sources {
            line(&format_args!("  {source}"));
        }
        self.notes.sort();
        (yaml, self.notes)
    }
}

/// Returns the address of a listener as other servers write it, such as `:8554`.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.replacen("localhost:", "127.0.0.1:", 1),
    };
    whole.parse().ok()
}

/// Returns text as YAML, within quotes.
pub(super) fn quoted(text: &str) -> String {
    let escaped = serde_json::to_string(text).expect("a text");
    match text.contains(char::is_control) {
        // YAML reads all escapes of JSON.
        true => escaped,
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Returns texts as a list of YAML in one line.
pub(super) fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|it| quoted(it)).collect();
    format!("[{}]", quoted.join(", "))
}
