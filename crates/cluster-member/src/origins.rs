//! Origins of the configuration: a stream that this server does not have is pulled from the first
//! server of a list that has it, and from the next one when that server fails.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Prospect, State, Stream, StreamLifetime, StreamName, Wake};
use glassline_ingest::stream_names;
use glassline_quic::moq::{NodeAddress, NodeName, Provenance};
use glassline_rooms as rooms;
use glassline_runtime::{FaultPoint, Part, Supervisor, TaskWaker};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::asked::{AskedStreams, Asking};
use super::member::{ClaimRefusal, HeldName, Member};
use super::pull::{Pull, PullEvent, PullFailure, PullSource, Pulls};

/// Longest time that viewers of a new stream wait for a server that has it.
const SEARCH: Duration = Duration::from_secs(3);

/// Time for which a stream stays listed that is not pulled any more: the next viewer gets its tracks
/// at once.
const IDLE: Duration = Duration::from_secs(60);

/// Time in which a viewer that found a stream just before it left the hub begins to receive it.
const FAREWELL: Duration = Duration::from_secs(2);

/// Pauses between two rounds through all origins, for a stream that viewers wait for.
const ROUND_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1_000),
    Duration::from_millis(2_000),
];

/// Finds streams on other servers.
#[derive(Debug)]
pub struct Directory {
    origins: Vec<NodeAddress>,
    /// Agrees with the other servers who has a stream; `None` where only `origins` say so.
    member: Option<Arc<Member>>,
    pulls: Pulls,
    supervisor: Arc<Supervisor>,
    /// Where searches run; viewers of RTSP ask from threads that are not tokio's.
    runtime: tokio::runtime::Handle,
    state: Mutex<AskedStreams>,
}

impl Directory {
    /// Creates a directory of the servers `origins`, which are asked in this order, and of the cluster of
    /// `member`. Must be called within tokio.
    pub fn new(
        origins: Vec<NodeAddress>,
        member: Option<Arc<Member>>,
        pulls: Pulls,
        supervisor: &Arc<Supervisor>,
    ) -> Arc<Self> {
        Arc::new(Self {
            origins,
            member,
            pulls,
            supervisor: Arc::clone(supervisor),
            runtime: tokio::runtime::Handle::current(),
            state: Mutex::default(),
        })
    }

    /// Returns this server as a member of a cluster that agrees through NATS, if it is one.
    pub const fn member(&self) -> Option<&Arc<Member>> {
        self.member.as_ref()
    }

    /// Claims `name` for a publisher in the whole cluster; `None` where servers do not agree on that, or
    /// the claim of this server's source covers the publisher.
    /// With `takes_over`, the present publisher is replaced, wherever it is.
    pub async fn claim(
        &self,
        name: &StreamName,
        takes_over: bool,
    ) -> Result<Option<HeldName>, ClaimRefusal> {
        match &self.member {
            Some(member) => member.claim(name, takes_over).await,
            None => Ok(None),
        }
    }

    /// Returns whether other servers may have the stream `name` from this one.
    pub fn offers(&self, name: &str) -> bool {
        let member = self.member.as_ref();
        !rooms::is_voice(name) && member.is_none_or(|member| member.announces(name))
    }

    /// Begins to pull the stream `name`, which the hub does not have, for a client with the address
    /// `by`. Returns the stream to wait for; `None` if it cannot be pulled, or was nowhere a moment
    /// ago. A stream that no origin has leaves the hub again.
    pub fn begin(self: &Arc<Self>, name: &str, by: IpAddr) -> Option<Arc<Stream>> {
        self.begin_for(name, Asking::Client(by))
    }

    /// Begins to pull the stream `name`, which was announced over QUIC, for a reader. Returns the stream
    /// to wait for; `None` if it cannot be pulled now, or was nowhere a moment ago.
    pub fn begin_for_reader(self: &Arc<Self>, name: &str) -> Option<Arc<Stream>> {
        self.begin_for(name, Asking::Reader)
    }

    /// Begins to pull the stream `name`, which the hub does not have, for the servers `asking`. Returns
    /// the stream to wait for; `None` if it cannot be pulled, or was nowhere a moment ago.
    pub fn begin_for_nodes(
        self: &Arc<Self>,
        name: &str,
        asking: &[NodeName],
    ) -> Option<Arc<Stream>> {
        self.begin_for(name, Asking::Nodes(asking))
    }

    fn begin_for(self: &Arc<Self>, name: &str, asking: Asking<'_>) -> Option<Arc<Stream>> {
        // Voices of a room are on the room's server only.
        // In a cluster that agrees, servers ask only one that has the stream.
        let is_nowhere = match &self.member {
            Some(_) => matches!(asking, Asking::Nodes(_)),
            None => self.origins.is_empty(),
        };
        if is_nowhere || rooms::is_voice(name) {
            return None;
        }
        let name = stream_names::parse(name).ok()?;
        let now = Instant::now();
        let mut found = self.state.lock();
        if let Some(stream) = found.stream(&name) {
            return Some(stream);
        }
        if !found.may_search(&name, asking, now) {
            return None;
        }
        let stream = self.pulls.hub().admit_on_demand(name).ok()?;
        if stream.is_published() || !stream.tracks().is_empty() {
            return Some(stream);
        }
        stream.set_lifetime(StreamLifetime::Transient);
        stream.set_prospect(Prospect::OnDemand);
        found.begin(&stream);
        drop(found);
        let asking = match asking {
            Asking::Nodes(nodes) => nodes.to_vec(),
            Asking::Client(_) | Asking::Reader => Vec::new(),
        };
        let searching = Arc::clone(self).search(Arc::clone(&stream), asking);
        self.runtime.spawn(searching);
        Some(stream)
    }

    /// Searches for a stream and pulls it, until nobody needs it. A panic ends that for this stream
    /// alone, which can be asked for again.
    async fn search(self: Arc<Self>, stream: Arc<Stream>, asking: Vec<NodeName>) {
        let searching = async {
            match &self.member {
                Some(member) => self.serve(member, &stream).await,
                None => Search::new(&self, &stream, asking).run().await,
            }
        };
        let ended = self.supervisor.catch_task(Part::Quic, searching).await;
        if ended.is_err() {
            let name = stream.name();
            tracing::error!(stream = %name, "the search for a stream panicked: it is searched for again when it is needed");
            self.forget(&stream, false);
            let detail = "the search for the stream failed".to_owned();
            stream.set_state(State::Down { detail });
        }
    }

    fn note_live(&self, name: &StreamName) {
        self.state.lock().note_live(name);
    }

    /// Lists a stream again that was forgotten. Returns false if another one has its name.
    fn list_again(&self, stream: &Arc<Stream>) -> bool {
        let mut found = self.state.lock();
        let is_listed = self.pulls.hub().list(stream).is_ok();
        if is_listed {
            found.list_again(stream);
        }
        is_listed
    }

    /// Keeps a stream that viewers wait for, as long as this server's `member` or its own publishers
    /// have it; it leaves the hub at once if no server of the cluster has it.
    async fn serve(&self, member: &Arc<Member>, stream: &Arc<Stream>) {
        // The stream is needed for as long as it is searched for.
        let demand = stream.demand();
        let found = member.find(stream).await;
        drop(demand);
        if let Err(why) = found {
            let detail = format!("the cluster does not bring the stream: {why}");
            tracing::info!(stream = %stream.name(), why, "the cluster does not bring the stream");
            // Not listed any more before those that wait are woken.
            self.forget(stream, true);
            return stream.set_state(State::Down { detail });
        }
        self.note_live(stream.name());
        let is_used = |stream: &Stream| stream.is_demanded() || stream.is_published();
        let changed = Arc::new(TaskWaker::default());
        let watcher = Arc::clone(&changed) as Arc<dyn Wake>;
        stream.watch(&watcher);
        loop {
            while is_used(stream) {
                changed.woken().await;
            }
            if !self.is_used_again(stream, is_used).await {
                return;
            }
        }
    }

    /// Waits until `is_used` says that a stream is used again. Returns false once the stream has left
    /// the hub, because it was not for a while.
    async fn is_used_again(&self, stream: &Arc<Stream>, is_used: impl Fn(&Stream) -> bool) -> bool {
        let changed = Arc::new(TaskWaker::default());
        let watcher = Arc::clone(&changed) as Arc<dyn Wake>;
        stream.watch(&watcher);
        let used = async {
            while !is_used(stream) {
                changed.woken().await;
            }
        };
        if tokio::time::timeout(IDLE, used).await.is_ok() {
            return true;
        }
        self.forget(stream, false);
        // A viewer may have found the stream just before.
        tokio::time::sleep(FAREWELL).await;
        is_used(stream) && self.list_again(stream)
    }

    /// Forgets a stream, which leaves the hub. One that was `nowhere` is not searched for again at once.
    fn forget(&self, stream: &Arc<Stream>, is_nowhere: bool) {
        let mut found = self.state.lock();
        found.forget(stream.name(), is_nowhere, Instant::now());
        self.pulls.hub().remove(stream.name().as_str());
    }
}

/// The search for one stream, and for its next origin whenever one fails.
struct Search {
    directory: Arc<Directory>,
    stream: Arc<Stream>,
    asking: Vec<NodeName>,
    /// Index of the origin that is asked at present.
    place: usize,
    /// Origins that failed since the latest data, which is a round when all have.
    failed: usize,
    rounds: usize,
    why: String,
    /// The source that is published, and whether it is silent.
    present: Option<(PullSource, bool)>,
}

impl Search {
    pub(super) fn new(
        directory: &Arc<Directory>,
        stream: &Arc<Stream>,
        asking: Vec<NodeName>,
    ) -> Self {
        Self {
            directory: Arc::clone(directory),
            stream: Arc::clone(stream),
            asking,
            place: 0,
            failed: 0,
            rounds: 0,
            why: String::new(),
            present: None,
        }
    }

    fn source(&self) -> PullSource {
        PullSource {
            address: self.directory.origins[self.place].clone(),
            epoch: None,
        }
    }

    async fn run(mut self) {
        self.directory
            .supervisor
            .fault_point(FaultPoint::OriginSearch);
        // The stream is needed for as long as it is searched for.
        let mut demand = Some(self.stream.demand());
        let directory = Arc::clone(&self.directory);
        let stream = Arc::clone(&self.stream);
        let (pull, events) = directory.pulls.start(stream, self.source(), &self.asking);
        let searching = self.first(&pull, events);
        let Ok(Some(events)) = tokio::time::timeout(SEARCH, searching).await else {
            let detail = format!("no origin has the stream: {}", self.why);
            tracing::info!(stream = %self.stream.name(), why = self.why, "no origin has the stream");
            // Not listed any more before those that wait are woken.
            directory.forget(&self.stream, true);
            pull.end();
            self.stream.set_state(State::Down { detail });
            return;
        };
        directory.note_live(self.stream.name());
        demand.take();
        self.keep(&pull, events).await;
        while self.is_needed_again().await {
            (self.place, self.failed, self.rounds) = (0, 0, 0);
            self.present = None;
            let (stream, source) = (Arc::clone(&self.stream), self.source());
            let (pull, events) = directory.pulls.start(stream, source, &self.asking);
            self.keep(&pull, events).await;
        }
    }

    async fn is_needed_again(&self) -> bool {
        let is_needed = |stream: &Stream| stream.is_demanded();
        self.directory.is_used_again(&self.stream, is_needed).await
    }

    fn note(&self, source: &PullSource, provenance: &Provenance) {
        let path = provenance.path.iter().map(NodeName::as_str);
        let path = path.collect::<Vec<_>>().join(" → ");
        let (stream, host) = (self.stream.name(), &source.address.host);
        let port = source.address.port;
        tracing::info!(%stream, host, port, path, "stream is pulled");
    }

    /// Asks one origin after the other until one of them has the stream. Returns the events that
    /// follow; `None` if none has it.
    async fn first(
        &mut self,
        pull: &Pull,
        mut events: mpsc::Receiver<PullEvent>,
    ) -> Option<mpsc::Receiver<PullEvent>> {
        loop {
            match events.recv().await? {
                PullEvent::FirstData { source, provenance } => {
                    self.note(&source, &provenance);
                    self.present = Some((source, false));
                    return Some(events);
                }
                PullEvent::Failed { source, why } => {
                    self.why = format!("{}: {why}", source.address.host);
                    self.place += 1;
                    if self.place >= self.directory.origins.len() {
                        return None;
                    }
                    pull.replace(self.source());
                }
                // An origin that is late may be the only one.
                PullEvent::Stalled { .. } | PullEvent::Resumed => {}
                PullEvent::CodecChanged { .. } => {}
                PullEvent::Ended => return None,
            }
        }
    }

    fn note_failure(&mut self, source: &PullSource, why: &PullFailure) {
        if let Some((present, is_silent)) = &mut self.present
            && present == source
        {
            match why {
                PullFailure::Silent => *is_silent = true,
                _ => self.present = None,
            }
        }
    }

    /// Whether another origin has to be asked. A silent one is still read, so one that is the only
    /// origin is waited for.
    fn needs_another(&self) -> bool {
        match &self.present {
            Some((_, is_silent)) => *is_silent && self.directory.origins.len() > 1,
            None => true,
        }
    }

    /// Asks the next origin that is not read already, after a pause if all have failed.
    async fn ask_next(&mut self, pull: &Pull) {
        let count = self.directory.origins.len();
        self.failed += 1;
        if self.failed > count {
            self.failed = 1;
            let pause = ROUND_PAUSES[self.rounds.min(ROUND_PAUSES.len() - 1)];
            self.rounds += 1;
            tokio::time::sleep(pause).await;
        }
        self.place = (self.place + 1) % count;
        let present = self.present.as_ref().map(|(source, _)| source);
        if present == Some(&self.source()) {
            self.place = (self.place + 1) % count;
        }
        pull.replace(self.source());
    }

    /// Keeps the stream live for as long as somebody needs it: whenever its origin fails, the others
    /// are asked, and then all of them again.
    async fn keep(&mut self, pull: &Pull, mut events: mpsc::Receiver<PullEvent>) {
        while let Some(event) = events.recv().await {
            match event {
                PullEvent::FirstData { source, provenance } => {
                    self.note(&source, &provenance);
                    (self.failed, self.rounds) = (0, 0);
                    self.present = Some((source, false));
                }
                PullEvent::Failed { source, why } => {
                    self.note_failure(&source, &why);
                    if self.needs_another() {
                        self.ask_next(pull).await;
                    }
                }
                PullEvent::CodecChanged { source } => {
                    let stream = self.stream.name();
                    tracing::info!(%stream, host = source.address.host, "pulled stream has other codecs");
                }
                // An origin that is late may be the only one.
                PullEvent::Stalled { .. } | PullEvent::Resumed => {}
                PullEvent::Ended => return,
            }
        }
    }
}
