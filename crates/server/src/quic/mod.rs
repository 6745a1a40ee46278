//! Streams over QUIC, as MoQ: published into the hub, and read from it.
//!
//! ```text
//! Server ─ Incoming ─► rights ─┬► ingest: announced broadcasts ─► hub
//!                              └► egress: the hub's streams, one Origin for all sessions
//! ```
//!
//! Rights are checked before any media is read: until then a session may have 256 KiB under way,
//! and nothing requests more. A publisher that announces streams beyond its rights, or with invalid
//! names, is disconnected with a reason.

mod access;
mod account;
mod broadcasts;
mod counters;
mod places;
mod renewal;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_hub::Hub;
use glassline_quic::moq::{Grant, Incoming, Origin, Refusal, Server, Session, SessionRequest};
use glassline_quic::{CongestionControl, Fingerprint, Identity, IdentityError, ListenError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::auth::{self, Readable, Requester, Sites, Users};
use crate::config;
use crate::egress::moq;
use crate::rooms;
use crate::runtime::{Clock, Part, Supervisor, calendar, spawn_kept};
use access::{Rights, RightsRequest, Scope, rights};
use account::{Accounts, SessionEntry};
use counters::Counters;
use places::{Handshake, Places};

pub(crate) use account::{Sender, SessionView};
pub(crate) use counters::Reason;
pub use start_error::StartError;

/// Time that sessions have to close when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// The running QUIC listener.
#[derive(Debug)]
pub(crate) struct Quic {
    shared: Arc<Shared>,
    local: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

/// The part of the QUIC listener that HTTP uses.
#[derive(Debug)]
pub(crate) struct Shared {
    accounts: Arc<Accounts>,
    counters: Arc<Counters>,
    fingerprint: watch::Sender<Fingerprint>,
    server: Arc<Server>,
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
    origin: Origin,
    /// Collection that has every stream but the voices of rooms.
    without_rooms: Origin,
    accounts: Arc<Accounts>,
    counters: Arc<Counters>,
    supervisor: Arc<Supervisor>,
}

impl Quic {
    /// Listens if `config` has an address. Must be called within tokio.
    pub(crate) fn start(
        config: &config::Quic,
        hub: &Arc<Hub>,
        (users, sites): (&Arc<Users>, &Arc<Sites>),
        clock: Clock,
        supervisor: &Arc<Supervisor>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<Option<Self>, StartError> {
        let Some(address) = config.address else {
            return Ok(None);
        };
        let identity = config.identity()?;
        let server = Server::bind(address, &identity)
            .map_err(|source| StartError::Listen { address, source })?;
        let local = server.local_addr().map_err(ListenError::from);
        let local = local.map_err(|source| StartError::Listen { address, source })?;
        let server = Arc::new(server);
        let context = SessionContext {
            hub: Arc::clone(hub),
            users: Arc::clone(users),
            sites: Arc::clone(sites),
            local,
            origin: Origin::with_deadline(moq::DEADLINE),
            without_rooms: Origin::with_deadline(moq::DEADLINE),
            accounts: Arc::default(),
            counters: Arc::default(),
            supervisor: Arc::clone(supervisor),
        };
        let shared = Arc::new(Shared {
            accounts: Arc::clone(&context.accounts),
            counters: Arc::clone(&context.counters),
            fingerprint: watch::Sender::new(identity.fingerprint()),
            server: Arc::clone(&server),
        });
        let offering = |origin: &Origin, has: fn(&str) -> bool| {
            let (hub, origin) = (Arc::clone(hub), origin.clone());
            let left_out = Arc::clone(context.counters.left_out());
            let stopped = stopped.clone();
            move || {
                let origin = origin.clone();
                let offer = moq::Offer { origin, has };
                let (hub, left_out) = (Arc::clone(&hub), Arc::clone(&left_out));
                moq::run(hub, offer, left_out, clock, stopped.clone())
            }
        };
        let all = offering(&context.origin, |_| true);
        let public = offering(&context.without_rooms, |name| !rooms::is_voice(name));
        let places = Arc::new(Places::new(config.clients, config.clients_per_address()));
        let congestion = config.congestion;
        let (accepting, stop) = (server, stopped.clone());
        let accepting = move || {
            let server = Arc::clone(&accepting);
            let places = Arc::clone(&places);
            accept(server, context.clone(), places, congestion, stop.clone())
        };
        let (renewed, stop) = (Arc::clone(&shared), stopped.clone());
        let (config, renew_after) = (config.clone(), identity.renew_after());
        let looking_after = move || {
            let shared = Arc::clone(&renewed);
            look_after(config.clone(), renew_after, shared, stop.clone())
        };
        let (of, until) = (supervisor, stopped);
        let tasks = vec![
            spawn_kept(of, (Part::Quic, "QUIC: all streams"), until, all),
            spawn_kept(of, (Part::Quic, "QUIC: streams but rooms"), until, public),
            spawn_kept(of, (Part::Quic, "QUIC listener"), until, accepting),
            spawn_kept(of, (Part::Quic, "QUIC certificate"), until, looking_after),
        ];
        Ok(Some(Self {
            shared,
            local,
            tasks,
        }))
    }

    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) async fn join(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

impl Shared {
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.borrow()
    }

    /// Uses another certificate for new connections. Returns whether it differs from the one before.
    ///
    /// # Errors
    /// The certificate and its key are not usable together; the old certificate stays.
    pub(crate) fn renew(&self, identity: &Identity) -> Result<bool, IdentityError> {
        self.server.renew(identity)?;
        let fingerprint = identity.fingerprint();
        Ok(self.fingerprint.send_replace(fingerprint) != fingerprint)
    }

    pub(crate) fn sessions(&self, now: Instant) -> Vec<SessionView> {
        self.accounts.views(now)
    }

    /// Returns the number of sessions and of handshakes under way.
    pub(crate) fn taken(&self) -> usize {
        self.accounts.taken()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

async fn accept(
    server: Arc<Server>,
    context: SessionContext,
    places: Arc<Places>,
    congestion: Algorithm,
    mut stopped: watch::Receiver<bool>,
) {
    let mut sessions = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = server.accept(
                || CongestionControl::new(congestion),
                |peer| places.must_prove(peer),
            ) => incoming,
            Some(ended) = sessions.join_next() => {
                context.supervisor.note_end(Part::Quic, &ended);
                continue;
            }
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let Some(incoming) = incoming else { break };
        let Some(handshake) = places.admit(incoming.peer().ip()) else {
            context.counters.refuse(Reason::Full);
            // A connection that is dropped here is refused by QUIC.
            continue;
        };
        sessions.spawn(serve(incoming, handshake, context.clone(), stopped.clone()));
    }
    // Each session closes by itself; those that do not are closed with the socket.
    let leaving = async { while sessions.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, leaving).await;
    server.close("the server shuts down");
    let _ = tokio::time::timeout(FAREWELL, server.idle()).await;
}

/// Serves one session from its first request to its end.
async fn serve(
    incoming: Incoming,
    handshake: Handshake,
    context: SessionContext,
    mut stopped: watch::Receiver<bool>,
) {
    let entry = context.accounts.enter();
    let peer = incoming.peer();
    let opening = open(incoming, &entry, &context);
    let opened = tokio::select! {
        opened = opening => opened,
        () = handshake.evicted() => {
            context.counters.refuse(Reason::Full);
            tracing::debug!(%peer, "QUIC handshake ended: others need its place");
            None
        }
    };
    let Some(mut opened) = opened else { return };
    let Some(_permit) = handshake.establish() else {
        context.counters.refuse(Reason::Full);
        return opened.session.abort(Refusal::Full);
    };
    context.counters.accept();
    let session = &opened.session;
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
        ended = session.ended() => tracing::debug!(%peer, %ended, "QUIC session ended"),
        () = taking => {}
        _ = stopped.wait_for(|stop| *stop) => session.abort(Refusal::Shutdown),
        () = lost => {
            tracing::info!(%peer, "QUIC session closed: the rights of its user have changed");
            session.abort(Refusal::Unauthorized);
        }
    }
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
    /// Path that the names of its broadcasts are relative to.
    folder: String,
}

/// Completes the handshake, reads the client's request and grants it. `None` if the client has no
/// right or left, which is counted and logged.
async fn open(
    incoming: Incoming,
    entry: &SessionEntry,
    context: &SessionContext,
) -> Option<OpenedSession> {
    let peer = incoming.peer();
    let request = match incoming.request().await {
        Ok(request) => request,
        Err(error) => {
            context.counters.refuse(Reason::Handshake);
            tracing::debug!(%peer, %error, "QUIC handshake failed");
            return None;
        }
    };
    // Before the rights are read, so that no change after that is missed.
    let mut replaced = context.users.watch();
    replaced.mark_unchanged();
    let rights = match rights(
        &context.users,
        &context.sites,
        &rights_request(&request, context),
    )
    .await
    {
        Ok(rights) => rights,
        Err(error) => {
            let role = request.role();
            context.counters.refuse(Reason::Unauthorized);
            tracing::info!(%peer, ?role, "QUIC session refused: {error}");
            request.refuse(Refusal::Unauthorized);
            return None;
        }
    };
    let folder = request.path().to_owned();
    let grant = grant(&rights, context);
    let only = grant.only.clone();
    let reads = grant.read.is_some();
    let session = match request.grant(grant).await {
        Ok(session) => Arc::new(session),
        Err(error) => {
            tracing::debug!(%peer, %error, "QUIC session ended during its handshake");
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
        folder,
    })
}

fn rights_request<'a>(request: &'a SessionRequest, context: &SessionContext) -> RightsRequest<'a> {
    let peer = request.peer().ip();
    // A client with a loopback address has reached one, even if the server listens on all.
    let local = match peer.to_canonical().is_loopback() {
        true => SocketAddr::new(peer, context.local.port()),
        false => context.local,
    };
    RightsRequest {
        by: Requester::direct(peer, auth::Listener::Quic),
        local,
        page: request.page(),
        query: request.query(),
        role: request.role(),
    }
}

fn grant(rights: &Rights, context: &SessionContext) -> Grant {
    let (read, only) = match &rights.read {
        None => (None, None),
        Some(Readable::All) => (Some(&context.origin), None),
        Some(Readable::AllButRooms) => (Some(&context.without_rooms), None),
        Some(Readable::OfUser(name)) => (Some(&context.origin), Some(context.users.readable(name))),
    };
    Grant {
        publish: rights.publish != Scope::None,
        read: read.cloned(),
        only,
    }
}

/// Measures sessions once a second, and makes another certificate in time.
async fn look_after(
    config: config::Quic,
    mut renew_after: Option<Duration>,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut made = calendar::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        shared.accounts.measure(Instant::now());
        let due =
            renew_after.is_some_and(|after| renewal::is_outdated(made, calendar::now(), after));
        if due {
            made = calendar::now();
            match config
                .identity()
                .map_err(StartError::from)
                .and_then(|it| Ok((shared.renew(&it)?, it.renew_after())))
            {
                Ok((_, after)) => {
                    renew_after = after;
                    let sha256 = shared.fingerprint();
                    tracing::info!(%sha256, "QUIC certificate renewed: clients that pin it need this fingerprint");
                }
                Err(error) => {
                    tracing::error!(%error, "cannot renew the QUIC certificate: the previous one stays in use");
                }
            }
        }
    }
}
