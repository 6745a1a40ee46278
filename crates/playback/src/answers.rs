//! Answers to other servers of the cluster, of what this one has itself.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use glassline_cmaf::{ReadAt as _, RecordedFile, put_index};
use glassline_hub::StreamName;
use glassline_recording::{Catalogue, NewMark, TimeRange};

use super::holdings::Holdings;
use super::others::{BYTES_MAX, Question, time};
use super::{NoFootage, Playback};

/// Most files next to an instant that another server is told of, before and after it.
const FILES_AROUND_MAX: u32 = 64;

impl Question {
    /// Answers of what `catalogue` has. Blocks.
    pub fn answer(self, catalogue: &Catalogue, stream: &StreamName) -> Result<Bytes, NoFootage> {
        match self {
            Self::Holdings { from_us, to_us } => {
                let range = range(from_us, to_us);
                Ok(Holdings::of(catalogue, stream, range)?.to_json().into())
            }
            Self::Around {
                at_us,
                layer,
                count,
            } => {
                let (at, count) = (time(at_us), count.min(FILES_AROUND_MAX));
                let files = catalogue.around(stream, layer.as_deref(), at, count)?;
                Ok(Holdings::of_files(files).to_json().into())
            }
            Self::Stages { from_us, to_us } => {
                let minutes = catalogue.stage_minutes(stream, range(from_us, to_us))?;
                Ok(serde_json::to_vec(&minutes).expect("plain data").into())
            }
            Self::Fragments { file } => {
                let Some(held) = catalogue.hold_at(stream, &file)? else {
                    return Ok(Bytes::new());
                };
                let open = held.open();
                let open = open.map_err(|error| unreadable(&file, &error))?;
                let opened = RecordedFile::open(open).map_err(|error| unreadable(&file, &error))?;
                let mut out = Vec::new();
                put_index(&mut out, opened.fragments());
                Ok(out.into())
            }
            Self::Bytes {
                file,
                offset,
                bytes,
            } => {
                let held = catalogue.hold_at(stream, &file)?;
                let held = held.ok_or(NoFootage::Nothing)?;
                let mut out = vec![0; bytes.min(BYTES_MAX) as usize];
                let open = held.open();
                let read = open.and_then(|open| open.read_at(offset, &mut out));
                out.truncate(read.map_err(|error| unreadable(&file, &error))?);
                Ok(out.into())
            }
            Self::Mark {
                from_us,
                to_us,
                label,
                for_ever,
            } => {
                catalogue.mark(NewMark {
                    stream: stream.clone(),
                    label,
                    from: time(from_us),
                    to: time(to_us),
                    is_for_ever: for_ever,
                })?;
                Ok(Bytes::new())
            }
        }
    }
}

impl Playback {
    /// Answers another server.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if a disk fails, or the file is gone.
    pub async fn answer(
        &self,
        catalogue: Catalogue,
        stream: StreamName,
        question: Question,
    ) -> Result<Bytes, NoFootage> {
        let answering = self
            .pools
            .of_others
            .run(move || question.answer(&catalogue, &stream));
        answering.await.map_err(|_| NoFootage::Panicked)?
    }
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
