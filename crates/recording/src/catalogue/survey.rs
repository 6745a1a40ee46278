//! Files as they are on the disk, for an index that a crash left behind or that is made anew.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use glassline_cmaf as cmaf;
use glassline_cmaf::ReadError;

use super::CatalogueError;
use super::file::RecordedTrack;
use super::index::{FolderIndex, Growth};
use crate::file_header::{Beginning, FileHeader};
use crate::folder::{FilePlace, MARKS_FILE};
use crate::utc::Day;

/// Most folders above a day's: the components of a stream's name.
const DEPTH_MAX: usize = 10;

/// A file as it is on the disk.
#[derive(Clone, Debug)]
pub(super) struct SurveyedFile {
    pub(super) header: FileHeader,
    pub(super) tracks: Vec<RecordedTrack>,
    pub(super) growth: Growth,
    /// Whether its writer has finished it.
    pub(super) is_finished: bool,
}

/// Reads what the file at `path` below `folder` has. Returns `None` if it has no whole fragment.
///
/// # Errors
/// Returns the system's error, or `InvalidData` for a file that is none of ours.
pub(super) fn look(folder: &Path, path: &Path) -> io::Result<Option<SurveyedFile>> {
    let file = File::open(folder.join(path))?;
    let bytes = file.metadata()?.len();
    let opened = cmaf::RecordedFile::open(file);
    let read = match opened {
        Ok(read) => read,
        Err(ReadError::NoHeader { .. }) => return Ok(None),
        Err(ReadError::Io { error, .. }) => return Err(error),
        Err(error) => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                error.to_string(),
            ));
        }
    };
    let (Some(first), Some(last)) = (read.fragments().first(), read.fragments().last()) else {
        return Ok(None);
    };
    let begins = last.decode_time.saturating_since(first.decode_time);
    let of_note = read.note().and_then(FileHeader::of_note);
    let of_name = || {
        let place = FilePlace::parse(path)?;
        Some(FileHeader {
            stream: place.stream,
            layer: place.layer,
            run: u64::try_from(first.wall_clock.as_millis()).unwrap_or(0),
            number: 0,
            start: UNIX_EPOCH + first.wall_clock,
            beginning: Beginning::Start,
        })
    };
    let header = of_note.or_else(of_name);
    let header = header.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some(SurveyedFile {
        header,
        tracks: read.header().tracks().iter().map(described).collect(),
        growth: Growth {
            duration: begins + last.duration,
            bytes: if read.is_finished() {
                bytes
            } else {
                read.complete_bytes()
            },
        },
        is_finished: read.is_finished(),
    }))
}

fn described(track: &cmaf::CmafTrack) -> RecordedTrack {
    let (width, height) = track.size().unwrap_or_default();
    let codec = track.codec_string();
    RecordedTrack {
        codec: codec.split('.').next().unwrap_or_default().to_owned(),
        is_video: track.kind() == glassline_media::Kind::Video,
        width: width.into(),
        height: height.into(),
        channels: track
            .channels()
            .and_then(|it| u8::try_from(it).ok())
            .unwrap_or(1),
    }
}

/// Corrects the rows of files that were open when the server ended without an end, and makes the files
/// end behind their last whole fragment. Returns their number.
///
/// # Errors
/// Returns [`CatalogueError`] if the index fails.
pub(crate) fn find_after_crash(index: &FolderIndex) -> Result<usize, CatalogueError> {
    let open = index.open_files()?;
    let count = open.len();
    for file in open {
        let Ok(path) = file.path.strip_prefix(index.folder()) else {
            continue;
        };
        match look(index.folder(), path) {
            Ok(Some(found)) => {
                let mut growth = found.growth;
                if !found.is_finished {
                    match finish(&file.path) {
                        Ok(bytes) => growth.bytes = bytes,
                        Err(error) => {
                            let file = file.path.display();
                            tracing::warn!(%file, %error, "a recording stays as a crash left it");
                        }
                    }
                }
                index.end(path, growth)?;
            }
            // Nothing is in it, so nothing is lost.
            Ok(None) => {
                let _ = std::fs::remove_file(&file.path);
                index.forget(path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => index.forget(path)?,
            Err(error) => {
                tracing::warn!(file = %file.path.display(), %error, "a recording cannot be read");
                index.end(path, Growth::default())?;
            }
        }
    }
    Ok(count)
}

/// Ends a file behind its last whole fragment, as its writer would have. Returns its size.
///
/// # Errors
/// Returns the system's error. The file is then as the crash left it, or ends behind its last whole
/// fragment: both play.
pub(super) fn finish(path: &Path) -> io::Result<u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let invalid = |error: ReadError| io::Error::other(error.to_string());
    let read = cmaf::RecordedFile::open(&file).map_err(invalid)?;
    let writer = read.resume().map_err(invalid)?;
    let whole = writer.byte_count();
    // With the space that was reserved.
    file.set_len(whole)?;
    let end = writer.finish();
    let mut at = &file;
    at.seek(SeekFrom::Start(whole))?;
    at.write_all(&end.tail)?;
    // The patch makes the file one that needs its tail.
    file.sync_data()?;
    at.seek(SeekFrom::Start(end.patch.offset))?;
    at.write_all(&end.patch.bytes)?;
    Ok(whole + end.tail.len() as u64)
}

/// The files of recordings and of marks below a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Paths of recordings below the folder, in order.
    pub(super) files: Vec<PathBuf>,
    /// Paths of marks below the folder.
    pub(super) marks: Vec<PathBuf>,
}

impl Found {
    /// Walks through the folder. Links are not followed.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] with the folder that cannot be read.
    pub(super) fn below(folder: &Path) -> Result<Self, CatalogueError> {
        let mut found = Self::default();
        let mut folders = vec![(PathBuf::new(), 0)];
        while let Some((below, depth)) = folders.pop() {
            let here = folder.join(&below);
            let failed = |error| CatalogueError::Io {
                file: here.clone(),
                error,
            };
            for entry in std::fs::read_dir(&here).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = below.join(entry.file_name());
                let kind = entry.file_type().map_err(failed)?;
                let is_own = entry.file_name().to_string_lossy().starts_with('.');
                if kind.is_dir() && !is_own && depth < DEPTH_MAX {
                    folders.push((path, depth + 1));
                } else if kind.is_file() && FilePlace::parse(&path).is_some() {
                    found.files.push(path);
                } else if kind.is_file() && stream_of_marks(&path).is_some() {
                    found.marks.push(path);
                }
            }
        }
        found.files.sort();
        found.marks.sort();
        Ok(found)
    }
}

/// Returns the stream that a file of marks is of; `None` if it is no such file.
pub(super) fn stream_of_marks(path: &Path) -> Option<glassline_hub::StreamName> {
    let is_named = path.file_name()?.to_str()? == MARKS_FILE;
    let day = path.parent()?;
    Day::parse(day.file_name()?.to_str()?).filter(|_| is_named)?;
    let stream = day.parent()?.to_str()?;
    glassline_hub::StreamName::parse(stream).ok()
}

/// Returns the difference of two durations.
pub(super) fn apart(one: Duration, other: Duration) -> Duration {
    one.abs_diff(other)
}
