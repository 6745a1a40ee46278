//! The past of a stream as a stream: recordings that are played at a pace.
//!
//! ```text
//!  RTSP Range: clock=, ?at= ─► Past ─ PrivateReading (crate ingest) ─► private Stream ─► every egress
//!                               └─ PastFrames: files of the catalogue, gaps skipped
//! ```
//!
//! A reading belongs to one session. Its stream is in no list, so that nobody else finds it.

mod files;
mod frames;
mod opened;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;
use glassline_ingest::library::{FrameSource, Playable, PrivateReading, Readings};
use glassline_media::{MediaTime, Track};
use glassline_runtime::{ConnectionPermit, calendar};

use super::growing_files::FileOpener;
use super::holdings::PlacedFile;
use super::pools::Origin;
use super::{NoFootage, Playback, Subject};
use files::PastFiles;
use frames::PastFrames;
use opened::{OpenedPast, instant, position};

/// Sessions that may play the past at the same time, and those of one address. Each has a file open.
pub(super) const SESSIONS_MAX: usize = 256;
pub(super) const SESSIONS_PER_ADDRESS: usize = 32;

/// The recordings of a stream, to be played with certain tracks. Positions are times since 1970.
#[derive(Clone, Debug)]
pub struct Past {
    of: Subject,
    tracks: Vec<Track>,
}

/// The past of a stream from an instant on.
#[derive(Debug)]
pub struct PastFrom {
    /// The past that is read.
    pub past: Past,
    /// The instant that was asked for; `None` for the oldest one.
    pub at: Option<SystemTime>,
    /// The first instant from then on that is recorded.
    pub begins: SystemTime,
    /// End of what is recorded.
    pub until: SystemTime,
}

/// A reading of the past for one session.
#[derive(Debug)]
pub struct PastReading {
    /// The reading, with its pace and its position.
    pub reading: PrivateReading,
    /// Counts the session.
    pub place: ConnectionPermit,
}

impl Past {
    /// Returns the past of a stream for a session that was told of `tracks`.
    pub const fn with_tracks(of: Subject, tracks: Vec<Track>) -> Self {
        Self { of, tracks }
    }

    /// Returns the name of the stream that was recorded.
    pub const fn stream(&self) -> &StreamName {
        &self.of.stream
    }
}

/// A search for the first file of the past that can be played.
struct Search {
    of: Subject,
    files: PastFiles,
    /// The file that is tried next.
    next: Option<PlacedFile>,
    /// End of what is recorded.
    until: SystemTime,
}

impl Search {
    /// Looks into the indexes for what is recorded from `at` on, up to `newest` where that is known. Blocks.
    fn begin(
        of: Subject,
        mut files: PastFiles,
        newest: Option<PlacedFile>,
        at: SystemTime,
    ) -> Result<Self, NoFootage> {
        let before = files.at_or_before(at)?;
        let has = |it: &PlacedFile| it.file.end() > at || !it.file.is_closed;
        let next = match before.filter(has) {
            None => files.after(at)?,
            found => found,
        };
        let until = newest.map_or(at, |it| it.file.end());
        Ok(Self {
            of,
            files,
            next,
            until,
        })
    }

    /// Opens the first file that can be opened. Blocks.
    fn open(mut self, at: SystemTime) -> Result<PastFrom, NoFootage> {
        let opener = FileOpener::of(&self.of.catalogue);
        let mut trouble = NoFootage::Nothing;
        while let Some(placed) = self.next {
            let start = placed.file.start;
            match OpenedPast::open(&opener, placed, &[]) {
                Ok(Some(mut opened)) => {
                    let tracks = opened.described()?;
                    let past = Past {
                        of: self.of,
                        tracks,
                    };
                    return Ok(PastFrom {
                        past,
                        at: Some(at).filter(|it| *it > SystemTime::UNIX_EPOCH),
                        begins: at.max(start),
                        until: self.until,
                    });
                }
                Ok(None) => {}
                // Another server may have more of that time.
                Err(error @ NoFootage::Away(_)) => trouble = error,
                Err(error) => return Err(error),
            }
            self.next = self.files.after(start)?;
        }
        Err(trouble.without(&self.files.missing()))
    }
}

impl PastFrom {
    /// Returns the tracks as they were then.
    pub fn tracks(&self) -> &[Track] {
        &self.past.tracks
    }

    /// Returns the time from the instant to the end of what is recorded.
    pub fn length(&self) -> Duration {
        let from = self.at.unwrap_or(self.begins);
        self.until.duration_since(from).unwrap_or_default()
    }
}

impl Playable for Past {
    fn name(&self) -> &str {
        self.of.stream.as_str()
    }

    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn end(&self) -> Duration {
        position(calendar::now()).saturating_since(MediaTime::ZERO)
    }

    fn is_of_calendar(&self) -> bool {
        true
    }

    fn frames(&self, _once: bool) -> Box<dyn FrameSource> {
        Box::new(PastFrames::new(self.of.clone(), self.tracks.clone()))
    }
}

impl Playback {
    /// Finds what is recorded of a stream from `at` on.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if there is nothing, or if the index fails.
    pub async fn past(&self, of: Subject, at: SystemTime) -> Result<PastFrom, NoFootage> {
        let now = calendar::now();
        let (of, nearest, missing) = self.answering(of, at).await?;
        let mut files = PastFiles::new(of.clone());
        let mut newest = PastFiles::new(of.clone());
        tokio::join!(files.ask_ahead(at), newest.ask_ahead(now));
        let nearest = nearest.unwrap_or_default();
        let threads = self.pools.of(Origin::Disk(&nearest));
        let looking = threads.reads.run(move || {
            let newest = newest.at_or_before(now)?;
            Search::begin(of, files, newest, at)
        });
        let search = looking.await.map_err(|_| NoFootage::Panicked)??;
        let origin = search.next.as_ref().map(PlacedFile::origin);
        let origin = origin.unwrap_or(Origin::Disk(&nearest));
        let threads = self.pools.of(origin);
        let opening = threads.reads.run(move || search.open(at));
        let opened = opening.await.map_err(|_| NoFootage::Panicked)?;
        opened.map_err(|error| error.without(&missing))
    }

    /// Opens a reading of the past for a session of `client`. The reading waits for a command to play.
    ///
    /// # Errors
    /// Returns [`NoFootage::Crowded`] if there are as many as there may be.
    pub fn open_past(&self, past: Past, client: IpAddr) -> Result<PastReading, NoFootage> {
        let place = self.sessions.admit(client);
        let place = place.map_err(|_| NoFootage::Crowded)?;
        let readings = self.readings();
        let reading = readings.open(Arc::new(past));
        let reading = reading.map_err(|error| NoFootage::Unreadable(error.to_string()))?;
        Ok(PastReading { reading, place })
    }

    /// Returns the places on threads that play the past: one each, since it may wait for a disk, another
    /// server or a storage.
    fn readings(&self) -> Arc<Readings> {
        let readings = self.readings.lock();
        let mut readings = readings.unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*readings {
            return Arc::clone(running);
        }
        let started = Readings::apart("past", SESSIONS_MAX, &self.supervisor);
        Arc::clone(readings.insert(Arc::new(started)))
    }

    /// Ends all readings of the past.
    pub(super) fn close_past(&self) {
        let readings = self.readings.lock();
        if let Some(running) = readings.unwrap_or_else(PoisonError::into_inner).take() {
            running.close();
        }
    }
}

/// Returns the instant of a reading's position.
pub fn instant_of(position: Duration) -> SystemTime {
    instant(MediaTime::ZERO + position)
}
