//! Answers to other servers of the cluster, of what this one has itself.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use glassline_cmaf::{ReadAt as _, RecordedFile, put_index};
use glassline_hub::StreamName;
use glassline_recording::{Catalogue, NewMark, StageMinute, TimeRange};

use super::folders::Asker;
use super::holdings::Holdings;
use super::others::{BYTES_MAX, Question, time};
use super::{NoFootage, Playback};

/// Most files next to an instant that another server is told of, before and after it.
const FILES_AROUND_MAX: u32 = 64;

/// An answer to another server, or the part of it that one folder gives.
#[derive(Debug)]
enum Answer {
    Holdings(Holdings),
    Minutes(Vec<StageMinute>),
    Bytes(Bytes),
}

impl Question {
    /// Returns the mark that is to be made, if the question is one.
    fn new_mark(&self, stream: &StreamName) -> Option<NewMark> {
        let Self::Mark {
            from_us,
            to_us,
            label,
            for_ever,
        } = self
        else {
            return None;
        };
        Some(NewMark {
            stream: stream.clone(),
            label: label.clone(),
            from: time(*from_us),
            to: time(*to_us),
            is_for_ever: *for_ever,
        })
    }

    /// Returns the file that the question is about, if it is about one.
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Fragments { file } | Self::Bytes { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns what `catalogue` has. Blocks.
    fn look(&self, catalogue: &Catalogue, stream: &StreamName) -> Result<Answer, NoFootage> {
        Ok(match self {
            Self::Holdings { from_us, to_us } => {
                Answer::Holdings(Holdings::of(catalogue, stream, range(*from_us, *to_us))?)
            }
            Self::Around {
                at_us,
                layer,
                count,
            } => {
                let (at, count) = (time(*at_us), (*count).min(FILES_AROUND_MAX));
                let files = catalogue.around(stream, layer.as_deref(), at, count)?;
                Answer::Holdings(Holdings::of_files(files))
            }
            Self::Stages { from_us, to_us } => {
                Answer::Minutes(catalogue.stage_minutes(stream, range(*from_us, *to_us))?)
            }
            Self::Fragments { file } => Answer::Bytes(fragments(catalogue, stream, file)?),
            Self::Bytes {
                file,
                offset,
                bytes,
            } => {
                let held = catalogue.hold_at(stream, file)?;
                let held = held.ok_or(NoFootage::Nothing)?;
                let mut out = vec![0; (*bytes).min(BYTES_MAX) as usize];
                let open = held.open();
                let read = open.and_then(|open| open.read_at(*offset, &mut out));
                out.truncate(read.map_err(|error| unreadable(file, &error))?);
                Answer::Bytes(out.into())
            }
            // Marks are made, not looked for.
            Self::Mark { .. } => Answer::Bytes(Bytes::new()),
        })
    }

    /// Returns the answer of a server that has no folder.
    const fn none(&self) -> Result<Answer, NoFootage> {
        Ok(match self {
            Self::Holdings { .. } | Self::Around { .. } => {
                Answer::Holdings(Holdings::of_files(Vec::new()))
            }
            Self::Stages { .. } => Answer::Minutes(Vec::new()),
            Self::Fragments { .. } | Self::Mark { .. } => Answer::Bytes(Bytes::new()),
            Self::Bytes { .. } => return Err(NoFootage::Nothing),
        })
    }
}

impl Answer {
    /// Adds the part of another folder.
    fn join(&mut self, other: Self) {
        match (self, other) {
            (Self::Holdings(all), Self::Holdings(more)) => all.join(more),
            // Whoever asked joins rows of the same minute.
            (Self::Minutes(all), Self::Minutes(more)) => all.extend(more),
            (all, more) => *all = more,
        }
    }

    fn to_bytes(&self) -> Bytes {
        match self {
            Self::Holdings(holdings) => holdings.to_json().into(),
            Self::Minutes(minutes) => serde_json::to_vec(minutes).expect("plain data").into(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl Playback {
    /// Answers another server.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if a disk fails or gives nothing in time, or the file is gone.
    pub async fn answer(
        &self,
        catalogue: Catalogue,
        stream: StreamName,
        question: Question,
    ) -> Result<Bytes, NoFootage> {
        if let Some(mark) = question.new_mark(&stream) {
            self.mark_here(&catalogue, mark, Asker::Server).await?;
            return Ok(Bytes::new());
        }
        let catalogue = match question.file() {
            Some(file) => only_with(&catalogue, file),
            None => catalogue,
        };
        let none = question.none();
        let look = move |alone: &Catalogue| question.look(alone, &stream);
        let told = self.ask_folders(&catalogue, Asker::Server, look).await?;
        if !told.missing.0.is_empty() {
            return Err(NoFootage::Away(told.missing.to_string()));
        }
        let mut parts = told.said.into_iter();
        let Some(mut answer) = parts.next() else {
            return Ok(none?.to_bytes());
        };
        parts.for_each(|part| answer.join(part));
        Ok(answer.to_bytes())
    }
}

/// Returns a catalogue of the folder that has the file.
fn only_with(catalogue: &Catalogue, file: &Path) -> Catalogue {
    let folders = catalogue.by_folder();
    let is_folder = |path: &&Path| folders.iter().any(|(folder, _)| folder == path);
    let of_file = file.ancestors().find(is_folder);
    catalogue.without(|folder| Some(folder) != of_file)
}

/// Returns the index of the fragments of a file; nothing for a file that is gone. Blocks.
fn fragments(catalogue: &Catalogue, stream: &StreamName, file: &Path) -> Result<Bytes, NoFootage> {
    let Some(held) = catalogue.hold_at(stream, file)? else {
        return Ok(Bytes::new());
    };
    let open = held.open();
    let open = open.map_err(|error| unreadable(file, &error))?;
    let opened = RecordedFile::open(open).map_err(|error| unreadable(file, &error))?;
    let mut out = Vec::new();
    put_index(&mut out, opened.fragments());
    Ok(out.into())
}

fn range(from_us: u64, to_us: u64) -> TimeRange {
    TimeRange {
        from: time(from_us),
        to: time(to_us),
    }
}

fn unreadable(file: &Path, error: &dyn fmt::Display) -> NoFootage {
    NoFootage::Unreadable(format!("{}: {error}", file.display()))
}
