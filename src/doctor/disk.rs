//! Space on the disks of the folders that the server writes to or reads from.

use std::path::{Path, PathBuf};

use glassline_access::tls::state_folder;
use glassline_config::Config;
use glassline_net::DiskSpace;

use super::finding::Finding;

const CHECK: &str = "disk";

/// Free bytes below which nothing can be kept.
const FREE_BYTES_MIN: u64 = 16 << 20;

/// Free bytes below which a warning is due.
const FREE_BYTES_FEW: u64 = 512 << 20;

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let state = state_folder(config.state_folder.as_deref()).ok();
    let folders = [
        ("state_folder", state),
        ("rtsp.media_folder", config.rtsp.media_folder.clone()),
    ];
    let folders = folders.into_iter();
    let folders = folders.filter_map(|(key, folder)| Some((key, folder?)));
    folders
        .filter_map(|(key, folder)| {
            let space = glassline_net::disk_space(&existing(&folder)?).ok()?;
            Some(judge(key, &folder, space))
        })
        .collect()
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> Option<PathBuf> {
    let folder = match folder.is_absolute() {
        true => folder.to_owned(),
        false => std::env::current_dir().ok()?.join(folder),
    };
    let mut all = folder.ancestors();
    all.find(|path| path.exists()).map(Path::to_owned)
}

fn judge(key: &'static str, folder: &Path, space: DiskSpace) -> Finding {
    let free = space.free_bytes;
    let what = format!(
        "{}: {:.1} of {:.1} GiB free",
        folder.display(),
        gib(free),
        gib(space.total_bytes)
    );
    let is_written = key == "state_folder";
    if free >= FREE_BYTES_FEW || !is_written {
        return Finding::ok(CHECK, key, what);
    }
    let finding = match free {
        _ if free < FREE_BYTES_MIN => Finding::failure(CHECK, key, what),
        _ => Finding::warning(CHECK, key, what),
    };
    finding
        .why("keys and certificates that the server makes or obtains are kept there")
        .change(format!(
            "make room, or name a folder of another disk: `{key}: …`"
        ))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn a_full_disk_is_a_failure_only_where_the_server_writes() {
        let of = |key, free_bytes| {
            let space = DiskSpace {
                free_bytes,
                total_bytes: 1 << 40,
            };
            judge(key, Path::new("/data"), space).severity
        };
        assert_eq!(of("state_folder", 0), Severity::Failure);
        assert_eq!(of("state_folder", 100 << 20), Severity::Warning);
        assert_eq!(of("state_folder", 1 << 30), Severity::Ok);
        assert_eq!(of("rtsp.media_folder", 0), Severity::Ok);
    }

    #[test]
    fn a_folder_that_is_made_later_is_on_the_disk_of_the_one_above() {
        let above = existing(Path::new("/no/such/folder")).expect("the root exists");
        assert_eq!(above, Path::new("/"));
    }
}
