//! The engine: keeps a session, and hands requests to it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use glassline_cluster::engine::{Answer, CallError, Reply, Request};
use parking_lot::Mutex;
use rand::seq::SliceRandom;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use url::Url;

use crate::backoff::Backoff;
use crate::bucket::{self, Bucket};
use crate::connection::{ConnectFailure, Connection, FailureKind};
use crate::monitoring;
use crate::options::{Options, ServerUrl};
use crate::queue::{EngineEvents, Pledge, Queue};
use crate::session::Session;
use crate::status::{Link, Status};
use crate::store::{self, ApiFailure};

/// Most requests that have no answer, or whose answer the core has not read.
const REQUESTS_MAX: usize = 1_024;

/// Pauses between rounds through all servers.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Interval at which the settings of the buckets are looked at.
const INSPECTION: Duration = Duration::from_secs(30);

/// Most servers that are known, with those that servers named.
const SERVERS_MAX: usize = 32;

/// The option of JetStream about records that are not yet on disk at a power failure.
pub(crate) const NOT_SYNCED: &str = "sync_interval is not `always`: a power failure of the servers \
     may lose claims; set `jetstream { sync_interval: always }` on each";

/// A refused request: there are 1,024 without answer. The answer is made, so that the core has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy(pub Answer);

/// An engine in NATS, which a tokio runtime drives. Dropping it closes the connection.
///
/// ```no_run
/// # use glassline_cluster_nats::{Engine, EngineEvent, Options};
/// # use glassline_cluster::engine::{Call, Incoming, Request, RequestId};
/// # async fn example(options: Options) {
/// let (engine, mut events) = Engine::start(options);
/// while let Some(event) = events.next().await {
///     if event == EngineEvent::Incoming(Incoming::Connected) {
///         let call = Call::Beat { payload: "{}".into(), is_far: false };
///         let _ = engine.request(Request { id: RequestId(1), call });
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    rooms: Arc<Semaphore>,
    keeper: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    queue: Arc<Queue>,
    session: Mutex<Option<Arc<Session>>>,
    status: watch::Sender<Status>,
    next_question: Arc<AtomicU64>,
}

impl Engine {
    /// Begins to connect. Must be called within a tokio runtime with timers and sockets.
    pub fn start(options: Options) -> (Self, EngineEvents) {
        let shared = Arc::new(Shared {
            options,
            queue: Arc::default(),
            session: Mutex::default(),
            status: watch::Sender::new(Status::default()),
            next_question: Arc::default(),
        });
        let events = EngineEvents(Arc::clone(&shared.queue));
        let keeper = tokio::spawn(keep(Arc::clone(&shared)));
        let rooms = Arc::new(Semaphore::new(REQUESTS_MAX));
        let engine = Self {
            shared,
            rooms,
            keeper,
        };
        (engine, events)
    }

    /// Begins a call; its answer comes through [`EngineEvents::next`]. Never waits. Must be called within
    /// the runtime.
    ///
    /// # Errors
    /// Returns [`Busy`] with the answer if 1,024 requests have no answer, or one that the core has
    /// not read.
    pub fn request(&self, request: Request) -> Result<(), Busy> {
        let Ok(room) = Arc::clone(&self.rooms).try_acquire_owned() else {
            let id = request.id;
            let result = Err(CallError::Away);
            return Err(Busy(Answer { id, result }));
        };
        let pledge = Pledge::new(&request, Arc::clone(&self.shared.queue), room);
        let session = self.shared.session.lock().clone();
        match session {
            Some(session) => session.start(request.call, pledge),
            None => pledge.answer(Err(CallError::Away)),
        }
        Ok(())
    }

    /// Sends the reply to a question of another node. Never waits.
    pub fn reply(&self, reply: Reply) {
        let session = self.shared.session.lock().clone();
        if let Some(session) = session {
            session.reply(reply);
        }
    }

    /// Returns the state of the engine at this moment.
    pub fn status(&self) -> Status {
        let mut status = self.shared.status.borrow().clone();
        status.dropped = self.shared.queue.dropped();
        status
    }

    /// Returns a receiver that wakes at each change of the state. What was dropped is not counted
    /// in it: see [`Engine::status`].
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.keeper.abort();
        self.shared.leave();
        self.shared.queue.close();
    }
}

impl Shared {
    /// Tells the core first, so that no answer of the session comes after its end unmarked.
    fn leave(&self) {
        let session = self.session.lock().take();
        if let Some(session) = session {
            self.queue.disconnected();
            session.end();
            self.status.send_modify(|status| status.link = Link::Away);
        }
    }

    fn warn(&self, warning: &str) {
        self.status.send_if_modified(|status| {
            let is_new = status.warn(warning);
            if is_new {
                tracing::warn!("NATS: {warning}");
            }
            is_new
        });
    }

    fn report(&self, failure: &ConnectFailure) {
        let text = failure.to_string();
        self.status.send_if_modified(|status| {
            let is_new = status.failure.as_ref() != Some(&text) || status.link != Link::Away;
            if is_new {
                tracing::warn!("NATS cannot be used: {text}");
                status.failure = Some(text.clone());
                status.link = Link::Away;
            }
            is_new
        });
    }
}

/// Keeps a session as long as the engine is.
async fn keep(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let mut servers = shared.options.servers.clone();
    let mut number = 0;
    loop {
        servers.shuffle(&mut rand::rng());
        let mut opened = None;
        for server in servers.clone() {
            match open(&shared, &server, number + 1).await {
                Ok(session) => {
                    opened = Some((server, session));
                    break;
                }
                Err(failure) => shared.report(&failure),
            }
        }
        if let Some((server, session)) = opened {
            number += 1;
            learn(&mut servers, &session, &server);
            let began = Instant::now();
            serve(&shared, &server, session, number).await;
            if began.elapsed() >= PAUSE_MAX {
                backoff.reset();
            }
        }
        let pause = backoff.next(&mut rand::rng());
        tokio::time::sleep(pause).await;
    }
}

/// Adds the servers that this one names.
fn learn(servers: &mut Vec<ServerUrl>, session: &Session, server: &ServerUrl) {
    for host_port in &session.link().connection.info.connect_urls {
        let discovered = ServerUrl::discovered(host_port, server.is_tls());
        if let Some(discovered) = discovered
            && servers.len() < SERVERS_MAX
            && !servers.contains(&discovered)
        {
            servers.push(discovered);
        }
    }
}

/// Connects, makes the buckets where they are missing, and begins to listen.
async fn open(
    shared: &Arc<Shared>,
    server: &ServerUrl,
    number: u64,
) -> Result<Arc<Session>, ConnectFailure> {
    let weak = Arc::downgrade(shared);
    let complaint = move |text: String| {
        if let Some(shared) = weak.upgrade() {
            shared.warn(&text);
        }
    };
    let connection = Connection::open(&shared.options, server, complaint).await?;
    let checked = check_buckets(&connection, &shared.options, server).await?;
    for warning in &checked.warnings {
        shared.warn(warning);
    }
    let session = Arc::new(Session::new(
        connection,
        number,
        &shared.options,
        Arc::clone(&shared.queue),
        Arc::clone(&shared.next_question),
        checked.has_ttl,
    ));
    session.listen().await.map_err(|detail| ConnectFailure {
        server: server.to_string(),
        kind: FailureKind::Unreachable,
        detail,
    })?;
    Ok(session)
}

/// Serves a session until its connection or a bucket is lost.
async fn serve(shared: &Arc<Shared>, server: &ServerUrl, session: Arc<Session>, number: u64) {
    tracing::info!(%server, "the cluster's engine is connected");
    *shared.session.lock() = Some(Arc::clone(&session));
    shared.queue.connected(number);
    shared.status.send_modify(|status| {
        status.link = Link::Connected {
            server: server.to_string(),
        };
        status.connects += 1;
        status.failure = None;
    });
    let inspecting = async {
        if let Some(url) = &shared.options.monitoring {
            check_sync(shared, url).await;
        }
        let mut inspection = interval(INSPECTION);
        inspection.set_missed_tick_behavior(MissedTickBehavior::Delay);
        inspection.tick().await;
        loop {
            tokio::select! {
                _ = inspection.tick() => {}
                () = session.link().suspected() => {}
            }
            if !are_buckets_there(shared, &session).await {
                return;
            }
        }
    };
    tokio::select! {
        () = session.link().connection.lost() => {
            tracing::warn!(%server, "the connection to NATS is lost");
        }
        () = inspecting => tracing::warn!(%server, "a bucket of records is gone"),
    }
    shared.leave();
}

async fn check_sync(shared: &Shared, url: &Url) {
    match monitoring::sync_always(url).await {
        Ok(true) => {}
        Ok(false) => shared.warn(NOT_SYNCED),
        Err(error) => shared.warn(&format!("{url}: {error}")),
    }
}

/// Looks at the buckets. Silence proves nothing: the servers may elect a leader.
async fn are_buckets_there(shared: &Shared, session: &Session) -> bool {
    for bucket in bucket::ALL {
        match store::inspect(&session.link().connection, bucket).await {
            Ok(info) => {
                let replicas = wanted_replicas(&session.link().connection, &shared.options);
                for warning in bucket.differences(&info.config, replicas) {
                    shared.warn(&warning);
                }
                if bucket == bucket::STREAMS {
                    session.set_ttl(info.config.allow_msg_ttl);
                }
            }
            Err(failure) if failure.is_no_stream() => return false,
            Err(_) => {}
        }
    }
    true
}

/// The result of a look at the buckets.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) warnings: Vec<String>,
    has_ttl: bool,
}

/// Makes the buckets that are missing and compares those that are there.
pub(crate) async fn check_buckets(
    connection: &Connection,
    options: &Options,
    server: &ServerUrl,
) -> Result<Checked, ConnectFailure> {
    let replicas = wanted_replicas(connection, options);
    let mut checked = Checked::default();
    for bucket in bucket::ALL {
        let found = match store::inspect(connection, bucket).await {
            Err(failure) if failure.is_no_stream() => make(connection, bucket, replicas).await,
            found => found,
        };
        let info = found.map_err(|failure| ConnectFailure {
            server: server.to_string(),
            kind: FailureKind::Buckets,
            detail: explain(&failure, bucket, replicas),
        })?;
        checked
            .warnings
            .extend(bucket.differences(&info.config, replicas));
        checked.has_ttl |= bucket == bucket::STREAMS && info.config.allow_msg_ttl;
    }
    Ok(checked)
}

async fn make(
    connection: &Connection,
    bucket: Bucket,
    replicas: u8,
) -> Result<bucket::StreamInfo, ApiFailure> {
    match store::make(connection, bucket, replicas).await {
        // Another node was first, with other settings.
        Err(ApiFailure::Refused(error)) if error.err_code == crate::api::code::NAME_IN_USE => {
            store::inspect(connection, bucket).await
        }
        made => made,
    }
}

/// Three copies in a NATS cluster, one on a server alone, unless the options say otherwise.
fn wanted_replicas(connection: &Connection, options: &Options) -> u8 {
    let usual = match connection.info.cluster {
        Some(_) => 3,
        None => 1,
    };
    options.replicas.unwrap_or(usual)
}

/// Says why a bucket cannot be made or read.
fn explain(failure: &ApiFailure, bucket: Bucket, replicas: u8) -> String {
    use crate::api::code;
    let stream = bucket.stream;
    match failure {
        ApiFailure::Refused(error) => match error.err_code {
            code::NO_SUITABLE_PEERS => format!(
                "fewer than {replicas} servers with JetStream are there for {stream}: start the \
                 others, or set `replicas`"
            ),
            code::REPLICAS_WITHOUT_CLUSTER => format!(
                "a server alone keeps one copy of {stream}, not {replicas}: set `replicas: 1`, or \
                 make a cluster of the servers"
            ),
            code::NOT_FOR_ACCOUNT | code::NOT_ENABLED => {
                "JetStream is off: write `jetstream {}` into the servers' configuration, and give \
                 the account its share of it"
                    .to_owned()
            }
            _ => format!("{stream}: {error}"),
        },
        ApiFailure::NobodyListens => {
            "JetStream is off or has no leader: write `jetstream {}` into the servers' \
             configuration"
                .to_owned()
        }
        ApiFailure::Silence => format!(
            "no answer about {stream}: JetStream has no leader yet, or the account has no right to \
             $JS.API.>"
        ),
        ApiFailure::NotSent => "the connection broke".to_owned(),
        ApiFailure::NotReadable(reason) => format!("{stream}: an answer cannot be read: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiError;

    #[test]
    fn a_bucket_that_cannot_be_made_says_what_to_set() {
        let refused = |err_code| {
            ApiFailure::Refused(ApiError {
                code: 400,
                err_code,
                description: "no".to_owned(),
            })
        };
        for (failure, part) in [
            (refused(10_005), "fewer than 3 servers"),
            (refused(10_074), "`replicas: 1`"),
            (refused(10_039), "JetStream is off"),
            (refused(1), "JetStream code 1"),
            (ApiFailure::NobodyListens, "JetStream is off"),
            (ApiFailure::Silence, "$JS.API.>"),
        ] {
            let said = explain(&failure, bucket::STREAMS, 3);
            assert!(said.contains(part), "{said}");
        }
    }
}
