//! Has the rungs of ladders encoded that somebody reads.
//!
//! ```text
//! receivers ─ layers that they read ─► hub ─ wakes ─► keep_ladders ─ TranscodingLease, active rungs ─► Job
//!                     paused, failed ◄── failure ──────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, LadderPlan, Stream, StreamEvent, StreamName, Wake};
use glassline_media::Kind;
use glassline_runtime::{HubEvents, TaskWaker};
use tokio::sync::watch;

use super::source::TranscodingSource;
use super::transcoders::{Transcoders, TranscodingLease};

/// Time in which nobody reads a rung after which the rung is encoded no more.
const UNREAD: Duration = Duration::from_secs(5);

/// Interval of looks while rungs are encoded, or cannot be.
const TICK: Duration = Duration::from_secs(1);

/// Has the rungs of all streams encoded while somebody reads them, until the server stops.
pub async fn keep_ladders(
    hub: Arc<Hub>,
    transcoders: Arc<Transcoders>,
    mut stopped: watch::Receiver<bool>,
) {
    let woken = Arc::<TaskWaker>::default();
    let mut events = HubEvents::new(&hub);
    let mut streams: BTreeMap<StreamName, LadderOfStream> = BTreeMap::new();
    loop {
        let is_busy = streams.values().any(LadderOfStream::is_busy);
        tokio::select! {
            happened = events.next() => {
                for event in happened {
                    for name in names(event) {
                        find(&hub, &mut streams, name, &woken);
                    }
                }
            }
            () = woken.woken() => {}
            () = tokio::time::sleep(TICK), if is_busy => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        let now = Instant::now();
        for stream in streams.values_mut() {
            stream.follow(&transcoders, now);
        }
    }
}

/// Returns the streams that an event is about.
fn names(event: StreamEvent) -> Vec<StreamName> {
    match event {
        StreamEvent::Present(streams) => streams.iter().map(|it| it.name.clone()).collect(),
        StreamEvent::Changed { stream, .. } => vec![stream.name.clone()],
    }
}

/// Makes the entry of `name` that of the stream which the hub has under this name.
fn find(
    hub: &Hub,
    streams: &mut BTreeMap<StreamName, LadderOfStream>,
    name: StreamName,
    woken: &Arc<TaskWaker>,
) {
    let Some(stream) = hub.stream(name.as_str()) else {
        streams.remove(&name);
        return;
    };
    let known = streams.get(&name);
    if !known.is_some_and(|it| std::ptr::eq(it.stream.as_ptr(), Arc::as_ptr(&stream))) {
        streams.insert(name, LadderOfStream::new(&stream, woken));
    }
}

/// Wakes the task for one stream.
#[derive(Debug)]
struct LadderWaker {
    woken: Arc<TaskWaker>,
    is_pending: AtomicBool,
}

impl Wake for LadderWaker {
    fn wake(&self) {
        self.is_pending.store(true, Ordering::Release);
        self.woken.wake();
    }
}

/// The ladder of one stream.
#[derive(Debug)]
struct LadderOfStream {
    /// A stream that nobody holds leaves the hub.
    stream: Weak<Stream>,
    waker: Arc<LadderWaker>,
    plan: Option<Arc<LadderPlan>>,
    /// When each rung was read last; `None` for never.
    read_at: Vec<Option<Instant>>,
    lease: Option<TranscodingLease>,
    /// Whether the rungs cannot be had now.
    fails: bool,
}

impl LadderOfStream {
    fn new(stream: &Arc<Stream>, woken: &Arc<TaskWaker>) -> Self {
        let waker = Arc::new(LadderWaker {
            woken: Arc::clone(woken),
            is_pending: AtomicBool::new(true),
        });
        let wake = Arc::clone(&waker) as Arc<dyn Wake>;
        stream.watch(&wake);
        Self {
            stream: Arc::downgrade(stream),
            waker,
            plan: None,
            read_at: Vec::new(),
            lease: None,
            fails: false,
        }
    }

    const fn is_busy(&self) -> bool {
        self.lease.is_some() || self.fails
    }

    /// Begins or ends the encoding of rungs, by who reads them.
    fn follow(&mut self, transcoders: &Arc<Transcoders>, now: Instant) {
        let is_woken = self.waker.is_pending.swap(false, Ordering::AcqRel);
        if !is_woken && !self.is_busy() {
            return;
        }
        let need = self.stream.upgrade().and_then(|stream| {
            let need = stream.ladder_need()?;
            Some((stream, need))
        });
        let Some((stream, need)) = need else {
            (self.plan, self.lease, self.fails) = (None, None, false);
            return;
        };
        let plan = need.plan;
        if !self.plan.as_ref().is_some_and(|it| Arc::ptr_eq(it, &plan)) {
            self.lease = None;
            self.read_at = vec![None; plan.rungs.len()];
            self.plan = Some(Arc::clone(&plan));
        }
        for (read_at, planned) in self.read_at.iter_mut().zip(&plan.rungs) {
            if need.read.has(planned.layer) {
                *read_at = Some(now);
            }
        }
        let failure = self.encode(transcoders, &stream, &plan, now).err();
        if let Some(why) = &failure
            && !self.fails
        {
            tracing::warn!(stream = %stream.name(), "its ladder cannot be encoded: {why}");
        }
        self.fails = failure.is_some();
        stream.set_ladder_failure(&plan, failure);
    }

    /// Has the rungs encoded that are read, or were a moment ago. Returns why none can be.
    fn encode(
        &mut self,
        transcoders: &Arc<Transcoders>,
        stream: &Arc<Stream>,
        plan: &Arc<LadderPlan>,
        now: Instant,
    ) -> Result<(), String> {
        let tracks = stream.tracks();
        let Some(track) = tracks.get(plan.track.get()) else {
            return Ok(());
        };
        let source = transcoders.video_source(track).inspect_err(|_| {
            self.lease = None;
        })?;
        let is_active =
            |at: &Option<Instant>| at.is_some_and(|at| now.saturating_duration_since(at) < UNREAD);
        let rungs = self.read_at.iter().enumerate();
        let rungs = rungs.filter(|(_, at)| is_active(at));
        let rungs = rungs.fold(0, |rungs, (place, _)| rungs | 1 << place);
        if rungs == 0 {
            self.lease = None;
            let refusal = transcoders.refusal(stream, plan.layout, plan.track, Kind::Video);
            return refusal.map_or(Ok(()), |reason| Err(reason.to_string()));
        }
        if self.lease.is_none() {
            let source = TranscodingSource::Ladder(source);
            let leased = transcoders.lease_ladder(stream, plan, source);
            let mut lease = leased.map_err(|reason| reason.to_string())?;
            lease.start();
            self.lease = Some(lease);
        }
        if let Some(lease) = &self.lease {
            lease.set_rungs(rungs);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
