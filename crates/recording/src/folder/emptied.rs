use std::path::Path;

use super::{MARKS_FILE, STAGES_FILE};

/// Removes the folders above a deleted file of `folder` that have nothing any more. With `with_notes`, the
/// marks and delays of a day of which nothing else is left are removed, too.
pub(crate) fn remove_empty_folders(folder: &Path, file: &Path, with_notes: bool) {
    let above = file.ancestors().skip(1);
    for emptied in above.take_while(|it| *it != folder) {
        if with_notes {
            remove_lone_notes(emptied);
        }
        // Fails for the first one that has something.
        if std::fs::remove_dir(emptied).is_err() {
            return;
        }
    }
}

/// Removes the marks and the delays of a day of which nothing else is left.
fn remove_lone_notes(day: &Path) {
    let entries = std::fs::read_dir(day).into_iter().flatten();
    let entries: Vec<_> = entries.take(3).filter_map(Result::ok).collect();
    let is_note = |it: &std::ffi::OsStr| it == MARKS_FILE || it == STAGES_FILE;
    if entries.iter().all(|it| is_note(&it.file_name())) {
        for note in entries {
            // What stays is removed with the next file.
            let _ = std::fs::remove_file(note.path());
        }
    }
}
