//! Driver of the fuzz target `registry`: sessions are made, adopted, restarted, moved, deleted and
//! swept in any order.
//!
//! ```text
//! input ─► Negotiator: offers, restarts, deletes ─► Registry ─► two Workers, one step at a time
//!      └─► clients with two addresses each: STUN and DTLS to either worker ─┘ ▲ commands
//! ```
//!
//! Registry, negotiator and workers are those of the server, with sockets on the loopback
//! interface. The clients' datagrams do not pass the kernel: the input chooses the worker that
//! gets each.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use glassline_hub::{Hub, Publisher, StreamName};
use glassline_latency::LatencyRegistry;
use glassline_media::{Codec, Track, WallClock};
use glassline_net::UdpSocket;
use glassline_runtime::{Clock, CommandSender, Current, Heartbeat, Part, Supervisor, Waker};
use glassline_transcode::Settings as TranscodingSettings;
use glassline_transcoding::{Limits, TranscodingThreads};
use glassline_webrtc::sdp::{Fragment, IceCredentials};
use glassline_webrtc::{Certificate, DialConfig, Kinds, Secrets, Session};

use super::super::socket_options;
use super::datagrams::Path;
use super::{Parts, WAKE, Worker};
use crate::addresses::MediaAddresses;
use crate::sessions::counters::Counters;
use crate::sessions::record::SessionLocation;
use crate::sessions::shard::{Handle, Shared};
use crate::sessions::{
    Bounds, ConnectionAddresses, Expected, Negotiator, Offer, Registry, SessionDefaults,
    SessionRecord, Settings,
};

/// Most operations of one input.
const STEPS_MAX: usize = 120;
/// Clients at a time.
const CLIENTS: usize = 4;
/// Half-open sessions that the registry admits.
const HALF_OPEN: usize = 3;
const STREAM: &str = "demo";

/// Runs the operations that `bytes` describe.
///
/// # Panics
/// A worker panics, or an invariant does not hold: a session has one owner at most, and the one that
/// its record names once all commands are processed; permits are given back; at the end nothing is
/// left.
pub fn registry(bytes: &[u8]) {
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        run(bytes);
    });
}

fn run(bytes: &[u8]) {
    let mut scene = Scene::new();
    for operation in bytes.chunks_exact(2).take(STEPS_MAX) {
        scene.step(operation[0], operation[1]);
        scene.check();
    }
    scene.come_to_rest();
}

thread_local! {
    /// Deadlines of the negotiator's requests need a runtime, although nothing here waits.
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    static SUPERVISOR: Arc<Supervisor> = Supervisor::start().expect("a thread");
    static CERTIFICATE: Arc<Certificate> =
        Arc::new(Certificate::generate().expect("a certificate"));
}

struct Client {
    session: Session,
    record: Arc<SessionRecord>,
    /// The client's clock runs ahead of the server's by this.
    ahead: Duration,
    /// Datagrams for the server.
    queue: VecDeque<Vec<u8>>,
}

/// Clients and the parts of a server that serve them.
pub(super) struct Scene {
    pub(super) workers: [Worker; 2],
    _heartbeats: [Arc<Heartbeat>; 2],
    pub(super) shared: Arc<Shared>,
    negotiator: Negotiator,
    pub(super) publisher: Publisher,
    pub(super) media: SocketAddr,
    clients: [Option<Client>; CLIENTS],
    /// Sockets of the clients: two addresses of each.
    sockets: Vec<std::net::UdpSocket>,
    /// Every session that was made.
    records: Vec<Arc<SessionRecord>>,
    seed: u8,
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

impl Scene {
    fn new() -> Self {
        let registry = Arc::new(Registry::new(Bounds {
            viewers: CLIENTS,
            half_open: HALF_OPEN,
            half_open_per_address: HALF_OPEN,
            handshake: Duration::from_secs(10),
        }));
        let supervisor = SUPERVISOR.with(Arc::clone);
        let shared = Shared::new(
            registry,
            Arc::new(LatencyRegistry::default()),
            Arc::new(MediaAddresses::new(Vec::new())),
            Arc::default(),
            Arc::clone(&supervisor),
            glassline_messages::MessageLinks::new(None),
        );
        let shared = Arc::new(shared);
        let mut handles = Vec::new();
        let made = [0, 1].map(|index| worker(index, &shared, &supervisor, &mut handles));
        shared.handles.set(handles).expect("set once");
        let [(first, one), (second, two)] = made;
        let media = first.local;
        let (hub, now) = (Arc::new(Hub::default()), Instant::now());
        let stream = hub.create(StreamName::parse(STREAM).expect("a good name"));
        let tracks = vec![Track::audio(Codec::Opus, 2)];
        let publisher = stream.expect("room").publish(tracks, now).expect("free");
        let settings = Settings {
            certificate: CERTIFICATE.with(Arc::clone),
            media,
            media_tcp: true,
            clock: Clock::start(),
            defaults: Current::new(SessionDefaults {
                handshake: Duration::from_secs(10),
                pacing: None,
                delivery: glassline_egress::webrtc::Delivery::default(),
                data: None,
            }),
        };
        // The stream is Opus already.
        let (transcoders, _threads) = TranscodingThreads::start(
            Limits::default(),
            TranscodingSettings::default(),
            &supervisor,
        )
        .expect("no threads");
        let socket = || {
            let socket = std::net::UdpSocket::bind(loopback()).expect("a port");
            socket.set_nonblocking(true).expect("a socket");
            socket
        };
        Self {
            workers: [first, second],
            _heartbeats: [one, two],
            negotiator: Negotiator::new(
                Arc::clone(&shared),
                hub,
                None,
                None,
                transcoders,
                Arc::default(),
                settings,
            ),
            shared,
            publisher,
            media,
            clients: [const { None }; CLIENTS],
            sockets: (0..2 * CLIENTS).map(|_| socket()).collect(),
            records: Vec::new(),
            seed: 0,
        }
    }

    fn step(&mut self, operation: u8, argument: u8) {
        let (at, worker) = (
            usize::from(argument) % CLIENTS,
            usize::from(argument >> 6 & 1),
        );
        match operation % 12 {
            0 | 1 => self.join(at),
            2..=4 => self.send(at, worker, usize::from(argument >> 7)),
            5 => self.restart(at, argument & 0x20 != 0),
            6 => self.leave(at),
            7 => {
                // So that a request that waited for long is swept as well as one that did not.
                let ahead = Duration::from_secs(u64::from(argument) / 8);
                self.shared.registry.sweep(Instant::now() + ahead);
            }
            8 | 9 => self.workers[worker].process_commands(),
            10 => {
                self.workers[worker].expire();
            }
            _ => self.receive(at),
        }
    }

    /// A client makes an offer in place of the one that it had.
    pub(super) fn join(&mut self, at: usize) {
        self.seed = self.seed.wrapping_add(1);
        let local = self.sockets[2 * at].local_addr().expect("bound");
        let now = Instant::now();
        let (mut session, offer) = Session::dial(
            DialConfig {
                local: vec![local],
                receive: Kinds::AUDIO,
                ..DialConfig::new(
                    CERTIFICATE.with(Arc::clone),
                    Secrets::expand(&[self.seed; 32]),
                    WallClock::new(now, Duration::from_secs(1_700_000_000)),
                )
            },
            now,
        );
        let connection = ConnectionAddresses {
            peer: local,
            local: self.media,
        };
        let sdp = &offer;
        let offer = Offer::new(sdp, connection);
        let answered = self.negotiator.watch(STREAM, offer).now_or_never();
        // A full server refuses; it is full only of sessions that are there.
        let Ok(answered) = answered.expect("a live stream needs no waiting") else {
            let (sessions, half_open) = self.shared.registry.counts();
            assert!(sessions >= CLIENTS || half_open >= HALF_OPEN);
            return;
        };
        let accepted = session.set_answer(&answered.answer, now);
        accepted.expect("the server's own answer");
        self.records.push(Arc::clone(&answered.record));
        self.clients[at] = Some(Client {
            session,
            record: answered.record,
            ahead: Duration::ZERO,
            queue: VecDeque::new(),
        });
    }

    /// The client's clock goes on, and what it sends arrives at `worker` from its `address`.
    pub(super) fn send(&mut self, at: usize, worker: usize, address: usize) {
        let (media, worker) = (self.media, &mut self.workers[worker]);
        let source = self.sockets[2 * at + address].local_addr().expect("bound");
        let Some(client) = &mut self.clients[at] else {
            return;
        };
        client.advance();
        while let Some(mut datagram) = client.queue.pop_front() {
            let path = Path {
                source: source.into(),
                destination: media.into(),
                local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            };
            worker.on_datagram(&mut datagram, path, Instant::now());
            worker.dispatch();
        }
    }

    /// The client takes what the server sent to its addresses.
    pub(super) fn receive(&mut self, at: usize) {
        let local = self.sockets[2 * at].local_addr().expect("bound");
        let mut buffer = [0; 2048];
        for socket in &self.sockets[2 * at..2 * at + 2] {
            while let Ok((count, _)) = socket.recv_from(&mut buffer) {
                if let Some(client) = &mut self.clients[at] {
                    let now = Instant::now() + client.ahead;
                    let datagram = &mut buffer[..count];
                    // Datagrams for the session before are refused.
                    let _ = client
                        .session
                        .handle_datagram(now, self.media, local, datagram);
                }
            }
        }
    }

    pub(super) fn restart(&mut self, at: usize, stale: bool) {
        let Some(client) = &mut self.clients[at] else {
            return;
        };
        self.seed = self.seed.wrapping_add(1);
        let secrets = Secrets::expand(&[self.seed; 32]);
        let ours = IceCredentials {
            ufrag: secrets.ufrag,
            pwd: secrets.pwd,
        };
        let text = format!("a=ice-ufrag:{}\r\na=ice-pwd:{}\r\n", ours.ufrag, ours.pwd);
        let fragment = Fragment::parse(&text).expect("our own fragment");
        let expected = match stale {
            true => Expected::Generation(None),
            false => Expected::Any,
        };
        let local = self.media.ip();
        let restarted =
            self.negotiator
                .restart(&client.record, expected, &fragment, ours.clone(), local);
        let Ok(restarted) = restarted else {
            let gone = matches!(client.record.state().location, SessionLocation::Gone);
            assert!(gone || stale, "a session that is there restarts");
            return;
        };
        assert!(!stale, "a generation that never was is refused");
        let value = |name: &str| {
            let line = restarted
                .fragment
                .lines()
                .find_map(|it| it.strip_prefix(name));
            line.expect("credentials").trim().to_owned()
        };
        let theirs = IceCredentials {
            ufrag: value("a=ice-ufrag:"),
            pwd: value("a=ice-pwd:"),
        };
        let found = self.shared.registry.by_ufrag(&theirs.ufrag);
        assert!(found.is_none_or(|it| Arc::ptr_eq(&it, &client.record)));
        let now = Instant::now() + client.ahead;
        client.session.restart_ice(ours, theirs, now);
    }

    /// The client deletes its session, and the request may be cancelled while the shard is asked.
    pub(super) fn leave(&mut self, at: usize) {
        if let Some(client) = self.clients[at].take() {
            let _ = self.negotiator.leave(&client.record).now_or_never();
        }
    }

    fn check(&mut self) {
        let (sessions, half_open) = self.shared.registry.counts();
        assert!(sessions <= CLIENTS && half_open <= HALF_OPEN);
        for record in &self.records {
            let owners = [0, 1].map(|at| self.workers[at].peers.by_session(&record.id).is_some());
            assert!(owners != [true, true], "two shards own a session");
            match record.state().location {
                SessionLocation::Waiting(_) => assert_eq!(owners, [false, false]),
                // On the way, the peer is in the inbox of the shard that the record names.
                SessionLocation::Shard(index) => assert!(!owners[1 - index]),
                SessionLocation::Gone => {}
            }
        }
    }

    /// Everybody leaves, and nothing is left.
    fn come_to_rest(&mut self) {
        for at in 0..CLIENTS {
            self.leave(at);
        }
        for _ in 0..3 {
            for worker in &mut self.workers {
                worker.process_commands();
            }
        }
        // Offers in place of which the client made another one.
        for record in &self.records {
            let _ = self.negotiator.leave(record).now_or_never();
        }
        for _ in 0..3 {
            for worker in &mut self.workers {
                worker.process_commands();
            }
        }
        for record in &self.records {
            let owners = [0, 1].map(|at| self.workers[at].peers.by_session(&record.id).is_some());
            assert_eq!(owners, [false, false]);
            assert!(matches!(record.state().location, SessionLocation::Gone));
        }
        for worker in &self.workers {
            assert!(worker.peers.keys().is_empty() && worker.streams.is_empty());
        }
        assert_eq!(self.shared.registry.counts(), (0, 0), "sessions, half-open");
    }
}

impl Client {
    fn advance(&mut self) {
        self.ahead += Duration::from_millis(60);
        let now = Instant::now() + self.ahead;
        self.session.handle_timeout(now);
        let mut out = Vec::new();
        while self.session.poll_transmit(&mut out).is_some() {
            self.queue.push_back(out.clone());
        }
        while self.session.poll_event().is_some() {}
    }
}

fn worker(
    index: usize,
    shared: &Arc<Shared>,
    supervisor: &Supervisor,
    handles: &mut Vec<Handle>,
) -> (Worker, Arc<Heartbeat>) {
    let poll = mio::Poll::new().expect("a descriptor");
    let waker = Arc::new(Waker::new(&poll, WAKE).expect("a descriptor"));
    let (inbox, commands) = CommandSender::new(Arc::clone(&waker));
    let counters = Arc::new(Counters::default());
    handles.push(Handle {
        inbox,
        counters: Arc::clone(&counters),
    });
    let heartbeat = supervisor.register(Part::Shard, "fuzzed");
    let parts = Parts {
        index,
        poll,
        socket: UdpSocket::bind(loopback(), &socket_options()).expect("a port"),
        waker,
        commands,
        counters,
    };
    let worker = Worker::new(parts, Arc::clone(shared), &heartbeat);
    (worker.expect("a worker"), heartbeat.into())
}

/// The steps that tests take one by one.
#[cfg(test)]
impl Scene {
    pub(super) fn record(&self, at: usize) -> &Arc<SessionRecord> {
        &self.client(at).record
    }

    /// Returns an address of a client.
    pub(super) fn address(&self, at: usize, address: usize) -> SocketAddr {
        let socket = &self.sockets[2 * at + address];
        socket.local_addr().expect("bound")
    }

    /// Lets a client's clock go on, and returns the next datagram that the client sends.
    pub(super) fn next_datagram(&mut self, at: usize) -> Option<Vec<u8>> {
        let client = self.clients[at].as_mut()?;
        client.advance();
        client.queue.pop_front()
    }

    pub(super) fn is_connected(&self, at: usize) -> bool {
        self.client(at).session.is_connected()
    }

    /// Returns the number of packets of media that a client received.
    pub(super) fn received(&self, at: usize) -> u64 {
        let receivers = self.client(at).session.receivers().iter();
        receivers.map(|it| it.totals().received).sum()
    }

    /// Sends a datagram to the first worker's socket, from the last client's address.
    pub(super) fn strange(&self, datagram: &[u8]) {
        let socket = &self.sockets[2 * CLIENTS - 1];
        let sent = socket.send_to(datagram, self.media);
        sent.expect("loopback takes it");
    }

    pub(super) fn credentials(&self, at: usize) -> &IceCredentials {
        self.client(at).session.local_credentials()
    }

    fn client(&self, at: usize) -> &Client {
        self.clients[at].as_ref().expect("it joined")
    }
}

/// Runs a test with clients that have not joined yet.
#[cfg(test)]
pub(super) fn in_scene(test: impl FnOnce(&mut Scene)) {
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        test(&mut Scene::new());
    });
}

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    /// The seeds of the fuzz target, and random operations.
    #[test]
    fn sessions_have_one_owner_in_any_order_of_events() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/registry");
        for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
            let path = entry.expect("a file").path();
            super::registry(&std::fs::read(&path).expect("a readable seed"));
        }
        for seed in 0..100 {
            println!("seed {seed}");
            let mut input = vec![0; 200];
            Rng::new(seed).fill(&mut input);
            super::registry(&input);
        }
    }
}
