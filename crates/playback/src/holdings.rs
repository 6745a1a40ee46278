//! The files and marks of a stream: those of one server, and those of all servers of a cluster together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use glassline_hub::StreamName;
use glassline_recording::{
    Beginning, Catalogue, CatalogueError, CopyState, Mark, NewMark, RecordedFile, RecordedTrack,
    StageMinute, TimeRange,
};
use serde::{Deserialize, Serialize};

use super::folders::Asker;
use super::missing::Missing;
use super::others::{OtherServer, Question, micros, time};
use super::pools::Origin;
use super::{Listed, NoFootage, Playback, Subject};

/// The files and marks of a stream that one server has.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    files: Vec<RecordedFile>,
    marks: Vec<Mark>,
}

/// A recorded file, and the server that has it.
#[derive(Clone, Debug)]
pub(crate) struct PlacedFile {
    pub(super) file: RecordedFile,
    /// The other server that has the file; `None` for a file of this one.
    pub(super) server: Option<OtherServer>,
}

/// The files and marks of a stream that were found in the whole cluster.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files by their beginnings.
    pub(super) files: Vec<PlacedFile>,
    /// Marks by their beginnings.
    pub(super) marks: Vec<Mark>,
    pub(super) missing: Missing,
}

impl PlacedFile {
    /// Returns the name of the server that has the file; `None` for this one.
    pub(super) fn server(&self) -> Option<&str> {
        self.server.as_ref().map(|it| &*it.name)
    }

    /// Returns where the bytes of the file come from.
    pub(super) fn origin(&self) -> Origin<'_> {
        match (&self.server, self.file.copy) {
            (Some(server), _) => Origin::Server(&server.name),
            (None, CopyState::Alone) => Origin::Storage,
            (None, _) => Origin::Disk(&self.file.path),
        }
    }
}

impl Holdings {
    /// Returns what `catalogue` has of a stream within `range`. Blocks.
    pub(super) fn of(
        catalogue: &Catalogue,
        stream: &StreamName,
        range: TimeRange,
    ) -> Result<Self, CatalogueError> {
        Ok(Self {
            files: catalogue.files(stream, range)?,
            marks: catalogue.marks(stream, range)?,
        })
    }

    pub(super) const fn of_files(files: Vec<RecordedFile>) -> Self {
        Self {
            files,
            marks: Vec::new(),
        }
    }

    /// Returns the files as those that `server` has.
    pub(super) fn into_files(self, server: &OtherServer) -> impl Iterator<Item = PlacedFile> {
        let files = self.files.into_iter();
        files.map(|file| PlacedFile {
            file,
            server: Some(server.clone()),
        })
    }

    pub(super) fn join(&mut self, other: Self) {
        self.files.extend(other.files);
        self.marks.extend(other.marks);
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let written = Written {
            files: self.files.iter().map(WrittenFile::of).collect(),
            marks: self.marks.iter().map(WrittenMark::of).collect(),
        };
        serde_json::to_vec(&written).expect("plain data")
    }

    pub(super) fn parse(json: &[u8], stream: &StreamName) -> Result<Self, serde_json::Error> {
        let written: Written = serde_json::from_slice(json)?;
        Ok(Self {
            files: written
                .files
                .into_iter()
                .map(|it| it.into_file(stream))
                .collect(),
            marks: written
                .marks
                .into_iter()
                .map(|it| it.into_mark(stream))
                .collect(),
        })
    }
}

impl Found {
    fn add(&mut self, holdings: Holdings, server: Option<&OtherServer>) {
        let files = holdings.files.into_iter().map(|file| PlacedFile {
            file,
            server: server.cloned(),
        });
        self.files.extend(files);
        for mark in holdings.marks {
            // Each server that has something of the span has the mark.
            let is_same = |it: &Mark| {
                Mark {
                    number: mark.number,
                    ..it.clone()
                } == mark
            };
            if !self.marks.iter().any(is_same) {
                self.marks.push(mark);
            }
        }
    }
}

impl Playback {
    /// Returns what this server and the others have of a stream within `range`.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the index of this server fails.
    pub(crate) async fn find(&self, of: &Subject, range: TimeRange) -> Result<Found, NoFootage> {
        let stream = of.stream.clone();
        let look = move |catalogue: &Catalogue| Holdings::of(catalogue, &stream, range);
        let here = self.ask_folders(&of.catalogue, Asker::Reader, look);
        let question = Question::holdings(range);
        let there = of.ask_others(&question, |json| Holdings::parse(json, &of.stream));
        let (here, (there, missing)) = tokio::join!(here, there);
        let here = here?;
        let mut found = Found {
            missing: here.missing.and(missing),
            ..Found::default()
        };
        for holdings in here.said {
            found.add(holdings, None);
        }
        for (server, holdings) in there {
            found.add(holdings, Some(&server));
        }
        found.files.sort_by(|one, other| {
            (one.file.start, &one.file.layer).cmp(&(other.file.start, &other.file.layer))
        });
        found.marks.sort_by_key(|it| (it.from, it.number));
        Ok(found)
    }

    /// Returns how long the stages of a stream took, minute by minute, within the first 25 hours of `range`.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if a disk of this server fails.
    pub async fn stage_minutes(
        &self,
        of: &Subject,
        range: TimeRange,
    ) -> Result<Listed<StageMinute>, NoFootage> {
        let stream = of.stream.clone();
        let look = move |catalogue: &Catalogue| catalogue.stage_minutes(&stream, range);
        let here = self.ask_folders(&of.catalogue, Asker::Reader, look);
        let question = Question::stages(range);
        let there = of.ask_others(&question, |json| {
            serde_json::from_slice::<Vec<StageMinute>>(json)
        });
        let (here, (there, missing)) = tokio::join!(here, there);
        let here = here?;
        let mut minutes = BTreeMap::<u64, StageMinute>::new();
        let of_others = there.into_iter().flat_map(|(_, minutes)| minutes);
        for minute in here.said.into_iter().flatten().chain(of_others) {
            let known = minutes.entry(minute.at_s);
            known.or_insert_with(|| minute.clone()).join(&minute);
        }
        Ok(Listed {
            items: minutes.into_values().collect(),
            missing: here.missing.and(missing),
        })
    }

    /// Marks a span of a stream: on each server that has something of it, or else on this one.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if a server cannot be asked, or a disk does not take the mark.
    pub async fn mark(&self, of: &Subject, mark: NewMark) -> Result<(), NoFootage> {
        let range = TimeRange {
            from: mark.from,
            to: mark.to,
        };
        let found = self.find(of, range).await?;
        let is_here = found.files.iter().any(|it| it.server.is_none());
        let mut others: Vec<&OtherServer> = Vec::new();
        for server in found.files.iter().filter_map(|it| it.server.as_ref()) {
            if !others.iter().any(|it| it.name == server.name) {
                others.push(server);
            }
        }
        let question = Question::mark(&mark);
        for server in &others {
            let answer = server.ask(&of.stream, &question).await;
            answer.map_err(|why| NoFootage::Unmarked(server.name.to_string(), why))?;
        }
        if is_here || others.is_empty() {
            self.mark_here(&of.catalogue, mark, Asker::Reader).await?;
        }
        Ok(())
    }
}

/// Holdings as servers tell each other.
#[derive(Serialize, Deserialize)]
struct Written {
    files: Vec<WrittenFile>,
    marks: Vec<WrittenMark>,
}

#[derive(Serialize, Deserialize)]
struct WrittenFile {
    path: PathBuf,
    layer: String,
    run: u64,
    number: u32,
    start_us: u64,
    duration_us: u64,
    bytes: u64,
    tracks: Vec<RecordedTrack>,
    beginning: Beginning,
    is_closed: bool,
}

#[derive(Serialize, Deserialize)]
struct WrittenMark {
    number: i64,
    label: String,
    from_us: u64,
    to_us: u64,
    for_ever: bool,
}

impl WrittenFile {
    fn of(file: &RecordedFile) -> Self {
        Self {
            path: file.path.clone(),
            layer: file.layer.clone(),
            run: file.run,
            number: file.number,
            start_us: micros(file.start),
            duration_us: u64::try_from(file.duration.as_micros()).unwrap_or(u64::MAX),
            bytes: file.bytes,
            tracks: file.tracks.clone(),
            beginning: file.beginning.clone(),
            is_closed: file.is_closed,
        }
    }

    fn into_file(self, stream: &StreamName) -> RecordedFile {
        let start = time(self.start_us);
        // The end is a time that can be written, too.
        let end = time(self.start_us.saturating_add(self.duration_us));
        RecordedFile {
            path: self.path,
            stream: stream.clone(),
            layer: self.layer,
            run: self.run,
            number: self.number,
            start,
            duration: end.duration_since(start).unwrap_or_default(),
            bytes: self.bytes,
            tracks: self.tracks,
            beginning: self.beginning,
            is_closed: self.is_closed,
            // The other server reads its copies itself.
            copy: CopyState::None,
        }
    }
}

impl WrittenMark {
    fn of(mark: &Mark) -> Self {
        Self {
            number: mark.number,
            label: mark.label.clone(),
            from_us: micros(mark.from),
            to_us: micros(mark.to),
            for_ever: mark.is_for_ever,
        }
    }

    fn into_mark(self, stream: &StreamName) -> Mark {
        Mark {
            number: self.number,
            stream: stream.clone(),
            label: self.label,
            from: time(self.from_us),
            to: time(self.to_us),
            is_for_ever: self.for_ever,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn holdings_of_another_server_are_read_or_refused(
            start_us in any::<u64>(), duration_us in any::<u64>(), bytes in any::<u64>(), json in ".{0,80}",
        ) {
            let stream = StreamName::parse("cam").expect("a name");
            let _ = Holdings::parse(json.as_bytes(), &stream);
            let file = WrittenFile {
                path: "/r/cam.mp4".into(),
                layer: String::new(),
                run: 1,
                number: 2,
                start_us,
                duration_us,
                bytes,
                tracks: Vec::new(),
                beginning: Beginning::Length,
                is_closed: false,
            };
            let read = file.into_file(&stream);
            let holdings = Holdings { files: vec![read.clone()], marks: Vec::new() };
            let again = Holdings::parse(&holdings.to_json(), &stream).expect("our own");
            prop_assert_eq!(again.files, vec![read]);
        }
    }
}
