//! The files of a configuration as one tree, in which every value knows where it stands.
//!
//! ```text
//! text ─► Node: file, line, column ─┬► include: files merged, a key set twice is an error
//!                                   ├► !file: the text of a file in place of its path
//!                                   ├► variables of the environment in place of values
//!                                   └► serde ─► Config, or all mistakes at once
//! ```

mod deserializer;
mod fault;
pub(super) mod include;
mod node;
mod parse;
mod secret_file;
mod tree;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::load::Error;
use deserializer::NodeDeserializer;
use fault::Fault;
pub(super) use node::{Content, Node};
pub use tree::{YamlEntry, YamlNode, YamlValue};

/// Most mistakes that are named at once.
const MISTAKES_MAX: usize = 20;

/// Most repairs that are tried to find further mistakes.
const REPAIRS_MAX: usize = 4 * MISTAKES_MAX;

/// A tree of values, and the files that it comes from.
pub(super) struct Document {
    pub(super) root: Node,
    files: Files,
}

/// The files of a document, and those whose text stands in place of a value.
#[derive(Default)]
struct Files {
    /// Name of each file in errors, or of a variable, and the folder that its paths are relative to.
    names: Vec<(String, PathBuf)>,
    /// Everything that was read.
    read: RefCell<Vec<PathBuf>>,
    next_id: u32,
}

impl Document {
    /// Parses YAML text; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// Returns [`Error`] with the line if the text is no YAML.
    pub(super) fn of_text(text: &str, name: &str) -> Result<Self, Error> {
        let mut files = Files::default();
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        let root = files.parse(text, name, folder)?;
        Ok(Self { root, files })
    }

    /// Reads the files that `include` of the root names, those of `named` in its place if there are
    /// any, and merges them.
    ///
    /// # Errors
    /// Returns [`Error`] with the file, and with the line of what is wrong.
    pub(super) fn include(&mut self, path: &Path, named: Option<Node>) -> Result<(), Error> {
        include::merge(&mut self.root, &mut self.files, path, named)
    }

    /// Puts the texts of the files that `!file` names in the tree.
    ///
    /// # Errors
    /// Returns [`Error`] with the line of the key, if a file cannot be read.
    pub(super) fn read_secret_files(&mut self) -> Result<(), Error> {
        secret_file::resolve(&mut self.root, &self.files)
    }

    /// Parses the text of a variable; errors name the variable alone.
    ///
    /// # Errors
    /// Returns [`Error`] with the variable, if its text is no YAML.
    pub(super) fn value_of_variable(
        &mut self,
        variable: &str,
        text: &str,
        is_plain: bool,
    ) -> Result<Node, Error> {
        if is_plain {
            return Ok(self.files.text_of_variable(variable, text));
        }
        let node = self.files.parse(text, variable, Path::new(""));
        let mut node = node.map_err(|error| Error {
            place: None,
            ..error
        })?;
        node.forget_lines();
        Ok(node)
    }

    /// Returns the value of a variable, which is taken letter by letter.
    pub(super) fn section_of_variable(&mut self, variable: &str) -> Node {
        let mut node = self.files.text_of_variable(variable, "");
        node.content = Content::Map(Vec::new());
        node
    }

    /// Returns everything that was read beside the first file.
    pub(super) fn take_read_files(&self) -> Vec<PathBuf> {
        self.files.read.take()
    }

    /// Makes a value of the tree.
    ///
    /// # Errors
    /// Returns the first mistake, with the others that are found when it is left out.
    pub(super) fn deserialize<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let mut mistakes: Vec<Error> = Vec::new();
        // Values in which something was left out: what is wrong with them follows from that.
        let mut damaged = Vec::new();
        for _ in 0..REPAIRS_MAX {
            let fault = match T::deserialize(NodeDeserializer::new(&self.root, &self.files)) {
                Ok(value) if mistakes.is_empty() => return Ok(value),
                Ok(_) => break,
                Err(fault) => fault,
            };
            let id = fault.node;
            if !id.is_some_and(|id| damaged.contains(&id)) {
                mistakes.push(self.files.error(fault));
            }
            let is_left_out = id.is_some_and(|id| self.root.leave_out(id, &mut damaged));
            if !is_left_out || mistakes.len() >= MISTAKES_MAX {
                break;
            }
        }
        let mut mistakes = mistakes.into_iter();
        let first = mistakes.next().expect("a repair follows a mistake");
        let others = mistakes.collect();
        Err(Error { others, ..first })
    }
}

impl Files {
    fn error(&self, fault: Fault) -> Error {
        let place = fault.place;
        let name = place.and_then(|place| self.names.get(place.file));
        Error {
            file: name.map_or_else(String::new, |(name, _)| name.clone()),
            place: place.and_then(node::FilePosition::line_and_column),
            reason: fault.reason,
            others: Vec::new(),
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the folder that paths of `place` are relative to.
    fn folder(&self, place: node::FilePosition) -> &Path {
        let file = self.names.get(place.file);
        file.map_or(Path::new(""), |(_, folder)| folder)
    }

    fn text_of_variable(&mut self, variable: &str, text: &str) -> Node {
        self.names.push((variable.to_owned(), PathBuf::new()));
        let place = node::FilePosition::of_file(self.names.len() - 1);
        Node::text(self.id(), place, text)
    }
}

#[cfg(test)]
mod tests;
