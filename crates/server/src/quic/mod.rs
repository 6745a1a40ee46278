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
mod counters;
mod renewal;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_hub::{Hub, PublishError, State, StreamName};
use glassline_quic::moq::{
    Announcement, Ended, Grant, Incoming, Origin, Refusal, Server, Session, SessionRequest,
    SubscribeError,
};
use glassline_quic::{CongestionControl, Fingerprint, Identity, ListenError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::auth::{self, Access, Readable, Requester, Sites, Users};
use crate::config;
use crate::egress::moq;
use crate::ingest::moq::{BroadcastError, BroadcastIngest};
use crate::rooms;
use crate::runtime::{Clock, Part, Supervisor, calendar, spawn_kept};
use access::{Rights, RightsRequest, Scope, rights};
use account::{Accounts, SessionPermit};
use counters::Counters;

pub(crate) use account::{Sender, SessionView};
pub(crate) use counters::Reason;
pub use start_error::StartError;

/// Most broadcasts that one session may publish.
const BROADCASTS_MAX: usize = 16;

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
            origin: Origin::new(),
            without_rooms: Origin::new(),
            accounts: Arc::default(),
            counters: Arc::default(),
            supervisor: Arc::clone(supervisor),
        };
        let shared = Arc::new(Shared {
            accounts: Arc::clone(&context.accounts),
            counters: Arc::clone(&context.counters),
            fingerprint: watch::Sender::new(identity.fingerprint()),
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
        let limits = Limits {
            clients: config.clients,
            congestion: config.congestion,
        };
        let (accepting, stop) = (Arc::clone(&server), stopped.clone());
        let accepting = move || {
            let server = Arc::clone(&accepting);
            accept(server, context.clone(), limits, stop.clone())
        };
        let (renewed, stop) = (Arc::clone(&shared), stopped.clone());
        let (config, renew_after) = (config.clone(), identity.renew_after());
        let looking_after = move || {
            let (server, shared) = (Arc::clone(&server), Arc::clone(&renewed));
            look_after(server, config.clone(), renew_after, shared, stop.clone())
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

#[derive(Clone, Copy, Debug)]
struct Limits {
    clients: usize,
    congestion: Algorithm,
}

async fn accept(
    server: Arc<Server>,
    context: SessionContext,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let mut sessions = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = server.accept(|| CongestionControl::new(limits.congestion)) => incoming,
            Some(ended) = sessions.join_next() => {
                context.supervisor.note_end(Part::Quic, &ended);
                continue;
            }
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let Some(incoming) = incoming else { break };
        let Some(permit) = context.accounts.admit(limits.clients) else {
            context.counters.refuse(Reason::Full);
            // A connection that is dropped here is refused by QUIC.
            continue;
        };
        sessions.spawn(serve(incoming, permit, context.clone(), stopped.clone()));
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
    permit: SessionPermit,
    context: SessionContext,
    mut stopped: watch::Receiver<bool>,
) {
    let peer = incoming.peer();
    let request = match incoming.request().await {
        Ok(request) => request,
        Err(error) => {
            context.counters.refuse(Reason::Handshake);
            tracing::debug!(%peer, %error, "QUIC handshake failed");
            return;
        }
    };
    // Before the rights are read, so that no change after that is missed.
    let mut replaced = context.users.watch();
    replaced.mark_unchanged();
    let rights = match rights(
        &context.users,
        &context.sites,
        &rights_request(&request, &context),
    )
    .await
    {
        Ok(rights) => rights,
        Err(error) => {
            let role = request.role();
            context.counters.refuse(Reason::Unauthorized);
            tracing::info!(%peer, ?role, "QUIC session refused: {error}");
            return request.refuse(Refusal::Unauthorized);
        }
    };
    let folder = request.path().to_owned();
    let grant = grant(&rights, &context);
    let only = grant.only.clone();
    let reads = grant.read.is_some();
    let session = match request.grant(grant).await {
        Ok(session) => Arc::new(session),
        Err(error) => {
            tracing::debug!(%peer, %error, "QUIC session ended during its handshake");
            return;
        }
    };
    context.counters.accept();
    let account = permit.open(&session, reads, Instant::now());
    let taking = take(&session, &account, &rights, &folder, &context);
    tokio::select! {
        ended = session.ended() => tracing::debug!(%peer, %ended, "QUIC session ended"),
        () = taking => {}
        _ = stopped.wait_for(|stop| *stop) => session.abort(Refusal::Shutdown),
        () = rights.lost(only.as_deref(), &context.users, &mut replaced) => {
            tracing::info!(%peer, "QUIC session closed: the rights of its user have changed");
            session.abort(Refusal::Unauthorized);
        }
    }
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

/// Publishes the broadcasts of a session until it does something that it may not.
async fn take(
    session: &Arc<Session>,
    account: &Arc<account::Account>,
    rights: &Rights,
    folder: &str,
    context: &SessionContext,
) {
    let mut announced = session.announced();
    let mut broadcasts = JoinSet::new();
    let fault = loop {
        let announcement = tokio::select! {
            announcement = announced.next() => announcement,
            Some(ended) = broadcasts.join_next() => {
                context.supervisor.note_end(Part::Quic, &ended);
                match ended {
                    Ok(Some(fault)) => break fault,
                    Ok(None) => continue,
                    // The session's data led to a panic: all of the session goes.
                    Err(_) => break (Refusal::Malformed, Reason::Frame),
                }
            }
        };
        let Some(Announcement::Began(path)) = announcement else {
            match announcement {
                // The session only reads, or is about to end.
                None => std::future::pending().await,
                _ => continue,
            }
        };
        let name = match named(folder, &path, rights, context) {
            Ok(name) => name,
            Err(fault) => break fault,
        };
        if account.broadcasts() >= BROADCASTS_MAX {
            break (Refusal::Full, Reason::Full);
        }
        let ingest = BroadcastIngest {
            hub: Arc::clone(&context.hub),
            session: Arc::clone(session),
            received_bytes: Arc::clone(account.received_bytes()),
            late_groups: Arc::clone(context.counters.late_groups()),
            name,
        };
        broadcasts.spawn(publish(ingest, Arc::clone(account), path));
    };
    let (refusal, reason) = fault;
    context.counters.refuse(reason);
    tracing::info!(peer = %session.peer(), reason = reason.as_str(), "QUIC session closed: {refusal}");
    session.abort(refusal);
    session.ended().await;
}

type Fatal = (Refusal, Reason);

/// Returns the name of the stream that a broadcast becomes.
fn named(
    folder: &str,
    path: &str,
    rights: &Rights,
    context: &SessionContext,
) -> Result<StreamName, Fatal> {
    let whole = if folder.is_empty() || path.is_empty() {
        format!("{folder}{path}")
    } else {
        format!("{folder}/{path}")
    };
    let shown: String = whole.chars().take(80).collect();
    let name = StreamName::parse(&whole).map_err(|error| {
        tracing::info!(path = shown, %error, "publisher refused: the announced name is not a valid stream name");
        (Refusal::Name, Reason::Name)
    })?;
    if !rights
        .publish
        .covers(&context.users, Access::Publish, &whole)
    {
        tracing::info!(stream = %name, "publisher refused: it has no right to publish this stream");
        return Err((Refusal::Unauthorized, Reason::Unauthorized));
    }
    let present = context.hub.lookup(&name).map_err(|error| {
        tracing::warn!(stream = %name, %error, "stream cannot be published");
        (Refusal::Full, Reason::Full)
    })?;
    if present.is_some_and(|stream| matches!(stream.state(), State::Live { .. })) {
        tracing::info!(stream = %name, "publisher refused: the stream has a source already");
        return Err((Refusal::Busy, Reason::Busy));
    }
    Ok(name)
}

/// Publishes a broadcast until it ends. Returns the reason to disconnect its publisher, if there is
/// one.
async fn publish(
    ingest: BroadcastIngest,
    account: Arc<account::Account>,
    path: String,
) -> Option<Fatal> {
    let stream = ingest.name.as_str().to_owned();
    account.publishes(&stream, true);
    let end = ingest.run(&path).await;
    account.publishes(&stream, false);
    let fault = end.err()?;
    let Some(reason) = reason_of(&fault) else {
        tracing::info!(stream, %fault, "publisher left");
        return None;
    };
    tracing::warn!(stream, peer = %ingest.session.peer(), %fault, "publisher disconnected");
    let refusal = match fault {
        BroadcastError::Publish(PublishError::Busy { .. }) => Refusal::Busy,
        BroadcastError::Create(_) => Refusal::Full,
        _ => Refusal::Malformed,
    };
    Some((refusal, reason))
}

/// Returns the reason that the end of a broadcast is counted under; `None` for an ordinary end.
fn reason_of(fault: &BroadcastError) -> Option<Reason> {
    Some(match fault {
        BroadcastError::Subscribe(SubscribeError::Ended(Ended::Protocol(_))) => Reason::Frame,
        BroadcastError::Subscribe(SubscribeError::Ended(_) | SubscribeError::PublishOnly) => {
            return None;
        }
        BroadcastError::Subscribe(SubscribeError::Frame(_)) => Reason::Frame,
        BroadcastError::Subscribe(_) => Reason::Catalog,
        BroadcastError::Silent | BroadcastError::NoKeyframe => Reason::Silent,
        BroadcastError::Publish(PublishError::Busy { .. }) => Reason::Busy,
        BroadcastError::Publish(_) => Reason::Catalog,
        BroadcastError::Create(_) => Reason::Full,
    })
}

/// Measures sessions once a second, and makes another certificate in time.
async fn look_after(
    server: Arc<Server>,
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
                .and_then(|it| renew(&server, &it))
            {
                Ok((fingerprint, after)) => {
                    renew_after = after;
                    tracing::info!(sha256 = %fingerprint, "QUIC certificate renewed: clients that pin it need this fingerprint");
                    shared.fingerprint.send_replace(fingerprint);
                }
                Err(error) => {
                    tracing::error!(%error, "cannot renew the QUIC certificate: the previous one stays in use");
                }
            }
        }
    }
}

fn renew(
    server: &Server,
    identity: &Identity,
) -> Result<(Fingerprint, Option<Duration>), StartError> {
    server.renew(identity)?;
    Ok((identity.fingerprint(), identity.renew_after()))
}
