//! Variables of the environment that override keys of the configuration file.
//!
//! ```text
//! schema of the file ─► names: http.address ─► GLASSLINE_HTTP_ADDRESS
//! environment ─► Overrides (a tree like the file's) ─► Document ─► Config
//! ```
//!
//! A key's variable is its path in upper case, with `_` between the names. The same name with `_FILE`
//! at its end names a file with the value, for secrets.

mod names;

use std::collections::BTreeMap;
use std::path::Path;

use glassline_ingest::spelling::nearest;
use glassline_runtime::small_file;

use super::document::{Document, Node};
use super::load::Error;
use names::{Form, Name};

pub use names::{VARIABLES_OF_BUILDS, VARIABLES_OF_COMMANDS};

/// Beginning of the names of all variables.
const PREFIX: &str = "GLASSLINE_";

/// Largest file that a variable may name.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The overrides of one map of the configuration, by key.
pub(super) type Overrides = BTreeMap<String, Override>;

/// The value of one key in the environment.
#[derive(Debug)]
pub(super) enum Override {
    /// The whole value.
    Value(Value),
    /// Values of keys below.
    Below(Overrides),
}

/// The value of a variable.
pub(super) struct Value {
    /// Name of the variable, for errors.
    variable: String,
    text: String,
    form: Form,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The text may be a secret.
        f.write_str(&self.variable)
    }
}

/// Reads the overrides from `variables`, which are names with values.
///
/// A variable that begins like ours and belongs to no key is logged, with the nearest name: other
/// programs may have it.
///
/// # Errors
/// Returns [`Error`] with the variable: its file cannot be read, or a variable of the same section
/// replaces that section whole.
pub(super) fn read(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Overrides, Error> {
    let mut ours: Vec<(String, String)> = variables
        .into_iter()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    let mut overrides = Overrides::new();
    if ours.is_empty() {
        return Ok(overrides);
    }
    // A section comes before its keys, so that both are found in conflict.
    ours.sort_unstable();
    let names = names::all();
    for (variable, text) in ours {
        let exact = names.get(&variable);
        let in_file = || names.get(variable.strip_suffix("_FILE")?);
        if let Some(name) = exact {
            insert(&mut overrides, name, variable, text)?;
        } else if let Some(name) = in_file() {
            let text = read_file(&variable, Path::new(&text))?;
            insert(&mut overrides, name, variable, text)?;
        } else if !is_known(&variable) {
            let meant = nearest(&variable, names.keys().map(String::as_str));
            let meant = meant.map_or_else(String::new, |it| format!("; did you mean {it}?"));
            tracing::warn!("{variable} is a variable of no key of the configuration{meant}");
        }
    }
    Ok(overrides)
}

/// Returns whether a variable that belongs to no key is one of this program all the same.
fn is_known(variable: &str) -> bool {
    VARIABLES_OF_COMMANDS.contains(&variable) || VARIABLES_OF_BUILDS.contains(&variable)
}

fn insert(
    overrides: &mut Overrides,
    name: &Name,
    variable: String,
    text: String,
) -> Result<(), Error> {
    let is_bare_list = name.form == Form::List && !text.trim_start().starts_with('[');
    let value = Value {
        variable,
        text: match is_bare_list {
            true => format!("[{text}]"),
            false => text,
        },
        form: name.form,
    };
    let (last, sections) = name.path.split_last().expect("a key has a name");
    let mut place = overrides;
    for section in sections {
        let below = place.entry(section.clone());
        place = match below.or_insert_with(|| Override::Below(Overrides::new())) {
            Override::Below(below) => below,
            Override::Value(whole) => {
                let also = format!("{} sets the same section whole: keep one", whole.variable);
                return Err(of_variable(&value.variable, also));
            }
        };
    }
    match place.get(last) {
        None => {
            place.insert(last.clone(), Override::Value(value));
            Ok(())
        }
        Some(_) => {
            let twice = "the same key has another variable, too: keep one".to_owned();
            Err(of_variable(&value.variable, twice))
        }
    }
}

/// Returns the text of a file that a variable names, without the newline at its end.
fn read_file(variable: &str, path: &Path) -> Result<String, Error> {
    let failed = |reason: &dyn std::fmt::Display| {
        of_variable(variable, format!("{}: {reason}", path.display()))
    };
    let text = small_file::read_text(path, FILE_BYTES_MAX).map_err(|error| failed(&error))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn of_variable(variable: &str, reason: String) -> Error {
    Error {
        file: variable.to_owned(),
        place: None,
        others: Vec::new(),
        reason,
    }
}

/// Puts the values of the environment in place of those of the files.
///
/// # Errors
/// Returns [`Error`] with a variable whose text is no YAML where it has to be.
pub(super) fn apply(document: &mut Document, overrides: &Overrides) -> Result<(), Error> {
    let mut all = Vec::new();
    collect(overrides, &mut Vec::new(), &mut all);
    for (path, value) in all {
        let Some((key, sections)) = path.split_last() else {
            continue;
        };
        let node = value.node(document)?;
        let absent = sections
            .iter()
            .map(|_| document.section_of_variable(&value.variable));
        let absent: Vec<_> = absent.collect();
        let mut place = &mut document.root;
        for (section, absent) in sections.iter().zip(absent) {
            place = place.section(section, absent);
        }
        place.set(key, node);
    }
    Ok(())
}

/// Returns what the environment says of the key `name` of the first level, if it says anything.
///
/// # Errors
/// Returns [`Error`] with the variable if its text is no YAML where it has to be.
pub(super) fn value(
    document: &mut Document,
    overrides: &Overrides,
    name: &str,
) -> Result<Option<Node>, Error> {
    match overrides.get(name) {
        Some(Override::Value(value)) => value.node(document).map(Some),
        _ => Ok(None),
    }
}

/// Adds all values with the names of their sections and keys.
fn collect<'a>(
    overrides: &'a Overrides,
    above: &mut Vec<&'a str>,
    all: &mut Vec<(Vec<&'a str>, &'a Value)>,
) {
    for (name, below) in overrides {
        above.push(name);
        match below {
            Override::Value(value) => all.push((above.clone(), value)),
            Override::Below(overrides) => collect(overrides, above, all),
        }
        above.pop();
    }
}

impl Value {
    fn node(&self, document: &mut Document) -> Result<Node, Error> {
        let (text, is_letter_by_letter) = match (self.form, self.text.as_str()) {
            (Form::Text, "''") => ("", true),
            (Form::Text, "null") => ("null", false),
            (Form::Text, text) => (text, true),
            (Form::List | Form::Yaml, text) => (text, false),
        };
        document.value_of_variable(&self.variable, text, is_letter_by_letter)
    }
}
