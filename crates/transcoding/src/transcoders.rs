//! All transcodings of a server, and their bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use glassline_hub::{LadderPlan, Stream, TrackLayout, Transcode};
use glassline_media::{Kind, Track, TrackIndex};
use glassline_runtime::{Counter, Current, Waker};
use glassline_transcode::Settings;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;

use super::job::{Job, TranscodingCost, TranscodingView};
use super::source::TranscodingSource;

/// Most videos that are transcoded, whatever is configured.
pub(super) const VIDEO_STREAMS_MAX: usize = 8;

/// Most tracks that are transcoded at the same time; 0 if none of the kind is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most audio tracks at the same time.
    pub audio: usize,
    /// Most video tracks at the same time.
    pub video: usize,
}

impl Limits {
    fn of(self, kind: Kind) -> usize {
        match kind {
            // Each has a thread.
            Kind::Video => self.video.min(VIDEO_STREAMS_MAX),
            _ => self.audio,
        }
    }
}

/// The rules for video, as they are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VideoRules {
    /// The viewers for whom video is transcoded that browsers cannot show, unless its source chooses.
    pub choice: Transcode,
    /// The program FFmpeg: its path or its name.
    pub ffmpeg: String,
}

/// All transcodings of a server.
#[derive(Debug)]
pub struct Transcoders {
    limits: Current<Limits>,
    settings: Current<Settings>,
    video: Current<VideoRules>,
    jobs: Mutex<Vec<Arc<Job>>>,
    next_id: AtomicU64,
    /// The kind that each thread does, and its waker.
    threads: RwLock<Vec<(Kind, Arc<Waker>)>>,
    /// Raised whenever a job is added, wanted or no longer leased.
    changes: AtomicU64,
    is_stopping: AtomicBool,
    /// Counters of all transcodings, for metrics.
    pub counters: TranscodingCounters,
}

/// Counts of all transcodings since the server started, those that ended included.
#[derive(Debug, Default)]
pub struct TranscodingCounters {
    /// Times that work on a track began.
    pub started: Counter,
    /// Offers that lacked a track because as many streams as allowed were transcoded.
    pub refused: Counter,
    /// Coded frames that were taken.
    pub frames_in: Counter,
    /// Frames that were made.
    pub frames_out: Counter,
    /// Coded frames that could not be decoded.
    pub undecodable: Counter,
    /// Coded frames that were dropped because the thread was late.
    pub late: Counter,
    /// Coded frames that left the hub's ring before they were read.
    pub missed: Counter,
    /// Processor time in ns.
    pub cpu_ns: Counter,
}

/// The reason why a track is not transcoded although it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TranscodingRefusal {
    /// The configuration lets nobody have the video transcoded.
    #[error(
        "the video of this stream is never transcoded (transcode: never, or transcoding.video: never)"
    )]
    Never,
    /// Transcoding is turned off.
    #[error("transcoding of {kind} is turned off ({}: 0)", key(*kind))]
    Off {
        /// Kind of the track.
        kind: Kind,
    },
    /// As many streams as allowed are transcoded.
    #[error(
        "as many streams as {} allows ({limit}) have their {kind} transcoded already", key(*kind)
    )]
    Full {
        /// Kind of the track.
        kind: Kind,
        /// Limit that was reached.
        limit: usize,
    },
}

/// Returns the configuration key that bounds the transcodings of a kind.
const fn key(kind: Kind) -> &'static str {
    match kind {
        Kind::Video => "transcoding.video_streams",
        _ => "transcoding.audio_streams",
    }
}

impl Transcoders {
    /// Creates the transcodings of threads that are [added](Self::add_thread) next; at most as many
    /// as `limits` say at the same time.
    pub fn new(limits: Limits, settings: Settings) -> Self {
        Self {
            limits: Current::new(limits),
            settings: Current::new(settings),
            video: Current::new(VideoRules::default()),
            jobs: Mutex::default(),
            next_id: AtomicU64::new(0),
            threads: RwLock::default(),
            changes: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            counters: TranscodingCounters::default(),
        }
    }

    /// Adds a thread that does `kind`, and returns its number.
    pub(super) fn add_thread(&self, kind: Kind, waker: Arc<Waker>) -> usize {
        let mut threads = self.threads.write();
        threads.push((kind, waker));
        threads.len() - 1
    }

    /// Returns the number of threads that do `kind`.
    pub(super) fn threads_of(&self, kind: Kind) -> usize {
        let threads = self.threads.read();
        threads.iter().filter(|(of, _)| *of == kind).count()
    }

    /// Replaces the limits, and the settings of what is transcoded from now on; what is transcoded
    /// already goes on.
    pub fn set(&self, limits: Limits, settings: Settings) {
        self.limits.replace(limits);
        self.settings.replace(settings);
    }

    /// Replaces the rules for video; what is transcoded already goes on.
    pub fn set_video(&self, rules: VideoRules) {
        self.video.replace(rules);
    }

    /// Returns the rules for video.
    pub(super) fn video_rules(&self) -> Arc<VideoRules> {
        self.video.get()
    }

    /// Returns whether any video is transcoded.
    pub(crate) fn transcodes_video(&self) -> bool {
        self.limits.get().video > 0
    }

    /// Returns the settings of what is transcoded from now on.
    pub(crate) fn settings(&self) -> Settings {
        *self.settings.get()
    }

    /// Tells the threads to end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        for (_, waker) in self.threads.read().iter() {
            waker.wake();
        }
    }

    /// Leases the transcoding of a track for one viewer.
    ///
    /// # Errors
    /// [`TranscodingRefusal`] if the track is not transcoded yet and no further one may be.
    pub(crate) fn lease(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
        source: TranscodingSource,
    ) -> Result<TranscodingLease, TranscodingRefusal> {
        let is_same = |job: &Job| job.is_of(stream, layout, track);
        let make = |id, thread, now| Job::new(id, thread, stream, layout, track, source, now);
        self.lease_job(source.kind(), is_same, make)
    }

    /// Leases the encoding of the rungs of a stream.
    ///
    /// # Errors
    /// [`TranscodingRefusal`] if the ladder is not encoded yet and no further video may be transcoded.
    pub(super) fn lease_ladder(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        plan: &Arc<LadderPlan>,
        source: TranscodingSource,
    ) -> Result<TranscodingLease, TranscodingRefusal> {
        let is_same = |job: &Job| job.is_of_ladder(plan);
        let (layout, track) = (plan.layout, plan.track);
        let make = |id, thread, now| {
            Job::new(id, thread, stream, layout, track, source, now).with_ladder(plan)
        };
        self.lease_job(source.kind(), is_same, make)
    }

    /// Leases the job that `is_same` says is the one, which `make` makes of its number, its thread and the
    /// time if there is none.
    fn lease_job(
        self: &Arc<Self>,
        kind: Kind,
        is_same: impl Fn(&Job) -> bool,
        make: impl FnOnce(u64, usize, Instant) -> Job,
    ) -> Result<TranscodingLease, TranscodingRefusal> {
        let mut jobs = self.jobs.lock();
        let job = match jobs.iter().find(|job| is_same(job)) {
            Some(job) => Arc::clone(job),
            None => {
                self.make_room(&mut jobs, kind)?;
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let thread = self.idlest_thread(&jobs, kind);
                let job = Arc::new(make(id, thread, Instant::now()));
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

    /// Makes room for one more job of a kind, if need be in place of one that nobody leases any more,
    /// or of the oldest that only half-open viewers lease.
    fn make_room(&self, jobs: &mut Vec<Arc<Job>>, kind: Kind) -> Result<(), TranscodingRefusal> {
        let limit = self.limits.get().of(kind);
        if limit == 0 {
            return Err(TranscodingRefusal::Off { kind });
        }
        if of_kind(jobs, kind).count() >= limit {
            let Some(ended) = expendable(jobs, kind) else {
                self.counters.refused.add(1);
                return Err(TranscodingRefusal::Full { kind, limit });
            };
            let ended = jobs.remove(ended);
            self.note_change(ended.thread);
        }
        Ok(())
    }

    /// Returns whether a job is among those that are worked on when they are wanted.
    fn has(&self, job: &Arc<Job>) -> bool {
        self.jobs.lock().iter().any(|it| Arc::ptr_eq(it, job))
    }

    /// Returns why a track of `stream` would not be transcoded now; `None` if it would be.
    pub(crate) fn refusal(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
        kind: Kind,
    ) -> Option<TranscodingRefusal> {
        let (jobs, limit) = (self.jobs.lock(), self.limits.get().of(kind));
        let has_room = of_kind(&jobs, kind).count() < limit
            || expendable(&jobs, kind).is_some()
            || jobs.iter().any(|job| job.is_of(stream, layout, track));
        match limit {
            0 => Some(TranscodingRefusal::Off { kind }),
            limit => (!has_room).then_some(TranscodingRefusal::Full { kind, limit }),
        }
    }

    /// Returns the trouble with a track that is transcoded.
    pub(crate) fn trouble(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
    ) -> Option<String> {
        let jobs = self.jobs.lock();
        let job = jobs.iter().find(|job| job.is_of(stream, layout, track));
        job.and_then(|job| job.state().trouble.clone())
    }

    /// Returns what the transcoding of a track costs; `None` if there is none.
    pub(super) fn cost(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
    ) -> Option<TranscodingCost> {
        let jobs = self.jobs.lock();
        let job = jobs.iter().find(|job| job.is_of(stream, layout, track))?;
        Some(job.cost(Instant::now()))
    }

    /// Returns all transcodings.
    pub fn views(&self, now: Instant) -> Vec<TranscodingView> {
        self.jobs.lock().iter().map(|job| job.view(now)).collect()
    }

    fn idlest_thread(&self, jobs: &[Arc<Job>], kind: Kind) -> usize {
        let threads = self.threads.read();
        let numbered = threads.iter().enumerate();
        let of_kind = numbered.filter(|(_, (of, _))| (*of == Kind::Video) == (kind == Kind::Video));
        let load = |thread: &usize| jobs.iter().filter(|job| job.thread == *thread).count();
        of_kind
            .map(|(thread, _)| thread)
            .min_by_key(load)
            .unwrap_or(0)
    }

    /// Removes the jobs that are over, and returns those of `thread` that are to be worked on.
    pub(super) fn wanted(&self, thread: usize, now: Instant) -> Vec<Arc<Job>> {
        let mut jobs = self.jobs.lock();
        jobs.retain(|job| job.thread != thread || !job.is_over(now));
        let wanted = jobs
            .iter()
            .filter(|job| job.thread == thread && job.is_wanted());
        wanted.cloned().collect()
    }

    /// Returns a number that rises whenever a job is added, wanted or no longer leased.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn note_change(&self, thread: usize) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some((_, waker)) = self.threads.read().get(thread) {
            waker.wake();
        }
    }
}

fn of_kind(jobs: &[Arc<Job>], kind: Kind) -> impl Iterator<Item = &Arc<Job>> {
    jobs.iter().filter(move |job| job.source.kind() == kind)
}

/// Returns the place of a job of a kind that makes room for another one: one that nobody leases, or
/// the oldest that no connected viewer has needed.
fn expendable(jobs: &[Arc<Job>], kind: Kind) -> Option<usize> {
    let position = |is_it: fn(&Job) -> bool| {
        let mut jobs = jobs.iter();
        jobs.position(|job| job.source.kind() == kind && is_it(job))
    };
    position(Job::is_idle).or_else(|| position(Job::is_half_open))
}

/// The right of one viewer to the transcoded layer of a track. The track is transcoded while there
/// are leases that were started, and a few seconds longer.
#[derive(Debug)]
pub struct TranscodingLease {
    transcoders: Arc<Transcoders>,
    job: Arc<Job>,
}

impl TranscodingLease {
    /// Returns the index of the track.
    pub fn track(&self) -> TrackIndex {
        self.job.track
    }

    /// Returns the work, to lease it for a track of another stream.
    pub fn terms(&self) -> TranscodingTerms {
        TranscodingTerms {
            transcoders: Arc::clone(&self.transcoders),
            source: self.job.source,
        }
    }

    /// Returns whether the track, which is among the present `tracks`, needs no transcoding any more.
    pub fn is_in_vain(&self, tracks: &[Track]) -> bool {
        let track = tracks.get(self.job.track.get());
        track.is_some_and(|track| self.job.source.is_over(track))
    }

    /// Sets the rungs of a ladder that are encoded, a bit for each place.
    pub(super) fn set_rungs(&self, rungs: u32) {
        if let Some(ladder) = &self.job.ladder {
            ladder.set_active(rungs);
        }
    }

    /// Notes that the viewer is connected, so that the work begins unless it has begun. A job that
    /// made room for others meanwhile is leased anew, if there is room.
    pub fn start(&mut self) {
        if !self.transcoders.has(&self.job) {
            let job = &self.job;
            let transcoders = &self.transcoders;
            let leased = match &job.ladder {
                Some(ladder) => transcoders.lease_ladder(&job.stream, &ladder.plan, job.source),
                None => transcoders.lease(&job.stream, job.layout, job.track, job.source),
            };
            match leased {
                Ok(lease) => *self = lease,
                Err(reason) => {
                    let (stream, kind) = (job.stream.name(), job.source.kind());
                    tracing::warn!(%stream, "a viewer gets no {kind}: {reason}");
                }
            }
        }
        self.job.want();
        self.transcoders.note_change(self.job.thread);
    }
}

/// The work that a lease is for.
#[derive(Clone, Debug)]
pub struct TranscodingTerms {
    transcoders: Arc<Transcoders>,
    source: TranscodingSource,
}

impl TranscodingTerms {
    /// Leases the work for a track of `stream`.
    ///
    /// # Errors
    /// Returns why the server does not do it.
    pub fn lease(
        &self,
        stream: &Arc<Stream>,
        track: TrackIndex,
    ) -> Result<TranscodingLease, TranscodingRefusal> {
        let layout = stream.layout();
        self.transcoders.lease(stream, layout, track, self.source)
    }
}

impl Drop for TranscodingLease {
    fn drop(&mut self) {
        self.job.remove_lease(Instant::now());
        self.transcoders.note_change(self.job.thread);
    }
}
