//! How long the stages of a stream took while it was recorded: the file `stages.jsonl` of a day has a minute
//! a line.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_hub::StreamName;
use glassline_runtime::small_file;
use serde::{Deserialize, Serialize};

use super::file::TimeRange;
use super::{Catalogue, CatalogueError};
use crate::folder::{STAGES_FILE, day_folder};

const MINUTE: Duration = Duration::from_secs(60);

const DAY: Duration = Duration::from_secs(86_400);

/// Longest range that is read: a day of 25 hours.
const RANGE_MAX: Duration = Duration::from_secs(25 * 3600);

/// Most bytes of a day's file: a line of each minute has some 200.
const BYTES_MAX: u64 = 1 << 20;

/// The delays of a minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageMinute {
    /// Beginning of the minute, in seconds since 1970.
    pub at_s: u64,
    /// Milliseconds within which 95 of 100 frames passed each stage, in the worst ten seconds of the minute.
    pub p95_ms: BTreeMap<String, f32>,
}

impl StageMinute {
    /// Returns the number of the minute of `at`, since 1970.
    pub fn number(at: SystemTime) -> u64 {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs() / MINUTE.as_secs()
    }

    /// Returns the beginning of the minute.
    pub fn at(&self) -> SystemTime {
        // Other servers tell times, too.
        let last = u64::from(u32::MAX) * 50;
        UNIX_EPOCH + Duration::from_secs(self.at_s.min(last))
    }

    /// Adds the figures of another server for the minute.
    pub fn join(&mut self, other: &Self) {
        for (stage, ms) in &other.p95_ms {
            let longest = self.p95_ms.entry(stage.clone()).or_default();
            *longest = longest.max(*ms);
        }
    }
}

impl Catalogue {
    /// Writes a minute of a stream, which is recorded into the folder at `folder`. A day whose file is full
    /// takes no more.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the disk refuses.
    pub fn add_stage_minute(
        &self,
        folder: &Path,
        stream: &StreamName,
        minute: &StageMinute,
    ) -> Result<(), CatalogueError> {
        let day = folder.join(day_folder(stream, minute.at()));
        let file = day.join(STAGES_FILE);
        let append = || -> io::Result<()> {
            // The folder of the stream is there, unless its disk is away.
            match std::fs::create_dir(&day) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let mut line = serde_json::to_vec(minute)?;
            line.push(b'\n');
            let mut options = std::fs::File::options();
            let mut minutes = options.append(true).create(true).open(&file)?;
            match minutes.metadata()?.len() {
                0..BYTES_MAX => minutes.write_all(&line),
                _ => Ok(()),
            }
        };
        append().map_err(|error| CatalogueError::Io { file, error })
    }

    /// Returns the minutes of a stream within `range`, of which the first 25 hours are read.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if a file cannot be read.
    pub fn stage_minutes(
        &self,
        stream: &StreamName,
        range: TimeRange,
    ) -> Result<Vec<StageMinute>, CatalogueError> {
        let to = range.to.min(range.from + RANGE_MAX);
        let mut minutes = BTreeMap::<u64, StageMinute>::new();
        for folder in self.folders() {
            let mut at = range.from;
            let mut days = Vec::new();
            while at < to + DAY {
                days.push(day_folder(stream, at.min(to)));
                at += DAY;
            }
            days.dedup();
            for day in days {
                let file = folder.folder().join(day).join(STAGES_FILE);
                let text = match small_file::read_text(&file, 2 * BYTES_MAX) {
                    Ok(text) => text,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(CatalogueError::Io { file, error }),
                };
                let lines = text.lines();
                // A power failure may have cut a line.
                let lines = lines.filter_map(|it| serde_json::from_str::<StageMinute>(it).ok());
                for minute in lines.filter(|it| it.at() >= range.from && it.at() < to) {
                    let known = minutes.entry(minute.at_s);
                    known.or_insert_with(|| minute.clone()).join(&minute);
                }
            }
        }
        Ok(minutes.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::scratch::Scratch;

    #[test]
    fn minutes_are_written_beside_the_files_and_found_over_midnight() {
        let scratch = Scratch::new();
        let folder = Folder::open(scratch.path(), None).expect("a folder");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        let stream = StreamName::parse("cam").expect("a name");
        // 2026-12-01 00:00.
        let midnight = 1_796_083_200;
        let minute = |at_s, ms| StageMinute {
            at_s,
            p95_ms: BTreeMap::from([("network".to_owned(), ms)]),
        };
        let add = |minute| catalogue.add_stage_minute(scratch.path(), &stream, &minute);
        assert!(
            add(minute(midnight, 1.0)).is_err(),
            "nothing is recorded, or the disk is away"
        );
        std::fs::create_dir(scratch.path().join("cam")).expect("a folder");
        for (at_s, ms) in [
            (midnight - 60, 400.0),
            (midnight, 3.0),
            (midnight + 60, 4.0),
        ] {
            add(minute(at_s, ms)).expect("a folder");
        }
        let file = scratch.path().join("cam/2026-12-01").join(STAGES_FILE);
        let mut file = std::fs::File::options()
            .append(true)
            .open(file)
            .expect("a file");
        file.write_all(b"{\"at_s\":1").expect("a line that was cut");
        let range = |from, to| TimeRange {
            from: UNIX_EPOCH + Duration::from_secs(from),
            to: UNIX_EPOCH + Duration::from_secs(to),
        };
        let found = catalogue.stage_minutes(&stream, range(midnight - 60, midnight + 60));
        let expected = [minute(midnight - 60, 400.0), minute(midnight, 3.0)];
        assert_eq!(found.expect("files"), expected);
        let found = catalogue.stage_minutes(&stream, range(midnight - 86_400, u64::MAX >> 20));
        assert_eq!(found.expect("files").len(), 3);
        let none = catalogue.stage_minutes(&stream, range(0, 1000));
        assert_eq!(none.expect("no files"), []);
    }
}
