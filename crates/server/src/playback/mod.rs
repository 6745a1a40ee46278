//! Recordings as viewers get them: what there is of a stream, and the bytes of any part of it.
//!
//! ```text
//! catalogue ─ files ─► stretches that play as one ─► lists
//!                         └─ wanted part ─► Clip: fragments, or one file ─► Assembly: pieces of files ─► chunks
//!             └─ an instant ─► Past: a private stream at a pace
//! ```
//!
//! Files are read by threads that may block, a chunk at a time, so that a body of any length takes the
//! memory of one chunk and of its list of fragments. A reader has a place, of which each address has a
//! share; a file that somebody reads is not deleted. What waits for a disk cannot be canceled, and keeps its
//! place on the thread until the disk answers.

mod assembly;
mod body;
mod clip;
mod past;
mod plan;
mod stretch;
mod thumbnail;
pub(crate) mod time_text;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_hub::StreamName;
use glassline_ingest::library::Readings;
use glassline_recording::{Catalogue, CatalogueError, Mark, TimeRange};
use glassline_runtime::{
    BlockingPool, ConnectionLimit, Counter, FairPlaces, SourcePrefix, Supervisor,
};
use glassline_transcode::NoStill;

use crate::metrics::head;
use crate::recordings::Recording;
use crate::service::{Departing, NamedViewer, NotEnded, Service, ViewerFigures};

pub(crate) use clip::{Clip, ClipForm};
pub(crate) use past::{Past, PastFrom, PastReading, instant_of};
pub(crate) use plan::Wanted;
pub(crate) use stretch::Stretch;
pub(crate) use thumbnail::ThumbnailOrder;

/// Reads of files at a time. A disk that hangs must not take the threads of everything else.
const READS: usize = 16;

/// Bodies that may be read at the same time, and those of one address.
const BODIES_MAX: usize = 256;
const BODIES_PER_ADDRESS: usize = 32;

/// Plays what was recorded.
#[derive(Debug)]
pub(crate) struct Playback {
    recording: Arc<Recording>,
    supervisor: Arc<Supervisor>,
    disk: BlockingPool,
    places: FairPlaces<SourcePrefix>,
    thumbnails: thumbnail::Thumbnails,
    bytes: Arc<Counter>,
    bodies: Counter,
    /// Sessions that play the past.
    sessions: ConnectionLimit,
    /// The threads that play the past, once somebody has asked for it.
    readings: Mutex<Option<Arc<Readings>>>,
}

/// The reason why there is no footage.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFootage {
    /// Nothing was recorded then.
    #[error("nothing was recorded then")]
    Nothing,
    /// The index of recordings fails.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The part has too many frames.
    #[error("{0}")]
    TooLong(String),
    /// The address reads as much as it may.
    #[error(
        "as many recordings as one address may read at a time are being read: ask again when one of them is \
         done"
    )]
    Crowded,
    /// A thread panicked.
    #[error("the server made a mistake while it looked for the recording; the log has its place")]
    Panicked,
    /// The keyframe does not become a thumbnail.
    #[error(transparent)]
    NoThumbnail(#[from] NoStill),
}

/// The recordings of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) catalogue: Catalogue,
    pub(crate) stream: StreamName,
    /// Name of the layer; `None` takes the best one.
    pub(crate) layer: Option<String>,
}

impl Playback {
    /// Creates the playback of what `recording` keeps.
    pub(crate) fn new(recording: Arc<Recording>, supervisor: &Arc<Supervisor>) -> Self {
        Self {
            recording,
            supervisor: Arc::clone(supervisor),
            disk: BlockingPool::new(READS),
            places: FairPlaces::new(BODIES_MAX, BODIES_PER_ADDRESS),
            thumbnails: thumbnail::Thumbnails::default(),
            bytes: Arc::default(),
            bodies: Counter::new(),
            sessions: ConnectionLimit::new(past::SESSIONS_MAX, past::SESSIONS_PER_ADDRESS),
            readings: Mutex::default(),
        }
    }

    /// Returns the stretches of a stream within `range`, the oldest first.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the index fails.
    pub(crate) async fn stretches(
        &self,
        of: Subject,
        range: TimeRange,
    ) -> Result<Vec<Stretch>, NoFootage> {
        let looking = self.disk.run(move || stretches(&of, range));
        looking.await.map_err(|_| NoFootage::Panicked)?
    }

    /// Returns the marks of a stream within `range`.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the index fails.
    pub(crate) async fn marks(
        &self,
        of: Subject,
        range: TimeRange,
    ) -> Result<Vec<Mark>, NoFootage> {
        let looking = self.disk.run(move || of.catalogue.marks(&of.stream, range));
        Ok(looking.await.map_err(|_| NoFootage::Panicked)??)
    }
}

fn stretches(of: &Subject, range: TimeRange) -> Result<Vec<Stretch>, NoFootage> {
    let files = of.catalogue.files(&of.stream, range)?;
    Ok(stretch::of_files(files, of.layer.as_deref(), range))
}

/// Returns the range of all times that can be written.
pub(crate) fn always() -> TimeRange {
    TimeRange {
        from: SystemTime::UNIX_EPOCH,
        to: SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800),
    }
}

impl Service for Playback {
    fn name(&self) -> &'static str {
        "playback"
    }

    fn metrics(&self, text: &mut String) {
        use std::fmt::Write as _;
        let figures = [
            (
                "playback_bytes_total",
                "Bytes of recordings that were read for viewers.",
                &*self.bytes,
            ),
            (
                "playback_bodies_total",
                "Answers with recordings that were begun.",
                &self.bodies,
            ),
        ];
        for (name, help, counter) in figures {
            head(text, name, "counter", help);
            let _ = writeln!(text, "glassline_{name} {}", counter.get());
        }
    }

    fn viewers(&self, _now: std::time::Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn disconnect<'a>(&'a self, _viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        std::future::ready(Err(NotEnded::Unknown)).boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn stop(&self) {
        self.close_past();
    }
}

#[cfg(test)]
mod tests;
