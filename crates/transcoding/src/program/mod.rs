//! Video that FFmpeg decodes, as a process of its own for each track.
//!
//! ```text
//! coded frames ─► ProgramTranscoder ─► queue ─► standard input ─► FFmpeg
//! H.264        ◄─ ProgramTranscoder ◄───────── standard output ◄─┘ └─► standard error: the reason
//! ```
//!
//! The process gets no environment and no shell, reads and writes pipes alone, and ends with the last
//! viewer. One that ends or hangs is started again after a pause. The thread of the track serves the
//! pipes, which never block.

mod decoding;
mod process;

use std::path::{Path, PathBuf};

pub(super) use decoding::ProgramDecoding;

/// Folders in which the program is looked for.
const FOLDERS: [&str; 5] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/opt/homebrew/bin",
    "/snap/bin",
];

/// Returns the path of a program, which is named by its path or its name.
///
/// # Errors
/// Returns that there is none, and what to install.
pub(super) fn find(program: &str) -> Result<PathBuf, String> {
    let install = "install the package ffmpeg (Debian, Ubuntu: apt install ffmpeg), or name the \
                   program at transcoding.ffmpeg";
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match path.is_file() {
            true => Ok(path),
            false => Err(format!("there is no program {program}: {install}")),
        };
    }
    let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(program));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let folders = FOLDERS[..3].join(", ");
        format!("there is no program {program} in {folders}: {install}")
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
