//! What the code's shape promises, as tests: which crate and which module may know
//! which, where files stand in circles, what every manifest says, that nothing grows past
//! reading, and what the documentation keeps to.
//!
//! [`table`] is all that is declared. Each of its lists is exact: what the code has and
//! the list does not is a problem, and so is what the list has and the code does not.
//! `cargo xtask check --tables` prints them as the code is.

mod arrows;
mod blocking;
mod circles;
mod code;
mod count;
mod crates;
mod docs;
mod graph;
mod limits;
mod manifests;
mod rooms;
mod sources;
mod table;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::process;
use code::CrateCode;

/// All violations, one entry each; empty if there are none.
pub(crate) fn problems() -> Vec<String> {
    let mut problems = Vec::new();
    match process::workspace_metadata() {
        Ok(metadata) => {
            problems.extend(crates::problems(&metadata));
            problems.extend(manifests::problems(&metadata));
        }
        Err(error) => problems.push(error),
    }
    match Tree::read() {
        Ok(tree) => problems.extend(tree.problems()),
        Err(error) => problems.push(error),
    }
    problems
}

/// Numbers of known exceptions, like "27 circles of files, …".
pub(crate) fn counts() -> String {
    format!(
        "{} circles of files, {} arrows between rooms against the order, {} long files, {} wide structs are listed",
        table::CIRCLES.len(),
        table::ROOMS_AGAINST_THE_ORDER.len(),
        table::LONG_FILES.len(),
        table::WIDE_STRUCTS.len()
    )
}

/// All lists of [`table`] as the code is.
///
/// # Errors A manifest or a source file cannot be read.
pub(crate) fn tables() -> Result<String, String> {
    let metadata = process::workspace_metadata()?;
    let Tree { sources, crates } = Tree::read()?;
    let lists = [
        ("CRATES", crates::as_table(&metadata)),
        ("ROOMS", rooms::as_tables(&crates)),
        ("CIRCLES", circles::as_table(&crates)),
        (
            "LONG_FILES and WIDE_STRUCTS",
            limits::as_tables(&sources, &crates),
        ),
    ];
    Ok(lists
        .iter()
        .map(|(name, lines)| format!("{name}\n    {}\n", lines.join("\n    ")))
        .collect())
}

/// Figures of the code and of its documentation, a line each.
///
/// # Errors A source file cannot be read.
pub(crate) fn figures() -> Result<String, String> {
    count::figures(&Tree::read()?)
}

/// Functions that take a tuple, and places that match on a source or a protocol, with file and line.
///
/// # Errors A source file cannot be read.
pub(crate) fn counted_places() -> Result<String, String> {
    count::places(&Tree::read()?)
}

/// All sources of the checkout, read.
struct Tree {
    /// Path from the root of the checkout, and text.
    sources: BTreeMap<PathBuf, String>,
    crates: Vec<CrateCode>,
}

impl Tree {
    fn read() -> Result<Tree, String> {
        let sources = sources::rust_sources();
        let crates = code::read(&sources)?;
        Ok(Tree { sources, crates })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = sources::problems(&self.sources);
        problems.extend(rooms::problems(&self.crates));
        problems.extend(circles::problems(&self.crates));
        problems.extend(limits::problems(&self.sources, &self.crates));
        problems.extend(blocking::problems(&self.sources));
        problems.extend(docs::problems(&self.sources));
        problems.extend(words::problems(&self.sources));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_tidy() {
        let tree = Tree::read().expect("the sources are Rust");
        let problems = tree.problems();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
