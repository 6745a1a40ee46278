//! Publishes a MoQ broadcast into the hub.
//!
//! ```text
//! catalog ─► TrackReader, a task a track ─► LivePublisher ─► hub
//!             request for a keyframe ◄───────────┘
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::{CreateError, Hub, PublishError, SourceNote, State, StreamName};
use glassline_media::{LayerIndex, MediaTime, Stage, Temporal, TrackIndex};
use glassline_quic::moq::{
    BroadcastReader, CatalogError, ReceivedFrame, Rendition, Session, SubscribeError, TrackReader,
};
use glassline_rtp::units::TimedUnit;
use glassline_runtime::{Counter, FaultPoint, Panicked, Part, Supervisor, calendar};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::live_publisher::{Destination, LivePublisher};
use super::publishing::{HubRefusal, NameClaim};
use super::with_sets;

/// Distance from the newest group at which a late group is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// Time without data after which a publisher counts as gone. Shorter outages are waited for.
const SILENCE: Duration = Duration::from_secs(40);

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
const KEYFRAME: Duration = Duration::from_secs(20);

/// Interval of the periodic checks, and the shortest interval between two keyframe requests.
const TICK: Duration = Duration::from_secs(1);

/// Most frames that wait for the hub, which is never busy for long.
const WAITING: usize = 16;

/// Longest plausible time from capture to arrival; a larger value means that the clocks do not
/// agree.
const UPLINK_MAX: Duration = Duration::from_secs(60);

/// The connection, hub and counters that publishing a broadcast needs.
pub struct BroadcastIngest {
    /// Hub in which the broadcast becomes a stream.
    pub hub: Arc<Hub>,
    /// Session that the broadcast arrives by.
    pub session: Arc<Session>,
    /// Bytes of frames that the session has sent.
    pub received_bytes: Arc<Counter>,
    /// Groups that were given up because newer ones had arrived.
    pub late_groups: Arc<Counter>,
    /// Name of the stream that the broadcast becomes.
    pub name: StreamName,
    /// The right to the name among several servers; `None` on a server alone.
    pub claim: Option<Arc<dyn NameClaim>>,
    /// Counts panics of the tasks that read the tracks.
    pub supervisor: Arc<Supervisor>,
}

/// An event from a task that reads a track or the catalog.
enum ReaderEvent {
    Frame(TrackIndex, ReceivedFrame),
    /// A track of the broadcast ended.
    TrackOver,
    /// The catalog has other tracks now, or the broadcast ended.
    CatalogOver,
    Error(SubscribeError),
    /// The task that reads the broadcast panicked.
    Panicked,
}

impl BroadcastIngest {
    /// Publishes the broadcast called `path` until it ends.
    ///
    /// # Errors
    /// Returns [`BroadcastError`] if the publisher is to be disconnected.
    pub async fn run(&self, path: &str) -> Result<(), BroadcastError> {
        self.supervisor.fault_point(FaultPoint::QuicBroadcast);
        let mut subscription = self.session.subscribe(path).await?;
        let catalog = subscription
            .catalog()
            .await?
            .ok_or(SubscribeError::NoCatalog)?;
        let mut left_out = Vec::new();
        for (name, why) in &catalog.unsupported {
            left_out.push(format!("rendition '{name}': {why}"));
            tracing::info!(stream = %self.name, rendition = name, %why, "rendition left out");
        }
        let chosen = catalog.choose().map_err(SubscribeError::from)?;
        let (out, events) = mpsc::channel(WAITING);
        // Dropping the set ends all tasks.
        let mut tasks = JoinSet::new();
        for (track, rendition) in TrackIndex::enumerate(&chosen) {
            let reader = subscription.read(rendition, DEADLINE).await?;
            let supervisor = Arc::clone(&self.supervisor);
            let late_groups = Arc::clone(&self.late_groups);
            let to = out.clone();
            let forwarding = forward(reader, track, late_groups, to, Arc::clone(&supervisor));
            tasks.spawn(told(supervisor, forwarding, out.clone()));
        }
        let following = follow(subscription, chosen.clone(), out.clone());
        tasks.spawn(told(Arc::clone(&self.supervisor), following, out));
        let describe = |it: &Rendition| with_sets(it.track.clone(), &it.sets);
        let now = Instant::now();
        let request_keyframe = || self.session.request_keyframe();
        let destination = Destination::Name {
            hub: Arc::clone(&self.hub),
            name: self.name.clone(),
            claim: self.claim.clone(),
        };
        let note = SourceNote {
            protocol: "moq",
            left_out,
        };
        let tracks = chosen.iter().map(describe).collect();
        let receiver = BroadcastReceiver {
            received_bytes: &self.received_bytes,
            request_keyframe: &request_keyframe,
            live: LivePublisher::new(destination, note, tracks),
            clock: catalog.clock,
            began: now,
            last_received: now,
            open: chosen.len(),
        };
        receiver.take(events).await
    }
}

/// Waits for `reading`, and tells the publishing task if it panics: the track would be missing, and
/// nobody would know why.
async fn told(
    supervisor: Arc<Supervisor>,
    reading: impl Future<Output = ()>,
    out: mpsc::Sender<ReaderEvent>,
) {
    if supervisor.catch_task(Part::Quic, reading).await.is_err() {
        let _ = out.send(ReaderEvent::Panicked).await;
    }
}

/// Reads a track and sends its frames to the publishing task.
async fn forward(
    mut reader: TrackReader,
    track: TrackIndex,
    late_groups: Arc<Counter>,
    out: mpsc::Sender<ReaderEvent>,
    supervisor: Arc<Supervisor>,
) {
    let mut late = 0;
    loop {
        supervisor.fault_point(FaultPoint::QuicTrack);
        let event = match reader.next().await {
            Ok(Some(frame)) => ReaderEvent::Frame(track, frame),
            Ok(None) => ReaderEvent::TrackOver,
            Err(error) => ReaderEvent::Error(error),
        };
        late_groups.add(reader.late() - late);
        late = reader.late();
        let is_last = !matches!(event, ReaderEvent::Frame(..));
        if out.send(event).await.is_err() || is_last {
            return;
        }
    }
}

/// Reports when the catalog no longer has the chosen tracks.
async fn follow(
    mut subscription: BroadcastReader,
    chosen: Vec<Rendition>,
    out: mpsc::Sender<ReaderEvent>,
) {
    let kind = |it: &Rendition| (it.name.clone(), it.track.codec, it.framing);
    let before: Vec<_> = chosen.iter().map(kind).collect();
    let event = loop {
        match subscription.catalog().await {
            Ok(Some(catalog)) => match catalog.choose() {
                Ok(now) if now.iter().map(kind).collect::<Vec<_>>() == before => {}
                Ok(_) => break ReaderEvent::CatalogOver,
                Err(error) => break ReaderEvent::Error(error.into()),
            },
            // Some publishers end the catalog track once the catalog was sent.
            Ok(None) => {
                subscription.ended().await;
                break ReaderEvent::CatalogOver;
            }
            Err(error) => break ReaderEvent::Error(error),
        }
    };
    let _ = out.send(event).await;
}

/// A broadcast that is being received.
struct BroadcastReceiver<'a> {
    received_bytes: &'a Counter,
    /// Requests a keyframe from the publisher.
    request_keyframe: &'a (dyn Fn() + Sync),
    live: LivePublisher,
    /// Time since 1970 at media time zero, by the publisher's clock.
    clock: Option<Duration>,
    began: Instant,
    last_received: Instant,
    /// Number of tracks that have not ended.
    open: usize,
}

impl BroadcastReceiver<'_> {
    async fn take(mut self, mut events: mpsc::Receiver<ReaderEvent>) -> Result<(), BroadcastError> {
        let mut ticks = tokio::time::interval(TICK);
        let end = loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = ticks.tick() => match self.tick(Instant::now()) {
                    Ok(()) => continue,
                    Err(fault) => break Err(fault),
                },
            };
            match event {
                Some(ReaderEvent::Frame(track, frame)) => {
                    if let Err(fault) = self.publish(track, frame, Instant::now()) {
                        break Err(fault);
                    }
                }
                Some(ReaderEvent::TrackOver) if self.open > 1 => self.open -= 1,
                Some(ReaderEvent::TrackOver | ReaderEvent::CatalogOver) | None => break Ok(()),
                Some(ReaderEvent::Error(error)) => break Err(error.into()),
                Some(ReaderEvent::Panicked) => break Err(Panicked.into()),
            }
        };
        let detail = match &end {
            Ok(()) => "the publisher stopped".to_owned(),
            Err(fault) => fault.to_string(),
        };
        self.live.finish(State::Down { detail });
        end
    }

    fn tick(&mut self, now: Instant) -> Result<(), BroadcastError> {
        self.live.check_claim()?;
        if now.saturating_duration_since(self.last_received) > SILENCE {
            return Err(BroadcastError::Silent);
        }
        if !self.live.is_live() && now.saturating_duration_since(self.began) > KEYFRAME {
            return Err(BroadcastError::NoKeyframe);
        }
        if self.live.take_keyframe_wish() {
            (self.request_keyframe)();
        }
        Ok(())
    }

    fn publish(
        &mut self,
        track: TrackIndex,
        frame: ReceivedFrame,
        now: Instant,
    ) -> Result<(), BroadcastError> {
        self.last_received = frame.arrived;
        self.received_bytes.add(frame.data.len() as u64);
        let unit = TimedUnit {
            track,
            time: frame.time,
            decode_time: None,
            keyframe: frame.keyframe,
            after_loss: frame.after_loss,
            temporal: Temporal::default(),
            data: frame.data.into(),
            received: frame.arrived,
        };
        self.live.publish(unit, LayerIndex::BASE, now);
        self.live.refused()?;
        if track == TrackIndex(0)
            && let Some(uplink) = self.uplink(frame.time, frame.arrived.elapsed())
        {
            self.live.record_stage(Stage::Uplink, uplink, now);
        }
        Ok(())
    }

    /// Returns the time from capture to arrival, given the age `ago` of the arrival, if the
    /// publisher's clock agrees with the server's.
    fn uplink(&self, time: MediaTime, ago: Duration) -> Option<Duration> {
        let into = Duration::from_nanos(u64::try_from(time.nanos()).ok()?);
        let captured = self.clock?.checked_add(into)?;
        let now = calendar::now().duration_since(UNIX_EPOCH).ok()?;
        let uplink = now.checked_sub(ago)?.checked_sub(captured)?;
        (uplink <= UPLINK_MAX).then_some(uplink)
    }
}

/// The reason why a publisher is disconnected.
#[derive(Debug, thiserror::Error)]
pub enum BroadcastError {
    /// The publisher violated the protocol, sent something that cannot be read, or left.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// The session is open, but no data arrives.
    #[error("no data for {} s", SILENCE.as_secs())]
    Silent,
    /// No keyframe came that viewers could begin with.
    #[error("no keyframe with parameter sets within {} s", KEYFRAME.as_secs())]
    NoKeyframe,
    /// The stream has another publisher, or the tracks changed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The hub has as many streams as configured.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The publisher's data led to a panic.
    #[error("reading the broadcast: {0}")]
    Panicked(#[from] Panicked),
}

impl From<HubRefusal> for BroadcastError {
    fn from(refusal: HubRefusal) -> Self {
        match refusal {
            HubRefusal::Create(error) => Self::Create(error),
            HubRefusal::Publish(error) => Self::Publish(error),
        }
    }
}

impl From<CatalogError> for BroadcastError {
    fn from(error: CatalogError) -> Self {
        Self::Subscribe(error.into())
    }
}

#[cfg(test)]
mod tests;
