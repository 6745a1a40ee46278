//! The comparison of an index with its files, and an index that is made anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::CatalogueError;
use super::file::{FileState, RecordedFile};
use super::index::{FolderIndex, Growth};
use super::survey::{Found, apart, finish, look, stream_of_marks};

/// Largest difference of durations that is no difference.
const CLOSE: Duration = Duration::from_millis(1);

/// Files that are noted at once.
const TOGETHER: usize = 500;

/// The findings of a check or a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of files in the folder.
    pub files: usize,
    /// Number of files that are written at the moment, or were when the server ended.
    pub open: usize,
    /// Number of files of which only the copy in object storage is left.
    pub remote: usize,
    /// The faults, one sentence each, for people.
    pub problems: Vec<String>,
}

/// Compares the index of a folder with its files. Nothing is changed.
///
/// # Errors
/// Returns [`CatalogueError`] if the folder or its index cannot be read.
pub fn check(folder: &Path) -> Result<Findings, CatalogueError> {
    let index = FolderIndex::open_for_reading(folder)?;
    let rows: BTreeMap<PathBuf, RecordedFile> = index
        .all()?
        .into_iter()
        .map(|it| (it.path.clone(), it))
        .collect();
    let found = Found::below(folder)?;
    let mut findings = Findings {
        files: found.files.len(),
        ..Findings::default()
    };
    for path in &found.files {
        let whole = folder.join(path);
        let shown = whole.display();
        let Some(row) = rows.get(&whole) else {
            let problem = format!("{shown} is not in the index");
            findings.problems.push(problem);
            continue;
        };
        if !row.is_closed {
            findings.open += 1;
            continue;
        }
        match look(folder, path) {
            Ok(Some(file)) if apart(file.growth.duration, row.duration) > CLOSE => {
                findings.problems.push(format!(
                    "{shown} has {:.3} s, and {:.3} s by the index",
                    file.growth.duration.as_secs_f64(),
                    row.duration.as_secs_f64()
                ));
            }
            Ok(Some(_)) => {}
            Ok(None) => findings.problems.push(format!("{shown} has no media")),
            Err(error) => findings.problems.push(format!("{shown}: {error}")),
        }
    }
    for row in rows.values() {
        let below = row.path.strip_prefix(folder).unwrap_or(&row.path);
        let is_gone = row.is_closed
            && found
                .files
                .binary_search_by(|it| it.as_path().cmp(below))
                .is_err();
        findings.remote += usize::from(is_gone && row.copy.exists());
        if is_gone && !row.copy.exists() {
            let shown = row.path.display();
            findings
                .problems
                .push(format!("{shown} is gone, and still in the index"));
        }
    }
    Ok(findings)
}

/// Makes the index of a folder anew from its files, and from the rows of those that were `copied`, and
/// finishes files without an end. Needs the folder's lock.
///
/// # Errors
/// Returns [`CatalogueError`] if the folder cannot be read, or the index cannot be written.
pub(crate) fn repair(
    index: &FolderIndex,
    copied: Vec<RecordedFile>,
) -> Result<Findings, CatalogueError> {
    let folder = index.folder();
    let found = Found::below(folder)?;
    let mut findings = Findings {
        files: found.files.len(),
        ..Findings::default()
    };
    index.clear()?;
    for group in found.files.chunks(TOGETHER) {
        index.together(|| {
            for path in group {
                let shown = folder.join(path).display().to_string();
                match look(folder, path) {
                    Ok(Some(mut file)) => {
                        // A full disk had no room for the end of the file.
                        if !file.is_finished {
                            match finish(&folder.join(path)) {
                                Ok(bytes) => file.growth.bytes = bytes,
                                Err(error) => findings
                                    .problems
                                    .push(format!("{shown} has no index, and gets none: {error}")),
                            }
                        }
                        index.put(
                            path,
                            &file.header,
                            &file.tracks,
                            file.growth,
                            FileState::Closed,
                        )?;
                    }
                    Ok(None) => findings.problems.push(format!("{shown} has no media")),
                    Err(error) => findings.problems.push(format!("{shown}: {error}")),
                }
            }
            Ok(())
        })?;
    }
    for file in copied {
        let path = file.path.strip_prefix(folder).unwrap_or(&file.path);
        if found
            .files
            .binary_search_by(|it| it.as_path().cmp(path))
            .is_ok()
        {
            index.note_copied(path)?;
            continue;
        }
        let growth = Growth {
            duration: file.duration,
            bytes: file.bytes,
        };
        index.put(
            path,
            &file.header(),
            &file.tracks,
            growth,
            FileState::Remote,
        )?;
        findings.remote += 1;
    }
    for path in &found.marks {
        if let Some(stream) = stream_of_marks(path) {
            index.read_marks(&stream, &folder.join(path))?;
        }
    }
    Ok(findings)
}
