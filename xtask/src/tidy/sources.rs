//! Checks of every source file: no markers of unfinished work, no meaningless names, no file that
//! the compiler never reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process;

/// Names that say nothing about their content.
const EMPTY_NAMES: [&str; 8] = [
    "common", "helper", "helpers", "manager", "misc", "util", "utils", "stuff",
];

/// Markers of unfinished work, written so that this list does not match itself.
const MARKERS: [&str; 4] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Files that break one of the rules.
pub(super) fn problems(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in sources {
        let shown = path.display();
        for marker in MARKERS {
            if let Some(index) = text.lines().position(|line| line.contains(marker)) {
                problems.push(format!("{shown}:{}: `{marker}`", index + 1));
            }
        }
        let mut names = path.iter().map(|part| part.to_string_lossy());
        if let Some(name) = names.find(|name| EMPTY_NAMES.contains(&name.trim_end_matches(".rs"))) {
            problems.push(format!("{shown}: `{name}` says nothing; name what it does"));
        }
    }
    problems.extend(dead_files(sources));
    problems
}

/// Source files of crates that no `mod` line reaches.
fn dead_files(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let is_root = |name: &str| matches!(name, "lib.rs" | "main.rs");
    let mut problems = Vec::new();
    for path in sources.keys() {
        let inside_source = path.iter().any(|part| part == "src");
        let in_binaries = path.iter().any(|part| part == "bin");
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if !inside_source || in_binaries || is_root(&file) {
            continue;
        }
        let (module, folder) = match &*file {
            "mod.rs" => (path.parent(), path.parent().and_then(Path::parent)),
            _ => (Some(path.as_path()), path.parent()),
        };
        let (Some(module), Some(folder)) = (module.and_then(Path::file_stem), folder) else {
            continue;
        };
        let line = format!("mod {};", module.to_string_lossy());
        let path_attribute = format!("path = \"{file}\"");
        let parents = [
            folder.join("lib.rs"),
            folder.join("main.rs"),
            folder.join("mod.rs"),
            folder.with_extension("rs"),
        ];
        let is_reached = parents
            .iter()
            .filter_map(|parent| sources.get(parent))
            .any(|text| text.contains(&line) || text.contains(&path_attribute));
        if !is_reached {
            problems.push(format!("{}: no `{line}` reaches it", path.display()));
        }
    }
    problems
}

/// Path from the root of the checkout → text.
pub(super) fn rust_sources() -> BTreeMap<PathBuf, String> {
    let root = process::root();
    let mut sources = BTreeMap::new();
    let mut open = ["crates", "fuzz", "src", "tests", "xtask"]
        .map(|name| root.join(name))
        .to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_built = entry.file_name() == "target";
            if path.is_dir() && !is_built {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && let (Ok(text), Ok(short)) = (fs::read_to_string(&path), path.strip_prefix(root))
            {
                sources.insert(short.to_owned(), text);
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_mod_line_is_dead() {
        let sources = BTreeMap::from([
            (PathBuf::from("crates/a/src/lib.rs"), "mod b;".to_owned()),
            (PathBuf::from("crates/a/src/b.rs"), "mod c;".to_owned()),
            (PathBuf::from("crates/a/src/b/c.rs"), String::new()),
            (PathBuf::from("crates/a/src/d.rs"), String::new()),
        ]);
        assert_eq!(
            dead_files(&sources),
            ["crates/a/src/d.rs: no `mod d;` reaches it"]
        );
    }
}
