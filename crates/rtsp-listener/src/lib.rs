//! The RTSP server: threads that each own their connections as a whole.
//!
//! ```text
//!            TCP in ──► Client.connection (sans-IO) ──► events ──► Requests ─┐
//!  hub wake ──► Streams: read once ──► Delivery: to each client ──► TCP, UDP   │ effects
//!                                            ▲───────────── Worker ◄─────────┘
//!  other threads ──► Command (answers that took time, questions, stop)
//! ```
//!
//! All threads share one port (`SO_REUSEPORT`), and the kernel spreads connections over them. A
//! thread waits for nothing but its own poll: no file, no name, no password hash, no lock that
//! another thread holds for long. Work that takes time is done on other threads (`Background`) and
//! its result comes back as a command.
//!
//! `egress::rtsp` makes and writes the bytes of streams, and `ingest::rtsp` publishes packets of
//! clients. This module decides which client gets which stream, and answers requests.

// This crate is outside the sans-IO cores: threads own clients in real time.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod access;
mod awaited_work;
mod background;
mod client;
mod client_scope;
mod clients;
mod command;
mod counters;
mod delivery;
mod effect;
mod event_source;
mod failures;
mod file_playback;
mod listener;
#[cfg(test)]
#[path = "../../access/tests/login_cases/mod.rs"]
mod login_cases;
mod look_back;
mod media_folder;
mod metrics;
mod own_reading;
mod own_stream;
mod past;
mod past_playback;
mod pending_request;
mod play_session;
mod publish_session;
mod publishers;
mod reception;
mod recorded;
mod recovery;
mod redirect;
mod requests;
mod service;
mod setup;
mod shared;
mod streams;
mod tls;
mod tunnels;
mod udp_clients;
mod unserved;
mod view;
mod wire;
mod wished_layer;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use glassline_access::auth::{REALM, Sites, Users};
use glassline_cluster_member::Directory;
use glassline_egress::rtsp::{
    Bounds, Budget, MulticastSender, NumberKeys, StreamContext, Timing, UdpPair, open_multicast,
};
use glassline_events::failures::Failures;
use glassline_hub::Hub;
use glassline_ingest::LayerStreams;
use glassline_ingest::library::Library;
use glassline_latency::LatencyRegistry;
use glassline_playback::Playback;
use glassline_rtsp::server::SrtpPolicy;
use glassline_runtime::{Clock, CommandSender, ConnectionLimit, Current, Part, Supervisor, Waker};
use mio::Poll;

pub use counters::{Counters, Gauge};
pub use glassline_egress::rtsp::{GroupRange, SendCounters};
pub use glassline_ingest::rtsp::RecordCounters;
pub use listener::Listener;
pub use service::RtspService;
pub use shared::{Handle, Shared};
pub use view::ClientView;

use event_source::EventSource;
use listener::ThreadListeners;
use shared::{LAG_KEPT, Multicast};
use worker::{Parts, Worker};

/// Settings of the threads.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most connections at the same time, over all threads.
    pub connections_max: usize,
    /// Most of these connections from one IPv4 address, or from one /64 of IPv6.
    pub connections_per_address: usize,
    /// Whether media may go by UDP.
    pub udp: bool,
    /// The first port for media by UDP; each thread takes two. 0 takes free ones.
    pub udp_port: u16,
    /// Whether media within TLS is also sealed packet by packet (SRTP).
    pub srtp: SrtpPolicy,
    /// Multicast groups that media may go to; `None` turns multicast off.
    pub multicast: Option<GroupRange>,
    /// Delay behind the stream after which a client skips to the newest keyframe.
    pub lag: Duration,
    /// Time without taking any byte after which a client is closed.
    pub stall: Duration,
    /// Most bytes of a stream's recent past on each thread.
    pub ring_bytes: usize,
    /// Longest time that a stream's recent past is kept.
    pub ring_span: Duration,
}

/// Number of skips without having caught up after which a client is closed.
const SKIPS_IN_A_ROW: u32 = 10;

impl Options {
    /// Returns how far behind its stream a client may be.
    fn timing(&self) -> Timing {
        Timing {
            budget: Budget {
                lag: self.lag,
                stall: self.stall,
                skips_in_a_row: SKIPS_IN_A_ROW,
            },
            bounds: Bounds {
                bytes: self.ring_bytes,
                span: self.ring_span,
                lag: self.lag + LAG_KEPT,
            },
        }
    }

    /// Creates the state that all threads share.
    fn shared(
        &self,
        services: Services,
        context: StreamContext,
        multicast: Option<Multicast>,
    ) -> Shared {
        let connection = glassline_rtsp::server::Config {
            server_name: concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned(),
            realm: REALM.to_owned(),
            udp: self.udp,
            multicast: multicast.is_some(),
            srtp: self.srtp,
            // The webhook gets the password itself, which Digest hides.
            digest: !services.users.has_webhook(),
            basic_over_plain: services.users.has_webhook(),
            tunnel_hosts: Some(services.sites),
            ..Default::default()
        };
        Shared {
            hub: services.hub,
            users: services.users,
            library: services.library,
            playback: services.playback,
            directory: services.directory,
            failures: services.failures,
            supervisor: services.supervisor,
            runtime: tokio::runtime::Handle::current(),
            layer_streams: LayerStreams::new(tokio::runtime::Handle::current()),
            context,
            connection: Current::new(connection),
            connections: ConnectionLimit::new(self.connections_max, self.connections_per_address),
            tunnels: Arc::default(),
            multicast,
            handles: OnceLock::new(),
        }
    }
}

/// The running RTSP threads, and the thread of multicast groups if there is one.
#[derive(Debug)]
pub struct Rtsp {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The streams and files of the server, and the users with rights to them.
#[derive(Clone, Debug)]
pub struct Services {
    /// All streams of the server.
    pub hub: Arc<Hub>,
    /// Registry of stage delays.
    pub latencies: Arc<LatencyRegistry>,
    /// Users and their rights.
    pub users: Arc<Users>,
    /// Which pages of browsers may use the server.
    pub sites: Arc<Sites>,
    /// The media folder, if there is one.
    pub library: Option<Arc<Library>>,
    /// The recordings of streams.
    pub playback: Arc<Playback>,
    /// Streams of other servers; `None` for a server alone.
    pub directory: Option<Arc<Directory>>,
    /// Clock for NTP times.
    pub clock: Clock,
    /// The connections that failed.
    pub failures: Arc<Failures>,
    /// Supervisor of the RTSP threads.
    pub supervisor: Arc<Supervisor>,
}

impl Rtsp {
    /// Starts a thread for each socket of the listeners, which all must have been opened for the
    /// same number of threads. Must be called within a tokio runtime, which does the work that
    /// takes time.
    ///
    /// # Errors
    /// Returns an error if a UDP port is taken or the system has no thread to give.
    pub fn start(
        options: &Options,
        listeners: Vec<Listener>,
        services: Services,
    ) -> io::Result<Self> {
        let supervisor = Arc::clone(&services.supervisor);
        let (addresses, listeners) = ThreadListeners::split(listeners);
        let context = StreamContext {
            latencies: Arc::clone(&services.latencies),
            clock: services.clock,
            keys: NumberKeys::default(),
            timing: Arc::new(Current::new(options.timing())),
        };
        // The number follows those of the threads, which are counted down from the maximum.
        let table = usize::MAX - listeners.len();
        let sender = options.multicast.map(|range| {
            let (groups, poll, waker) = open_multicast(range)?;
            let context = context.clone();
            MulticastSender::new(Arc::new(groups), poll, waker, context, table)
        });
        let sender = sender.transpose()?;
        let multicast = sender.as_ref().map(Multicast::of);
        let shared = Arc::new(options.shared(services, context, multicast));
        let local = addresses.first().filter(|_| options.udp);
        let mut workers = Vec::with_capacity(listeners.len());
        let mut handles = Vec::with_capacity(listeners.len());
        for (index, listeners) in listeners.into_iter().enumerate() {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(&poll, EventSource::Waker.token())?);
            let (inbox, commands) = CommandSender::new(Arc::clone(&waker));
            let counters = Arc::new(Counters::default());
            handles.push(Handle::new(inbox, Arc::clone(&counters)));
            let udp = local.map(|local| open_udp(*local, options.udp_port, index));
            let heartbeat = supervisor.register(Part::Rtsp, &format!("rtsp-{index}"));
            let parts = Parts {
                index,
                poll,
                waker,
                commands,
                listeners,
                udp: udp.transpose()?,
                counters,
            };
            let worker = Worker::new(parts, Arc::clone(&shared), &heartbeat)?;
            workers.push((worker, heartbeat));
        }
        shared
            .handles
            .set(handles)
            .expect("the threads are started once");
        let mut threads = Vec::with_capacity(workers.len() + 1);
        for (index, (worker, heartbeat)) in workers.into_iter().enumerate() {
            let supervisor = Arc::clone(&supervisor);
            let run = move || supervisor.run(worker, &heartbeat);
            threads.push(spawn(format!("rtsp-{index}"), run)?);
        }
        if let Some(sender) = sender {
            let name = "rtsp-multicast";
            let heartbeat = supervisor.register(Part::Multicast, name);
            let run = move || supervisor.run(sender, &heartbeat);
            threads.push(spawn(name.to_owned(), run)?);
        }
        Ok(Self { shared, threads })
    }

    /// Returns the state that the threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
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

/// Opens a thread's pair of UDP ports, on the address that it listens on.
fn open_udp(local: SocketAddr, first: u16, thread: usize) -> io::Result<UdpPair> {
    let offset = u16::try_from(thread * 2).unwrap_or(u16::MAX);
    let port = match first {
        0 => 0,
        first => first.saturating_add(offset),
    };
    UdpPair::bind(local.ip(), port, None).map_err(|error| {
        let text = format!(
            "RTSP has no two UDP ports (from {port}; 0 for any): {error}; \
             change rtsp.udp_port or set rtsp.udp to false"
        );
        io::Error::new(error.kind(), text)
    })
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(run)
}
