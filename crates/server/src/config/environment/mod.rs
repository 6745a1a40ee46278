//! Variables of the environment that override keys of the configuration file.
//!
//! ```text
//! schema of the file ─► names: http.address ─► GLASSLINE_HTTP_ADDRESS
//! environment ─► Overrides (a tree like the file's) ─► overlay ─► Config
//! ```
//!
//! A key's variable is its path in upper case, with `_` between the names. The same name with `_FILE`
//! at its end names a file with the value, for secrets.

mod names;
mod overlay;

use std::collections::BTreeMap;
use std::path::Path;

use super::load::Error;
use crate::spelling::nearest;
use names::{Form, Name};

pub use names::{VARIABLES_OF_BUILDS, VARIABLES_OF_COMMANDS};
pub(super) use overlay::{OnlyOverrides, Overlaid};

/// Beginning of the names of all variables.
const PREFIX: &str = "GLASSLINE_";

/// Largest file that a variable may name.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The overrides of one map of the configuration, by key.
pub(super) type Overrides = BTreeMap<String, Override>;

/// What the environment says of one key.
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
    let length = std::fs::metadata(path)
        .map_err(|error| failed(&error))?
        .len();
    if length > FILE_BYTES_MAX {
        let long = format!("it has {length} bytes, more than the {FILE_BYTES_MAX} of a value");
        return Err(failed(&long));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn of_variable(variable: &str, reason: String) -> Error {
    Error {
        file: variable.to_owned(),
        place: None,
        reason,
    }
}

/// Returns the error of a variable, if `reason` begins with the name of one, as the overlay writes it.
pub(super) fn blamed(reason: &str) -> Option<Error> {
    let (variable, reason) = reason.split_once(": ")?;
    let is_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    (variable.starts_with(PREFIX) && variable.chars().all(is_name))
        .then(|| of_variable(variable, reason.to_owned()))
}
