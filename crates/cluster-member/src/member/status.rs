//! What an operator sees of the cluster from this server.

use std::collections::BTreeMap;

use glassline_cluster::record::{Kind, Load, NodeState};
use glassline_cluster::{Node, NodeId, PeerView};
use glassline_cluster_nats::{Engine, Link, Status};
use glassline_hub::StreamName;
use schemars::JsonSchema;
use serde::Serialize;

use super::authentic::Authentic;
use super::{Core, Member, core_name};
use crate::pull::Pull;

/// The counts of this member since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Publishers that got their names.
    pub admitted: u64,
    /// Publishers that did not.
    pub refused: u64,
    /// Publishers that were sent away, because another server has the stream.
    pub superseded: u64,
    /// Number of pulls that this server began.
    pub pulls: u64,
    /// Viewers that were sent to another server.
    pub redirected: u64,
    /// Viewers that were sent away, because this server had more than its share.
    pub moved: u64,
    /// Bytes of media that pulls brought which are over.
    pub pulled_bytes: u64,
}

/// The servers of the cluster as this one knows them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodesView {
    /// Name of this server.
    pub node: String,
    region: String,
    /// Whether this server takes no new publishers, because it is about to stop.
    is_draining: bool,
    /// State of the connection to the engine of the cluster.
    pub engine: EngineView,
    /// All servers of the cluster, this one included.
    pub nodes: Vec<NodeView>,
    /// Streams that this server has taken over from another one, which was gone or silent.
    pub takeovers: u64,
    /// The sum of all that this server pulls from others.
    pub pulled: PulledView,
    /// Counts of this server, for metrics.
    #[serde(skip)]
    pub counts: Counts,
}

/// The cluster as this server knows it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemberView {
    #[serde(flatten)]
    servers: NodesView,
    streams: Vec<KnownStream>,
    pulls: Vec<PullView>,
}

/// The connection to NATS.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EngineView {
    /// `connecting`, `connected` or `away`.
    pub state: &'static str,
    /// Address of the server of NATS.
    server: Option<String>,
    /// Times that the connection was made.
    pub connects: u64,
    /// The reason why the latest attempt to connect failed.
    pub failure: Option<String>,
    /// Settings of NATS that endanger records.
    warnings: Vec<String>,
    /// Notices that this server read too slowly.
    pub dropped: u64,
}

/// A server of the cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeView {
    /// Name of the server within the cluster.
    pub name: String,
    region: Option<String>,
    /// `serving`, `draining`, `dead`, `stranger` where it has another secret, or `unheard` where no
    /// heartbeat has come yet.
    pub state: &'static str,
    /// Address of its QUIC listener.
    quic: Option<String>,
    /// Address for viewers over HTTP, to which other servers redirect them; null for none.
    http: Option<String>,
    /// Address for viewers over RTSP, to which other servers redirect them; null for none.
    rtsp: Option<String>,
    version: Option<String>,
    /// Whether its record has a valid MAC under `cluster.secret`. If not, its addresses are not used.
    is_proven: bool,
    /// Viewers that the server serves itself.
    viewers: Option<u32>,
    /// Streams that the server has, its own and those it pulls.
    streams: Option<u32>,
    /// Processor time that the server uses, in percent of one core.
    cpu_percent: Option<f32>,
    /// Media that the server sends, in Mbit/s.
    mbps: Option<f32>,
    /// How busy the server is, in percent of its processors or of what it may send.
    busy_percent: Option<u32>,
    /// Seconds that the wall clock of the server is ahead of that of the server that tells; null if
    /// they agree within 2 s, or nothing is known.
    clock_ahead_s: Option<f64>,
    /// Streams and rooms that the server has claimed.
    pub owned: usize,
    /// Streams that this server pulls from there.
    pub pulled: usize,
}

/// A stream that a server has claimed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KnownStream {
    name: String,
    /// Server that publishes it, or is connected to its source.
    owner: String,
    epoch: u64,
    /// `pushed`, `source` or `room`.
    kind: &'static str,
}

/// A stream that this server pulls.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullView {
    stream: String,
    from: String,
    epoch: u64,
    /// Servers that the stream has passed, from its owner on.
    path: Vec<String>,
    /// Bytes of media that the pull has brought.
    bytes: u64,
    /// Time in ms that a frame is under way from the owner, over all servers; null while that is not
    /// known.
    delay_ms: Option<f64>,
}

/// The server that has a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StreamOwner")]
pub struct Owner {
    server: String,
    /// Address of its pages for viewers; absent of this server, and of one without such an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
}

/// The sum of all that a server pulls.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PulledView {
    /// Most servers that one of the streams passes, its owner and this server included; 0 without
    /// pulls.
    pub path_nodes: usize,
    /// Bytes of media that came since the server started.
    pub bytes: u64,
    /// Longest time in ms that a frame is under way from its owner; null while that is not known.
    pub delay_ms: Option<f64>,
}

/// Difference of two wall clocks from which on it is told. Tickets allow for 30 s.
const CLOCK_OFF_MS: u64 = 2_000;

impl Member {
    /// Returns what this server knows of its cluster.
    pub fn view(&self) -> MemberView {
        let servers = self.nodes_view();
        let core = self.core.lock();
        let streams = core.node.known_streams().map(|(name, record)| KnownStream {
            name: name.to_string(),
            owner: record.node.to_string(),
            epoch: record.epoch,
            kind: match record.kind {
                Kind::Pushed => "pushed",
                Kind::Source => "source",
                Kind::Room => "room",
            },
        });
        MemberView {
            servers,
            streams: streams.collect(),
            pulls: pulls(&core),
        }
    }

    /// Returns what this server knows of the servers of its cluster.
    pub fn nodes_view(&self) -> NodesView {
        let (engine, load) = (self.engine_view(), self.load());
        let core = self.core.lock();
        NodesView {
            node: self.options.node.as_str().to_owned(),
            region: self.options.region.to_string(),
            is_draining: core.node.is_draining(),
            engine,
            nodes: nodes(&core.node, load, &self.authentic),
            takeovers: core.node.takeovers(),
            pulled: pulled(&core),
            counts: core.counts,
        }
    }

    /// Returns the server that has the stream `name`; `None` if none has claimed it.
    pub fn owner(&self, name: &StreamName) -> Option<Owner> {
        let name = core_name(name)?;
        let core = self.core.lock();
        let owner = core.node.owner(&name)?;
        let is_away = *owner != self.options.node && self.authentic.is_proven(owner);
        let mut records = core.node.known_nodes().filter(|_| is_away);
        let record = records.find(|(node, _)| *node == owner);
        Some(Owner {
            server: owner.to_string(),
            http: record.and_then(|(_, record)| record.http.clone()),
        })
    }

    /// Returns whether the engine can be used at present.
    pub fn is_connected(&self) -> bool {
        self.core.lock().node.is_connected()
    }

    /// Returns whether this server takes no new publishers, because it drains.
    pub fn is_draining(&self) -> bool {
        self.core.lock().node.is_draining()
    }

    fn engine_view(&self) -> EngineView {
        let status = self
            .engine
            .get()
            .map_or_else(Status::default, Engine::status);
        let (state, server) = match status.link {
            Link::Connecting => ("connecting", None),
            Link::Connected { server } => ("connected", Some(server)),
            Link::Away => ("away", None),
        };
        let dropped = status.dropped;
        EngineView {
            state,
            server,
            connects: status.connects,
            failure: status.failure,
            warnings: status.warnings,
            dropped: dropped.changes + dropped.beats + dropped.questions,
        }
    }
}

/// Returns all servers that are known by their records, or heard, in the order of their names. `load`
/// is that of this server, which hears no heartbeat of its own.
fn nodes(node: &Node, load: Load, authentic: &Authentic) -> Vec<NodeView> {
    let mut found = BTreeMap::new();
    for (name, record) in node.known_nodes() {
        let view = NodeView {
            state: match record.state == NodeState::Draining {
                true => "draining",
                false => "unheard",
            },
            region: Some(record.region.to_string()),
            quic: Some(record.quic.clone()),
            http: record.http.clone(),
            rtsp: record.rtsp.clone(),
            version: Some(record.version.clone()),
            is_proven: authentic.is_proven(name),
            ..NodeView::unheard(name)
        };
        found.insert(name.clone(), view);
    }
    let own = PeerView {
        node: node.id(),
        is_dead: false,
        load,
        ahead_ms: None,
    };
    for peer in node.peers().chain([own]) {
        let view = found
            .entry(peer.node.clone())
            .or_insert_with(|| NodeView::unheard(peer.node));
        view.tell(&peer);
    }
    for name in node.strangers() {
        let view = found
            .entry(name.clone())
            .or_insert_with(|| NodeView::unheard(name));
        view.state = "stranger";
    }
    for (_, record) in node.known_streams() {
        if let Some(view) = found.get_mut(&record.node) {
            view.owned += 1;
        }
    }
    for pull in node.running_pulls() {
        if let Some(view) = found.get_mut(pull.from) {
            view.pulled += 1;
        }
    }
    found.into_values().collect()
}

/// Returns what all pulls have brought, with those that are over.
fn pulled(core: &Core) -> PulledView {
    let pulls = pulls(core);
    let running: u64 = pulls.iter().map(|it| it.bytes).sum();
    let delays = pulls.iter().filter_map(|it| it.delay_ms);
    PulledView {
        path_nodes: pulls.iter().map(|it| it.path.len() + 1).max().unwrap_or(0),
        bytes: core.counts.pulled_bytes + running,
        delay_ms: delays.max_by(f64::total_cmp),
    }
}

/// Returns the pulls that feed the hub, with what they have brought.
fn pulls(core: &Core) -> Vec<PullView> {
    let running = core.node.running_pulls();
    let pulls = running.map(|pull| {
        let figures = core.pulls.get(&pull.pull).map(Pull::figures);
        let delay = figures.and_then(|it| it.delay());
        PullView {
            stream: pull.name.to_string(),
            from: pull.from.to_string(),
            epoch: pull.epoch,
            path: pull.path.iter().map(ToString::to_string).collect(),
            bytes: figures.map_or(0, |it| it.bytes()),
            delay_ms: delay.map(|it| (it.as_secs_f64() * 1e5).round() / 100.0),
        }
    });
    pulls.collect()
}

impl NodeView {
    /// Takes what the latest heartbeat says.
    fn tell(&mut self, peer: &PeerView<'_>) {
        let load = peer.load;
        self.state = match (peer.is_dead, self.state) {
            (true, _) => "dead",
            (false, "unheard") => "serving",
            (false, state) => state,
        };
        (self.viewers, self.streams) = (Some(load.viewers), Some(load.streams));
        let tenths = |value: f32| Some((value * 10.0).round() / 10.0);
        (self.cpu_percent, self.mbps) = (tenths(load.cpu), tenths(load.mbps));
        self.busy_percent = Some(load.busy);
        let ahead = peer.ahead_ms.filter(|it| it.unsigned_abs() >= CLOCK_OFF_MS);
        self.clock_ahead_s = ahead.map(|it| (it as f64 / 100.0).round() / 10.0);
    }

    /// A server of which only the name is known.
    fn unheard(name: &NodeId) -> Self {
        Self {
            name: name.to_string(),
            region: None,
            state: "unheard",
            quic: None,
            http: None,
            rtsp: None,
            version: None,
            is_proven: true,
            viewers: None,
            streams: None,
            cpu_percent: None,
            mbps: None,
            busy_percent: None,
            clock_ahead_s: None,
            owned: 0,
            pulled: 0,
        }
    }
}
