//! What is published in place of a source that is away: another stream, or its last keyframe.
//!
//! ```text
//! source away or silent, ─ after the bound ─┬► fallback is published: its units, on our tracks
//! somebody watches                          └► otherwise the placeholder: one frame a second
//! source begins to publish, or sends its ───► over
//! next keyframe, or nobody watches
//! ```
//!
//! One task a stream, which sleeps while nobody watches, and while the source is there looks for its
//! latest unit as often as the source may be silent. The hub lets the source take over at any time
//! ([`Stream::stand_in`]), and continues the timeline, so that receivers notice neither the beginning
//! nor the end but by what they see.

mod away_content;
mod fallback;
mod placeholder;
mod track_map;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Prospect, State, Stream, Wake};
use glassline_runtime::{BlockingPool, Part, Supervisor, TaskWaker};
use tokio::sync::watch;

use super::Away;
pub(super) use away_content::AwayContent;
pub use away_content::ImageError;
use placeholder::Placeholders;

/// Pause after a panic, so that data which always leads to one costs one in this time.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Pause after the hub refused a unit although the source is away.
const REFUSED_PAUSE: Duration = Duration::from_millis(250);

/// The parts of the server that publishing in place of a source needs.
#[derive(Clone, Debug)]
pub(super) struct Services {
    pub(super) hub: Arc<Hub>,
    pub(super) supervisor: Arc<Supervisor>,
    /// Bounds the placeholders that are made at a time, for all streams.
    pub(super) encoders: BlockingPool,
}

/// Publishes in place of the source of `stream`, as `away` says, until the server stops. Requests that
/// come before the first poll wait for it, too.
pub(super) fn run(
    stream: Arc<Stream>,
    away: AwayContent,
    services: Services,
    mut stopped: watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send {
    let AwayContent { away, image } = away;
    if away.fallback.is_some() || image.is_some() {
        stream.set_prospect(Prospect::StandIn);
    }
    async move {
        let standing_in = async {
            loop {
                let stand_in = StandIn::new(&stream, (&away, image.as_ref()), &services);
                let ended = services.supervisor.catch_task(Part::Source, stand_in.run());
                if ended.await.is_err() {
                    tracing::error!(stream = %stream.name(), "publishing in place of the source panicked");
                }
                tokio::time::sleep(PANIC_PAUSE).await;
            }
        };
        tokio::select! {
            never = standing_in => never,
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }
}

/// The stand-in for the source of one stream.
struct StandIn<'a> {
    stream: &'a Arc<Stream>,
    away: &'a Away,
    /// The image to show, as a JPEG file.
    image: Option<&'a Arc<[u8]>>,
    services: &'a Services,
    /// Woken when the stream's demand or source changes.
    changed: Arc<TaskWaker>,
    placeholders: Placeholders,
}

/// Since when a source has been away; empty while it is there.
#[derive(Debug, Default)]
struct AwaySince {
    /// When the source was first found to be away.
    away: Option<Instant>,
    /// When somebody began to watch since then.
    asked: Option<Instant>,
}

/// The reason why the units of a fallback or a placeholder are no longer published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The source is back, or nobody watches.
    NotNeeded,
    /// Something else is to be published now.
    Changed,
}

impl<'a> StandIn<'a> {
    fn new(
        stream: &'a Arc<Stream>,
        (away, image): (&'a Away, Option<&'a Arc<[u8]>>),
        services: &'a Services,
    ) -> Self {
        let changed = Arc::new(TaskWaker::default());
        let watcher = Arc::clone(&changed) as Arc<dyn Wake>;
        stream.watch(&watcher);
        Self {
            stream,
            away,
            image,
            services,
            changed,
            placeholders: Placeholders::default(),
        }
    }

    async fn run(mut self) {
        let mut since = AwaySince::default();
        loop {
            match self.due(&mut since, Instant::now()) {
                None => self.changed.woken().await,
                Some(due) if due <= Instant::now() => {
                    self.publish().await;
                    if self.is_needed() {
                        // The hub refused what was to be published.
                        tokio::time::sleep(REFUSED_PAUSE).await;
                    }
                }
                Some(due) => {
                    let _ = tokio::time::timeout_at(due.into(), self.changed.woken()).await;
                }
            }
        }
    }

    /// Returns when something is to be published if nothing changes until then; `None` if nothing is.
    fn due(&self, since: &mut AwaySince, now: Instant) -> Option<Instant> {
        if !self.stream.is_source_away() {
            *since = AwaySince::default();
            if self.stream.prospect() != Prospect::StandIn {
                // The source's last keyframe can be shown from now on.
                self.stream.set_prospect(Prospect::StandIn);
            }
            let silence = self.stream.silent_for(now)?;
            let due = now + self.away.silence.saturating_sub(silence);
            return self.stream.is_demanded().then_some(due);
        }
        let away = *since.away.get_or_insert(now);
        if !self.stream.is_demanded() {
            since.asked = None;
            return None;
        }
        // A source that comes because somebody asks has its time from then on.
        let since = match self.stream.state() {
            State::Idle | State::Connecting => *since.asked.get_or_insert(now),
            _ => away,
        };
        Some(since + self.away.after)
    }

    /// Returns whether something is to be published in place of the source.
    fn is_needed(&self) -> bool {
        let silence = self.stream.silent_for(Instant::now());
        let hangs = silence.is_some_and(|silence| silence >= self.away.silence);
        (hangs || self.stream.is_source_away()) && self.stream.is_demanded()
    }

    /// Publishes what there is until the source is back or nobody watches.
    async fn publish(&mut self) {
        tracing::info!(stream = %self.stream.name(), "the source is away: something stands in");
        // The fallback may appear, begin and end meanwhile, and may itself come on demand.
        let fallback = self.away.fallback.clone();
        let _events = fallback.map(|name| {
            let waker = Arc::clone(&self.changed) as Arc<dyn Wake>;
            self.services.hub.events_of(name, waker)
        });
        let mut demand = None;
        while self.is_needed() {
            let fallback = self.fallback();
            demand = fallback.as_ref().map(Stream::demand).or(demand);
            let over = match fallback.filter(|it| it.is_published()) {
                Some(fallback) => self.publish_fallback(&fallback).await,
                None if self.away.placeholder.is_some() => self.publish_placeholder().await,
                None => {
                    self.changed.woken().await;
                    Over::Changed
                }
            };
            if over == Over::NotNeeded {
                break;
            }
        }
    }

    /// Returns the stream that the configuration names, if it exists now.
    fn fallback(&self) -> Option<Arc<Stream>> {
        let name = self.away.fallback.as_ref()?;
        self.services.hub.stream(name.as_str())
    }

    /// Returns whether the fallback publishes, so that a placeholder ends for it.
    fn has_fallback(&self) -> bool {
        self.fallback().is_some_and(|it| it.is_published())
    }
}

#[cfg(test)]
mod tests;
