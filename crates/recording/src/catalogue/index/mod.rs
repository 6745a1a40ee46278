//! The index of one folder, in SQLite: one row a file, and one a mark.

#[cfg(test)]
mod filling;
mod kept;
mod marks;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::CatalogueError;
use super::file::{FileState, RecordedFile, RecordedStream, RecordedTrack, TimeRange};
use crate::file_header::FileHeader;
use crate::folder::OWN;
use crate::utc;

/// Longest file: an hour, and the keyframe for which its end waited. A range is looked for in files that
/// began this long before it.
const FILE_LONGEST: Duration = Duration::from_secs(2 * 3600);

/// Longest time that a reader waits for a writer in another process.
const BUSY: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS files (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        stream TEXT NOT NULL,
        layer TEXT NOT NULL,
        run INTEGER NOT NULL,
        number INTEGER NOT NULL,
        start_us INTEGER NOT NULL,
        duration_us INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        tracks TEXT NOT NULL,
        beginning TEXT NOT NULL,
        state INTEGER NOT NULL,
        copy_failures INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS files_of_stream ON files (stream, start_us);
    CREATE INDEX IF NOT EXISTS files_by_age ON files (start_us) WHERE state < 3;
    CREATE INDEX IF NOT EXISTS files_here ON files (stream, start_us, bytes, state)
        WHERE state < 3;
    CREATE INDEX IF NOT EXISTS files_to_copy ON files (stream, copy_failures, start_us, bytes, state)
        WHERE state = 1;
    CREATE INDEX IF NOT EXISTS files_open ON files (state) WHERE state = 0;
    CREATE TABLE IF NOT EXISTS marks (
        number INTEGER PRIMARY KEY,
        stream TEXT NOT NULL,
        label TEXT NOT NULL,
        from_us INTEGER NOT NULL,
        to_us INTEGER NOT NULL,
        for_ever INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS marks_of_stream ON marks (stream, from_us);
";

const COLUMNS: &str =
    "path, stream, layer, run, number, start_us, duration_us, bytes, tracks, beginning, state";

/// How far an open file has grown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub(crate) duration: Duration,
    pub(crate) bytes: u64,
}

/// The index of one folder.
pub(crate) struct FolderIndex {
    folder: PathBuf,
    /// The connection for changes; `None` if another process makes them.
    writer: Option<Mutex<Connection>>,
    reader: Mutex<Connection>,
    /// Files that grow, by their paths below the folder.
    growing: Mutex<HashMap<PathBuf, Growth>>,
    /// Files that have ended although their rows do not say so, since the index could not be written.
    unsaid: Mutex<Vec<(PathBuf, Growth)>>,
}

impl FolderIndex {
    /// Opens the index for changes, and makes it if there is none.
    pub(crate) fn open(folder: &Path) -> Result<Self, CatalogueError> {
        let failed = |error: rusqlite::Error| index_error(folder, &error);
        let path = path_of(folder);
        let writer = Connection::open(&path).map_err(failed)?;
        writer.busy_timeout(BUSY).map_err(failed)?;
        // A power failure may cost the newest rows, which start-up finds again; it never breaks the index.
        writer
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {SCHEMA}"
            ))
            .map_err(failed)?;
        Ok(Self {
            writer: Some(Mutex::new(writer)),
            ..Self::open_for_reading(folder)?
        })
    }

    /// Opens the index for changes in place of one that may be damaged.
    pub(crate) fn made_anew(folder: &Path) -> Result<Self, CatalogueError> {
        let path = path_of(folder);
        for ending in ["", "-wal", "-shm"] {
            let mut file = path.clone().into_os_string();
            file.push(ending);
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let file = file.into();
                    return Err(CatalogueError::Io { file, error });
                }
                _ => {}
            }
        }
        Self::open(folder)
    }

    /// Opens the index of a folder that another process may write to.
    pub(crate) fn open_for_reading(folder: &Path) -> Result<Self, CatalogueError> {
        let failed = |error: rusqlite::Error| index_error(folder, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(path_of(folder), flags).map_err(failed)?;
        reader.busy_timeout(BUSY).map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            writer: None,
            reader: Mutex::new(reader),
            growing: Mutex::default(),
            unsaid: Mutex::default(),
        })
    }

    /// Returns the folder of the index.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file at `path` below the folder; `None` without a row for it.
    pub(crate) fn file_at(&self, path: &Path) -> Result<Option<RecordedFile>, CatalogueError> {
        Ok(self.select("path = ?", [text_of(path)])?.pop())
    }

    /// Notes a file that is about to be made at `path` below the folder. Before the file, so that no file
    /// of a server that was killed is missing.
    pub(crate) fn begin(
        &self,
        path: &Path,
        header: &FileHeader,
        tracks: &[RecordedTrack],
    ) -> Result<(), CatalogueError> {
        self.put(path, header, tracks, Growth::default(), FileState::Open)?;
        lock(&self.growing).insert(path.to_owned(), Growth::default());
        Ok(())
    }

    /// Notes a file with all that is known of it.
    pub(crate) fn put(
        &self,
        path: &Path,
        header: &FileHeader,
        tracks: &[RecordedTrack],
        growth: Growth,
        state: FileState,
    ) -> Result<(), CatalogueError> {
        let text = |value: serde_json::Result<String>| value.expect("plain data");
        let tracks = text(serde_json::to_string(tracks));
        let beginning = text(serde_json::to_string(&header.beginning));
        self.change(|index| {
            index
                .prepare(&format!(
                    "INSERT OR REPLACE INTO files ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                ))?
                .execute(params![
                    text_of(path),
                    header.stream.as_str(),
                    header.layer,
                    header.run.cast_signed(),
                    header.number,
                    utc::micros(header.start),
                    micros(growth.duration),
                    growth.bytes.cast_signed(),
                    tracks,
                    beginning,
                    state as u8,
                ])
        })?;
        Ok(())
    }

    /// Notes that an open file has grown.
    pub(crate) fn grow(&self, path: &Path, growth: Growth) {
        if let Some(it) = lock(&self.growing).get_mut(path) {
            *it = growth;
        }
    }

    /// Notes that nothing is written to a file any more, now or as soon as the index can be written.
    pub(crate) fn end_or_retry(&self, path: &Path, growth: Growth) {
        self.grow(path, growth);
        if let Err(error) = self.end(path, growth) {
            tracing::warn!(%error, "a recording is not in its index yet");
            lock(&self.unsaid).push((path.to_owned(), growth));
        }
    }

    /// Notes the rows that could not be noted before.
    pub(crate) fn retry(&self) {
        for (path, growth) in std::mem::take(&mut *lock(&self.unsaid)) {
            if self.end(&path, growth).is_err() {
                lock(&self.unsaid).push((path, growth));
            }
        }
    }

    /// Notes that nothing is written to a file any more.
    pub(crate) fn end(&self, path: &Path, growth: Growth) -> Result<(), CatalogueError> {
        self.change(|index| {
            index
                .prepare("UPDATE files SET duration_us = ?, bytes = ?, state = 1 WHERE path = ?")?
                .execute(params![
                    micros(growth.duration),
                    growth.bytes.cast_signed(),
                    text_of(path)
                ])
        })?;
        lock(&self.growing).remove(path);
        Ok(())
    }

    /// Forgets a file.
    pub(crate) fn forget(&self, path: &Path) -> Result<(), CatalogueError> {
        lock(&self.growing).remove(path);
        self.change(|index| {
            let mut delete = index.prepare("DELETE FROM files WHERE path = ?")?;
            delete.execute([text_of(path)])
        })?;
        Ok(())
    }

    /// Forgets everything, for an index that is made anew.
    pub(crate) fn clear(&self) -> Result<(), CatalogueError> {
        self.change(|index| index.execute_batch("DELETE FROM files; DELETE FROM marks;"))
    }

    /// Makes all changes of `work` at once, which is faster than one by one.
    pub(crate) fn together<T>(
        &self,
        work: impl FnOnce() -> Result<T, CatalogueError>,
    ) -> Result<T, CatalogueError> {
        self.change(|index| index.execute_batch("BEGIN"))?;
        let done = work();
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.change(|index| index.execute_batch(end))?;
        done
    }

    /// Appends the files of a stream that have something of `range`.
    pub(crate) fn files(
        &self,
        stream: &StreamName,
        range: TimeRange,
        out: &mut Vec<RecordedFile>,
    ) -> Result<(), CatalogueError> {
        let from = range.from.checked_sub(FILE_LONGEST);
        let from = from.map_or(0, utc::micros);
        let found = self.select(
            "stream = ? AND start_us >= ? AND start_us < ? ORDER BY start_us",
            params![stream.as_str(), from, utc::micros(range.to)],
        )?;
        out.extend(
            found
                .into_iter()
                .filter(|it| range.touches(it.start, it.duration)),
        );
        Ok(())
    }

    /// Appends the files of a stream next to `at`: the last `count` that begin at or before it, and the first
    /// `count` that begin after it; of one layer, or of all.
    pub(crate) fn around(
        &self,
        stream: &StreamName,
        layer: Option<&str>,
        at: SystemTime,
        count: u32,
        out: &mut Vec<RecordedFile>,
    ) -> Result<(), CatalogueError> {
        let at = utc::micros(at);
        for side in [
            "start_us <= ?2 AND (?3 IS NULL OR layer = ?3) ORDER BY start_us DESC LIMIT ?4",
            "start_us > ?2 AND (?3 IS NULL OR layer = ?3) ORDER BY start_us LIMIT ?4",
        ] {
            let condition = format!("stream = ?1 AND {side}");
            out.extend(self.select(&condition, params![stream.as_str(), at, layer, count])?);
        }
        Ok(())
    }

    /// Returns the files that are open by the index.
    pub(crate) fn open_files(&self) -> Result<Vec<RecordedFile>, CatalogueError> {
        self.select("state = 0", [])
    }

    /// Returns the names of all streams with files. Takes a look at the index for each, and none at the
    /// rows.
    pub(crate) fn stream_names(&self) -> Result<Vec<StreamName>, CatalogueError> {
        let reader = lock(&self.reader);
        let mut names = Vec::new();
        let mut last = String::new();
        let next = "SELECT MIN(stream) FROM files WHERE stream > ?";
        loop {
            let name = reader.query_row(next, [&last], |row| row.get::<_, Option<String>>(0));
            match name.map_err(|error| index_error(&self.folder, &error))? {
                Some(name) => {
                    names.extend(StreamName::parse(&name));
                    last = name;
                }
                None => return Ok(names),
            }
        }
    }

    /// Returns every file, by path.
    pub(crate) fn all(&self) -> Result<Vec<RecordedFile>, CatalogueError> {
        self.select("1 ORDER BY path", [])
    }

    /// Returns every stream with files.
    pub(crate) fn streams(&self) -> Result<Vec<RecordedStream>, CatalogueError> {
        let failed = |error| index_error(&self.folder, &error);
        let reader = lock(&self.reader);
        let mut select = reader
            .prepare(
                "SELECT stream, MIN(start_us), MAX(start_us + duration_us), COUNT(*), SUM(bytes) \
                 FROM files GROUP BY stream ORDER BY stream",
            )
            .map_err(failed)?;
        let rows = select.query_map([], |row| {
            let number = |column| row.get::<_, i64>(column);
            Ok(StreamName::parse(&row.get::<_, String>(0)?).ok().zip(Some((
                number(1)?,
                number(2)?,
                number(3)?,
                number(4)?,
            ))))
        });
        let mut streams = Vec::new();
        for row in rows.map_err(failed)? {
            if let Some((name, (first, last, files, bytes))) = row.map_err(failed)? {
                streams.push(RecordedStream {
                    name,
                    first: utc::from_micros(first),
                    last: utc::from_micros(last),
                    files: files.cast_unsigned(),
                    bytes: bytes.cast_unsigned(),
                });
            }
        }
        drop(select);
        drop(reader);
        self.add_growth(&mut streams)?;
        Ok(streams)
    }

    /// Adds the content of open files beyond their rows.
    fn add_growth(&self, streams: &mut [RecordedStream]) -> Result<(), CatalogueError> {
        if lock(&self.growing).is_empty() {
            return Ok(());
        }
        for file in self.open_files()? {
            let mut streams = streams.iter_mut();
            if let Some(stream) = streams.find(|it| it.name == file.stream) {
                stream.last = stream.last.max(file.end());
                stream.bytes += file.bytes;
            }
        }
        Ok(())
    }

    fn change<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogueError> {
        let Some(writer) = &self.writer else {
            return Err(CatalogueError::Index {
                folder: self.folder.clone(),
                reason: "it was opened for reading alone".to_owned(),
                kind: io::ErrorKind::ReadOnlyFilesystem,
            });
        };
        work(&lock(writer)).map_err(|error| index_error(&self.folder, &error))
    }

    fn select(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let failed = |error| index_error(&self.folder, &error);
        let growing = lock(&self.growing).clone();
        let reader = lock(&self.reader);
        let query = format!("SELECT {COLUMNS}, copy_failures FROM files WHERE {condition}");
        let mut select = reader.prepare(&query).map_err(failed)?;
        let rows = select.query_map(values, |row| self.file(row, &growing));
        let mut files = Vec::new();
        for row in rows.map_err(failed)? {
            files.extend(row.map_err(failed)?);
        }
        Ok(files)
    }

    /// Returns the file of a row; `None` if the row is not one that this version writes.
    fn file(
        &self,
        row: &Row<'_>,
        growing: &HashMap<PathBuf, Growth>,
    ) -> rusqlite::Result<Option<RecordedFile>> {
        let path = PathBuf::from(row.get::<_, String>(0)?);
        let text = |column| row.get::<_, String>(column);
        let growth = growing.get(&path).copied().unwrap_or(Growth {
            duration: Duration::from_micros(row.get::<_, i64>(6)?.cast_unsigned()),
            bytes: row.get::<_, i64>(7)?.cast_unsigned(),
        });
        let (stream, beginning) = (text(1)?, text(9)?);
        let Ok(stream) = StreamName::parse(&stream) else {
            return Ok(None);
        };
        let Ok(beginning) = serde_json::from_str(&beginning) else {
            return Ok(None);
        };
        let state: u8 = row.get(10)?;
        Ok(Some(RecordedFile {
            path: self.folder.join(path),
            stream,
            layer: text(2)?,
            run: row.get::<_, i64>(3)?.cast_unsigned(),
            number: row.get(4)?,
            start: utc::from_micros(row.get(5)?),
            duration: growth.duration,
            bytes: growth.bytes,
            tracks: serde_json::from_str(&text(8)?).unwrap_or_default(),
            beginning,
            is_closed: state != FileState::Open as u8,
            copy: kept::copy_state(state, row.get(11)?),
        }))
    }
}

impl fmt::Debug for FolderIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderIndex")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

fn path_of(folder: &Path) -> PathBuf {
    folder.join(OWN).join("index.sqlite")
}

/// Returns a path below a folder as the index has it. Names of streams and times are plain ASCII.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn index_error(folder: &Path, error: &rusqlite::Error) -> CatalogueError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
        Some(ErrorCode::CannotOpen) => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    CatalogueError::Index {
        folder: folder.to_owned(),
        reason: error.to_string(),
        kind,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
