//! Streams over QUIC, as MoQ: published into the hub, and read from it.
//!
//! ```text
//! Server ─ Incoming ─► rights ─┬► ingest: announced broadcasts ─► hub
//!                              └► egress: the hub's streams, one Collection for all sessions
//! ```
//!
//! Rights are checked before any media is read: until then a session may have 256 KiB under way,
//! and nothing requests more. A publisher that announces streams beyond its rights, or with invalid
//! names, is disconnected with a reason.

// This crate is outside the sans-IO cores: sessions end by the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod access;
mod account;
mod broadcasts;
mod certificate_source;
mod collection;
mod counters;
mod exclusion;
mod failures;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grants;
#[cfg(test)]
#[path = "../../access/tests/login_cases/mod.rs"]
mod login_cases;
mod messages;
mod metrics;
mod newcomer_rates;
mod nodes;
mod pinned;
mod places;
mod service;
mod shared;
mod shown;
mod start_error;
mod upkeep;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::auth::{Sites, Users};
use glassline_config as config;
use glassline_congestion::Algorithm;
use glassline_egress::moq;
use glassline_events::failures::Failures;
use glassline_hub::Hub;
use glassline_quic::moq::{Incoming, Origin, Refusal, Role, Server, Session};
use glassline_quic::{CongestionControl, Fingerprint, ListenError};
use glassline_rooms as rooms;
use glassline_runtime::{
    Clock, Current, FaultPoint, Heartbeat, Part, Supervisor, calendar, keep_running, spawn_kept,
};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

use access::{Rights, rights};
use account::{Accounts, Reads, SessionEntry};
use collection::{Collection, replaced};
use counters::Counters;
use grants::{grant, rights_request};
use newcomer_rates::ListenerRates;
use nodes::Nodes;
use places::{Handshake, Places};
use upkeep::look_after;

pub use account::{Sender, SessionView};
pub use certificate_source::CertificateSource;
pub(crate) use counters::Reason;
pub use nodes::NodeServices;
pub use service::MoqService;
pub use shared::Shared;
pub use start_error::StartError;

/// Interval at which the listener shows that it makes progress.
const TICK: Duration = Duration::from_secs(1);

/// Time that sessions have to close when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// The running QUIC listener.
#[derive(Debug)]
pub struct Quic {
    shared: Arc<Shared>,
    local: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

/// The parts of the server that sessions use.
#[derive(Clone, Debug)]
struct SessionContext {
    hub: Arc<Hub>,
    users: Arc<Users>,
    sites: Arc<Sites>,
    /// Address that the server listens on.
    local: SocketAddr,
    /// Collection that has every stream.
    all: Arc<Collection>,
    /// Collection that has every stream but the voices of rooms.
    without_rooms: Arc<Collection>,
    accounts: Arc<Accounts>,
    counters: Arc<Counters>,
    failures: Arc<Failures>,
    supervisor: Arc<Supervisor>,
    /// The part that other servers of the cluster read; `None` for a server alone.
    nodes: Option<Nodes>,
    /// SHA-256 of the present certificate.
    fingerprint: watch::Receiver<Fingerprint>,
}

/// The parts of the server that QUIC needs.
#[derive(Debug)]
pub struct Services {
    /// The streams of the server.
    pub hub: Arc<Hub>,
    /// Users and tokens, and the rights that they give.
    pub users: Arc<Users>,
    /// Which pages of browsers may use the server.
    pub sites: Arc<Sites>,
    /// The clock that frames are stamped by.
    pub clock: Clock,
    /// The connections that failed.
    pub failures: Arc<Failures>,
    /// The supervisor of the tasks.
    pub supervisor: Arc<Supervisor>,
    /// The services for other servers; `None` for a server alone.
    pub cluster: Option<NodeServices>,
}

impl Quic {
    /// Listens if `config` has an address, with the certificate of `source`. Must be called within
    /// tokio.
    pub fn start(
        config: &config::Quic,
        source: CertificateSource,
        services: Services,
        stopped: &watch::Receiver<bool>,
    ) -> Result<Option<Self>, StartError> {
        let Some(address) = config.address else {
            return Ok(None);
        };
        let identity = source.identity(calendar::now())?;
        let rates = Box::<ListenerRates>::default();
        let server = Server::bind_public(address, &identity, rates)
            .map_err(|source| StartError::Listen { address, source })?;
        let local = server.local_addr().map_err(ListenError::from);
        let local = local.map_err(|source| StartError::Listen { address, source })?;
        let server = Arc::new(server);
        let counters = Arc::<Counters>::default();
        let (hub, supervisor) = (&services.hub, &services.supervisor);
        let of_egress = moq::Services {
            left_out: Arc::clone(counters.left_out()),
            clock: services.clock,
            supervisor: Arc::clone(supervisor),
            remote: services.cluster.as_ref().and_then(nodes::remote_streams),
        };
        let offering =
            |name, has| Collection::start(name, has, hub, &of_egress, supervisor, stopped);
        let (all, offering_all) = offering("QUIC: all streams", |_| true);
        let (without_rooms, offering_public) =
            offering("QUIC: streams but rooms", |name| !rooms::is_voice(name));
        let fingerprint = watch::Sender::new(identity.fingerprint());
        let (nodes, offering_nodes) =
            Nodes::start(services.cluster, hub, supervisor, stopped).unzip();
        let context = SessionContext {
            nodes,
            fingerprint: fingerprint.subscribe(),
            hub: Arc::clone(hub),
            users: services.users,
            sites: services.sites,
            local,
            all,
            without_rooms,
            accounts: Arc::default(),
            counters,
            failures: services.failures,
            supervisor: Arc::clone(supervisor),
        };
        let places = Arc::new(Places::new(config.clients, config.clients_per_address()));
        let shared = Arc::new(Shared {
            accounts: Arc::clone(&context.accounts),
            counters: Arc::clone(&context.counters),
            fingerprint,
            next_fingerprint: Current::new(source.next()),
            server: Arc::clone(&server),
            places: Arc::clone(&places),
            congestion: Arc::new(Current::new(config.congestion)),
        });
        let congestion = Arc::clone(&shared.congestion);
        let accepting = accept(server, context, places, congestion, stopped.clone());
        let (renewed, stop) = (Arc::clone(&shared), stopped.clone());
        let looking_after = move || {
            let shared = Arc::clone(&renewed);
            look_after(source.clone(), shared, stop.clone())
        };
        let (of, until) = (supervisor, stopped);
        let mut tasks = vec![
            offering_all,
            offering_public,
            tokio::spawn(accepting),
            spawn_kept(
                of,
                Part::Quic.task("QUIC certificate"),
                until,
                looking_after,
            ),
        ];
        tasks.extend(offering_nodes);
        Ok(Some(Self {
            shared,
            local,
            tasks,
        }))
    }

    /// Returns the UDP address that the server listens at.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the parts that all sessions have in common.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until all tasks of the listener have ended.
    pub async fn join(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Accepts sessions until the server is stopped, and then ends them. After a panic it goes on
/// accepting, and the sessions go on, too; after panics again and again the server fails.
async fn accept(
    server: Arc<Server>,
    context: SessionContext,
    places: Arc<Places>,
    congestion: Arc<Current<Algorithm>>,
    stopped: watch::Receiver<bool>,
) {
    let supervisor = Arc::clone(&context.supervisor);
    let heartbeat = supervisor.register(Part::Quic, "quic");
    let acceptor = Acceptor {
        server: Arc::clone(&server),
        context,
        places,
        congestion,
        stopped: stopped.clone(),
        sessions: JoinSet::new(),
    };
    // The lock is free whenever accepting begins anew.
    let acceptor = Mutex::new(acceptor);
    let accepting = || async { acceptor.lock().await.run(&heartbeat).await };
    keep_running(supervisor, Part::Quic.task("quic"), stopped, accepting).await;
    // Each session closes by itself; those that do not are closed with the socket.
    let mut sessions = acceptor.into_inner().sessions;
    let leaving = async { while sessions.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, leaving).await;
    server.close("the server shuts down");
    let _ = tokio::time::timeout(FAREWELL, server.idle()).await;
}

/// Accepts sessions and starts a task for each.
struct Acceptor {
    server: Arc<Server>,
    context: SessionContext,
    places: Arc<Places>,
    congestion: Arc<Current<Algorithm>>,
    stopped: watch::Receiver<bool>,
    sessions: JoinSet<()>,
}

impl Acceptor {
    /// Accepts sessions until the server is stopped.
    async fn run(&mut self, heartbeat: &Heartbeat) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let incoming = tokio::select! {
                incoming = self.server.accept(
                    || CongestionControl::new(*self.congestion.get()),
                    |peer| self.places.must_prove(peer),
                ) => incoming,
                Some(ended) = self.sessions.join_next() => {
                    self.context.supervisor.note_end(Part::Quic, &ended);
                    continue;
                }
                _ = ticks.tick() => {
                    heartbeat.beat();
                    continue;
                }
                _ = self.stopped.wait_for(|stop| *stop) => return,
            };
            let Some(incoming) = incoming else { return };
            let Some(handshake) = self.places.admit(incoming.peer().ip()) else {
                self.context
                    .note_full(incoming.peer(), incoming.is_validated());
                // A connection that is dropped here is refused by QUIC.
                continue;
            };
            let (context, stopped) = (self.context.clone(), self.stopped.clone());
            let serving = serve(incoming, handshake, context, stopped);
            self.sessions.spawn(serving);
        }
    }
}

/// Serves one session from its first request to its end.
async fn serve(
    incoming: Incoming,
    handshake: Handshake,
    context: SessionContext,
    mut stopped: watch::Receiver<bool>,
) {
    let entry = context.accounts.enter();
    let (peer, is_validated) = (incoming.peer(), incoming.is_validated());
    let opening = open(incoming, &entry, &context);
    let opened = tokio::select! {
        opened = opening => opened,
        () = handshake.evicted() => {
            context.note_eviction(peer, is_validated);
            None
        }
    };
    let Some(mut opened) = opened else { return };
    let Some(mut place) = handshake.establish() else {
        context.note_full(peer, true);
        return opened.session.abort(Refusal::Full);
    };
    context.counters.accept();
    let session = &opened.session;
    context.supervisor.fault_point(FaultPoint::QuicSession);
    let taking = broadcasts::publish_all(
        session,
        &opened.account,
        &opened.rights,
        &opened.folder,
        &context,
    );
    let account = &opened.account;
    let lost = opened.rights.lost(
        opened.only.as_deref(),
        || account.published(),
        &context.users,
        &mut opened.replaced,
    );
    tokio::select! {
        ended = session.ended() => {
            tracing::debug!(%peer, %ended, "QUIC session ended");
            match account.dismissed() {
                Some(_) => {}
                None => context.note_unread(peer, &opened),
            }
        }
        () = taking => {}
        _ = stopped.wait_for(|stop| *stop) => session.abort(Refusal::Shutdown),
        () = lost => {
            tracing::info!(%peer, "QUIC session closed: the rights of its user have changed");
            session.abort(Refusal::Unauthorized);
        }
        () = replaced(&mut opened.collection) => {
            tracing::info!(%peer, "QUIC session closed: the streams that it reads are offered anew");
            session.abort(Refusal::Restart);
        }
        () = place.evicted(|| account.is_idle()) => {
            context.note_idle(peer);
            session.abort(Refusal::Full);
        }
    }
    context.note_dismissed(peer, &opened);
}

/// A session whose client was granted what it asked for.
struct OpenedSession {
    session: Arc<Session>,
    account: Arc<account::Account>,
    rights: Rights,
    /// Names that the session may read; `None` if all.
    only: Option<Vec<String>>,
    /// Tells when users are replaced.
    replaced: watch::Receiver<()>,
    /// Tells when the origin that the session reads is replaced; `None` if it only publishes.
    collection: Option<watch::Receiver<Origin>>,
    /// Path that the names of its broadcasts are relative to.
    folder: String,
    role: Role,
}

/// Completes the handshake, reads the client's request and grants it. `None` if the client has no
/// right or left, which is counted and logged.
async fn open(
    incoming: Incoming,
    entry: &SessionEntry,
    context: &SessionContext,
) -> Option<OpenedSession> {
    let (peer, is_validated) = (incoming.peer(), incoming.is_validated());
    let request = match incoming.request().await {
        Ok(request) => request,
        Err(error) => {
            context.note_handshake(peer, is_validated, &error);
            return None;
        }
    };
    // Before the rights are read, so that no change after that is missed.
    let mut replaced = context.users.watch();
    replaced.mark_unchanged();
    let own = *context.fingerprint.borrow();
    let nodes = context.nodes.as_ref();
    if let Some(verified) = nodes::verify(nodes, request.query(), own) {
        return nodes::open(request, verified, entry, context, replaced).await;
    }
    let rights = match rights(
        &context.users,
        &context.sites,
        &rights_request(&request, context),
    )
    .await
    {
        Ok(rights) => rights,
        Err(error) => {
            context.counters.refuse(Reason::Unauthorized);
            context.note_refusal(peer, request.path(), request.role(), &error);
            request.refuse(Refusal::Unauthorized);
            return None;
        }
    };
    let (folder, role) = (request.path().to_owned(), request.role());
    let (grant, collection) = grant(&rights, context);
    let collection = collection.filter(|_| role != Role::Publisher);
    let only = grant.only.clone();
    let reads = match grant.read {
        Some(_) => Reads::AsClient,
        None => Reads::Nothing,
    };
    nodes::begin_named(&request, &rights, context);
    let session = match request.grant(grant).await {
        Ok(session) => Arc::new(session),
        Err(error) => {
            context.note_lost(peer, &error);
            return None;
        }
    };
    let account = entry.open(&session, reads, Instant::now());
    Some(OpenedSession {
        session,
        account,
        rights,
        only,
        replaced,
        collection,
        folder,
        role,
    })
}
