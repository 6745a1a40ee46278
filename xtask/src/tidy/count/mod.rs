//! Figures of the code and of its documentation, for `cargo xtask count`.
//!
//! What only tests compile is left out, as in [`super::code`].

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Tree, circles, docs};
use file::FileCount;

/// The page that is counted apart from the documentation.
const CHANGELOG: &str = "CHANGELOG.md";

/// The file and the name of the function that puts the server together.
const START: (&str, &str) = ("crates/server/src/server/mod.rs", "start_with");

/// Crates above the cores: those of which the server is made.
const SHELL: [&str; 17] = [
    "access",
    "cluster-member",
    "config",
    "egress",
    "events",
    "ingest",
    "latency",
    "messages",
    "playback",
    "quic-listener",
    "rooms",
    "rtsp-listener",
    "runtime",
    "server",
    "service",
    "telemetry",
    "transcoding",
];

/// Returns the figures, a line each.
///
/// # Errors
/// A source is not Rust; the text names it.
pub(super) fn figures(tree: &Tree) -> Result<String, String> {
    let mut all = FileCount::default();
    let mut server = FileCount::default();
    let (mut start_lines, mut matches) = (0, 0);
    for code in &tree.crates {
        for path in code.files.keys() {
            let count = count_of(tree, path)?;
            if path == Path::new(START.0) {
                start_lines = count.functions.get(START.1).copied().unwrap_or(0);
            }
            if SHELL.contains(&code.name.as_str()) {
                matches += count.matches.len();
            }
            if code.name == "server" {
                server.add(&count);
            }
            all.add(&count);
        }
    }
    let pages = docs::pages();
    let (changelog, documentation) = words(&pages);
    let rows = [
        ("lines of Server::start_with", start_lines),
        (
            "places above the cores that match on Input or on the name of a protocol",
            matches,
        ),
        ("functions that take a tuple", all.tuple_functions.len()),
        ("lines of code in `server`", server.code_lines),
        ("lines of code in all crates", all.code_lines),
        (
            "circles between files",
            circles::as_table(&tree.crates).len(),
        ),
        ("words of documentation", documentation),
        ("words of CHANGELOG", changelog),
    ];
    Ok(rows
        .iter()
        .map(|(name, figure)| format!("{figure:>9}  {name}\n"))
        .collect())
}

/// Returns each function that takes a tuple, and each place that matches on [`FileCount::matches`], by
/// file and line.
///
/// # Errors
/// A source is not Rust; the text names it.
pub(super) fn places(tree: &Tree) -> Result<String, String> {
    let mut listed = String::new();
    for code in &tree.crates {
        for path in code.files.keys() {
            let (count, file) = (count_of(tree, path)?, path.display());
            for (line, name) in count.tuple_functions {
                listed += &format!("{file}:{line}: {name} takes a tuple\n");
            }
            let matches = count.matches.iter();
            for line in matches.filter(|_| SHELL.contains(&code.name.as_str())) {
                listed += &format!("{file}:{line}: matches on a source or a protocol\n");
            }
        }
    }
    Ok(listed)
}

fn count_of(tree: &Tree, path: &Path) -> Result<FileCount, String> {
    let text = tree.sources.get(path).map_or("", String::as_str);
    FileCount::of(text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Words of the changelog, and of all other pages together.
fn words(pages: &BTreeMap<PathBuf, String>) -> (usize, usize) {
    let mut counted = (0, 0);
    for (path, text) in pages {
        // The bars of tables are none.
        let is_word = |text: &&str| text.contains(char::is_alphanumeric);
        let words = text.split_whitespace().filter(is_word).count();
        match path == Path::new(CHANGELOG) {
            true => counted.0 += words,
            false => counted.1 += words,
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_is_counted_apart() {
        let page = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let pages = BTreeMap::from([
            page("CHANGELOG.md", "one line"),
            page("README.md", "a page\nof five words"),
            page("docs/a.md", "six"),
        ]);
        assert_eq!(words(&pages), (2, 6));
    }
}
