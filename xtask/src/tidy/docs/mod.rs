//! Checks of the documentation: short paragraphs and cells, links with a target, every route of the
//! HTTP server on its page, the tests that the page on security names, and the modules with `unsafe`
//! code in their decision.

mod defenses;
mod links;
mod prose;
mod routes;
mod unsafe_modules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process;

/// Pages whose history is not rewritten: their links are checked, their text is not.
const NOT_PROSE: [&str; 1] = ["CHANGELOG.md"];

/// Pages that break one of the rules. `sources` are all Rust files of the checkout.
pub(super) fn problems(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let pages = pages();
    let mut problems = Vec::new();
    for (path, text) in &pages {
        if !NOT_PROSE.iter().any(|it| Path::new(it) == path) {
            problems.extend(prose::problems(path, text));
        }
    }
    let exists = |path: &Path| process::root().join(path).exists();
    problems.extend(links::problems(&pages, exists));
    let page = Path::new("docs/reference/http-api.md");
    problems.extend(match pages.get(page) {
        Some(text) => routes::problems(page, text, sources),
        None => vec![format!("{}: missing", page.display())],
    });
    let page = Path::new("docs/reference/security.md");
    problems.extend(match pages.get(page) {
        Some(text) => defenses::problems(page, text, sources),
        None => vec![format!("{}: missing", page.display())],
    });
    let page = Path::new("docs/decisions/0010-unsafe-in-named-modules.md");
    problems.extend(match pages.get(page) {
        Some(text) => unsafe_modules::problems(page, text, sources),
        None => vec![format!("{}: missing", page.display())],
    });
    problems
}

/// Path from the root of the checkout → text, of all pages in the root and below `docs`.
pub(super) fn pages() -> BTreeMap<PathBuf, String> {
    let root = process::root();
    let mut pages = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(short) = path.strip_prefix(root) else {
                continue;
            };
            if path.is_dir() {
                if short.starts_with("docs") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|it| it == "md")
                && let Ok(text) = fs::read_to_string(&path)
            {
                pages.insert(short.to_owned(), text);
            }
        }
    }
    pages
}

/// Lines of a page outside of its blocks of code, with their numbers from 1.
fn lines_outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = text.lines().enumerate();
    lines.filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}
