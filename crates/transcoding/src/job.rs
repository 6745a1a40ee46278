//! One track that is transcoded, and what is known of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassline_hub::{LadderPlan, Stream, TrackLayout};
use glassline_media::{Summary, TrackIndex, WindowedHistogram};
use glassline_runtime::Counter;
use glassline_transcode::{Counts, FrameSize, RungTarget};
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;

use super::source::TranscodingSource;

/// Time that a job goes on without viewers, so that a page that is loaded again finds it running.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// Window of the delays that are shown.
const WINDOW: Duration = Duration::from_secs(10);

/// Panics from which a job is not begun again.
const PANICS_MAX: u32 = 3;

/// One track of one layout of a stream, which is transcoded while viewers need it.
#[derive(Debug)]
pub(super) struct Job {
    /// Number of the job, which no other job of this server has.
    pub(super) id: u64,
    /// Index of the thread that does the work.
    pub(super) thread: usize,
    pub(super) stream: Arc<Stream>,
    pub(super) layout: TrackLayout,
    pub(super) track: TrackIndex,
    pub(super) source: TranscodingSource,
    /// The rungs that are made; `None` where the track is transcoded as a whole.
    pub(super) ladder: Option<LadderJob>,
    /// Leases of viewers, connected or connecting.
    leases: AtomicUsize,
    /// Whether a viewer's handshake has been done since there were leases.
    is_wanted: AtomicBool,
    panics: AtomicU32,
    pub(super) counters: JobCounters,
    state: Mutex<JobState>,
}

/// The rungs that a job makes.
#[derive(Debug)]
pub(super) struct LadderJob {
    pub(super) plan: Arc<LadderPlan>,
    /// The rungs that are encoded now, a bit for each place.
    active: AtomicU32,
}

/// Counts of a job that its thread raises.
#[derive(Debug, Default)]
pub(super) struct JobCounters {
    /// Coded frames that waited too long and were dropped.
    pub(super) late: Counter,
    /// Coded frames that left the hub's ring before they were read.
    pub(super) missed: Counter,
    /// Processor time in ns.
    pub(super) cpu_ns: Counter,
}

/// The state of a job, behind its lock.
#[derive(Debug)]
pub(super) struct JobState {
    /// Instant since which there has been no lease.
    pub(super) idle_since: Option<Instant>,
    /// Instant at which work began last.
    pub(super) running_since: Option<Instant>,
    /// Time for which work was done before that.
    pub(super) ran: Duration,
    /// Delay that transcoding adds.
    pub(super) delays: WindowedHistogram,
    pub(super) counts: Counts,
    /// Sample rate in Hz and channels of the decoded audio.
    pub(super) decoded: Option<(u32, usize)>,
    /// Width and height of the decoded video in pixels.
    pub(super) size: Option<FrameSize>,
    pub(super) trouble: Option<String>,
}

/// The cost of a transcoding, for people who watch.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct TranscodingCost {
    /// Name of the codec that is decoded.
    pub from: &'static str,
    /// Name of the codec that is encoded.
    pub to: &'static str,
    /// Viewers that get the transcoded track, connected or connecting.
    pub viewers: usize,
    /// Processor time as a share of one core while the transcoding ran.
    pub cpu_ratio: f64,
}

/// A transcoding, for the API.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TranscodingView {
    /// Name of the stream whose track is transcoded.
    pub stream: String,
    /// Index of the track within the stream.
    pub track: usize,
    /// Name of the codec that is decoded.
    pub from: &'static str,
    /// Name of the codec that is encoded.
    pub to: &'static str,
    /// Sample rate in Hz and channels of the decoded audio; null before the first frame.
    pub(crate) sample_rate: Option<u32>,
    /// Channels of the decoded audio; null before the first frame.
    pub channels: Option<usize>,
    /// Size of the decoded video in pixels; null before the first picture.
    pub width: Option<usize>,
    /// Height of the decoded video in pixels; null before the first picture.
    pub height: Option<usize>,
    /// Viewers that get the transcoded track, connected or connecting; 1 for a ladder.
    pub viewers: usize,
    /// Layers of a ladder that are encoded now, by name; empty where the track is transcoded as a whole.
    pub layers: Vec<String>,
    /// Coded frames that were read from the stream.
    pub frames_in: u64,
    /// Coded frames that were published again.
    pub frames_out: u64,
    /// Frames that could not be decoded.
    pub undecodable: u64,
    /// Frames that were dropped because they were late.
    pub dropped: u64,
    /// Times that audio was cut or filled to stay with the video, or pictures left out that came out
    /// of order.
    pub steps: u64,
    /// Processor time in seconds, and its share of one core while the transcoding ran.
    pub cpu_s: f64,
    /// Share of one core while the transcoding ran, of 1.
    pub cpu_ratio: f64,
    /// Delay that transcoding adds, over the last seconds; null without frames.
    pub(crate) delay_p50_ms: Option<f64>,
    pub(crate) delay_max_ms: Option<f64>,
    /// The fault of the source and its remedy; null if nothing is.
    pub trouble: Option<String>,
}

impl LadderJob {
    pub(super) fn new(plan: &Arc<LadderPlan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            active: AtomicU32::new(0),
        }
    }

    /// Sets the rungs that are encoded, a bit for each place.
    pub(super) fn set_active(&self, rungs: u32) {
        self.active.store(rungs, Ordering::Release);
    }

    /// Returns whether the rung at `place` is to be encoded.
    pub(super) fn is_active(&self, place: usize) -> bool {
        self.active.load(Ordering::Acquire) & 1 << place != 0
    }

    /// Returns the sizes and bitrates of all rungs.
    pub(super) fn targets(&self) -> Vec<RungTarget> {
        let rungs = self.plan.rungs.iter().map(|it| RungTarget {
            size: FrameSize::new(it.width.into(), it.rung.height.into()),
            bitrate: it.rung.rate,
        });
        rungs.collect()
    }

    fn names(&self) -> Vec<String> {
        let rungs = self.plan.rungs.iter().enumerate();
        let active = rungs.filter(|(place, _)| self.is_active(*place));
        active
            .map(|(_, it)| format!("{}p", it.rung.height))
            .collect()
    }
}

impl Job {
    pub(super) fn new(
        id: u64,
        thread: usize,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
        source: TranscodingSource,
        now: Instant,
    ) -> Self {
        Self {
            id,
            thread,
            stream: Arc::clone(stream),
            layout,
            track,
            source,
            ladder: None,
            leases: AtomicUsize::new(0),
            is_wanted: AtomicBool::new(false),
            panics: AtomicU32::new(0),
            counters: JobCounters::default(),
            state: Mutex::new(JobState {
                idle_since: Some(now),
                running_since: None,
                ran: Duration::ZERO,
                delays: WindowedHistogram::new(WINDOW, now),
                counts: Counts::default(),
                decoded: None,
                size: None,
                trouble: source.loss(),
            }),
        }
    }

    /// Returns the job as one that makes rungs.
    pub(super) fn with_ladder(self, plan: &Arc<LadderPlan>) -> Self {
        Self {
            ladder: Some(LadderJob::new(plan)),
            ..self
        }
    }

    /// Returns whether this is the job of a ladder.
    pub(super) fn is_of_ladder(&self, plan: &Arc<LadderPlan>) -> bool {
        let ladder = self.ladder.as_ref();
        ladder.is_some_and(|it| Arc::ptr_eq(&it.plan, plan))
    }

    /// Returns whether this is the job of a track that is transcoded as a whole.
    pub(super) fn is_of(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        track: TrackIndex,
    ) -> bool {
        self.ladder.is_none()
            && Arc::ptr_eq(&self.stream, stream)
            && self.layout == layout
            && self.track == track
    }

    pub(super) fn add_lease(&self) {
        self.leases.fetch_add(1, Ordering::AcqRel);
        self.state().idle_since = None;
    }

    pub(super) fn remove_lease(&self, now: Instant) {
        if self.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.state().idle_since = Some(now);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.leases.load(Ordering::Acquire) == 0
    }

    /// Notes that a viewer is connected.
    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Returns whether only viewers lease the job whose handshakes are not done.
    pub(super) fn is_half_open(&self) -> bool {
        !self.is_wanted.load(Ordering::Acquire)
    }

    /// Returns whether the job is to be worked on.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire) && self.panics.load(Ordering::Relaxed) < PANICS_MAX
    }

    /// Returns whether nobody has needed the job for a while, or ever will.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let idle_since = self.state().idle_since;
        // The rungs of a ladder linger one by one.
        let linger = match self.ladder {
            Some(_) => Duration::ZERO,
            None => LINGER,
        };
        self.is_idle()
            && (!self.is_wanted.load(Ordering::Acquire)
                || self.layout != self.stream.layout()
                || idle_since.is_some_and(|at| now.saturating_duration_since(at) >= linger))
    }

    /// Notes that the work ended in a panic.
    pub(super) fn note_panic(&self, now: Instant) {
        let panics = self.panics.fetch_add(1, Ordering::Relaxed) + 1;
        self.note_stop(now);
        let stream = self.stream.name();
        if panics < PANICS_MAX {
            tracing::error!(%stream, "transcoding panicked: it begins anew");
            return;
        }
        tracing::error!(%stream, "transcoding panicked again: viewers get no more of this track");
        let trouble = "the decoder failed three times; the server's log has the place".to_owned();
        self.state().trouble = Some(trouble);
    }

    /// Notes that work begins.
    pub(super) fn note_start(&self, now: Instant) {
        self.state().running_since = Some(now);
    }

    /// Notes that work ended.
    pub(super) fn note_stop(&self, now: Instant) {
        let mut state = self.state();
        if let Some(since) = state.running_since.take() {
            state.ran += now.saturating_duration_since(since);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, JobState> {
        self.state.lock()
    }

    /// Returns what the job costs.
    pub(super) fn cost(&self, now: Instant) -> TranscodingCost {
        let view = self.view(now);
        TranscodingCost {
            from: view.from,
            to: view.to,
            viewers: view.viewers,
            cpu_ratio: view.cpu_ratio,
        }
    }

    /// Returns the state of the job for the API.
    pub(super) fn view(&self, now: Instant) -> TranscodingView {
        let mut state = self.state();
        let running = state.running_since;
        let running = running.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let ran = (state.ran + running).as_secs_f64();
        let cpu_s = self.counters.cpu_ns.get() as f64 / 1e9;
        let delays = Some(state.delays.summary(now)).filter(|it| it.count > 0);
        let ms = |read: fn(&Summary) -> Duration| {
            let delay = delays.as_ref().map(read);
            delay.map(|it| it.as_secs_f64() * 1e3)
        };
        TranscodingView {
            stream: self.stream.name().to_string(),
            track: self.track.get(),
            from: self.source.codec().encoding_name(),
            to: self.source.transcoded().codec.encoding_name(),
            sample_rate: state.decoded.map(|(rate, _)| rate),
            channels: state.decoded.map(|(_, channels)| channels),
            width: state.size.map(|it| it.width),
            height: state.size.map(|it| it.height),
            viewers: self.leases.load(Ordering::Relaxed),
            layers: self.ladder.as_ref().map_or_else(Vec::new, LadderJob::names),
            frames_in: state.counts.frames_in,
            frames_out: state.counts.frames_out,
            undecodable: state.counts.undecodable,
            dropped: self.counters.late.get() + self.counters.missed.get(),
            steps: state.counts.steps,
            cpu_s,
            cpu_ratio: if ran > 0.0 { cpu_s / ran } else { 0.0 },
            delay_p50_ms: ms(|it| it.p50),
            delay_max_ms: ms(|it| it.max),
            trouble: state.trouble.clone(),
        }
    }
}
