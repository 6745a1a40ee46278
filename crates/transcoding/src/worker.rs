//! The thread that transcodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{Heartbeat, PollingThread, ServedPeer, Serving, Turn, Waker, catch};
use mio::{Events, Poll};

use super::transcoders::Transcoders;
use super::work::Work;

/// Longest wait of a turn. Jobs that are over are found at least as often.
const TURN: Duration = Duration::from_millis(500);

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

impl Worker {
    pub(super) fn new(
        index: usize,
        poll: Poll,
        waker: Arc<Waker>,
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
                let (stream, kind) = (work.job.stream.name(), work.job.source.kind());
                let frames = work.counts().frames_out;
                tracing::info!(%stream, frames, "{kind} is no longer transcoded: nobody needs it");
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
            let (stream, from) = (job.stream.name(), job.source.codec());
            let (purpose, to) = (job.source.purpose(), job.source.transcoded().codec);
            tracing::info!(%stream, %from, %to, "{purpose}");
            let registry = self.poll.registry();
            match Work::new(Arc::clone(&job), &self.waker, registry, &self.transcoders) {
                Ok(work) => self.works.push(work),
                // The job is tried again at the next look.
                Err(error) => tracing::warn!(stream = %job.stream.name(), "transcoding: {error}"),
            }
            self.serving.end();
        }
    }

    fn transcode(&mut self, now: Instant) {
        for work in &mut self.works {
            if !work.is_awake() {
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
