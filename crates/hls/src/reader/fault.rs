//! A fault of a playlist: where it is, what is wrong, and which section says so.

use std::fmt;

/// A place at which a playlist breaks the rules of §4: clients must not read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// Number of the line, from 1; 0 for the playlist as a whole.
    pub line: usize,
    /// Section of the text that is broken.
    pub section: &'static str,
    /// Sentence that names the fault.
    pub what: String,
}

impl Fault {
    pub(super) fn new(line: usize, section: &'static str, what: impl Into<String>) -> Self {
        Self {
            line,
            section,
            what: what.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            section,
            what,
        } = self;
        match line {
            0 => write!(f, "{what} (§{section})"),
            line => write!(f, "line {line}: {what} (§{section})"),
        }
    }
}

/// Most faults that are kept of one playlist.
const FAULTS_MAX: usize = 100;

/// The faults of one playlist, in the order of its lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, line: usize, section: &'static str, what: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault::new(line, section, what));
        }
    }

    pub(super) fn into_sorted(mut self) -> Vec<Fault> {
        self.0.sort_by_key(|fault| fault.line);
        self.0
    }
}

/// The beginning of a text, for a sentence about it.
pub(super) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
