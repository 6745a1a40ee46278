//! Publishes a MoQ broadcast into the hub.
//!
//! ```text
//! catalog ─► TrackReader, a task a track ─► LivePublisher ─► hub
//!             request for a keyframe ◄───────────┘
//! ```
//!
//! Renditions of one video become layers of the stream. A rendition that nobody needs is not subscribed
//! to, except for the lowest.

mod reading;

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::{CreateError, Hub, PublishError, SourceNote, State, StreamName};
use glassline_media::{Kind, LayerIndex, MediaTime, Stage, Temporal, TrackIndex};
use glassline_quic::moq::{
    Catalog, CatalogError, ReceivedFrame, Rendition, Session, SubscribeError,
};
use glassline_rtp::units::TimedUnit;
use glassline_runtime::{Counter, FaultPoint, Panicked, Supervisor, calendar};
use tokio::sync::{mpsc, watch};

use super::live_publisher::{Destination, LivePublisher};
use super::publishing::{HubRefusal, NameClaim};
use super::source_layers::{DescribedLayer, SourceLayers};
use super::with_sets;
use reading::{ReaderEvent, Readers};

/// Time without data after which a publisher counts as gone. Shorter outages are waited for.
const SILENCE: Duration = Duration::from_secs(40);

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
const KEYFRAME: Duration = Duration::from_secs(20);

/// Interval of the periodic checks, and the shortest interval between two keyframe requests.
const TICK: Duration = Duration::from_secs(1);

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
        let chosen = catalog.choose().map_err(SubscribeError::from)?;
        let left_out = left_out(&catalog, &chosen);
        for why in &left_out {
            tracing::info!(stream = %self.name, "{why}");
        }
        let mut readers = Readers::start(self, subscription, &chosen);
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
        let live = LivePublisher::new(destination, note, tracks);
        let receiver = BroadcastReceiver {
            received_bytes: &self.received_bytes,
            request_keyframe: &request_keyframe,
            live: live.with_layers(layers(&chosen, now)),
            wanted: std::mem::take(&mut readers.wanted),
            clock: catalog.clock,
            began: now,
            last_received: now,
            open: chosen.len(),
        };
        receiver.take(&mut readers.events).await
    }
}

/// Returns the renditions that are not received, each with the reason.
fn left_out(catalog: &Catalog, chosen: &[Rendition]) -> Vec<String> {
    let unsupported = catalog.unsupported.iter();
    let unsupported = unsupported.map(|(name, why)| format!("rendition '{name}': {why}"));
    let is_video = |it: &&Rendition| it.track.kind() == Kind::Video;
    let other = catalog.renditions.iter().filter(is_video);
    let other = other.filter(|it| chosen.iter().all(|taken| taken.name != it.name));
    let other = other.map(|it| {
        let name = &it.name;
        format!("rendition '{name}': its size and bitrate tell no lower encoding of the video")
    });
    unsupported.chain(other).collect()
}

/// Returns the layers that the renditions of the video are, if there are several.
fn layers(chosen: &[Rendition], now: Instant) -> Option<SourceLayers> {
    let videos = chosen
        .iter()
        .filter(|it| it.track.kind() == Kind::Video)
        .map(|it| DescribedLayer {
            rid: it.name.clone(),
            codec: it.track.codec,
            bitrate: it.bitrate,
        });
    SourceLayers::new(videos.collect(), now)
}

/// A broadcast that is being received.
struct BroadcastReceiver<'a> {
    received_bytes: &'a Counter,
    /// Requests a keyframe from the publisher.
    request_keyframe: &'a (dyn Fn() + Sync),
    live: LivePublisher,
    /// Tells the task of each track whether its frames are wanted.
    wanted: Vec<watch::Sender<bool>>,
    /// Time since 1970 at media time zero, by the publisher's clock.
    clock: Option<Duration>,
    began: Instant,
    last_received: Instant,
    /// Number of tracks that have not ended.
    open: usize,
}

impl BroadcastReceiver<'_> {
    async fn take(
        mut self,
        events: &mut mpsc::Receiver<ReaderEvent>,
    ) -> Result<(), BroadcastError> {
        let mut ticks = tokio::time::interval(TICK);
        let end = loop {
            if let Err(fault) = self.look_at_layers(Instant::now()) {
                break Err(fault);
            }
            let looks = self.live.layers().and_then(SourceLayers::deadline);
            let event = tokio::select! {
                event = events.recv() => event,
                () = reading::wait_until(looks) => continue,
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
                Some(ReaderEvent::TrackOver(track)) if self.open > 1 => {
                    self.open -= 1;
                    if let Err(refusal) = self.live.end_layer(track.get()) {
                        break Err(refusal.into());
                    }
                }
                Some(ReaderEvent::TrackOver(_) | ReaderEvent::CatalogOver) | None => break Ok(()),
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

    /// Tells the tasks of the layers which of them are needed.
    fn look_at_layers(&mut self, now: Instant) -> Result<(), BroadcastError> {
        if self.live.look_at_layers(now)?
            && let Some(layers) = self.live.layers()
        {
            for (place, wanted) in self.wanted.iter().enumerate() {
                wanted.send_replace(layers.is_fetched(place));
            }
        }
        Ok(())
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
