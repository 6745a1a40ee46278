//! The list of the files that the media folder has.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::resolved_path;

/// Most files in a list.
const FILES_MAX: usize = 1_000;

/// Most entries of folders that are looked at for a list.
const ENTRIES_MAX: usize = 20_000;

/// Most folders on the way to a file.
const DEPTH_MAX: usize = 8;

/// Names of files, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Paths below the folder, with `/` between folders.
    pub names: Vec<String>,
    /// Whether the folder has more files than the list.
    pub is_cut: bool,
}

/// Lists the media files in `folder` and in the folders below it. Reads the disk.
pub(super) fn list(folder: &Path) -> Listing {
    let mut listing = Listing::default();
    let mut entries_left = ENTRIES_MAX;
    // Each folder with its name and the number of folders above it.
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((path, before, depth)) = folders.pop() {
        // A folder that cannot be read has no files for us.
        let Ok(entries) = std::fs::read_dir(path) else {
            continue;
        };
        for entry in entries.flatten() {
            if entries_left == 0 || listing.names.len() == FILES_MAX {
                listing.is_cut = true;
                folders.clear();
                break;
            }
            entries_left -= 1;
            let file = entry.file_name();
            let Some(name) = file.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let name = format!("{before}{name}");
            if is_folder(&entry) {
                match depth < DEPTH_MAX {
                    true => folders.push((entry.path(), format!("{name}/"), depth + 1)),
                    false => listing.is_cut = true,
                }
            } else if resolved_path::resolve(folder, &name).is_some() {
                listing.names.push(name);
            }
        }
    }
    listing.names.sort_unstable();
    listing
}

/// Returns whether an entry is a folder. Links to folders are not followed, because they may lead in
/// a circle.
fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_known_formats_are_listed_with_their_folders() {
        let folder = std::env::temp_dir().join(format!("glassline-list-{}", std::process::id()));
        for file in [
            "b.mp4",
            "a.ogg",
            "notes.txt",
            ".hidden.mp4",
            "films/c d.mkv",
            ".x/e.mp4",
        ] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
            fs::write(path, "x").expect("ours");
        }
        let listing = list(&folder);
        assert_eq!(listing.names, ["a.ogg", "b.mp4", "films/c d.mkv"]);
        assert!(!listing.is_cut);
        let many = folder.join("many");
        fs::create_dir(&many).expect("ours");
        for number in 0..FILES_MAX + 5 {
            fs::write(many.join(format!("{number}.aac")), "x").expect("ours");
        }
        let listing = list(&folder);
        assert_eq!((listing.names.len(), listing.is_cut), (FILES_MAX, true));
        assert_eq!(list(&folder.join("nowhere")), Listing::default());
        fs::remove_dir_all(folder).expect("ours");
    }
}
