//! Stored results: a folder for each kind of processor, a JSON file for each run.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Kind;
use super::record::{FORMAT, Run};
use crate::process;

/// Age up to which an interrupted run is continued, in seconds.
const CONTINUED_WITHIN_S: u64 = 24 * 3600;

/// A folder of results.
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    /// Results that are part of the documentation.
    pub(super) fn of_docs() -> Self {
        Self::at(process::root().join("docs/benchmarks/results"))
    }

    /// Results of shortened runs, which no page shows.
    pub(super) fn of_quick_runs() -> Self {
        Self::at(process::target_directory().join("figures/quick"))
    }

    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Reads all runs, ascending by kind and time.
    ///
    /// # Errors Names a file that is no result of this version.
    pub(super) fn read(&self) -> Result<Vec<Run>, String> {
        let mut runs = Vec::new();
        for folder in entries(&self.folder)? {
            if !folder.is_dir() {
                continue;
            }
            for path in entries(&folder)? {
                if path.extension().is_some_and(|it| it == "json") {
                    runs.push(read(&path)?);
                }
            }
        }
        runs.sort_by(|a, b| (&a.kind, a.started_s).cmp(&(&b.kind, b.started_s)));
        Ok(runs)
    }

    /// Writes a run into the file of its kind and begin; an interruption leaves the file whole.
    ///
    /// # Errors The file cannot be written.
    pub(super) fn write(&self, run: &Run) -> Result<PathBuf, String> {
        let path = self.path(run);
        let folder = path.parent().unwrap_or(&self.folder);
        let at = |path: &Path, error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
        let text = serde_json::to_string_pretty(run).map_err(|error| error.to_string())?;
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, text + "\n").map_err(|error| at(&unfinished, error))?;
        fs::rename(&unfinished, &path).map_err(|error| at(&path, error))?;
        Ok(path)
    }

    fn path(&self, run: &Run) -> PathBuf {
        let time = run.started.replace(' ', "-").replace(':', "");
        let file = format!("{time}-{}.json", run.commit);
        self.folder.join(run.kind.folder()).join(file)
    }
}

/// The run of this kind and commit to continue at `now_s`: the last one, if it is not too old.
pub(super) fn unfinished<'a>(
    runs: &'a [Run],
    kind: &Kind,
    commit: &str,
    now_s: u64,
) -> Option<&'a Run> {
    let of_kind = runs.iter().filter(|it| it.kind == *kind);
    let last = of_kind.max_by_key(|it| it.started_s)?;
    let is_recent = now_s.saturating_sub(last.started_s) <= CONTINUED_WITHIN_S;
    (last.commit == commit && is_recent).then_some(last)
}

fn read(path: &Path) -> Result<Run, String> {
    let failed = |what: String| format!("{}: {what}; remove or mend the file", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    if value["format"] != FORMAT {
        let format = &value["format"];
        return Err(failed(format!("format {format} instead of {FORMAT}")));
    }
    serde_json::from_value(value).map_err(|error| failed(error.to_string()))
}

/// Entries of a folder in alphabetical order; none where there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|it| it.map(|it| it.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::record::made_up::{kind, measurement, run};

    /// A folder of its own, which is removed in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("glassline-figures-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let scratch = Scratch::new("round-trip");
        let store = Store::at(scratch.0.clone());
        assert_eq!(store.read(), Ok(Vec::new()), "there is no folder yet");
        let later = run("A", 2, vec![measurement("seal", 1.0)]);
        let earlier = run("A", 1, vec![measurement("seal", 2.0)]);
        for it in [&later, &earlier] {
            store.write(it).expect("a temporary folder");
        }
        assert_eq!(store.read(), Ok(vec![earlier, later.clone()]));
        // A run that goes on replaces its own file.
        let mut more = later;
        more.recipes.clear();
        store.write(&more).expect("a temporary folder");
        assert_eq!(store.read().map(|it| it.len()), Ok(2));
    }

    #[test]
    fn a_file_that_is_no_result_is_named() {
        let scratch = Scratch::new("broken");
        let store = Store::at(scratch.0.clone());
        let path = store
            .write(&run("A", 1, Vec::new()))
            .expect("a temporary folder");
        for text in ["{", "{\"format\": 99}", "{\"format\": 1}"] {
            fs::write(&path, text).expect("a temporary folder");
            let error = store.read().expect_err("no result");
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn only_a_recent_run_of_the_same_commit_and_kind_goes_on() {
        let runs = [run("A", 1, Vec::new()), run("A", 5, Vec::new())];
        let now = runs[1].started_s + 3600;
        let found = |model: &str, commit: &str, now| {
            let found = unfinished(&runs, &kind(model), commit, now);
            found.map(|it| it.started.clone())
        };
        assert_eq!(
            found("A", "0123abcd", now),
            Some("2026-11-27 05:00".to_owned())
        );
        assert_eq!(found("B", "0123abcd", now), None, "another processor");
        assert_eq!(found("A", "ffffffff", now), None, "another commit");
        assert_eq!(found("A", "0123abcd", now + 25 * 3600), None, "a day later");
    }
}
