//! Values that stand in files of their own: `!file PATH` for any text, and `{file: PATH}` where only
//! text can be.

use std::fs;
use std::path::Path;

use glassline_runtime::small_file;

use super::Files;
use super::fault::Fault;
use super::node::{Content, Node, Text};
use crate::load::Error;

/// Largest file with one value, in bytes.
pub(crate) const BYTES_MAX: u64 = 64 << 10;

/// Key of the map that names a file.
const KEY: &str = "file";

/// Puts the texts of files in the places of `!file`.
pub(super) fn resolve(node: &mut Node, files: &Files) -> Result<(), Error> {
    let place = node.place;
    match &mut node.content {
        Content::Text(text) if text.is_file => {
            let path = text.text.clone();
            let content = read(Path::new(&path), place, files);
            let content = content.map_err(|reason| files.error(Fault::new(node, reason)))?;
            node.content = Content::Text(Text {
                text: content,
                is_plain: false,
                is_file: false,
            });
            Ok(())
        }
        Content::Text(_) => Ok(()),
        Content::List(entries) => entries.iter_mut().try_for_each(|it| resolve(it, files)),
        Content::Map(entries) => {
            let mut values = entries.iter_mut();
            values.try_for_each(|(_, value)| resolve(value, files))
        }
    }
}

/// Returns whether a map does nothing but name a file.
pub(super) fn is_one(entries: &[(Node, Node)]) -> bool {
    matches!(entries, [(key, _)] if key.as_text() == Some(KEY))
}

/// Returns the text of the file that a map names.
pub(super) fn read_entry(entries: &[(Node, Node)], files: &Files) -> Result<String, Fault> {
    let entry = entries.first().map(|(_, value)| value);
    let Some((value, path)) = entry.and_then(|value| Some((value, value.as_text()?))) else {
        let reason = "`file` takes the path of a file with the value";
        return Err(<Fault as serde::de::Error>::custom(reason));
    };
    read(Path::new(path), value.place, files).map_err(|reason| Fault::new(value, reason))
}

/// Returns the text of a file without the newline at its end. The error never has any of the text.
fn read(path: &Path, place: super::node::FilePosition, files: &Files) -> Result<String, String> {
    if path.as_os_str().is_empty() {
        return Err("`!file` takes the path of a file with the value".to_owned());
    }
    let path = files.folder(place).join(path);
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    files.read.borrow_mut().push(path.clone());
    let metadata = fs::metadata(&path).map_err(|error| failed(&error))?;
    let text = small_file::read_text(&path, BYTES_MAX).map_err(|error| failed(&error))?;
    warn_of_readers(&path, &metadata);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text.is_empty() {
        // An empty secret opens what it should protect.
        true => Err(failed(&"it is empty")),
        false => Ok(text.to_owned()),
    }
}

/// Says that everybody on the machine can read a file with a secret.
fn warn_of_readers(path: &Path, metadata: &fs::Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if metadata.permissions().mode() & 0o004 != 0 {
            tracing::warn!(
                "{}: every user of this machine can read this file: `chmod o-r` takes that away",
                path.display()
            );
        }
    }
    #[cfg(not(unix))]
    let _ = (path, metadata);
}
