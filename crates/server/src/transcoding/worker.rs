//! The thread that transcodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{RenditionPublisher, Stream, Subscription};
use glassline_media::{MediaTime, MediaUnit, Stamps, TrackLayer, UnitBuilder};
use glassline_net::thread_cpu;
use glassline_transcode::{AudioTranscoder, OpusFrame};
use mio::{Events, Poll};

use super::job::Job;
use super::transcoders::Transcoders;
use crate::runtime::{
    Heartbeat, PollingThread, ServedPeer, Serving, StreamWaker, Turn, Waker, catch,
};

/// Longest wait of a turn. Jobs that are over are found at least as often.
const TURN: Duration = Duration::from_millis(500);

/// Time that a coded frame may wait in the hub's ring before it is dropped.
const LATE: Duration = Duration::from_millis(500);

/// The state of a thread that transcodes.
#[derive(Debug)]
pub(super) struct Worker {
    index: usize,
    poll: Poll,
    waker: Arc<Waker>,
    events: Events,
    transcoders: Arc<Transcoders>,
    works: Vec<Work>,
    /// The job that is worked on at the moment, by its number.
    serving: Serving<u64>,
    /// The value of [`Transcoders::changes`] and the time when the jobs were read last.
    followed: Option<(u64, Instant)>,
}

/// A job that this thread works on.
#[derive(Debug)]
struct Work {
    job: Arc<Job>,
    subscription: Subscription,
    waker: Arc<StreamWaker>,
    transcoder: AudioTranscoder,
    publisher: RenditionPublisher,
    builder: UnitBuilder,
    /// Buffers that are empty between turns and kept for their capacity.
    units: Vec<Arc<MediaUnit>>,
    frames: Vec<OpusFrame>,
    coded: Vec<u8>,
    /// Value of [`Subscription::missed`] that was counted.
    missed: u64,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        (poll, waker): (Poll, Arc<Waker>),
        transcoders: Arc<Transcoders>,
        heartbeat: &Heartbeat,
    ) -> Self {
        Self {
            index,
            poll,
            waker,
            events: Events::with_capacity(1),
            transcoders,
            works: Vec::new(),
            serving: Serving::new(heartbeat),
            followed: None,
        }
    }

    /// Begins the jobs that are wanted now, and ends those that are not any more.
    fn follow(&mut self, now: Instant) {
        let changes = self.transcoders.changes();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < TURN;
        if self
            .followed
            .is_some_and(|(seen, at)| seen == changes && is_recent(at))
        {
            return;
        }
        self.followed = Some((changes, now));
        let wanted = self.transcoders.wanted(self.index, now);
        self.works.retain(|work| {
            let stays = wanted.iter().any(|job| Arc::ptr_eq(job, &work.job));
            if !stays {
                work.job.note_stop(now);
                let (stream, counts) = (work.job.stream.name(), work.transcoder.counts());
                tracing::info!(%stream, frames = counts.frames_out, "audio is no longer transcoded: nobody needs it");
            }
            stays
        });
        for job in wanted {
            if self.works.iter().any(|work| Arc::ptr_eq(&job, &work.job)) {
                continue;
            }
            self.serving.begin(job.id);
            self.transcoders.counters.started.add(1);
            job.note_start(now);
            tracing::info!(stream = %job.stream.name(), from = %job.source.codec(), "audio is transcoded to Opus for browsers");
            let work = Work::new(job, &self.waker, &self.transcoders);
            self.works.push(work);
            self.serving.end();
        }
    }

    fn transcode(&mut self, now: Instant) {
        for work in &mut self.works {
            if !work.waker.take() {
                continue;
            }
            self.serving.begin(work.job.id);
            work.transcode(now, &self.transcoders);
        }
        self.serving.end();
    }
}

impl PollingThread for Worker {
    fn turn(&mut self) -> Turn {
        self.waker.wait(&mut self.poll, &mut self.events, TURN);
        if self.transcoders.is_stopping() {
            self.works.clear();
            return Turn::Ended;
        }
        let now = Instant::now();
        self.follow(now);
        self.transcode(now);
        Turn::Again
    }

    /// Ends the work on the job at hand. It begins anew, unless it has panicked several times.
    fn drop_served(&mut self) -> bool {
        let Some(ServedPeer::Peer(id)) = self.serving.take() else {
            return false;
        };
        let now = Instant::now();
        self.followed = None;
        let jobs = self.transcoders.wanted(self.index, now);
        if let Some(job) = jobs.iter().find(|job| job.id == id) {
            job.note_panic(now);
        }
        if let Some(index) = self.works.iter().position(|work| work.job.id == id) {
            let work = self.works.swap_remove(index);
            // It may be half changed, and panic again.
            let _ = catch(|| drop(work));
        }
        self.waker.wake();
        true
    }

    fn start_anew(&mut self) {
        let now = Instant::now();
        for work in self.works.drain(..) {
            work.job.note_stop(now);
            let _ = catch(|| drop(work));
        }
        self.serving.take();
        self.followed = None;
        self.waker.wake();
    }
}

impl Work {
    fn new(job: Arc<Job>, waker: &Arc<Waker>, transcoders: &Transcoders) -> Self {
        let waker = Arc::new(StreamWaker::new(Arc::clone(waker)));
        Self {
            subscription: Stream::subscribe(&job.stream, Arc::clone(&waker) as _),
            waker,
            transcoder: AudioTranscoder::new(job.source, transcoders.settings),
            publisher: job.stream.publish_rendition(job.track, job.layout),
            job,
            builder: UnitBuilder::default(),
            units: Vec::new(),
            frames: Vec::new(),
            coded: Vec::new(),
            missed: 0,
        }
    }

    /// Transcodes what was published since the last call.
    fn transcode(&mut self, now: Instant, transcoders: &Transcoders) {
        let before = thread_cpu();
        let mut units = std::mem::take(&mut self.units);
        self.subscription.poll(&mut units);
        let counts = self.transcoder.counts();
        // The viewers of an old layout are closed; new ones lease a job of the new one.
        if self.subscription.layout() == self.job.layout {
            let source = TrackLayer::from(self.job.track);
            for unit in units.iter().filter(|unit| unit.track_layer() == source) {
                self.take(unit, now, transcoders);
            }
        }
        units.clear();
        self.units = units;
        let missed = self.subscription.missed()
            - std::mem::replace(&mut self.missed, self.subscription.missed());
        let cpu = thread_cpu().saturating_sub(before);
        let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(0);
        let all = &transcoders.counters;
        let after = self.transcoder.counts();
        all.frames_in.add(after.frames_in - counts.frames_in);
        all.frames_out.add(after.frames_out - counts.frames_out);
        all.undecodable.add(after.undecodable - counts.undecodable);
        all.missed.add(missed);
        all.cpu_ns.add(cpu_ns);
        self.job.counters.missed.add(missed);
        self.job.counters.cpu_ns.add(cpu_ns);
        self.show();
    }

    /// Publishes the state of the transcoder, and logs a trouble that begins.
    fn show(&self) {
        let trouble = self.transcoder.trouble().map(|it| it.to_string());
        let trouble = trouble.or_else(|| self.job.source.loss());
        let mut state = self.job.state();
        state.counts = self.transcoder.counts();
        state.decoded = self.transcoder.decoded();
        if state.trouble != trouble {
            if let Some(trouble) = &trouble
                && state.trouble.is_none()
            {
                tracing::warn!(stream = %self.job.stream.name(), "audio for browsers: {trouble}");
            }
            state.trouble = trouble;
        }
    }

    /// Transcodes one coded frame and publishes what it makes.
    fn take(&mut self, unit: &MediaUnit, now: Instant, transcoders: &Transcoders) {
        let Some(coded) = unit.coded_frame() else {
            return;
        };
        if now.saturating_duration_since(unit.stamps.published) > LATE {
            transcoders.counters.late.add(1);
            self.job.counters.late.add(1);
            return;
        }
        self.coded.clear();
        coded
            .pieces()
            .for_each(|piece| self.coded.extend_from_slice(piece));
        // A frame that makes no audio is counted by the transcoder, which knows when it is worth
        // telling.
        let _ = self
            .transcoder
            .push(&self.coded, unit.time, &mut self.frames);
        for frame in self.frames.drain(..) {
            self.builder.push(&frame.data);
            let stamps = stamps_at(unit, frame.time);
            let built = self.builder.build(self.job.track, frame.time, true, stamps);
            let Some(opus) = built else {
                continue;
            };
            let published = Instant::now();
            if self.publisher.push(opus, published).is_none() {
                continue;
            }
            let waited = unit.time.saturating_since(frame.time);
            let delay = published.saturating_duration_since(unit.stamps.published) + waited;
            self.job.state().delays.record(delay, published);
        }
    }
}

/// Returns the stamps of a transcoded frame at `time` that ended with `unit`.
fn stamps_at(unit: &MediaUnit, time: MediaTime) -> Stamps {
    let earlier = unit.time.saturating_since(time);
    let later = time.saturating_since(unit.time);
    let reference = unit.stamps.reference;
    let moved = reference.checked_sub(earlier).unwrap_or(reference);
    Stamps {
        reference: moved.checked_add(later).unwrap_or(moved),
        ..unit.stamps
    }
}
