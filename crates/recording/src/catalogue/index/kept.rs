//! The queries of retention and of the copier: which files are on the disk, which have
//! a copy, and which of them is the next.

use std::path::Path;
use std::time::SystemTime;

use glassline_hub::StreamName;
use rusqlite::params;

use super::{FolderIndex, index_error, lock, text_of};
use crate::catalogue::CatalogueError;
use crate::catalogue::file::{CopiesWaiting, CopyState, FileState, RecordedFile};
use crate::utc;

/// Attempts after which a file that cannot be read is not copied any more.
const COPY_FAILURES_MAX: u32 = 5;

/// Returns the copy of a row with these values.
pub(super) const fn copy_state(state: u8, failures: u32) -> CopyState {
    const COPIED: u8 = FileState::Copied as u8;
    const REMOTE: u8 = FileState::Remote as u8;
    match state {
        COPIED => CopyState::Confirmed,
        REMOTE => CopyState::Alone,
        _ if failures >= COPY_FAILURES_MAX => CopyState::Refused,
        _ => CopyState::None,
    }
}

impl FolderIndex {
    /// Returns the size of all files that are on the disk.
    pub(crate) fn bytes(&self) -> Result<u64, CatalogueError> {
        let sum = "SELECT COALESCE(SUM(bytes), 0) FROM files WHERE state < 3";
        let reader = lock(&self.reader);
        let closed = reader.query_row(sum, [], |row| row.get::<_, i64>(0));
        let closed = closed.map_err(|error| index_error(&self.folder, &error))?;
        let growing = lock(&self.growing).values().map(|it| it.bytes).sum::<u64>();
        Ok(closed.cast_unsigned() + growing)
    }

    /// Returns up to `most` closed files of the disk that began after `after`, the oldest first.
    pub(crate) fn oldest(
        &self,
        after: SystemTime,
        most: usize,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let condition = "state < 3 AND state > 0 AND start_us > ? ORDER BY start_us LIMIT ?";
        self.select(condition, params![utc::micros(after), most])
    }

    /// Returns up to `most` closed files of a stream that are on the disk and began before `before`, the
    /// oldest first.
    pub(crate) fn older(
        &self,
        stream: &StreamName,
        before: SystemTime,
        most: usize,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let condition = "stream = ? AND start_us < ? AND state < 3 AND state > 0 \
                         ORDER BY start_us LIMIT ?";
        self.select(
            condition,
            params![stream.as_str(), utc::micros(before), most],
        )
    }

    /// Returns up to `most` files of a stream of which only the copy is left and that began before
    /// `before`, the oldest first.
    pub(crate) fn older_copies(
        &self,
        stream: &StreamName,
        before: SystemTime,
        most: usize,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let condition = "stream = ? AND start_us < ? AND state = 3 ORDER BY start_us LIMIT ?";
        self.select(
            condition,
            params![stream.as_str(), utc::micros(before), most],
        )
    }

    /// Returns every file with a copy.
    pub(crate) fn copied(&self) -> Result<Vec<RecordedFile>, CatalogueError> {
        self.select("state > 1", [])
    }

    /// Returns the file of a stream that is to be copied next: the oldest one that failed least often.
    pub(crate) fn next_to_copy(
        &self,
        stream: &StreamName,
    ) -> Result<Option<RecordedFile>, CatalogueError> {
        let condition = "stream = ? AND state = 1 AND copy_failures < ? \
                         ORDER BY copy_failures, start_us LIMIT 1";
        let found = self.select(condition, params![stream.as_str(), COPY_FAILURES_MAX])?;
        Ok(found.into_iter().next())
    }

    /// Adds the files that wait for a copy, of the streams that `wanted` names.
    pub(crate) fn count_waiting(
        &self,
        wanted: &dyn Fn(&StreamName) -> bool,
        sum: &mut CopiesWaiting,
    ) -> Result<(), CatalogueError> {
        let failed = |error| index_error(&self.folder, &error);
        let reader = lock(&self.reader);
        let mut select = reader
            .prepare(
                "SELECT stream, copy_failures >= ?, COUNT(*), SUM(bytes), MIN(start_us) FROM files \
                 WHERE state = 1 GROUP BY 1, 2",
            )
            .map_err(failed)?;
        let rows = select.query_map([COPY_FAILURES_MAX], |row| {
            let waiting = CopiesWaiting {
                files: row.get::<_, i64>(2)?.cast_unsigned(),
                bytes: row.get::<_, i64>(3)?.cast_unsigned(),
                oldest: Some(utc::from_micros(row.get(4)?)),
                refused: 0,
            };
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, waiting))
        });
        for row in rows.map_err(failed)? {
            let (stream, is_refused, of_stream) = row.map_err(failed)?;
            if !StreamName::parse(&stream).is_ok_and(|it| wanted(&it)) {
                continue;
            }
            match is_refused {
                true => sum.refused += of_stream.files,
                false => sum.join(of_stream),
            }
        }
        Ok(())
    }

    /// Notes that a file has a confirmed copy.
    pub(crate) fn note_copied(&self, path: &Path) -> Result<(), CatalogueError> {
        self.set_state(path, FileState::Closed, FileState::Copied)?;
        Ok(())
    }

    /// Notes that a file was deleted. Returns whether its copy is left; otherwise it is forgotten.
    pub(crate) fn leave_copy(&self, path: &Path) -> Result<bool, CatalogueError> {
        // What a caller knows of the copy may be older than the copy.
        let has_copy = self.set_state(path, FileState::Copied, FileState::Remote)? > 0;
        if !has_copy {
            self.forget(path)?;
        }
        Ok(has_copy)
    }

    /// Notes that a file could not be read for a copy.
    pub(crate) fn note_not_copied(&self, path: &Path) -> Result<(), CatalogueError> {
        self.change(|index| {
            let update = "UPDATE files SET copy_failures = copy_failures + 1 WHERE path = ?";
            index.execute(update, [text_of(path)])
        })?;
        Ok(())
    }

    fn set_state(
        &self,
        path: &Path,
        from: FileState,
        to: FileState,
    ) -> Result<usize, CatalogueError> {
        self.change(|index| {
            let update = "UPDATE files SET state = ? WHERE path = ? AND state = ?";
            index.execute(update, params![to as u8, text_of(path), from as u8])
        })
    }
}
