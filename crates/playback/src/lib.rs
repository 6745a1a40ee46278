//! Recordings as viewers get them: what there is of a stream, and the bytes of any part of it.
//!
//! ```text
//! catalogues ─ files ─► stretches that play as one ─► lists
//!              │           ├─ SegmentCutter ─► segments of HLS, as they stand in files
//!              │           └─ wanted part ─► Clip: fragments, or one file ─► Assembly: pieces of files ─► chunks
//!              └─ an instant ─► Past: a private stream at a pace
//! ```
//!
//! In a cluster, the catalogues are those of all servers, and a file of another one is read over the network.
//! A file that is gone and has a copy in object storage is read from there, in the same way.
//!
//! Files are read by threads that may block, a chunk at a time, so that a body of any length takes the
//! memory of one chunk and of its list of fragments. A reader has a place, of which each address has a
//! share; a file that somebody reads is not deleted. What waits for a disk cannot be canceled, and keeps its
//! place on the thread until the disk answers. Each folder of recordings, the storage and each other server
//! have threads of their own.

// This crate is outside the sans-IO cores: what is past has a time of day.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod answers;
mod assembly;
mod body;
mod clip;
mod distant_file;
mod folders;
mod growing_files;
mod holdings;
mod missing;
mod others;
mod past;
mod plan;
mod pools;
pub mod recordings;
mod segments;
mod stretch;
mod thumbnail;
pub mod time_text;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_hub::StreamName;
use glassline_ingest::library::Readings;
use glassline_recording::{Catalogue, CatalogueError, Mark, TimeRange};
use glassline_runtime::{ConnectionLimit, Counter, FairPlaces, SourcePrefix, Supervisor};
use glassline_service::metrics::Metric;
use glassline_service::{Departing, NamedViewer, NotEnded, Service, ViewerFigures};
use glassline_transcode::NoStill;

use growing_files::{FileOpener, GrowingFiles};
use holdings::PlacedFile;
use others::{OtherServer, Others};
use pools::{Origin, Pools, Threads};

use crate::recordings::Recording;

pub use assembly::Assembly;
pub use body::Body;
pub use clip::{Clip, ClipForm};
pub use missing::{Missing, MissingPart, PartKind};
pub use others::{OtherServers, Question};
pub use past::{Past, PastFrom, PastReading, instant_of};
pub use plan::Wanted;
pub use segments::{CutSegments, Segment, SegmentContent, SegmentCutter, SegmentPlace};
pub use stretch::Stretch;
pub use thumbnail::ThumbnailOrder;

/// Bodies that may be read at the same time, and those of one address.
const BODIES_MAX: usize = 256;
const BODIES_PER_ADDRESS: usize = 32;

/// Memory in MiB of the bodies that are read, and of those of one address: the index of a file of a day has
/// some 60 MiB.
const MEMORY_MIB: usize = 192;
const MEMORY_MIB_PER_ADDRESS: usize = 128;

/// Plays what was recorded.
#[derive(Debug)]
pub struct Playback {
    recording: Arc<Recording>,
    supervisor: Arc<Supervisor>,
    pools: Arc<Pools>,
    /// The other servers, once this one is in a cluster.
    others: OnceLock<Arc<Others>>,
    places: FairPlaces<SourcePrefix>,
    /// Places for the MiB of what is read.
    memory: FairPlaces<SourcePrefix>,
    thumbnails: thumbnail::Thumbnails,
    growing: Arc<GrowingFiles>,
    bytes: Arc<Counter>,
    bodies: Counter,
    /// Sessions that play the past.
    sessions: ConnectionLimit,
    /// The threads that play the past, once somebody has asked for it.
    readings: Mutex<Option<Arc<Readings>>>,
}

/// The reason why there is no footage.
#[derive(Debug, thiserror::Error)]
pub enum NoFootage {
    /// Nothing was recorded then.
    #[error("nothing was recorded then")]
    Nothing,
    /// Nothing was recorded then by the servers that answer.
    #[error("nothing was recorded then by the servers that answer; {0}")]
    NothingFound(Missing),
    /// Another server, or the storage, does not give what it has.
    #[error("{0}")]
    Away(String),
    /// Another server did not mark its part of a span.
    #[error("the server '{0}', which has something of the span, did not mark it: {1}")]
    Unmarked(String, String),
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
        "as many recordings as one address may read at a time are being read, or as long ones: ask again when \
         one of them is done, or for a shorter part"
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
pub struct Subject {
    /// The recordings that this server has.
    pub catalogue: Catalogue,
    /// The other servers of the cluster, which are asked, too.
    pub(crate) others: Option<Arc<Others>>,
    /// Name of the stream that was recorded.
    pub stream: StreamName,
    /// Name of the layer; `None` takes the best one.
    pub layer: Option<String>,
}

/// Something that was found, and the servers that may have more of it.
#[derive(Debug)]
pub struct Listed<T> {
    /// Items that this server and those that answered have.
    pub items: Vec<T>,
    /// Servers that did not answer.
    pub missing: Missing,
}

impl Playback {
    /// Creates the playback of what `recording` keeps.
    pub fn new(recording: Arc<Recording>, supervisor: &Arc<Supervisor>) -> Self {
        Self {
            recording,
            supervisor: Arc::clone(supervisor),
            pools: Arc::default(),
            others: OnceLock::new(),
            places: FairPlaces::new(BODIES_MAX, BODIES_PER_ADDRESS),
            memory: FairPlaces::new(MEMORY_MIB, MEMORY_MIB_PER_ADDRESS),
            thumbnails: thumbnail::Thumbnails::default(),
            growing: Arc::default(),
            bytes: Arc::default(),
            bodies: Counter::new(),
            sessions: ConnectionLimit::new(past::SESSIONS_MAX, past::SESSIONS_PER_ADDRESS),
            readings: Mutex::default(),
        }
    }

    /// Plays what `servers` have recorded, too.
    pub fn join(&self, servers: Arc<dyn OtherServers>) {
        // A server is a member of one cluster, from its start on.
        let _ = self.others.set(Arc::new(Others::new(servers)));
    }

    /// Returns the recordings of a stream, of this server and of the others of its cluster; `None` if nothing
    /// is recorded anywhere that this server knows of.
    pub fn subject(&self, stream: StreamName, layer: Option<String>) -> Option<Subject> {
        let others = self.others.get().cloned();
        let catalogue = self.recording.catalogue().cloned();
        Some(Subject {
            // The other servers may have some.
            catalogue: catalogue.or_else(|| others.is_some().then(Catalogue::default))?,
            others,
            stream,
            layer,
        })
    }

    /// Returns the stretches of a stream within `range`, the oldest first.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the index fails.
    pub async fn stretches(
        &self,
        of: &Subject,
        range: TimeRange,
    ) -> Result<Listed<Stretch>, NoFootage> {
        let found = self.find(of, range).await?;
        Ok(Listed {
            items: stretch::of_files(found.files, of.layer.as_deref(), range),
            missing: found.missing,
        })
    }

    /// Returns the threads that may read the files of `stretches`.
    fn threads_of(&self, stretches: &[Stretch]) -> Threads {
        let files = stretches.iter().flat_map(|it| &it.files);
        let origins = || files.clone().map(PlacedFile::origin);
        let elsewhere = origins().find(|it| !matches!(it, Origin::Disk(_)));
        let origin = elsewhere.or_else(|| origins().next_back());
        self.pools.of(origin.unwrap_or(Origin::Disk(Path::new(""))))
    }

    /// Returns the marks of a stream within `range`.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the index fails.
    pub async fn marks(&self, of: &Subject, range: TimeRange) -> Result<Listed<Mark>, NoFootage> {
        let found = self.find(of, range).await?;
        Ok(Listed {
            items: found.marks,
            missing: found.missing,
        })
    }

    /// Returns what files of stretches are opened with.
    fn opener(&self, of: &Subject) -> FileOpener {
        FileOpener {
            catalogue: of.catalogue.clone(),
            growing: Arc::clone(&self.growing),
        }
    }
}

impl Subject {
    /// Asks all other servers, and reads their answers. Those without an answer are missing.
    async fn ask_others<T>(
        &self,
        question: &Question,
        read: impl Fn(&[u8]) -> Result<T, serde_json::Error>,
    ) -> (Vec<(OtherServer, T)>, Missing) {
        match &self.others {
            Some(others) => others.ask_all(&self.stream, question, read).await,
            None => (Vec::new(), Missing::default()),
        }
    }
}

impl NoFootage {
    /// Returns the reason with the servers that may know better.
    fn without(self, missing: &Missing) -> Self {
        match self {
            Self::Nothing if !missing.0.is_empty() => Self::NothingFound(missing.clone()),
            other => other,
        }
    }
}

/// Returns the range of all times that can be written.
pub fn always() -> TimeRange {
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
            Metric::counter(text, name, help).value(counter.get());
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
