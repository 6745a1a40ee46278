//! YAML of other programs as a tree with lines, for those who translate it.

use super::{Content, Document, Error, Node};

/// A value of a YAML file.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// Line that the value begins at, counted from 1.
    pub line: u64,
    /// The value itself.
    pub value: YamlValue,
}

/// A value of a YAML file without its place.
#[derive(Clone, Debug)]
pub enum YamlValue {
    /// Text, a number or a switch; empty for no value.
    Text(String),
    /// Values one after the other.
    List(Vec<YamlNode>),
    /// Keys with their values, in the order of the file.
    Map(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct YamlEntry {
    /// Line of the key, counted from 1.
    pub line: u64,
    /// The key as text.
    pub key: String,
    /// The value of the key.
    pub value: YamlNode,
}

impl YamlNode {
    /// Parses `text`; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// Returns [`Error`] with the line if the text is no YAML.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Document::of_text(text, name).map(|document| Self::of(document.root))
    }

    /// Returns the text of a scalar; empty for a list or a map.
    pub fn text(&self) -> &str {
        match &self.value {
            YamlValue::Text(text) => text,
            YamlValue::List(_) | YamlValue::Map(_) => "",
        }
    }

    /// Returns the keys of a map; none for other values.
    pub fn entries(&self) -> &[YamlEntry] {
        match &self.value {
            YamlValue::Map(entries) => entries,
            YamlValue::Text(_) | YamlValue::List(_) => &[],
        }
    }

    /// Returns the values of a list, or a value that is no list as its only one; none for no value.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            YamlValue::List(items) => items,
            YamlValue::Text(text) if text.is_empty() => &[],
            YamlValue::Text(_) | YamlValue::Map(_) => std::slice::from_ref(self),
        }
    }

    /// Returns the value of the key `name`.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let found = self.entries().iter().find(|it| it.key == name);
        found.map(|it| &it.value)
    }

    fn of(node: Node) -> Self {
        let line = node.place.line;
        let value = match node.content {
            Content::Text(text) if text.is_nothing() => YamlValue::Text(String::new()),
            Content::Text(text) => YamlValue::Text(text.text),
            Content::List(items) => YamlValue::List(items.into_iter().map(Self::of).collect()),
            Content::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| YamlEntry {
                    line: key.place.line,
                    key: key.as_text().unwrap_or_default().to_owned(),
                    value: Self::of(value),
                });
                YamlValue::Map(entries.collect())
            }
        };
        Self { line, value }
    }
}
