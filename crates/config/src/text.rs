//! Reads and writes [`Config`] as text.

use super::Config;
use super::document::Document;
use super::load::Error;

impl Config {
    /// Parses YAML text; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// Returns [`Error`] with `name` and, if there is one, the line.
    pub fn from_yaml(text: &str, name: &str) -> Result<Self, Error> {
        Document::of_text(text, name)?.deserialize()
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

/// Parses the YAML text of a section.
#[cfg(test)]
pub(super) fn parse<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T, Error> {
    Document::of_text(text, name)?.deserialize()
}
