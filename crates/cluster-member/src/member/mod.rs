//! This server as a member of a cluster whose servers agree through NATS which of them has a stream.
//!
//! ```text
//!  publishers ─ claim ─► Member ── requests ──► Engine (NATS)
//!  viewers ─── seek ───►  core  ◄─ inputs ────┘
//!  hub ──── look ──────►   │ events: driver, one task
//!                          └► start and end pulls · dial and hang up sources · send publishers away
//! ```
//!
//! The core ([`glassline_cluster::Node`]) decides and is behind one lock; calls into it are short. The
//! driver hands it time and what the engine says, and carries its decisions out. Another server's
//! stream feeds the hub only after the core admitted it, under the same lock.

mod authentic;
mod carry_out;
mod claim;
mod crowding;
mod drain;
mod driver;
mod elsewhere;
mod followed;
mod load;
mod lookup;
mod others;
mod pulled;
mod record;
mod redirect;
mod requests;
mod rooms;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use aws_lc_rs::hmac;
use glassline_access::auth::Secret;
use glassline_cluster::{
    Config, Moment, Node, NodeId, PublisherId, PullId, Region, StreamName as Name, ViewDecision,
    ViewerId,
};
use glassline_cluster_nats::{Engine, Options};
use glassline_hub::{Hub, Prospect, StreamName};
use glassline_messages::MessageLinks;
use glassline_quic::Fingerprint;
use glassline_runtime::{Part, Supervisor, TaskWaker, calendar, keep_running};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::identity::{Identity, Provenances};
use super::pull::{Pull, Pulls};
use authentic::Authentic;
use claim::Publishing;
use driver::Driver;
use elsewhere::ToldNames;
use followed::Followed;
use load::Meter;
use redirect::Redirecting;
use requests::HandedOn;

pub use claim::{ClaimRefusal, HeldName};
pub use crowding::Crowding;
pub use drain::Draining;
pub use elsewhere::Names;
pub use record::Reachable;
pub use redirect::{Elsewhere, by_calendar, without_credentials};
pub use requests::{Asker, NotHandedOn, OpenedRequest, RequestPlace};
pub use rooms::{HeldRoom, NotHere};
pub use status::{Counts, EngineView, MemberView, NodeView, NodesView, Owner, PulledView};

/// Time for which the pulls themselves keep a stream that nobody needs. The core ends them long before.
const PULL_LINGER: Duration = Duration::from_secs(3600);

/// The settings of a member at the start.
#[derive(Debug)]
pub struct MemberSettings {
    /// Servers of NATS, and how this server logs in.
    pub engine: Options,
    /// Region of this server.
    pub region: Region,
    /// Time for which a stream is still pulled after its last viewer left.
    pub linger: Duration,
    /// Most viewers of this server, by which others see its room.
    pub viewers_max: usize,
    /// Viewers of one stream from which on others send none here, and this server sends new ones to
    /// others.
    pub viewers_per_stream: u32,
    /// Servers that pull one stream from this one before it leads further ones to those.
    pub pulls_per_stream: u32,
    /// Whether viewers of this server are redirected to others.
    pub redirects: bool,
    /// Whether viewers may be redirected to other regions.
    pub redirects_far: bool,
    /// Whether this server hears of all streams of the others, or of those that it needs.
    pub hears_everything: bool,
    /// Whether this server sends viewers away when it has clearly more than its share.
    pub rebalances: bool,
    /// Mbit/s of media that this server may send; `None` for no limit.
    pub mbps_max: Option<u32>,
}

/// This server in its cluster.
#[derive(Debug)]
pub struct Member {
    hub: Arc<Hub>,
    provenances: Arc<Provenances>,
    pulls: Pulls,
    supervisor: Arc<Supervisor>,
    options: Options,
    viewers_max: usize,
    redirecting: Redirecting,
    authentic: Authentic,
    handed_on: HandedOn,
    core: Mutex<Core>,
    /// The engine, once it has started.
    engine: OnceLock<Engine>,
    /// Wakes the driver: the core has something to carry out.
    changed: Arc<TaskWaker>,
    /// The drain that runs, or has come to its end.
    draining: watch::Sender<Option<Draining>>,
    /// Viewers that others are to serve, the latest ones that the core named.
    crowding: watch::Sender<Option<Crowding>>,
}

/// The core, and what belongs to its decisions.
#[derive(Debug)]
struct Core {
    node: Node,
    /// The latest number that a publisher or viewer got.
    number: u64,
    publishers: HashMap<PublisherId, Publishing>,
    /// Streams of the hub that others may have to do with.
    followed: BTreeMap<Name, Followed>,
    /// Whether each source of the configuration is to be connected.
    sources: HashMap<Name, watch::Sender<bool>>,
    pulls: HashMap<PullId, Pull>,
    /// Shares of the rooms that this server has, or wants to have.
    rooms: HashMap<Name, usize>,
    /// Rooms that other servers took over.
    moved_rooms: Vec<String>,
    /// Viewers and participants that wait until it is decided where they are served.
    placing: HashMap<ViewerId, oneshot::Sender<ViewDecision>>,
    /// Whether this server has as many viewers as it takes.
    is_full: bool,
    counts: Counts,
    /// The names that were told last about the streams of other servers.
    told: ToldNames,
    meter: Meter,
}

impl Core {
    const fn publisher(&mut self) -> PublisherId {
        self.number += 1;
        PublisherId(self.number)
    }

    const fn viewer(&mut self) -> ViewerId {
        self.number += 1;
        ViewerId(self.number)
    }
}

impl Member {
    /// Creates a member that has not joined yet. Must be called within tokio.
    pub fn new(
        hub: &Arc<Hub>,
        identity: &Identity,
        provenances: &Arc<Provenances>,
        supervisor: &Arc<Supervisor>,
        messages: &Arc<MessageLinks>,
        settings: MemberSettings,
    ) -> std::io::Result<Arc<Self>> {
        let node = settings.engine.node.clone();
        let record = record::unreachable(identity.incarnation, settings.region.clone());
        let mut config = Config::new(node, settings.region, record, identity.incarnation);
        config.linger = settings.linger;
        config.viewers_per_stream = settings.viewers_per_stream;
        config.children_max = settings.pulls_per_stream;
        config.children_in_all_max = config.children_in_all_max.max(settings.pulls_per_stream);
        config.redirects_far = settings.redirects_far;
        config.hears_everything = settings.hears_everything;
        config.rebalances = settings.rebalances;
        config.key = key_mark(&identity.secret);
        let pulls = Pulls::new(
            hub,
            identity,
            provenances,
            supervisor,
            messages,
            PULL_LINGER,
        )?;
        let core = Core {
            node: Node::new(config, moment()),
            number: 0,
            publishers: HashMap::new(),
            followed: BTreeMap::new(),
            sources: HashMap::new(),
            pulls: HashMap::new(),
            rooms: HashMap::new(),
            moved_rooms: Vec::new(),
            placing: HashMap::new(),
            is_full: false,
            counts: Counts::default(),
            told: ToldNames::default(),
            meter: Meter::new(settings.mbps_max),
        };
        let authentic = Authentic::new(&identity.secret, settings.engine.node.clone());
        Ok(Arc::new(Self {
            hub: Arc::clone(hub),
            provenances: Arc::clone(provenances),
            pulls,
            supervisor: Arc::clone(supervisor),
            options: settings.engine,
            viewers_max: settings.viewers_max,
            redirecting: Redirecting {
                secret: identity.secret.clone(),
                is_on: settings.redirects,
                viewers_per_stream: settings.viewers_per_stream,
                hears_everything: settings.hears_everything,
            },
            authentic,
            handed_on: HandedOn::default(),
            core: Mutex::new(core),
            engine: OnceLock::new(),
            changed: Arc::default(),
            draining: watch::channel(None).0,
            crowding: watch::channel(None).0,
        }))
    }

    /// Joins the cluster: other servers reach this one as `reachable` says, with the certificate of
    /// `fingerprint`. Returns the task that ends some time after `stopped` became true, when this
    /// server has given its streams up.
    pub fn join(
        self: &Arc<Self>,
        reachable: Reachable,
        fingerprint: watch::Receiver<Fingerprint>,
        stopped: watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let (engine, inputs) = Engine::start(self.options.clone());
        // A member joins once.
        let _ = self.engine.set(engine);
        let driver = Driver::new(
            Arc::clone(self),
            inputs,
            reachable,
            fingerprint,
            stopped.clone(),
        );
        let supervisor = Arc::clone(&self.supervisor);
        tokio::spawn(async move {
            // The lock is free whenever the driver begins anew.
            let driver = tokio::sync::Mutex::new(driver);
            let driving = || async { driver.lock().await.run().await };
            let task = Part::Background.task("cluster");
            keep_running(supervisor, task, stopped, driving).await;
        })
    }

    /// Calls the core, and wakes the driver, which carries out what follows.
    fn with_core<T>(&self, call: impl FnOnce(&mut Core, Moment) -> T) -> T {
        use glassline_hub::Wake as _;
        let done = call(&mut self.core.lock(), moment());
        self.changed.wake();
        done
    }

    /// Returns whether other servers may have a stream from this one: it is claimed here, or pulled
    /// by a path that may grow.
    pub(crate) fn announces(&self, name: &str) -> bool {
        Name::new(name).is_ok_and(|name| self.core.lock().node.announced(&name))
    }

    /// Follows the stream `name` of the configuration, which clients publish to any server.
    pub fn expect(&self, name: &StreamName) {
        let (Some(stream), Some(name)) = (self.hub.stream(name.as_str()), core_name(name)) else {
            return;
        };
        if stream.prospect() == Prospect::None {
            stream.set_prospect(Prospect::OnDemand);
        }
        self.core
            .lock()
            .followed
            .entry(name)
            .or_default()
            .is_configured = true;
    }

    /// Returns whether this server pulls the stream `name` from another one: a source of that name may
    /// stand by here.
    pub fn pulls(&self, name: &StreamName) -> bool {
        core_name(name).is_some_and(|name| self.core.lock().node.pulled(&name).is_some())
    }

    /// Returns what tells whether the source `name` of the configuration is to be connected. The
    /// servers of the cluster that have the same source see to it that one of them is.
    pub fn add_source(&self, name: &StreamName) -> Option<watch::Receiver<bool>> {
        let name = core_name(name)?;
        let own = [self.options.node.clone()];
        self.with_core(|core, now| {
            // A source that is changed is dialled by the same server as before.
            let dial = core.sources.entry(name.clone());
            let dialled = dial.or_insert_with(|| watch::channel(false).0).subscribe();
            let followed = core.followed.entry(name.clone()).or_default();
            followed.is_configured = true;
            core.node.add_source(now, &name, &own);
            Some(dialled)
        })
    }

    /// Forgets a source that is no longer there.
    pub fn remove_source(&self, name: &StreamName) {
        let Some(name) = core_name(name) else {
            return;
        };
        self.with_core(|core, now| {
            core.sources.remove(&name);
            core.node.remove_source(now, &name);
        });
    }
}

/// Returns the mark by which servers with another secret are told apart. Whoever reads it learns as
/// much of the secret as from a ticket: nothing, if the secret is long.
fn key_mark(secret: &Secret) -> u64 {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    let mark = hmac::sign(&key, b"glassline mark of the cluster");
    let (first, _) = mark.as_ref().split_first_chunk().expect("32 bytes");
    // Zero stands for no mark.
    u64::from_be_bytes(*first).max(1)
}

/// Returns the time now, by both clocks.
fn moment() -> Moment {
    let unix = calendar::now().duration_since(UNIX_EPOCH);
    let unix = unix.unwrap_or_default().as_millis();
    Moment {
        at: Instant::now(),
        unix_ms: u64::try_from(unix).unwrap_or(u64::MAX),
    }
}

/// Returns the name of a stream as the core has it. Names of the hub are shorter than its longest.
fn core_name(name: &StreamName) -> Option<Name> {
    Name::new(name.as_str()).ok()
}

/// Returns a server's name as the core has it.
fn node_id(name: &glassline_quic::moq::NodeName) -> Option<NodeId> {
    NodeId::new(name.as_str()).ok()
}
