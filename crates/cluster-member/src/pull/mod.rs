//! Streams that this server pulls from others: once for all viewers, while somebody needs them.
//!
//! ```text
//! Pulls::start(name, source) ─► driver ─► stream of the hub, like another publisher
//!   Pull::replace(source)       ├ reception of the present source ─► push
//!   Pull::end                   └ reception of the next source: from its first keyframe on it takes
//!   ◄─ PullEvent                  over, and the one before it ends
//! ```

mod carried_layers;
mod driver;
mod layered_publisher;
mod messenger;
mod reception;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Stream};
use glassline_media::MediaUnit;
use glassline_messages::MessageLinks;
use glassline_quic::moq::{NodeAddress, NodeName, Provenance, ReadError, RequestStream};
use glassline_runtime::{Part, Supervisor};
use tokio::sync::mpsc;

use super::identity::{Identity, Provenances};
use driver::Driver;
use sessions::Sessions;

/// Most events that wait for whoever decides. It is told again of what it missed by the next failure.
const EVENTS: usize = 64;

/// Where a stream is pulled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullSource {
    /// Server to ask.
    pub(crate) address: NodeAddress,
    /// Epoch that the stream must have; `None` takes any.
    pub(crate) epoch: Option<u64>,
}

/// An event of a pull.
#[derive(Clone, Debug)]
pub(crate) enum PullEvent {
    /// The first unit of a source was published, in place of the source before it; or the first one
    /// after a silence that [`PullEvent::Failed`] told of.
    FirstData {
        source: PullSource,
        provenance: Provenance,
    },
    /// A source failed: the present one, whose stream waits for the next, or one that was to replace
    /// it, which goes on. A present source that is [silent](PullFailure::Silent) is still read, until
    /// another one takes over.
    Failed {
        source: PullSource,
        why: PullFailure,
    },
    /// The present source has brought nothing since `heard`, for longer than frames are apart. It may go
    /// on any time.
    Stalled { heard: Instant },
    /// The present source goes on after [`PullEvent::Stalled`].
    Resumed,
    /// The source's tracks have other codecs now; receivers of the old ones are told by the hub.
    CodecChanged { source: PullSource },
    /// The pull is over: it was ended, or nobody needed the stream for the linger time.
    Ended,
}

/// Decides whether a source may feed the hub, at its first keyframe.
pub(crate) trait Gate: std::fmt::Debug + Send + Sync {
    /// Calls `begin` if a source of this provenance may feed the hub, while nothing can change that.
    /// Returns whether it may.
    fn pass(&self, provenance: &Provenance, begin: &mut dyn FnMut()) -> bool;
}

/// The reason why a source failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PullFailure {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the stream has epoch {found}, not {expected}")]
    Epoch { expected: u64, found: u64 },
    #[error("the stream would be pulled in a circle, or over too many servers")]
    Loop,
    #[error("the claim under which the stream is published there is over")]
    Outdated,
    #[error("no data for {} s", SILENCE.as_secs())]
    Silent,
    #[error("the stream ended there")]
    Ended,
    #[error("the stream cannot be published here: {0}")]
    Publish(#[from] glassline_hub::PublishError),
}

/// Time without data after which a source has failed, before its first unit and later.
const SILENCE: Duration = Duration::from_secs(3);

/// Time without data after which whoever decides is told, who may have a better source.
const STALLED_AFTER: Duration = Duration::from_millis(400);

/// Time for which the session of a probe is kept.
const PROBED_FOR: Duration = Duration::from_millis(500);

/// Pulls streams from other servers.
#[derive(Debug)]
pub struct Pulls {
    hub: Arc<Hub>,
    node: NodeName,
    sessions: Arc<Sessions>,
    provenances: Arc<Provenances>,
    supervisor: Arc<Supervisor>,
    messages: Arc<MessageLinks>,
    /// Time for which a stream is still pulled after its last viewer left.
    linger: Duration,
}

/// A stream that is being pulled. The pull ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Pull {
    commands: mpsc::UnboundedSender<Command>,
    figures: Arc<PullFigures>,
}

/// The figures of all that a pull has brought.
#[derive(Debug, Default)]
pub(crate) struct PullFigures {
    bytes: AtomicU64,
    /// Time that the latest unit was under way between servers, in µs, plus one; 0 while none told.
    delay: AtomicU64,
}

impl PullFigures {
    /// Counts a unit.
    fn count(&self, unit: &MediaUnit) {
        self.bytes
            .fetch_add(unit.payload_bytes() as u64, Ordering::Relaxed);
        if let Some(relay) = unit.stamps.relay {
            let micros = u64::try_from(relay.delay.as_micros()).unwrap_or(u64::MAX - 1);
            self.delay.store(micros + 1, Ordering::Relaxed);
        }
    }

    /// Returns the bytes of media that came.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how long the latest unit was under way from its owner, over all servers; `None` while
    /// that is not known.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let micros = self.delay.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_micros(micros))
    }
}

/// A command to a pull.
#[derive(Debug)]
enum Command {
    Replace(PullSource),
    End,
}

impl Pulls {
    /// Creates the means to pull streams. Must be called within tokio.
    pub fn new(
        hub: &Arc<Hub>,
        identity: &Identity,
        provenances: &Arc<Provenances>,
        supervisor: &Arc<Supervisor>,
        messages: &Arc<MessageLinks>,
        linger: Duration,
    ) -> std::io::Result<Self> {
        Ok(Self {
            hub: Arc::clone(hub),
            node: identity.name.clone(),
            sessions: Arc::new(Sessions::new(identity.clone())?),
            provenances: Arc::clone(provenances),
            supervisor: Arc::clone(supervisor),
            messages: Arc::clone(messages),
            linger,
        })
    }

    /// Begins to pull `stream` from `source`, on behalf of the servers `asking`; none of them for
    /// this server's own viewers. Events come in order; the last one is [`PullEvent::Ended`].
    pub(crate) fn start(
        &self,
        stream: Arc<Stream>,
        source: PullSource,
        asking: &[NodeName],
    ) -> (Pull, mpsc::Receiver<PullEvent>) {
        self.start_behind(stream, source, asking, None)
    }

    /// Begins to pull `stream` as [`start`](Self::start) does. With a gate, a source feeds the hub only
    /// after the gate let it pass, and fails when its stream has another owner or epoch.
    pub(crate) fn start_behind(
        &self,
        stream: Arc<Stream>,
        source: PullSource,
        asking: &[NodeName],
        gate: Option<Box<dyn Gate>>,
    ) -> (Pull, mpsc::Receiver<PullEvent>) {
        let (commands, orders) = mpsc::unbounded_channel();
        let (events, told) = mpsc::channel(EVENTS);
        let driver = Driver::new(self, stream, asking, orders, events, gate);
        let figures = Arc::clone(driver.figures());
        let supervisor = Arc::clone(&self.supervisor);
        tokio::spawn(async move {
            let running = driver.run(source);
            if supervisor.catch_task(Part::Quic, running).await.is_err() {
                tracing::error!("pulling a stream panicked: it is pulled again when it is needed");
            }
        });
        (Pull { commands, figures }, told)
    }

    /// Returns the hub that pulled streams are published into.
    pub(crate) const fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Opens a stream for one request to the server of `address`, on the session of pulls.
    pub(super) async fn request_stream(
        &self,
        address: &NodeAddress,
    ) -> Result<RequestStream, String> {
        let session = self.sessions.get(address).await;
        let session = session.map_err(|error| error.to_string())?;
        let stream = session.open_request().await;
        stream.map_err(|error| format!("the session with it has ended: {error}"))
    }

    /// Returns whether a new session with the server of `address` opens within 1 s. A session that is
    /// open already proves nothing: its server may have died a moment ago.
    pub(super) async fn reaches(&self, address: &NodeAddress) -> bool {
        let Ok(session) = self.sessions.open(address).await else {
            return false;
        };
        // The other server would count a session that ends during its handshake as failed.
        tokio::spawn(async move {
            tokio::time::sleep(PROBED_FOR).await;
            drop(session);
        });
        true
    }
}

impl Pull {
    /// Pulls the stream from `source` from its next keyframe on; until then the present source goes
    /// on. A source that was to replace it before is given up. The present source is not read twice:
    /// if `source` is the present one, it just goes on.
    pub(crate) fn replace(&self, source: PullSource) {
        // The pull may have ended meanwhile, which its last event tells.
        let _ = self.commands.send(Command::Replace(source));
    }

    /// Returns what the pull has brought.
    pub(crate) fn figures(&self) -> &Arc<PullFigures> {
        &self.figures
    }

    /// Ends the pull.
    pub(crate) fn end(&self) {
        let _ = self.commands.send(Command::End);
    }
}
