//! The files that every server plays: 1080p30 at 3 Mbit/s and Opus at 64 kbit/s.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;

/// Length of the files.
pub(super) const SECONDS: u64 = 10;

/// Arguments for a constant 3 Mbit/s in constrained baseline, a keyframe every two seconds, one
/// slice per frame; noise fills every frame's share.
const VIDEO: &str = "-f lavfi -i testsrc2=s=1920x1080:r=30,noise=alls=18:allf=t -t 10 -an \
     -c:v libx264 -profile:v baseline -preset veryfast -tune zerolatency \
     -b:v 3M -minrate 3M -maxrate 3M -bufsize 1.5M -nal-hrd cbr -g 60 -sc_threshold 0 \
     -x264-params repeat-headers=1:slices=1:sliced-threads=0 -f h264";

const AUDIO: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000 -t 10 -vn \
     -c:a libopus -b:a 64k -vbr off -ac 2 -frame_duration 20 -f ogg";

/// The stream as files.
#[derive(Clone, Debug)]
pub(super) struct Media {
    folder: PathBuf,
    pub(super) video: PathBuf,
    pub(super) audio: PathBuf,
}

impl Media {
    /// Makes the files that do not exist yet.
    pub(super) fn in_folder(folder: &Path) -> Result<Media, String> {
        let media = Media {
            folder: folder.to_owned(),
            video: folder.join("reference.h264"),
            audio: folder.join("reference.ogg"),
        };
        make(&media.video, |path| ffmpeg(VIDEO, path))?;
        make(&media.audio, |path| ffmpeg(AUDIO, path))?;
        Ok(media)
    }

    /// Video and audio in one file, for a publisher that copies it.
    pub(super) fn muxed(&self) -> Result<PathBuf, String> {
        let muxed = self.folder.join("reference.mkv");
        make(&muxed, |path| {
            let mut command = command();
            command.args(["-r", "30", "-i"]).arg(&self.video);
            command.arg("-i").arg(&self.audio);
            command.args(["-c", "copy", "-f", "matroska"]).arg(path);
            process::run_quietly(&mut command)
        })?;
        Ok(muxed)
    }

    /// Repeats the frames for at least `length`, for a server that plays a file once.
    pub(super) fn repeated(&self, length: Duration) -> Result<PathBuf, String> {
        let long = self.folder.join("reference-long.264");
        let failed = |error: io::Error| format!("{}: {error}", long.display());
        let once = fs::read(&self.video).map_err(failed)?;
        let rounds = length.as_secs().div_ceil(SECONDS).max(1);
        let is_there =
            fs::metadata(&long).is_ok_and(|file| file.len() >= rounds * once.len() as u64);
        if !is_there {
            let mut file = BufWriter::new(File::create(&long).map_err(failed)?);
            for _ in 0..rounds {
                file.write_all(&once).map_err(failed)?;
            }
            file.flush().map_err(failed)?;
        }
        Ok(long)
    }
}

/// Written to another name first, so that an interrupted run leaves no incomplete file.
fn make(path: &Path, write: impl Fn(&Path) -> Result<(), String>) -> Result<(), String> {
    if path.is_file() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    write(&unfinished)?;
    fs::rename(&unfinished, path).map_err(|error| format!("{}: {error}", path.display()))
}

fn ffmpeg(recipe: &str, output: &Path) -> Result<(), String> {
    let mut command = command();
    command.args(recipe.split_ascii_whitespace()).arg(output);
    process::run_quietly(&mut command)
}

fn command() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    command
}
