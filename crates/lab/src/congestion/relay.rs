//! Runs an upload in real time: the same ends over UDP sockets, and between them a relay
//! that passes their datagrams through the same links.
//!
//! ```text
//! senders' thread      relay's thread                       receivers' thread
//!  Node ◄─ socket ─► near socket ─► up: Link ─► far socket ◄─ socket ─► Node
//!                        └──────◄── down: Link ◄──┘
//! ```
//!
//! Each flow has a pair of sockets on loopback; all flows share one link each way, as in virtual
//! time. No privilege is needed. Reality differs from virtual time in two ways: threads wake
//! late, and each round trip passes the kernel several times.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use glassline_sim::{Link, SendOutcome};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use thiserror::Error;

use super::session::{Arm, Change, HEADER_BYTES, Measured, Scenario};
use super::upload::{
    Application, Credentials, DatagramCounts, Findings, Node, Receiver, Sender, Upload, mbps,
};

/// Size of the receive buffer. QUIC's datagrams and loopback's are below 1500 bytes.
const DATAGRAM_BYTES: usize = 2048;

/// For shorter waits a thread sleeps in steps of [`STEP`], because waits for sockets end at whole
/// milliseconds only.
const FINE: Duration = Duration::from_millis(2);

/// Length of a step. Shorter ones would only cost processor time: the kernel's timers have 50 µs
/// of slack.
const STEP: Duration = Duration::from_micros(100);

/// Error of the operating system while a relay was set up or run.
#[derive(Debug, Error)]
#[error("cannot relay an upload over sockets of this machine: {what}: {source}")]
pub struct RelayError {
    what: &'static str,
    source: io::Error,
}

fn refused(what: &'static str) -> impl FnOnce(io::Error) -> RelayError {
    move |source| RelayError { what, source }
}

/// Runs one session over sockets.
pub(super) fn run(
    credentials: &Credentials,
    scenario: &Scenario,
    arm: &Arm,
    seed: u64,
    duration: Duration,
) -> Result<Measured, RelayError> {
    let sockets = Sockets::new(scenario.competitors.len() + 1)?;
    let start = Instant::now();
    let end = start + duration;
    let servers = sockets.servers.clone();
    let upload = Upload::new(credentials, scenario, arm, seed, start, |flow| {
        servers[flow]
    });
    let Upload {
        flows,
        observed,
        account,
        wire,
        links: [up, down],
    } = upload;
    let starts: Vec<Instant> = flows.iter().map(|flow| flow.start).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = flows
        .into_iter()
        .map(|flow| (flow.sender, flow.receiver))
        .unzip();
    let Sockets {
        near,
        far,
        sender_ends,
        receiver_ends,
        ..
    } = sockets;
    let mut relay = Relay {
        scenario,
        start,
        end,
        near,
        far,
        up: Link::new(scenario.up.clone(), up).starting_at(start),
        down: Link::new(scenario.down.clone(), down).starting_at(start),
        limit: usize::MAX,
        changes_done: 0,
        datagrams: DatagramCounts::default(),
        events: 0,
    };
    let (relayed, senders, receivers) = thread::scope(|scope| {
        let senders = scope.spawn(|| Ends::new(senders, sender_ends, starts)?.run(end));
        let idle = vec![start; receivers.len()];
        let receivers = scope.spawn(|| Ends::new(receivers, receiver_ends, idle)?.run(end));
        let relayed = relay.run();
        let joined = |ends: Result<_, _>| ends.expect("an end's thread does not panic");
        (relayed, senders.join(), joined(receivers.join()))
    });
    relayed?;
    let senders: Vec<Node<Sender>> = senders.expect("an end's thread does not panic")?;
    let receivers: Vec<Node<Receiver>> = receivers?;
    let mut measured = Findings {
        start,
        end,
        processing: scenario.source.processing,
        published: senders[0].application.publisher().published(end),
        received: receivers[0].application.received(),
        stream_bytes: wire.bytes(),
        round_trips_us: account.round_trips_us(),
        observed: observed.get(),
        datagrams: relay.datagrams,
    }
    .measured();
    let competitors = scenario.competitors.iter().zip(&receivers[1..]);
    measured.competitors_mbps = competitors
        .map(|(competitor, receiver)| {
            let bytes = receiver.application.received().bytes;
            mbps(bytes, competitor.time_within(duration))
        })
        .collect();
    measured.events = relay.events;
    Ok(measured)
}

/// The sockets of all flows, by flow.
struct Sockets {
    /// The relay's sockets, towards the senders.
    near: Vec<UdpSocket>,
    far: Vec<UdpSocket>,
    sender_ends: Vec<UdpSocket>,
    receiver_ends: Vec<UdpSocket>,
    /// Addresses that the senders believe their receivers to have.
    servers: Vec<SocketAddr>,
}

impl Sockets {
    fn new(flows: usize) -> Result<Self, RelayError> {
        let mut sockets = Self {
            near: Vec::new(),
            far: Vec::new(),
            sender_ends: Vec::new(),
            receiver_ends: Vec::new(),
            servers: Vec::new(),
        };
        for _ in 0..flows {
            let (end, near) = pair()?;
            sockets.servers.push(local(&near)?);
            sockets.sender_ends.push(end);
            sockets.near.push(near);
            let far = bind()?;
            let end = bind()?;
            // The receiver's socket accepts any source: a sender may change its address.
            far.connect(local(&end)?)
                .map_err(refused("connecting a socket"))?;
            sockets.far.push(far);
            sockets.receiver_ends.push(end);
        }
        Ok(sockets)
    }
}

/// Two sockets that are connected to each other.
fn pair() -> Result<(UdpSocket, UdpSocket), RelayError> {
    let (one, other) = (bind()?, bind()?);
    one.connect(local(&other)?)
        .map_err(refused("connecting a socket"))?;
    other
        .connect(local(&one)?)
        .map_err(refused("connecting a socket"))?;
    Ok((one, other))
}

fn bind() -> Result<UdpSocket, RelayError> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    UdpSocket::bind(loopback).map_err(refused("binding a UDP socket on loopback"))
}

fn local(socket: &UdpSocket) -> Result<SocketAddr, RelayError> {
    socket
        .local_addr()
        .map_err(refused("asking for a socket's address"))
}

/// Waits for sockets or for a point in time.
struct Waiting {
    poll: Poll,
    events: Events,
}

impl Waiting {
    fn new() -> Result<Self, RelayError> {
        Ok(Self {
            poll: Poll::new().map_err(refused("polling"))?,
            events: Events::with_capacity(64),
        })
    }

    fn watch(&mut self, socket: &mut UdpSocket) -> Result<(), RelayError> {
        let registry = self.poll.registry();
        registry
            .register(socket, Token(0), Interest::READABLE)
            .map_err(refused("watching a socket"))
    }

    /// Returns when a datagram has arrived, or at `until`. All sockets must have been read empty
    /// before.
    fn wait(&mut self, until: Instant) -> Result<(), RelayError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let coarse = left.saturating_sub(FINE);
            let millis = u64::try_from(coarse.as_millis()).unwrap_or(u64::MAX);
            let polled = self
                .poll
                .poll(&mut self.events, Some(Duration::from_millis(millis)));
            match polled {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refused("polling")(error)),
                Ok(()) if !self.events.is_empty() => return Ok(()),
                Ok(()) => {}
            }
            if left < FINE {
                thread::sleep(left.min(STEP));
            }
        }
    }
}

/// The ends of one side, which share a thread.
struct Ends<A> {
    nodes: Vec<Node<A>>,
    sockets: Vec<UdpSocket>,
    starts: Vec<Instant>,
    waiting: Waiting,
    buffer: Vec<u8>,
}

impl<A: Application> Ends<A> {
    fn new(
        nodes: Vec<Node<A>>,
        mut sockets: Vec<UdpSocket>,
        starts: Vec<Instant>,
    ) -> Result<Self, RelayError> {
        let mut waiting = Waiting::new()?;
        for socket in &mut sockets {
            waiting.watch(socket)?;
        }
        Ok(Self {
            nodes,
            sockets,
            starts,
            waiting,
            buffer: vec![0; DATAGRAM_BYTES],
        })
    }

    fn run(mut self, end: Instant) -> Result<Vec<Node<A>>, RelayError> {
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(self.nodes);
            }
            let mut next = end;
            for flow in 0..self.nodes.len() {
                self.turn(flow);
                let due = self.nodes[flow].due().map(|due| due.max(self.starts[flow]));
                next = due.map_or(next, |due| due.min(next));
            }
            self.waiting.wait(next)?;
        }
    }

    fn turn(&mut self, flow: usize) {
        let (node, socket) = (&mut self.nodes[flow], &self.sockets[flow]);
        let mut told = false;
        while let Ok((bytes, from)) = socket.recv_from(&mut self.buffer) {
            let datagram = BytesMut::from(&self.buffer[..bytes]);
            node.handle_datagram(Instant::now(), from, None, datagram);
            told = true;
        }
        let now = Instant::now();
        let due = self.starts[flow] <= now && node.due().is_some_and(|due| due <= now);
        if told || due {
            node.turn(now, |datagram, to, _| {
                // A full socket buffer loses the datagram, as a network card's would.
                let _ = match socket.peer_addr() {
                    Ok(_) => socket.send(datagram),
                    Err(_) => socket.send_to(datagram, to),
                };
            });
        }
    }
}

struct InFlight {
    flow: usize,
    datagram: Box<[u8]>,
}

/// The relay between the ends.
struct Relay<'a> {
    scenario: &'a Scenario,
    start: Instant,
    end: Instant,
    near: Vec<UdpSocket>,
    far: Vec<UdpSocket>,
    up: Link<InFlight>,
    down: Link<InFlight>,
    /// Largest datagram that passes, in bytes.
    limit: usize,
    changes_done: usize,
    datagrams: DatagramCounts,
    /// Number of datagrams that arrived.
    events: u64,
}

impl Relay<'_> {
    fn run(&mut self) -> Result<(), RelayError> {
        let mut waiting = Waiting::new()?;
        for socket in self.near.iter_mut().chain(&mut self.far) {
            waiting.watch(socket)?;
        }
        let mut buffer = vec![0; DATAGRAM_BYTES];
        loop {
            let now = Instant::now();
            if now >= self.end {
                return Ok(());
            }
            self.change(now, &mut waiting)?;
            for flow in 0..self.near.len() {
                self.accept_datagram(flow, &mut buffer);
            }
            self.forward_due(Instant::now());
            waiting.wait(self.next_event())?;
        }
    }

    fn next_event(&self) -> Instant {
        let change = self.scenario.changes.get(self.changes_done);
        let change = change.map(|(at, _)| self.start + *at);
        let arrivals = [self.up.next_arrival(), self.down.next_arrival(), change];
        arrivals
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.end)
            .min(self.end)
    }

    fn accept_datagram(&mut self, flow: usize, buffer: &mut [u8]) {
        let mut last = Instant::now();
        while let Ok(bytes) = self.near[flow].recv(buffer) {
            last = last.max(Instant::now());
            let fate = if bytes > self.limit {
                SendOutcome::Lost
            } else {
                let datagram = buffer[..bytes].into();
                self.up
                    .send(last, bytes + HEADER_BYTES, InFlight { flow, datagram })
            };
            if flow == 0 {
                self.datagrams.count(last, fate);
            }
        }
        while let Ok(bytes) = self.far[flow].recv(buffer) {
            last = last.max(Instant::now());
            if bytes <= self.limit {
                let datagram = buffer[..bytes].into();
                let in_flight = InFlight { flow, datagram };
                self.down.send(last, bytes + HEADER_BYTES, in_flight);
            }
        }
    }

    fn forward_due(&mut self, now: Instant) {
        while let Some(arrival) = self.up.poll(now) {
            let in_flight = arrival.datagram;
            if in_flight.flow == 0 {
                self.datagrams.arrived(arrival.queued);
            }
            self.events += 1;
            // A datagram that the kernel refuses is lost, as on any network.
            let _ = self.far[in_flight.flow].send(&in_flight.datagram);
        }
        while let Some(arrival) = self.down.poll(now) {
            let in_flight = arrival.datagram;
            self.events += 1;
            let _ = self.near[in_flight.flow].send(&in_flight.datagram);
        }
    }

    fn change(&mut self, now: Instant, waiting: &mut Waiting) -> Result<(), RelayError> {
        while let Some((at, change)) = self.scenario.changes.get(self.changes_done)
            && self.start + *at <= now
        {
            self.changes_done += 1;
            match change {
                Change::Up(conditions) => self.up.set_conditions(conditions.clone()),
                Change::Down(conditions) => self.down.set_conditions(conditions.clone()),
                Change::DatagramLimit(bytes) => self.limit = *bytes,
                Change::ClientAddress => {
                    let server = self.far[0].peer_addr();
                    let server = server.map_err(refused("asking for a socket's peer"))?;
                    let mut other = bind()?;
                    other
                        .connect(server)
                        .map_err(refused("connecting a socket"))?;
                    waiting.watch(&mut other)?;
                    self.far[0] = other;
                }
            }
        }
        Ok(())
    }
}
