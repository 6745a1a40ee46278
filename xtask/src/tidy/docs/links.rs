//! Checks links between pages: the file and the heading exist.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::lines_outside_of_code;

/// Links of `pages` without a target. `exists` says whether a path from the root exists.
pub(super) fn problems(
    pages: &BTreeMap<PathBuf, String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in pages {
        for (line, target) in links(text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => path.clone(),
                _ => resolved(path.parent().unwrap_or(Path::new("")), file),
            };
            let at = format!("{}:{line}", path.display());
            if !exists(&to) {
                problems.push(format!("{at}: no file `{}`", to.display()));
            } else if !heading.is_empty()
                && let Some(text) = pages.get(&to)
                && !headings(text).iter().any(|it| it == heading)
            {
                problems.push(format!("{at}: no heading `#{heading}` in {}", to.display()));
            }
        }
    }
    problems
}

/// Line and target of each link that stays within the checkout.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in lines_outside_of_code(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else {
                break;
            };
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target));
            }
            rest = after;
        }
    }
    found
}

/// `target` as seen from `folder`, without `..`.
fn resolved(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Names by which links reach the headings of a page, as GitHub makes them: small letters
/// and digits, `-` for spaces, `-1` behind the second of a name.
fn headings(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, line) in lines_outside_of_code(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let letters = title.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ if letter.is_alphanumeric() => Some(letter),
            _ => None,
        });
        let name: String = letters.flat_map(char::to_lowercase).collect();
        let numbered = |it: &String| {
            let rest = it.strip_prefix(&name).and_then(|it| it.strip_prefix('-'));
            rest.is_some_and(|it| it.parse::<u32>().is_ok())
        };
        let same = names.iter().filter(|it| **it == name || numbered(it));
        names.push(match same.count() {
            0 => name,
            before => format!("{name}-{before}"),
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = |text: &str| ("docs/a.md".into(), text.to_owned());
        let other = ("docs/b/c.md".into(), "# The end, at last\n".to_owned());
        let found = |text: &str| {
            let pages = BTreeMap::from([page(text), other.clone()]);
            let known = pages.clone();
            problems(&pages, |path| known.contains_key(path)).len()
        };
        assert_eq!(found("[x](b/c.md) [y](b/c.md#the-end-at-last)"), 0);
        assert_eq!(found("[x](../docs/b/c.md) [y](https://example.com/z)"), 0);
        assert_eq!(found("[x](c.md)"), 1);
        assert_eq!(found("[x](b/c.md#the-beginning)"), 1);
        assert_eq!(found("```\n[x](c.md)\n```\n"), 0);
        assert_eq!(found("# Here\n[x](#here) [y](#there)"), 1);
    }
}
