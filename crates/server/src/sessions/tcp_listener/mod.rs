//! The port that takes media over TCP (RFC 6544 §3), for peers that UDP does not reach.
//!
//! ```text
//!  accept ─► within limits? ─► task: first frame ─► authentic check? ─► shard of its session
//!               └► refused        └► 5 s, or room for another one ─► closed
//! ```
//!
//! A stranger costs a connection and a table entry: no shard hears of a connection before its first
//! frame is a check with the password of a session.

mod check;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::TcpConnection;
use glassline_runtime::{
    AcceptOutage, Arrival, ConnectionLimit, ConnectionPermit, ConnectionRefusal, FaultPoint,
    Heartbeat, Newcomers, Part, SourcePrefix, SourceRates, SpareDescriptor, Supervisor,
    keep_running, refuse_connection,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{self, AbortHandle, JoinError, JoinSet};

use super::shard::{Command, Connected, Shared};
use check::{Checked, first_check};

/// Name of the listener in the log and in health checks.
const NAME: &str = "media-tcp";

/// Connections that one address may open a second, and at once. A browser opens one for each
/// address that it is told.
const CONNECTS_PER_S: f64 = 200.0;
const CONNECTS_AT_ONCE: f64 = 1_024.0;

/// Pause after accepting failed for want of descriptors.
const RETRY: Duration = Duration::from_millis(20);

/// Interval at which the listener shows that it makes progress.
const TICK: Duration = Duration::from_secs(1);

/// Serves `socket` until the server is `stopped`, with as many connections at the same time as `limit`
/// allows. After a panic the listener goes on, and open connections too.
///
/// # Errors
/// The system cannot watch the socket. Must be called within tokio.
pub(crate) fn serve(
    socket: std::net::TcpListener,
    limit: ConnectionLimit,
    shared: Arc<Shared>,
    supervisor: Arc<Supervisor>,
    stopped: watch::Receiver<bool>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let socket = TcpListener::from_std(socket)?;
    let heartbeat = supervisor.register(Part::Background, NAME);
    let acceptor = Mutex::new(Acceptor::new(limit, shared, Arc::clone(&supervisor)));
    Ok(async move {
        let accept = || async {
            let mut acceptor = acceptor.lock().await;
            acceptor.run(&socket, &heartbeat, stopped.clone()).await;
        };
        let what = Part::Background.task(NAME);
        keep_running(supervisor, what, stopped.clone(), accept).await;
    })
}

/// Accepts connections, and hands those over whose first frame is an authentic check.
struct Acceptor {
    shared: Arc<Shared>,
    supervisor: Arc<Supervisor>,
    limit: ConnectionLimit,
    rates: SourceRates,
    /// Connections without an authentic check, each with its task and its place.
    newcomers: Newcomers<(AbortHandle, ConnectionPermit)>,
    tasks: JoinSet<Option<Checked>>,
    arrivals: HashMap<task::Id, Arrival>,
    /// The shard that gets the next connection whose session has none.
    next_shard: usize,
    spare: SpareDescriptor,
    outage: AcceptOutage,
}

impl Acceptor {
    fn new(limit: ConnectionLimit, shared: Arc<Shared>, supervisor: Arc<Supervisor>) -> Self {
        Self {
            shared,
            supervisor,
            limit,
            rates: SourceRates::new(CONNECTS_PER_S, CONNECTS_AT_ONCE),
            newcomers: Newcomers::default(),
            tasks: JoinSet::new(),
            arrivals: HashMap::new(),
            next_shard: 0,
            spare: SpareDescriptor::held(),
            outage: AcceptOutage::new(NAME),
        }
    }

    async fn run(
        &mut self,
        socket: &TcpListener,
        heartbeat: &Heartbeat,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.end(ended);
                    continue;
                }
                _ = ticks.tick() => {
                    heartbeat.beat();
                    self.outage.check(Instant::now());
                    continue;
                }
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) if glassline_net::is_descriptor_shortage(&error) => {
                    self.refuse_without_descriptors(&error, socket);
                    tokio::time::sleep(RETRY).await;
                }
                // The connection ended while it waited (accept(2)).
                Err(_) => {}
            }
        }
    }

    /// Waits for the first frame of a connection, or refuses the connection.
    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        let counters = &self.shared.tcp;
        counters.accepted.add(1);
        let is_slow_enough = self.rates.take(peer.ip(), Instant::now());
        let Some(permit) = self.admit(peer.ip()).filter(|_| is_slow_enough) else {
            self.shared.tcp.refused.add(1);
            tracing::debug!(%peer, "TCP connection for media refused");
            return refuse_connection(stream);
        };
        let shared = Arc::clone(&self.shared);
        let supervisor = Arc::clone(&self.supervisor);
        let checking = async move {
            supervisor.fault_point(FaultPoint::MediaConnection);
            first_check(stream, &shared.registry).await
        };
        let task = self.tasks.spawn(checking);
        let (id, source) = (task.id(), SourcePrefix::from(peer.ip()));
        let arrival = self.newcomers.add(source, (task, permit));
        self.arrivals.insert(id, arrival);
    }

    /// Takes a place for a connection of `ip`. If all are taken, the oldest connection without an
    /// authentic check makes room: one of the same address if that has too many.
    fn admit(&mut self, ip: IpAddr) -> Option<ConnectionPermit> {
        let refusal = match self.limit.admit(ip) {
            Ok(permit) => return Some(permit),
            Err(refusal) => refusal,
        };
        let source = match refusal {
            ConnectionRefusal::Source { .. } => Some(SourcePrefix::from(ip)),
            ConnectionRefusal::Total { .. } => None,
        };
        let (task, permit) = self.newcomers.take_oldest(source)?;
        task.abort();
        drop(permit);
        self.shared.tcp.strangers.add(1);
        self.limit.admit(ip).ok()
    }

    /// Hands a connection over whose task has ended.
    fn end(&mut self, ended: Result<(task::Id, Option<Checked>), JoinError>) {
        let (id, checked) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                if error.is_panic() {
                    self.supervisor.count_panic(Part::Background);
                    tracing::error!(%error, "a TCP connection for media ended in a panic");
                }
                (error.id(), None)
            }
        };
        let arrival = self.arrivals.remove(&id);
        let newcomer = arrival.and_then(|arrival| self.newcomers.remove(arrival));
        // One that made room for another has left the table already.
        let Some((_, permit)) = newcomer else {
            return;
        };
        match checked {
            Some(checked) => self.hand_over(checked, permit),
            None => self.shared.tcp.strangers.add(1),
        }
    }

    fn hand_over(&mut self, checked: Checked, permit: ConnectionPermit) {
        let shards = self.shared.shards();
        let shard = checked.owner.unwrap_or_else(|| {
            self.next_shard = (self.next_shard + 1) % shards.len().max(1);
            self.next_shard
        });
        let connection = checked.stream.into_std();
        let connection = connection.and_then(|stream| TcpConnection::new(stream, permit));
        let (Ok(connection), Some(shard)) = (connection, shards.get(shard)) else {
            // The peer hung up.
            return;
        };
        self.shared.tcp.handed_over.add(1);
        let connected = Connected {
            connection,
            check: checked.check,
        };
        // A full inbox is counted by the handle; the connection is closed and the peer connects again.
        let _ = shard.send(Command::Connect(Box::new(connected)));
    }

    /// Closes one waiting connection although the process has no descriptor left.
    fn refuse_without_descriptors(&mut self, error: &io::Error, socket: &TcpListener) {
        let open = self.tasks.len();
        self.outage.note_failure(error, open, Instant::now());
        if let Some((task, permit)) = self.newcomers.take_oldest(None) {
            task.abort();
            drop(permit);
            self.shared.tcp.strangers.add(1);
            return;
        }
        if self.spare.refuse_waiting(socket) {
            self.shared.tcp.refused.add(1);
        }
    }
}
