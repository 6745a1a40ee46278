use std::path::Path;

use super::MARKS_FILE;

/// Removes the folders above a deleted file of `folder` that have nothing any more. With `with_marks`, the
/// marks of a day of which nothing else is left are removed, too.
pub(crate) fn remove_empty_folders(folder: &Path, file: &Path, with_marks: bool) {
    let above = file.ancestors().skip(1);
    for emptied in above.take_while(|it| *it != folder) {
        if with_marks {
            remove_lone_marks(emptied);
        }
        // Fails for the first one that has something.
        if std::fs::remove_dir(emptied).is_err() {
            return;
        }
    }
}

/// Removes the marks of a day of which nothing else is left.
fn remove_lone_marks(day: &Path) {
    let mut entries = std::fs::read_dir(day).into_iter().flatten();
    let first = entries.next().and_then(Result::ok);
    let is_alone = entries.next().is_none();
    let marks = first.filter(|it| is_alone && it.file_name() == MARKS_FILE);
    if let Some(marks) = marks {
        // What stays is removed with the next file.
        let _ = std::fs::remove_file(marks.path());
    }
}
