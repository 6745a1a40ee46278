//! Every test that the page on security names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Tests that the table of threats names and no Rust file has.
pub(super) fn problems(
    path: &Path,
    page: &str,
    sources: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let tests: BTreeSet<&str> = sources.values().flat_map(|text| functions(text)).collect();
    let named: Vec<&str> = named(page).collect();
    let mut problems = Vec::new();
    if named.is_empty() {
        problems.push(format!("{}: no row names a test", path.display()));
    }
    let unknown = named.iter().filter(|name| !tests.contains(*name));
    problems.extend(unknown.map(|name| format!("{}: there is no test `{name}`", path.display())));
    problems
}

/// Names behind `fn ` of functions without arguments, as tests are.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    let rest = source.split("fn ").skip(1);
    rest.filter_map(|rest| rest.split_once("()").map(|(name, _)| name))
        .filter(|name| name.chars().all(|it| it.is_alphanumeric() || it == '_'))
}

/// Last part of each path in code in the third cell of each row.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let cells = page.lines().filter_map(|line| line.split('|').nth(3));
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    code.filter_map(|code| code.rsplit_once("::").map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_whose_test_is_gone_is_reported() {
        let source = "#[test]\nfn a_flood_costs_nothing() {\n}\nfn other(a: u8) {}\n";
        let sources = BTreeMap::from([(PathBuf::from("a.rs"), source.to_owned())]);
        let found = |page: &str| problems(Path::new("a.md"), page, &sources);
        let row = "| floods | bounds | `abuse::a_flood_costs_nothing` |\n";
        assert_eq!(found(row), [""; 0]);
        let gone = "| floods | bounds | `abuse::other`, `abuse::a_flood_costs_nothing` |\n";
        assert_eq!(found(gone), ["a.md: there is no test `other`"]);
        assert_eq!(found("| a | b | c |\n"), ["a.md: no row names a test"]);
    }
}
