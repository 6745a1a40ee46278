//! Every module with `unsafe` code has a row in the decision that allows it, and every row a module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The line of a module that holds such code, written so that this file does not match itself.
const EXPECTED: &str = concat!("unsafe", "_code,");

/// Modules without a row, and rows without a module.
pub(super) fn problems(
    path: &Path,
    page: &str,
    sources: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let holding: BTreeSet<String> = sources
        .iter()
        .filter(|(_, text)| text.contains(EXPECTED))
        .map(|(path, _)| module(path))
        .collect();
    let listed: BTreeSet<String> = listed(page).map(str::to_owned).collect();
    let shown = path.display();
    let missing = holding.difference(&listed);
    let missing = missing.map(|it| format!("{shown}: no row for `{it}`, which holds `unsafe`"));
    let stale = listed.difference(&holding);
    let stale = stale.map(|it| format!("{shown}: `{it}` holds no `unsafe`; strike it"));
    missing.chain(stale).collect()
}

/// The module of a file as the page names modules: from the crate's folder on, without `mod.rs`.
fn module(path: &Path) -> String {
    let path = path.strip_prefix("crates").unwrap_or(path);
    let path = match path.ends_with("mod.rs") {
        true => path.parent().unwrap_or(path),
        false => path,
    };
    path.display().to_string()
}

/// Code in the first cell of each row.
fn listed(page: &str) -> impl Iterator<Item = &str> {
    let cells = page.lines().filter_map(|line| line.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_rows_are_compared_both_ways() {
        let holding = format!("#![expect({EXPECTED} reason = \"a system call\")]");
        let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let sources = BTreeMap::from([
            source("crates/a/src/sys/mod.rs", &holding),
            source("crates/a/src/disk.rs", &holding),
            source("crates/a/src/lib.rs", "fn safe() {}"),
        ]);
        let found = |page: &str| problems(Path::new("a.md"), page, &sources);
        let rows = "| module | reason |\n|---|---|\n| `a/src/sys` | x |\n| `a/src/disk.rs` | y |\n";
        assert_eq!(found(rows), [""; 0]);
        assert_eq!(
            found("| `a/src/sys` | x |\n| `a/src/lib.rs` | y |\n"),
            [
                "a.md: no row for `a/src/disk.rs`, which holds `unsafe`",
                "a.md: `a/src/lib.rs` holds no `unsafe`; strike it",
            ]
        );
    }
}
