//! Accepts the connections of one listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use glassline_events::failures::{ClientRole, ConnectionFailure, Failures, Protocol, Stage};
use glassline_runtime::{
    AcceptOutage, ConnectionRefusal, FaultPoint, Heartbeat, Part, SourcePrefix, SourceRates,
    SpareDescriptor, Supervisor, keep_running, refuse_connection,
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinError, JoinSet};

use super::Scheme;
use super::activity::{Activity, Deadlines};
use super::arrivals::Arrivals;
use super::connection::{self, Reached, Version};
use super::connection_table::{ConnectionSlot, ConnectionTable};
use super::counters::{Counters, OpenConnection};
use super::ending::{Drain, Ending};
use super::handlers::Handlers;
use super::{handshake, waits};
use crate::sessions::ConnectionAddresses;

/// Connections that one address may open a second, and at once. A page needs two or three; a load
/// test of a thousand joins a second, two thousand.
const CONNECTS_PER_S: f64 = 2_000.0;
const CONNECTS_AT_ONCE: f64 = 4_096.0;

/// TLS handshakes that one address may begin a second, and at once. Each takes a fraction of a
/// millisecond of a core.
const HANDSHAKES_PER_S: f64 = 250.0;
const HANDSHAKES_AT_ONCE: f64 = 1_024.0;

/// Most connections accepted, or refused, in one turn.
const ACCEPTS_PER_TURN: usize = 512;

/// Most connections that begin to be served in one turn. They are fewer than those accepted, so that
/// a flood waits here, where addresses take turns, and not in the queues of the system and of the
/// runtime, where newcomers would stand behind it.
const STARTS_PER_TURN: usize = 8;

/// Connections in a turn from which it counts as one of a flood, after which accepting pauses.
const FLOOD: u32 = 64;

/// Time for each connection of a flood: it costs at most 16,000 connections a second, and the tasks of
/// other connections run in between.
const PACE: Duration = Duration::from_micros(62);

/// Connections that make room, or are refused, in one turn without descriptors.
const SHED_PER_TURN: usize = 16;

/// Time until accepting is tried again after descriptors ran out.
const RETRY: Duration = Duration::from_millis(20);

/// Interval at which the listener shows that it makes progress, and at which an outage is checked for
/// its end.
const TICK: Duration = Duration::from_secs(1);

/// A TCP port for HTTP, which accepts nothing before [`serve`] is called.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    /// How to shake hands; `None` for plain HTTP.
    tls: Option<Arc<ServerConfig>>,
}

impl Listener {
    /// Opens `address`; port 0 takes a free one. Must be called within tokio.
    ///
    /// # Errors
    /// Returns an error if the port is taken.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = glassline_net::listen(address, false)?;
        let local = socket.local_addr()?;
        let socket = TcpListener::from_std(socket)?;
        Ok(Self {
            socket,
            local,
            tls: None,
        })
    }

    /// Returns the same port, whose clients must speak TLS.
    pub(crate) fn within_tls(self, config: Arc<ServerConfig>) -> Self {
        Self {
            tls: Some(config),
            ..self
        }
    }

    /// Returns the address that clients connect to.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// The limits of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Name of the listener in the log and in health checks.
    pub(crate) name: &'static str,
    /// The places for connections, which listeners may share.
    pub(crate) places: ConnectionTable,
    /// Where connections that found no place are noted.
    pub(crate) failures: Arc<Failures>,
    /// The drain after which clients are to connect to another server.
    pub(crate) drain: Drain,
}

/// Serves the connections of `listener` with `handlers` until the server is `stopped`, and then until
/// every request in progress is answered. After a panic the listener goes on accepting, and its open
/// connections go on, too; after panics again and again the server fails.
pub(crate) async fn serve(
    listener: Listener,
    mut handlers: Handlers,
    options: Options,
    counters: Arc<Counters>,
    supervisor: Arc<Supervisor>,
    stopped: watch::Receiver<bool>,
) {
    let name = options.name;
    let heartbeat = supervisor.register(Part::Http, name);
    let tls = listener.tls;
    let waits = waits::layer(options.places.waits().clone());
    handlers.router = handlers.router.layer(waits);
    let limits = Acceptor::new(
        handlers,
        tls,
        options,
        counters,
        &supervisor,
        stopped.clone(),
    );
    // The lock is free whenever accepting begins anew.
    let acceptor = Mutex::new((limits, listener.socket));
    let accept = || async {
        let (acceptor, socket) = &mut *acceptor.lock().await;
        acceptor.run(socket, &heartbeat).await;
    };
    keep_running(supervisor, Part::Http.task(name), stopped, accept).await;
    let (mut acceptor, socket) = acceptor.into_inner();
    drop((socket, std::mem::take(&mut acceptor.arrivals)));
    while let Some(ended) = acceptor.connections.join_next().await {
        acceptor.reap(ended);
    }
}

/// The result of accepting: a connection and its client's address.
type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// An accepted connection with its place in the table.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    slot: ConnectionSlot,
    activity: Arc<Activity>,
}

/// Returns the failure of a connection for which there is no place. Its client learns nothing but that
/// the connection was reset.
fn refused(peer: SocketAddr, refusal: ConnectionRefusal) -> ConnectionFailure {
    let remedy = match refusal {
        ConnectionRefusal::Total { .. } => "raise http.connections",
        ConnectionRefusal::Source { .. } => {
            "raise http.connections_per_address, or name the proxy in http.trusted_proxies"
        }
    };
    ConnectionFailure {
        stream: String::new(),
        protocol: Protocol::Http,
        role: ClientRole::Client,
        stage: Stage::Server,
        from: peer.ip(),
        session: None,
        reason: format!("the connection was reset: {refusal}"),
        remedy: Some(remedy.to_owned()),
    }
}

/// Accepts connections and starts a task for each.
struct Acceptor {
    handlers: Handlers,
    tls: Option<Arc<ServerConfig>>,
    name: &'static str,
    counters: Arc<Counters>,
    supervisor: Arc<Supervisor>,
    ending: Ending,
    table: ConnectionTable,
    failures: Arc<Failures>,
    rates: SourceRates,
    /// Connections that are not served yet.
    arrivals: Arrivals<Arrival>,
    /// When the next connections may be accepted.
    accepts_from: Instant,
    connections: JoinSet<()>,
    spare: SpareDescriptor,
    outage: AcceptOutage,
    has_outage: bool,
}

impl Acceptor {
    fn new(
        handlers: Handlers,
        tls: Option<Arc<ServerConfig>>,
        options: Options,
        counters: Arc<Counters>,
        supervisor: &Arc<Supervisor>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let rates = match tls {
            None => SourceRates::new(CONNECTS_PER_S, CONNECTS_AT_ONCE),
            Some(_) => SourceRates::new(HANDSHAKES_PER_S, HANDSHAKES_AT_ONCE),
        };
        Self {
            handlers,
            tls,
            name: options.name,
            counters,
            supervisor: Arc::clone(supervisor),
            ending: Ending {
                stopped,
                drain: options.drain,
            },
            table: options.places,
            failures: options.failures,
            rates,
            arrivals: Arrivals::default(),
            accepts_from: Instant::now(),
            connections: JoinSet::new(),
            spare: SpareDescriptor::held(),
            outage: AcceptOutage::new(options.name),
            has_outage: false,
        }
    }

    /// Accepts connections until the server is stopped.
    async fn run(&mut self, socket: &TcpListener, heartbeat: &Heartbeat) {
        let mut ticks = tokio::time::interval(TICK);
        let mut stopped = self.ending.stopped.clone();
        loop {
            let accepts_from = self.accepts_from.into();
            let accepting = async {
                tokio::time::sleep_until(accepts_from).await;
                socket.accept().await
            };
            tokio::select! {
                first = accepting => self.accept_turn(first, socket),
                Some(ended) = self.connections.join_next() => self.reap(ended),
                _ = ticks.tick() => {
                    heartbeat.beat();
                    self.check_outage(Instant::now());
                }
                _ = stopped.wait_for(|stop| *stop) => return,
                // Those that began in the turn before run first.
                () = tokio::task::yield_now(), if !self.arrivals.is_empty() => {}
            }
            self.start_some();
        }
    }

    /// Takes the connection that was accepted `first` and those that wait behind it, up to a number.
    fn accept_turn(&mut self, first: Accepted, socket: &TcpListener) {
        let began = Instant::now();
        // The runtime would have the turn end after 128.
        let accept = || tokio::task::unconstrained(socket.accept()).now_or_never();
        let rest = std::iter::from_fn(accept);
        let mut accepted = 0;
        for connection in std::iter::once(first).chain(rest).take(ACCEPTS_PER_TURN) {
            accepted += 1;
            match connection {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) if glassline_net::is_descriptor_shortage(&error) => {
                    self.make_room(&error, socket);
                    self.accepts_from = began + RETRY;
                    return;
                }
                // The connection ended while it waited (accept(2)).
                Err(_) => {}
            }
        }
        if accepted >= FLOOD {
            self.accepts_from = began + PACE * accepted;
        }
    }

    /// Begins to serve some of the connections that were accepted.
    fn start_some(&mut self) {
        let mut started = 0;
        while started < STARTS_PER_TURN
            && let Some(arrival) = self.arrivals.next()
        {
            if !arrival.activity.is_evicted() {
                self.start(arrival);
                started += 1;
            }
        }
    }

    /// Closes connections of `source` that are not served yet and had to make room: the oldest ones do.
    fn forget_evicted(&mut self, source: SourcePrefix) {
        let is_evicted = |arrival: &Arrival| arrival.activity.is_evicted();
        self.arrivals.forget(source, is_evicted);
    }

    /// Gives a connection a place, or refuses it.
    fn take(&mut self, stream: TcpStream, peer: SocketAddr) {
        let now = Instant::now();
        self.counters.accepted.add(1);
        if !self.table.is_proxy(peer.ip()) && !self.rates.take(peer.ip(), now) {
            self.counters.refused_rate.add(1);
            refuse_connection(stream);
            return;
        }
        let activity = Arc::new(Activity::new(now));
        let slot = match self.table.admit(peer.ip(), &activity) {
            Ok(slot) => slot,
            Err(refusal) => {
                tracing::debug!(listener = self.name, %peer, %refusal, "HTTP connection refused");
                self.counters.note_refused(refusal);
                self.failures.note(refused(peer, refusal), now);
                refuse_connection(stream);
                return;
            }
        };
        if let Some(source) = slot.displaced() {
            self.forget_evicted(source);
        }
        let arrival = Arrival {
            stream,
            peer,
            slot,
            activity,
        };
        match self.table.is_proxy(peer.ip()) {
            // It has the connections of many clients.
            true => self.start(arrival),
            false => self.arrivals.add(SourcePrefix::from(peer.ip()), arrival),
        }
    }

    fn start(&mut self, arrival: Arrival) {
        let peer = arrival.peer;
        if let Err(error) = self.serve(arrival) {
            tracing::debug!(listener = self.name, %peer, %error, "HTTP connection lost before it was served");
        }
    }

    fn serve(&mut self, arrival: Arrival) -> io::Result<()> {
        let Arrival {
            stream,
            peer,
            slot,
            activity,
        } = arrival;
        // Each response is one write; parts of a longer one would only be late.
        stream.set_nodelay(true)?;
        let addresses = ConnectionAddresses {
            peer,
            local: stream.local_addr()?,
        };
        let (handlers, mut ending) = (self.handlers.clone(), self.ending.clone());
        let tls = self.tls.clone();
        let mut open = OpenConnection::new(Arc::clone(&self.counters));
        let supervisor = Arc::clone(&self.supervisor);
        self.connections.spawn(async move {
            supervisor.fault_point(FaultPoint::HttpConnection);
            let deadlines = Deadlines::default();
            open.closed = match tls {
                None => {
                    let reached = Reached::new(Version::Http1, addresses, Scheme::Http);
                    connection::serve(stream, handlers, reached, activity, deadlines, ending).await
                }
                Some(tls) => {
                    let accepting =
                        handshake::accept(stream, tls, &activity, deadlines, &mut ending.stopped);
                    match accepting.await {
                        Err(closed) => closed,
                        Ok(stream) => {
                            let version = handshake::version(&stream);
                            let reached = Reached::new(version, addresses, Scheme::Https);
                            let serving = connection::serve(
                                stream, handlers, reached, activity, deadlines, ending,
                            );
                            // Most of its memory is the TLS session's.
                            Box::pin(serving).await
                        }
                    }
                }
            };
            drop((open, slot));
        });
        Ok(())
    }

    /// Closes connections that the server only waits for, because the process has no descriptor left; or
    /// refuses those that wait to be accepted if there are none.
    fn make_room(&mut self, error: &io::Error, socket: &TcpListener) {
        self.outage
            .note_failure(error, self.counters.open(), Instant::now());
        self.has_outage = true;
        let evicted = std::iter::from_fn(|| self.table.evict_one()).take(SHED_PER_TURN);
        let evicted: Vec<_> = evicted.collect();
        for source in &evicted {
            self.forget_evicted(*source);
        }
        if !evicted.is_empty() {
            return;
        }
        for _ in 0..SHED_PER_TURN {
            if !self.spare.refuse_waiting(socket) {
                break;
            }
            self.counters.refused_descriptors.add(1);
        }
    }

    fn check_outage(&mut self, now: Instant) {
        self.has_outage = self.has_outage && self.outage.check(now);
    }

    /// Notes the end of a connection's task.
    fn reap(&mut self, ended: Result<(), JoinError>) {
        let ended =
            std::iter::once(ended).chain(std::iter::from_fn(|| self.connections.try_join_next()));
        for error in ended.filter_map(Result::err).filter(JoinError::is_panic) {
            self.supervisor.count_panic(Part::Http);
            tracing::error!(listener = self.name, %error, "a request ended in a panic; its connection is closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::Router;
    use axum::extract::ConnectInfo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;
    use tokio::sync::mpsc;

    use super::*;

    async fn ask(address: SocketAddr, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("a loopback address");
        let mut stream = socket.connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).await.expect("there is room");
        stream
    }

    #[tokio::test]
    async fn a_newcomer_does_not_stand_behind_a_flood_that_came_before() {
        let listener = Listener::open(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr();
        let mut flood = Vec::new();
        for _ in 0..100 {
            flood.push(ask(address, [127, 0, 0, 2]).await);
        }
        let mut newcomer = ask(address, [127, 0, 0, 3]).await;
        let (served, mut order) = mpsc::unbounded_channel::<IpAddr>();
        let answer = async move |ConnectInfo(it): ConnectInfo<ConnectionAddresses>| {
            served.send(it.peer.ip()).expect("the test looks");
        };
        let options = Options {
            name: "test",
            places: ConnectionTable::new(1_000, 1_000),
            failures: Arc::default(),
            drain: None,
        };
        let (_stop, stopped) = watch::channel(false);
        let supervisor = Supervisor::start().expect("a thread");
        let handlers = Router::new().fallback(answer).into();
        let counters = Arc::<Counters>::default();
        tokio::spawn(serve(
            listener, handlers, options, counters, supervisor, stopped,
        ));
        let mut status = [0; 12];
        newcomer.read_exact(&mut status).await.expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
        let mut before = 0;
        while order.recv().await.expect("it is served") != IpAddr::from([127, 0, 0, 3]) {
            before += 1;
        }
        assert!(before < STARTS_PER_TURN, "{before} of 100 before");
    }
}
