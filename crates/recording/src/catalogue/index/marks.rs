//! The marks of a folder: rows, and lines of the files that the rows can be made of.

use std::io::{self, Write as _};
use std::path::Path;

use glassline_hub::StreamName;
use rusqlite::params;

use super::{FolderIndex, index_error, lock};
use crate::catalogue::CatalogueError;
use crate::catalogue::file::TimeRange;
use crate::catalogue::mark::{Mark, MarkLine, NewMark};
use crate::folder::{MARKS_FILE, day_folder};
use crate::utc;

impl FolderIndex {
    /// Appends the marks of a stream that have something of `range`.
    pub(crate) fn marks(
        &self,
        stream: &StreamName,
        range: TimeRange,
        out: &mut Vec<Mark>,
    ) -> Result<(), CatalogueError> {
        let failed = |error| index_error(&self.folder, &error);
        let reader = lock(&self.reader);
        let mut select = reader
            .prepare(
                "SELECT number, label, from_us, to_us, for_ever FROM marks \
                 WHERE stream = ? AND from_us < ? AND to_us >= ? ORDER BY from_us",
            )
            .map_err(failed)?;
        let wanted = params![
            stream.as_str(),
            utc::micros(range.to),
            utc::micros(range.from)
        ];
        let rows = select.query_map(wanted, |row| {
            Ok(Mark {
                number: row.get(0)?,
                stream: stream.clone(),
                label: row.get(1)?,
                from: utc::from_micros(row.get(2)?),
                to: utc::from_micros(row.get(3)?),
                is_for_ever: row.get(4)?,
            })
        });
        for row in rows.map_err(failed)? {
            out.push(row.map_err(failed)?);
        }
        Ok(())
    }

    /// Writes a mark into its day's file, and notes it.
    pub(crate) fn add_mark(&self, mark: NewMark) -> Result<Mark, CatalogueError> {
        let day = self.folder.join(day_folder(&mark.stream, mark.from));
        let file = day.join(MARKS_FILE);
        let append = || -> io::Result<()> {
            std::fs::create_dir_all(&day)?;
            let mut line = serde_json::to_vec(&MarkLine::of(&mark))?;
            line.push(b'\n');
            let mut options = std::fs::File::options();
            let mut marks = options.append(true).create(true).open(&file)?;
            marks.write_all(&line)?;
            marks.sync_data()
        };
        append().map_err(|error| CatalogueError::Io { file, error })?;
        self.put_mark(mark)
    }

    /// Notes the marks of a day's file again. Lines that are none are passed over.
    pub(crate) fn read_marks(
        &self,
        stream: &StreamName,
        file: &Path,
    ) -> Result<usize, CatalogueError> {
        let text = std::fs::read_to_string(file).map_err(|error| CatalogueError::Io {
            file: file.to_owned(),
            error,
        })?;
        let lines = text.lines();
        let lines = lines.filter_map(|it| serde_json::from_str::<MarkLine>(it).ok());
        let mut marks = 0;
        for line in lines {
            self.put_mark(line.into_mark(stream))?;
            marks += 1;
        }
        Ok(marks)
    }

    /// Forgets the marks of a stream that end before its oldest file.
    pub(crate) fn forget_old_marks(&self, stream: &StreamName) -> Result<(), CatalogueError> {
        self.change(|index| {
            let delete = "DELETE FROM marks WHERE stream = ?1 AND to_us < \
                          (SELECT MIN(start_us) FROM files WHERE stream = ?1)";
            index.execute(delete, [stream.as_str()])
        })?;
        Ok(())
    }

    fn put_mark(&self, mark: NewMark) -> Result<Mark, CatalogueError> {
        let number = self.change(|index| {
            let insert = "INSERT INTO marks (stream, label, from_us, to_us, for_ever) \
                          VALUES (?, ?, ?, ?, ?)";
            index.prepare(insert)?.insert(params![
                mark.stream.as_str(),
                mark.label,
                utc::micros(mark.from),
                utc::micros(mark.to),
                mark.is_for_ever,
            ])
        })?;
        Ok(Mark {
            number,
            stream: mark.stream,
            label: mark.label,
            from: mark.from,
            to: mark.to,
            is_for_ever: mark.is_for_ever,
        })
    }
}
