//! RTSP clients: threads that each own their connections whole.
//!
//! ```text
//!            TCP in ──► Client.connection (sans-IO) ──► events ──► conversation
//!  hub wake ──► StreamReader.read once ──► Ring: framed once ──► each Client: Cursor, ConnectionWriter
//!                                                            └─ one write a frame ──► TCP
//!  other threads ──► Command (answers that took time, questions, stop)
//! ```
//!
//! All threads share one port (`SO_REUSEPORT`), and the kernel spreads connections
//! over them. A thread waits for nothing but its own poll: no file, no name, no
//! password hash, no lock that another thread holds for long. What takes time is done
//! elsewhere and comes back as a command.
//!
//! All clients of a stream see the same SSRC, sequence numbers and timestamps, so that
//! a burst's bytes are made once; a client is a cursor and the part of at most one
//! frame. A client that takes less than it is sent finishes the frame it is in and
//! skips to the newest keyframe; nobody else notices.

mod access;
mod client;
mod conversation;
pub(crate) mod counters;
mod fanout;
mod files;
mod listener;
mod publishers;
mod setup;
mod tls;
mod tunnel;
mod view;
mod wire;
pub(crate) mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use glassline_hub::Hub;
use glassline_media::WallClock;
use glassline_rtsp::server::{Answer, RequestId, SrtpPolicy};
use tokio::sync::oneshot;

pub use crate::egress::rtsp::groups::Plan;
pub use counters::{Counters, Gauge};
pub use listener::Listener;
pub use view::ClientView;

use crate::auth::{REALM, Users};
use crate::egress::rtsp::cursor::Budget;
use crate::egress::rtsp::groups::Groups;
use crate::egress::rtsp::multicast::{self, Sender};
use crate::egress::rtsp::numbers::NumberKeys;
use crate::egress::rtsp::ring::Bounds;
use crate::egress::rtsp::udp::Udp;
use crate::ingest::library::Library;
use crate::latency::Board;
use crate::runtime::{CommandSender, Key, Waker};

/// How the threads behave.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections at once, over all threads.
    pub connections_max: usize,
    /// Media may go by UDP.
    pub udp: bool,
    /// The first port for that; each thread takes two. 0 takes free ones.
    pub udp_port: u16,
    /// Within TLS, whether media is sealed by itself, too.
    pub srtp: SrtpPolicy,
    /// Media may go to these multicast groups.
    pub multicast: Option<Plan>,
    /// How far a client may lag before it skips to the newest keyframe.
    pub lag: Duration,
    /// How long a client may take nothing at all before it is closed.
    pub stall: Duration,
    /// Bytes that a stream's recent past may take on each thread.
    pub ring_bytes: usize,
    /// The longest that it is kept.
    pub ring_span: Duration,
}

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) board: Arc<Board>,
    pub(crate) wall: WallClock,
    pub(crate) keys: NumberKeys,
    pub(crate) users: Arc<Users>,
    pub(crate) library: Option<Arc<Library>>,
    /// For what takes time.
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) budget: Budget,
    pub(crate) bounds: Bounds,
    pub(crate) connection: Arc<glassline_rtsp::server::Config>,
    tunnels: tunnel::Tunnels,
    pub(crate) groups: Option<Arc<Groups>>,
    pub(crate) connections: AtomicUsize,
    pub(crate) connections_max: usize,
    pub(crate) handles: OnceLock<Vec<Handle>>,
}

/// Skips without having caught up after which a client is given up.
const SKIPS_IN_A_ROW: u32 = 10;

impl Shared {
    fn new(
        options: &Options,
        hub: Arc<Hub>,
        board: Arc<Board>,
        users: Arc<Users>,
        library: Option<Arc<Library>>,
        wall: WallClock,
        groups: Option<Arc<Groups>>,
    ) -> Self {
        let connection = glassline_rtsp::server::Config {
            server_name: concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned(),
            realm: REALM.to_owned(),
            udp: options.udp,
            multicast: groups.is_some(),
            srtp: options.srtp,
            ..Default::default()
        };
        Self {
            hub,
            board,
            wall,
            keys: NumberKeys::default(),
            users,
            library,
            runtime: tokio::runtime::Handle::current(),
            budget: Budget {
                lag: options.lag,
                stall: options.stall,
                skips_in_a_row: SKIPS_IN_A_ROW,
            },
            bounds: Bounds {
                bytes: options.ring_bytes,
                span: options.ring_span,
                lag: options.lag + Duration::from_secs(1),
            },
            connection: Arc::new(connection),
            tunnels: tunnel::Tunnels::default(),
            groups,
            connections: AtomicUsize::new(0),
            connections_max: options.connections_max,
            handles: OnceLock::new(),
        }
    }

    /// Gives a client of thread `thread` the answer that took time. A thread that is too
    /// busy for it leaves the request to its time-out.
    fn tell(&self, thread: usize, client: Key, id: RequestId, answer: Answer) {
        let answer = Box::new(answer);
        self.send(thread, Command::Answer { client, id, answer });
    }

    fn send(&self, thread: usize, command: Command) {
        if let Some(thread) = self.threads().get(thread) {
            // A full inbox counts it.
            let _ = thread.send(command);
        }
    }

    /// What was sent to multicast groups, if there are any.
    pub fn multicast(&self) -> Option<&Counters> {
        self.groups.as_ref().map(|groups| &groups.counters)
    }

    /// Every thread.
    pub fn threads(&self) -> &[Handle] {
        self.handles.get().map_or(&[], Vec::as_slice)
    }
}

/// What other threads ask of an RTSP thread.
#[derive(Debug)]
enum Command {
    /// A request's answer, which took time.
    Answer {
        client: Key,
        id: RequestId,
        answer: Box<Answer>,
    },
    /// Who is there?
    List(oneshot::Sender<Vec<ClientView>>),
    /// A name was looked up in the media folder.
    LookupResult(Box<files::LookupResult>),
    /// The other half of a client's tunnel came to another thread.
    Tunnel(Box<tunnel::Handover>),
    /// Say goodbye to everyone and end.
    Stop,
}

/// The way to reach a running thread from others.
#[derive(Clone, Debug)]
pub struct Handle {
    inbox: CommandSender<Command>,
    counters: Arc<Counters>,
}

impl Handle {
    /// What the thread counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The clients that have a session; `None` if the thread is too busy or gone.
    pub async fn clients(&self) -> Option<Vec<ClientView>> {
        let (reply, views) = oneshot::channel();
        self.send(Command::List(reply)).ok()?;
        views.await.ok()
    }

    fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command, &self.counters.inbox_full)
    }
}

/// Where the entrances are, and what each thread has of them.
fn doors(entrances: Vec<Listener>) -> (Vec<SocketAddr>, Vec<Vec<worker::ThreadListener>>) {
    let locals = entrances.iter().map(Listener::local_addr).collect();
    let mut doors: Vec<Vec<worker::ThreadListener>> = Vec::new();
    for entrance in entrances {
        doors.resize_with(doors.len().max(entrance.listeners.len()), Vec::new);
        for (listener, doors) in entrance.listeners.into_iter().zip(&mut doors) {
            doors.push(worker::ThreadListener::new(
                listener,
                entrance.identity.clone(),
            ));
        }
    }
    (locals, doors)
}

/// A thread's pair of UDP ports, at the address that it listens at.
fn open_udp(local: SocketAddr, first: u16, thread: usize) -> io::Result<Udp> {
    let offset = u16::try_from(thread * 2).unwrap_or(u16::MAX);
    let port = match first {
        0 => 0,
        first => first.saturating_add(offset),
    };
    Udp::bind(local.ip(), port, None).map_err(|error| {
        let text = format!(
            "RTSP has no two UDP ports (from {port}; 0 for any): {error}; \
             change rtsp.udp_port or set rtsp.udp to false"
        );
        io::Error::new(error.kind(), text)
    })
}

/// The running threads.
#[derive(Debug)]
pub struct Rtsp {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Rtsp {
    /// Starts a thread for each listener of the entrances, all of which were opened for
    /// as many; called within a tokio runtime, which does what takes time.
    ///
    /// # Errors
    /// If a port for UDP is taken or the system has no thread to give.
    pub fn start(
        options: &Options,
        entrances: Vec<Listener>,
        hub: &Arc<Hub>,
        board: &Arc<Board>,
        users: &Arc<Users>,
        library: Option<Arc<Library>>,
        wall: WallClock,
    ) -> io::Result<Self> {
        let multicast = options.multicast.map(multicast::open).transpose()?;
        let (groups, waiting) = match multicast {
            Some((groups, poll, waker)) => (Some(Arc::new(groups)), Some((poll, waker))),
            None => (None, None),
        };
        let shared = Arc::new(Shared::new(
            options,
            Arc::clone(hub),
            Arc::clone(board),
            Arc::clone(users),
            library,
            wall,
            groups.clone(),
        ));
        let (locals, doors) = doors(entrances);
        let sender = match groups.zip(waiting) {
            Some((groups, (poll, waker))) => {
                let shared = Arc::clone(&shared);
                // Behind the threads, whose numbers are counted down.
                let index = usize::MAX - doors.len();
                Some(Sender::new(groups, poll, waker, shared, index)?)
            }
            None => None,
        };
        let mut workers = Vec::with_capacity(doors.len());
        let mut handles = Vec::with_capacity(doors.len());
        for (index, doors) in doors.into_iter().enumerate() {
            let poll = mio::Poll::new()?;
            let waker = Arc::new(Waker::new(&poll, worker::WAKE)?);
            let (inbox, commands) = CommandSender::new(Arc::clone(&waker));
            let counters = Arc::new(Counters::default());
            handles.push(Handle {
                inbox,
                counters: Arc::clone(&counters),
            });
            let local = locals.first().filter(|_| options.udp);
            let udp = local.map(|local| open_udp(*local, options.udp_port, index));
            let sockets = worker::Sockets {
                doors,
                udp: udp.transpose()?,
            };
            let shared = Arc::clone(&shared);
            workers.push(worker::Worker::new(
                index, poll, sockets, waker, commands, counters, shared,
            )?);
        }
        shared
            .handles
            .set(handles)
            .expect("the threads are started once");
        let mut threads = Vec::with_capacity(workers.len());
        for (index, worker) in workers.into_iter().enumerate() {
            let builder = std::thread::Builder::new().name(format!("rtsp-{index}"));
            threads.push(builder.spawn(move || worker.run())?);
        }
        if let Some(sender) = sender {
            let builder = std::thread::Builder::new().name("rtsp-multicast".to_owned());
            threads.push(builder.spawn(move || sender.run())?);
        }
        Ok(Self { shared, threads })
    }

    /// What the threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Takes no new clients and says goodbye to all there are.
    pub fn stop(&self) {
        if let Some(groups) = &self.shared.groups {
            groups.stop();
        }
        for thread in self.shared.threads() {
            if thread.send(Command::Stop).is_err() {
                tracing::warn!("an RTSP thread was too busy to say goodbye");
            }
        }
    }

    /// Waits until every thread has ended.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("an RTSP thread ended in a panic");
            }
        }
    }
}
