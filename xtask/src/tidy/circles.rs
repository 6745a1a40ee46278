//! Finds files of one crate that use each other in a circle.
//!
//! A module and its descendants may use each other: a folder is one unit, whose children see the
//! private items of their parent. So an arrow between the two closes no circle; one between
//! siblings or cousins does.

use std::collections::BTreeSet;
use std::path::Path;

use super::code::{CrateCode, Use};
use super::graph;
use super::table::{self, Circle};

/// Circles that are not listed, and listed ones that do not exist.
pub(super) fn problems(crates: &[CrateCode]) -> Vec<String> {
    problems_against(table::CIRCLES, crates)
}

/// The circles of all crates, as the table would list them.
pub(super) fn as_table(crates: &[CrateCode]) -> Vec<String> {
    let circles = crates.iter().flat_map(circles);
    circles
        .map(|files| {
            let folder = common_folder(&files);
            let inside = files.iter().map(|file| {
                let file = file.strip_prefix(folder).unwrap_or(file);
                format!("\"{}\"", file.trim_start_matches('/'))
            });
            let inside: Vec<String> = inside.collect();
            format!("(\"{folder}\", &[{}], \"\"),", inside.join(", "))
        })
        .collect()
}

fn problems_against(listed: &[Circle], crates: &[CrateCode]) -> Vec<String> {
    let listed: Vec<BTreeSet<String>> = listed
        .iter()
        .map(|(folder, files, _)| {
            files
                .iter()
                .map(|file| format!("{folder}/{file}"))
                .collect()
        })
        .collect();
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for code in crates {
        for circle in circles(code) {
            if !listed.contains(&circle) {
                problems.push(describe(code, &circle));
            }
            found.push(circle);
        }
    }
    for gone in listed.iter().filter(|circle| !found.contains(circle)) {
        let files: Vec<&str> = gone.iter().map(String::as_str).collect();
        problems.push(format!(
            "this circle is no more; strike it: {}",
            files.join(", ")
        ));
    }
    problems
}

fn circles(code: &CrateCode) -> impl Iterator<Item = BTreeSet<String>> {
    let arrows: Vec<(String, String)> = uses_apart(code)
        .map(|it| (it.from.display().to_string(), it.to.display().to_string()))
        .collect();
    let graph = graph::graph(arrows.iter().map(|(from, to)| (from.as_str(), to.as_str())));
    let floors = graph::floors(&graph).into_iter();
    floors
        .filter(|floor| floor.len() > 1)
        .map(|floor| floor.into_iter().collect())
}

/// The uses between files of which neither module stands within the other's.
fn uses_apart(code: &CrateCode) -> impl Iterator<Item = &Use> {
    let is_within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        outer.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
    };
    code.uses.iter().filter(move |it| {
        let (from, to) = (&code.files[&it.from], &code.files[&it.to]);
        !is_within(from, to) && !is_within(to, from)
    })
}

/// The files of a circle, with one place for each arrow within it.
fn describe(code: &CrateCode, circle: &BTreeSet<String>) -> String {
    let mut seen = BTreeSet::new();
    let mut lines = vec![format!("a circle of {} files:", circle.len())];
    for it in uses_apart(code) {
        let (from, to) = (it.from.display().to_string(), it.to.display().to_string());
        if circle.contains(&from) && circle.contains(&to) && seen.insert((from.clone(), to.clone()))
        {
            lines.push(format!("  {from}:{} knows {to} (`{}`)", it.line, it.path));
        }
    }
    lines.join("\n    ")
}

fn common_folder(files: &BTreeSet<String>) -> &str {
    // The files are sorted: a prefix of the first and the last is a prefix of all.
    let (Some(first), Some(last)) = (files.first(), files.last()) else {
        return "";
    };
    let folders = Path::new(first).ancestors().skip(1);
    let mut shared = folders.filter(|folder| Path::new(last).starts_with(folder));
    shared.next().and_then(Path::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::code::tests::crate_of;
    use super::*;

    fn circle() -> CrateCode {
        crate_of(&[
            ("lib.rs", "mod b;\nmod c;\npub use b::B;"),
            ("b.rs", "pub struct B(super::c::C);"),
            ("c.rs", "pub struct C(Box<crate::B>);"),
        ])
    }

    #[test]
    fn two_files_that_know_each_other_are_a_circle() {
        let found = problems_against(&[], &[circle()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("b.rs:1 knows crates/a/src/c.rs"),
            "{found:?}"
        );
        assert!(
            found[0].contains("c.rs:1 knows crates/a/src/b.rs"),
            "{found:?}"
        );
    }

    #[test]
    fn a_folder_and_what_is_within_make_no_circle() {
        let code = crate_of(&[
            ("lib.rs", "mod b;\npub struct A(b::B);"),
            ("b/mod.rs", "mod c;\npub struct B(Box<crate::A>, c::C);"),
            ("b/c.rs", "pub struct C(Box<super::B>);"),
        ]);
        assert_eq!(code.uses.len(), 4);
        assert_eq!(problems_against(&[], &[code]), Vec::<String>::new());
    }

    #[test]
    fn a_listed_circle_is_none_until_it_is_gone() {
        let listed: [Circle; 1] = [("crates/a/src", &["b.rs", "c.rs"], "a toy")];
        assert_eq!(problems_against(&listed, &[circle()]), Vec::<String>::new());
        let found = problems_against(&listed, &[]);
        assert!(found[0].contains("strike it"), "{found:?}");
    }

    #[test]
    fn a_circle_is_printed_as_the_table_has_it() {
        assert_eq!(
            as_table(&[circle()]),
            ["(\"crates/a/src\", &[\"b.rs\", \"c.rs\"], \"\"),"]
        );
    }
}
