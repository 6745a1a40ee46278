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
use super::{NoFootage, Playback, Subject};
use files::PastFiles;
use frames::PastFrames;
use opened::{OpenedPast, instant, position};

/// Sessions that may play the past at the same time, and those of one address. Each has a file open.
pub(super) const SESSIONS_MAX: usize = 256;
pub(super) const SESSIONS_PER_ADDRESS: usize = 32;

/// Threads that read the past. One continues while the other waits for its disk.
const THREADS: usize = 2;

/// The recordings of a stream, to be played with certain tracks. Positions are times since 1970.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    of: Subject,
    tracks: Vec<Track>,
}

/// The past of a stream from an instant on.
#[derive(Debug)]
pub(crate) struct PastFrom {
    pub(crate) past: Past,
    /// The instant that was asked for.
    pub(crate) at: SystemTime,
    /// End of what is recorded.
    pub(crate) until: SystemTime,
}

/// A reading of the past for one session.
#[derive(Debug)]
pub(crate) struct PastReading {
    pub(crate) reading: PrivateReading,
    /// Counts the session.
    pub(crate) place: ConnectionPermit,
}

impl Past {
    /// Returns the past of a stream for a session that was told of `tracks`.
    pub(crate) const fn with_tracks(of: Subject, tracks: Vec<Track>) -> Self {
        Self { of, tracks }
    }

    pub(crate) const fn stream(&self) -> &StreamName {
        &self.of.stream
    }

    /// Finds what is recorded from `at` on. Blocks.
    fn find(of: Subject, at: SystemTime) -> Result<PastFrom, NoFootage> {
        let mut files = PastFiles::new(of.clone());
        let opener = FileOpener::of(&of.catalogue);
        let before = files.at_or_before(at)?;
        let has = |it: &glassline_recording::RecordedFile| it.end() > at || !it.is_closed;
        let mut next = match before.filter(has) {
            None => files.after(at)?,
            found => found,
        };
        let newest = files.at_or_before(calendar::now())?;
        let until = newest.map_or(at, |it| it.end());
        while let Some(known) = next {
            let start = known.start;
            if let Some(mut opened) = OpenedPast::open(&opener, known, &[])? {
                let tracks = opened.described()?;
                let past = Self { of, tracks };
                return Ok(PastFrom { past, at, until });
            }
            next = files.after(start)?;
        }
        Err(NoFootage::Nothing)
    }
}

impl PastFrom {
    /// Returns the tracks as they were then.
    pub(crate) fn tracks(&self) -> &[Track] {
        &self.past.tracks
    }

    /// Returns the time from the instant to the end of what is recorded.
    pub(crate) fn length(&self) -> Duration {
        self.until.duration_since(self.at).unwrap_or_default()
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

    fn frames(&self, _once: bool) -> Box<dyn FrameSource> {
        Box::new(PastFrames::new(self.of.clone(), self.tracks.clone()))
    }
}

impl Playback {
    /// Returns the recordings of a stream; `None` if this server keeps none.
    pub(crate) fn subject(&self, stream: StreamName, layer: Option<String>) -> Option<Subject> {
        let catalogue = self.recording.catalogue()?.clone();
        Some(Subject {
            catalogue,
            others: None,
            stream,
            layer,
        })
    }

    /// Finds what is recorded of a stream from `at` on.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if there is nothing, or if the index fails.
    pub(crate) async fn past(&self, of: Subject, at: SystemTime) -> Result<PastFrom, NoFootage> {
        let finding = self.disk.run(move || Past::find(of, at));
        finding.await.map_err(|_| NoFootage::Panicked)?
    }

    /// Opens a reading of the past for a session of `client`. The reading waits for a command to play.
    ///
    /// # Errors
    /// Returns [`NoFootage::Crowded`] if there are as many as there may be.
    pub(crate) fn open_past(&self, past: Past, client: IpAddr) -> Result<PastReading, NoFootage> {
        let place = self.sessions.admit(client);
        let place = place.map_err(|_| NoFootage::Crowded)?;
        let readings = self.readings()?;
        let reading = readings.open(Arc::new(past));
        let reading = reading.map_err(|_| NoFootage::Crowded)?;
        Ok(PastReading { reading, place })
    }

    /// Returns the threads that play the past, which are started when somebody first asks for it.
    fn readings(&self) -> Result<Arc<Readings>, NoFootage> {
        let readings = self.readings.lock();
        let mut readings = readings.unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*readings {
            return Ok(Arc::clone(running));
        }
        let started = Readings::start("past", THREADS, SESSIONS_MAX, &self.supervisor);
        let started = started.map_err(|error| {
            NoFootage::Unreadable(format!("the system has no thread for playback: {error}"))
        })?;
        Ok(Arc::clone(readings.insert(Arc::new(started))))
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
pub(crate) fn instant_of(position: Duration) -> SystemTime {
    instant(MediaTime::ZERO + position)
}
