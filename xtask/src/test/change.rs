//! Tests that the change under test adds or touches, by the names of their functions.
//!
//! The change is what differs from the branch that it is for, and what is not committed. On that branch
//! itself the change is its last commit.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::process;

/// Names of functions that the change adds or touches.
#[derive(Debug, Default)]
pub(super) struct Change {
    functions: BTreeSet<String>,
}

impl Change {
    /// Reads the change from Git; nothing is touched where there is no history.
    pub(super) fn read() -> Self {
        let Some(base) = base() else {
            return Self::default();
        };
        let diff = git(&["diff", "--unified=0", "--no-color", "--no-ext-diff", &base]);
        let mut functions = BTreeSet::new();
        for (path, lines) in changed(&diff.unwrap_or_default()) {
            let text = fs::read_to_string(process::root().join(path)).unwrap_or_default();
            functions.extend(touched(&text, &lines));
        }
        Self { functions }
    }

    /// A change of these functions.
    #[cfg(test)]
    pub(super) fn of(functions: &[&str]) -> Self {
        let functions = functions.iter().map(|it| (*it).to_owned()).collect();
        Self { functions }
    }

    /// Returns whether the change adds or touches the test `name`, such as `rtsp::tests::plays`.
    pub(super) fn touches(&self, name: &str) -> bool {
        let function = name.rsplit("::").next().unwrap_or(name);
        self.functions.contains(function)
    }
}

/// The commit before the change.
fn base() -> Option<String> {
    let head = git(&["rev-parse", "HEAD"])?;
    let fork = git(&["merge-base", "HEAD", "@{upstream}"])
        .or_else(|| git(&["merge-base", "HEAD", "origin/HEAD"]))
        .filter(|fork| *fork != head);
    let base = fork.or_else(|| git(&["rev-parse", "--verify", "--quiet", "HEAD~1"]))?;
    Some(base.trim().to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    process::output_of(git.current_dir(process::root()).args(arguments))
}

/// Changed files in Rust, each with the numbers of its new lines, from 1.
fn changed(diff: &str) -> Vec<(&str, Vec<usize>)> {
    let mut files: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut is_rust = false;
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("+++ ") {
            let path = path.strip_prefix("b/").unwrap_or(path);
            is_rust = path.ends_with(".rs");
            if is_rust {
                files.push((path, Vec::new()));
            }
        } else if let Some((_, lines)) = files.last_mut()
            && is_rust
            && let Some(range) = new_lines(line)
        {
            lines.extend(range);
        }
    }
    files
}

/// The new lines of a hunk, `@@ -3,2 +7,4 @@`; where lines were only removed, the line before them.
fn new_lines(line: &str) -> Option<std::ops::Range<usize>> {
    let hunk = line.strip_prefix("@@ ")?;
    let new = hunk.split_once('+')?.1.split(' ').next()?;
    let (first, count) = new.split_once(',').unwrap_or((new, "1"));
    let (first, count): (usize, usize) = (first.parse().ok()?, count.parse().ok()?);
    Some(first..first + count.max(1))
}

/// Names of the functions that `lines` of `text` belong to, attributes and comments above included.
///
/// The text is read by its indentation, as tests may stand inside of macros.
fn touched(text: &str, lines: &[usize]) -> BTreeSet<String> {
    let all: Vec<&str> = text.lines().collect();
    let mut found = BTreeSet::new();
    for index in lines.iter().filter_map(|it| it.checked_sub(1)) {
        let Some(line) = all.get(index) else {
            continue;
        };
        let is_above = ["#[", "///"].iter().any(|it| line.trim().starts_with(it));
        let function = match is_above {
            true => all[index..].iter().find_map(|it| function(it)),
            false => around(&all, index),
        };
        found.extend(function.map(str::to_owned));
    }
    found
}

/// The function that the line `index` is in: the last one above with less indentation.
fn around<'a>(all: &[&'a str], index: usize) -> Option<&'a str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let line = all[index];
    if let Some(name) = function(line) {
        return Some(name);
    }
    let is_end = line.trim() == "}";
    let mut above = all[..index].iter().rev().filter(|it| {
        let is_outside = depth(it) < depth(line) || is_end && depth(it) == depth(line);
        is_outside && !it.trim().is_empty()
    });
    above.find_map(|it| function(it))
}

/// Name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = [
        "pub",
        "async",
        "const",
        "pub(crate)",
        "pub(super)",
        "unsafe",
    ];
    let is_declared = before.split_whitespace().all(|it| words.contains(&it));
    let end = after.find(|it: char| !it.is_alphanumeric() && it != '_')?;
    (is_declared && end > 0).then(|| &after[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"pub(crate) const TESTS: &[Test] = &[
    Test::of(&plays).needs(&[Peer::Ffmpeg]),
    Test::of(&pauses),
];

fn plays() -> Result<(), Failed> {
    let server = Server::start()?;

    server.play()
}

mod tests {
    proptest! {
        /// The reason that a reader looks for.
        #[test]
        fn holds(number: u32) {
            assert!(number == number);
        }
    }

    #[tokio::test]
    async fn waits() {
        if true {
            wait();
        }
    }
}
"#;

    fn at(lines: &[usize]) -> Vec<String> {
        touched(TEXT, lines).into_iter().collect()
    }

    #[test]
    fn a_line_belongs_to_the_function_around_or_below() {
        assert_eq!(at(&[2]), Vec::<String>::new(), "a list is no test");
        assert_eq!(at(&[6]), ["plays"]);
        assert_eq!(at(&[9]), ["plays"]);
        assert_eq!(at(&[10]), ["plays"]);
        assert_eq!(at(&[14]), ["holds"]);
        assert_eq!(at(&[15]), ["holds"]);
        assert_eq!(at(&[17]), ["holds"]);
        assert_eq!(at(&[21]), ["waits"]);
        assert_eq!(at(&[24, 16]), ["holds", "waits"]);
        assert_eq!(at(&[400]), Vec::<String>::new());
    }

    #[test]
    fn changed_lines_are_read_from_a_diff() {
        let diff = "\
diff --git a/src/a.rs b/src/a.rs
--- a/src/a.rs
+++ b/src/a.rs
@@ -3,2 +7,2 @@ fn x() {
-a
+b
@@ -20 +24,0 @@
-gone
diff --git a/README.md b/README.md
--- a/README.md
+++ b/README.md
@@ -1 +1 @@
+b
";
        assert_eq!(changed(diff), [("src/a.rs", vec![7, 8, 24])]);
    }

    #[test]
    fn a_test_is_touched_by_the_name_of_its_function() {
        let change = Change::of(&["plays"]);
        assert!(change.touches("rtsp::tests::plays") && change.touches("plays"));
        assert!(!change.touches("rtsp::replays"));
    }
}
