//! All transcodings of a server, and their bound.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use glassline_hub::{Stream, TrackLayout};
use glassline_media::TrackIndex;
use glassline_transcode::{AudioSource, Settings};
use thiserror::Error;

use super::job::{Job, TranscodingView};
use crate::runtime::{Counter, Waker};

/// All transcodings of a server.
#[derive(Debug)]
pub(crate) struct Transcoders {
    /// Most jobs at the same time; 0 if transcoding is turned off.
    limit: usize,
    pub(super) settings: Settings,
    jobs: Mutex<Vec<Arc<Job>>>,
    next_id: AtomicU64,
    wakers: Vec<Arc<Waker>>,
    /// Raised whenever a job is added, wanted or no longer leased.
    changes: AtomicU64,
    is_stopping: AtomicBool,
    pub(crate) counters: TranscodingCounters,
}

/// Counts of all transcodings since the server started, those that ended included.
#[derive(Debug, Default)]
pub(crate) struct TranscodingCounters {
    /// Times that work on a track began.
    pub(crate) started: Counter,
    /// Offers that got no audio because as many streams as allowed were transcoded.
    pub(crate) refused: Counter,
    /// Coded frames that were taken.
    pub(crate) frames_in: Counter,
    /// Opus frames that were made.
    pub(crate) frames_out: Counter,
    /// Coded frames that made no audio.
    pub(crate) undecodable: Counter,
    /// Coded frames that were dropped because the thread was late.
    pub(crate) late: Counter,
    /// Coded frames that left the hub's ring before they were read.
    pub(crate) missed: Counter,
    /// Processor time in ns.
    pub(crate) cpu_ns: Counter,
}

/// Why a track is not transcoded although it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TranscodingRefusal {
    /// Transcoding is turned off.
    #[error("transcoding is turned off (transcoding.audio_streams: 0)")]
    Off,
    /// As many streams as allowed are transcoded.
    #[error(
        "the audio of {limit} streams is transcoded already, as many as transcoding.audio_streams allows"
    )]
    Full {
        /// Limit that was reached.
        limit: usize,
    },
}

impl Transcoders {
    /// Creates the transcodings of threads that these wakers wake; at most `limit` at the same time.
    pub(super) fn new(limit: usize, settings: Settings, wakers: Vec<Arc<Waker>>) -> Self {
        Self {
            limit,
            settings,
            jobs: Mutex::default(),
            next_id: AtomicU64::new(0),
            wakers,
            changes: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            counters: TranscodingCounters::default(),
        }
    }

    /// Tells the threads to end.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Leases the transcoding of a track for one viewer.
    ///
    /// # Errors
    /// [`TranscodingRefusal`] if the track is not transcoded yet and no further one may be.
    pub(crate) fn lease(
        self: &Arc<Self>,
        (stream, layout): (&Arc<Stream>, TrackLayout),
        track: TrackIndex,
        source: AudioSource,
    ) -> Result<TranscodingLease, TranscodingRefusal> {
        let now = Instant::now();
        let mut jobs = self.jobs();
        let found = jobs.iter().find(|job| job.is_of(stream, layout, track));
        let job = match found {
            Some(job) => Arc::clone(job),
            None => {
                self.make_room(&mut jobs)?;
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let thread = self.idlest_thread(&jobs);
                let of = (stream, layout);
                let job = Arc::new(Job::new((id, thread), of, (track, source), now));
                jobs.push(Arc::clone(&job));
                job
            }
        };
        job.add_lease();
        drop(jobs);
        Ok(TranscodingLease {
            transcoders: Arc::clone(self),
            job,
        })
    }

    /// Makes room for one more job, if need be in place of one that nobody leases any more.
    fn make_room(&self, jobs: &mut Vec<Arc<Job>>) -> Result<(), TranscodingRefusal> {
        if self.limit == 0 {
            return Err(TranscodingRefusal::Off);
        }
        if jobs.len() >= self.limit {
            let Some(idle) = jobs.iter().position(|job| job.is_idle()) else {
                self.counters.refused.add(1);
                return Err(TranscodingRefusal::Full { limit: self.limit });
            };
            let ended = jobs.remove(idle);
            self.note_change(ended.thread);
        }
        Ok(())
    }

    /// Returns why a track of `stream` would not be transcoded now; `None` if it would be.
    pub(crate) fn refusal(
        &self,
        (stream, layout): (&Arc<Stream>, TrackLayout),
        track: TrackIndex,
    ) -> Option<TranscodingRefusal> {
        let jobs = self.jobs();
        let has_room = jobs.len() < self.limit
            || jobs
                .iter()
                .any(|job| job.is_idle() || job.is_of(stream, layout, track));
        match self.limit {
            0 => Some(TranscodingRefusal::Off),
            limit => (!has_room).then_some(TranscodingRefusal::Full { limit }),
        }
    }

    /// Returns the trouble with a track that is transcoded.
    pub(crate) fn trouble(
        &self,
        (stream, layout): (&Arc<Stream>, TrackLayout),
        track: TrackIndex,
    ) -> Option<String> {
        let jobs = self.jobs();
        let job = jobs.iter().find(|job| job.is_of(stream, layout, track));
        job.and_then(|job| job.state().trouble.clone())
    }

    /// Returns all transcodings.
    pub(crate) fn views(&self, now: Instant) -> Vec<TranscodingView> {
        self.jobs().iter().map(|job| job.view(now)).collect()
    }

    fn idlest_thread(&self, jobs: &[Arc<Job>]) -> usize {
        let threads = 0..self.wakers.len().max(1);
        let load = |thread: &usize| jobs.iter().filter(|job| job.thread == *thread).count();
        threads.min_by_key(load).unwrap_or(0)
    }

    /// Removes the jobs that are over, and returns those of `thread` that are to be worked on.
    pub(super) fn wanted(&self, thread: usize, now: Instant) -> Vec<Arc<Job>> {
        let mut jobs = self.jobs();
        jobs.retain(|job| job.thread != thread || !job.is_over(now));
        let wanted = jobs
            .iter()
            .filter(|job| job.thread == thread && job.is_wanted());
        wanted.cloned().collect()
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn note_change(&self, thread: usize) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some(waker) = self.wakers.get(thread) {
            waker.wake();
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one viewer to the transcoded layer of a track. The track is transcoded while there
/// are leases that were started, and a few seconds longer.
#[derive(Debug)]
pub(crate) struct TranscodingLease {
    transcoders: Arc<Transcoders>,
    job: Arc<Job>,
}

impl TranscodingLease {
    /// Returns the index of the track.
    pub(crate) fn track(&self) -> TrackIndex {
        self.job.track
    }

    /// Notes that the viewer is connected, so that the work begins unless it has begun.
    pub(crate) fn start(&self) {
        self.job.want();
        self.transcoders.note_change(self.job.thread);
    }
}

impl Drop for TranscodingLease {
    fn drop(&mut self) {
        self.job.remove_lease(Instant::now());
        self.transcoders.note_change(self.job.thread);
    }
}
