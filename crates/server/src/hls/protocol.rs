//! All streams that are watched by HLS: where they begin and end.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_config::{Config, Hls as Settings};
use glassline_hub::{Hub, Stream, StreamName};
use glassline_runtime::{Clock, Counter, FairPlaces, Part, SourcePrefix, Supervisor};
use tokio::runtime::Handle;

use super::broadcast::Broadcast;
use super::pass::PassKey;
use super::past::Past;
use super::writer::{Ended, Services, Writer};
use crate::app::AppParts;

/// Requests of one viewer that may wait at the same time: for the playlists of video and audio, and for
/// the hinted part of each.
const WAITS_PER_VIEWER: usize = 4;

/// Part of all requests that wait which one address may have.
const ADDRESS_PART: usize = 4;

/// The protocol, with all streams that are watched.
#[derive(Debug)]
pub(crate) struct Hls {
    hub: Arc<Hub>,
    clock: Clock,
    supervisor: Arc<Supervisor>,
    pub(super) key: PassKey,
    broadcasts: Arc<Mutex<Broadcasts>>,
    pub(super) past: Past,
    pub(super) waits: FairPlaces<SourcePrefix>,
    pub(super) counters: Counters,
}

#[derive(Debug)]
pub(super) struct Broadcasts {
    pub(super) settings: Settings,
    /// Whether the server stops.
    pub(super) is_stopped: bool,
    pub(super) by_name: HashMap<StreamName, Arc<Broadcast>>,
}

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) playlists: Counter,
    pub(super) files: Counter,
    pub(super) bytes: Counter,
    pub(super) late: Counter,
    pub(super) turned_away: Counter,
    pub(super) begun: Counter,
}

/// The reason why a stream is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotServed {
    /// HLS is turned off.
    Disabled,
    /// The server stops.
    Stopped,
    /// The segments of other streams take all memory that they may have.
    Full,
}

impl Hls {
    pub(crate) fn new(app: &AppParts) -> Self {
        let config = app.config();
        let secret = config
            .cluster
            .as_ref()
            .map(|it| it.secret.reveal().as_bytes().to_vec());
        let own = || rand::random::<[u8; 32]>().to_vec();
        let [waits, share] = waits(&config);
        Self {
            hub: Arc::clone(&app.hub),
            clock: app.clock,
            supervisor: Arc::clone(&app.supervisor),
            key: PassKey::new(&secret.unwrap_or_else(own)),
            broadcasts: Arc::new(Mutex::new(Broadcasts {
                settings: config.hls,
                is_stopped: false,
                by_name: HashMap::new(),
            })),
            past: Past::default(),
            waits: FairPlaces::new(waits, share),
            counters: Counters::default(),
        }
    }

    /// Returns the broadcast of a stream, which begins if there is none.
    pub(super) fn begin(&self, stream: &Arc<Stream>) -> Result<Arc<Broadcast>, NotServed> {
        let now = Instant::now();
        let mut broadcasts = self.lock();
        if broadcasts.is_stopped {
            return Err(NotServed::Stopped);
        }
        if !broadcasts.settings.enabled {
            return Err(NotServed::Disabled);
        }
        let present = broadcasts.by_name.get(stream.name());
        if let Some(present) = present.filter(|it| Arc::ptr_eq(&it.stream, stream)) {
            present.note_use(now);
            return Ok(Arc::clone(present));
        }
        if broadcasts.bytes() > broadcasts.settings.total_mib << 20 {
            return Err(NotServed::Full);
        }
        let broadcast = Broadcast::new(Arc::clone(stream), broadcasts.settings, now);
        let broadcast = Arc::new(broadcast);
        let name = stream.name().clone();
        broadcasts.by_name.insert(name, Arc::clone(&broadcast));
        drop(broadcasts);
        self.counters.begun.add(1);
        self.spawn(&broadcast);
        Ok(broadcast)
    }

    /// Starts the task that writes a broadcast. The entry goes when the task ends.
    fn spawn(&self, broadcast: &Arc<Broadcast>) {
        let services = Services {
            hub: Arc::clone(&self.hub),
            clock: self.clock,
            key: self.key.clone(),
        };
        let writer = Writer::new(Arc::clone(broadcast), services, Instant::now());
        let (supervisor, broadcasts) = (Arc::clone(&self.supervisor), Arc::clone(&self.broadcasts));
        let broadcast = Arc::clone(broadcast);
        Handle::current().spawn(async move {
            let ended = supervisor.catch_task(Part::Http, writer.run()).await;
            let stream = broadcast.stream.name().clone();
            match ended {
                Ok(Ended::Gone) => {
                    broadcast.renditions().iter().for_each(|it| it.end());
                    // Players fetch what is left.
                    tokio::time::sleep(broadcast.settings.window().max(LINGER)).await;
                }
                Ok(Ended::Memory) => tracing::warn!(
                    %stream,
                    "six segments take more than twice hls.stream_mib: the stream ends for HLS; raise it, or lower hls.segment_s"
                ),
                Ok(Ended::Idle | Ended::Stopped) => {}
                Err(_) => tracing::error!(%stream, "writing a stream for HLS panicked: players begin anew"),
            }
            broadcast.close();
            lock(&broadcasts).forget(&broadcast);
        });
    }

    /// Returns the broadcast of the stream called `name`, if it is watched.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Broadcast>> {
        let name = StreamName::parse(name).ok()?;
        let found = self.lock().by_name.get(&name).cloned()?;
        found.note_use(Instant::now());
        Some(found)
    }

    pub(super) fn all(&self) -> Vec<Arc<Broadcast>> {
        self.lock().by_name.values().cloned().collect()
    }

    /// Returns the time since 1970-01-01 UTC.
    pub(super) fn unix(&self) -> Duration {
        self.clock.wall().unix(Instant::now())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Broadcasts> {
        lock(&self.broadcasts)
    }
}

/// Least time for which an ended stream can be read.
const LINGER: Duration = Duration::from_secs(10);

fn lock(broadcasts: &Mutex<Broadcasts>) -> MutexGuard<'_, Broadcasts> {
    // Each change leaves the table whole.
    broadcasts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broadcasts {
    pub(super) fn bytes(&self) -> usize {
        let all = self.by_name.values();
        let bytes: u64 = all.map(|it| it.bytes.load(Ordering::Relaxed)).sum();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Removes a broadcast, unless another one has taken its place.
    fn forget(&mut self, broadcast: &Arc<Broadcast>) {
        let name = broadcast.stream.name();
        if self
            .by_name
            .get(name)
            .is_some_and(|it| Arc::ptr_eq(it, broadcast))
        {
            self.by_name.remove(name);
        }
    }
}

/// Returns how many requests may wait in all, and of one address.
pub(super) fn waits(config: &Config) -> [usize; 2] {
    let all = config.limits.viewers.saturating_mul(WAITS_PER_VIEWER);
    let of_address =
        (all / ADDRESS_PART).min(config.http.connections_per_address * WAITS_PER_VIEWER);
    [all, of_address]
}
