//! A shard: a thread that owns its peers as a whole, with session state, timers and socket.
//!
//! ```text
//!  UDP in ──► by source address ──► Peer.session ──────────────┐
//!  STUN ──► by ufrag ──► registry ──► adopt                    ├─► Outbox ──► UDP out
//!  TCP in ─ connection of a peer ─► frames ─► the same
//!  hub wake ──► StreamSubscription.read once ──► each viewer ──┘
//!  Negotiator ──► Command (leave, trickle, restart, frame stamps)
//! ```
//!
//! All shards share one port (`SO_REUSEPORT`), so a peer's datagrams keep arriving at the shard
//! where the first ones arrived: that shard adopts the peer. When the peer's address changes, the
//! owner continues to serve it until ICE has chosen the new address, and then hands the peer over
//! as a whole.

mod command;
mod shared;
mod worker;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use glassline_net::{Options, UdpSocket};
use glassline_runtime::{CommandSender, Part, Waker};

pub use command::{Command, Connected, Forwarded, PeerConnections};
pub use shared::{Handle, Shared};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use worker::fuzzing::registry as fuzz_registry;

use super::counters::Counters;

/// Receive buffer to request from the system, in bytes: a second of a few hundred viewers'
/// feedback.
pub const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Send buffer to request from the system, in bytes. Linux grants twice as much and counts its own
/// overhead.
///
/// Data in this buffer is beyond every limit of the server's own, so the buffer is no larger than
/// what a fast interface sends in some 20 ms. Data that does not fit waits in the outbox, and
/// viewers then skip to a keyframe.
pub const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Free ports of UDP that are tried until one is free for TCP, too.
const FREE_PORT_ATTEMPTS: usize = 32;

/// The running shards. To end them, send [`Command::Stop`] to each and then call [`Self::join`].
#[derive(Debug)]
pub struct Shards {
    local: SocketAddr,
    /// The port for media over TCP, until it is served.
    tcp: Option<TcpListener>,
    threads: Vec<JoinHandle<()>>,
}

impl Shards {
    /// Opens `count` sockets on `address` and starts a thread for each. With `tcp`, opens the same
    /// port of TCP, too, for `take_tcp`.
    ///
    /// # Errors
    /// Returns [`StartError`] if the port is taken or the system has no thread to give.
    pub fn start(
        address: SocketAddr,
        tcp: bool,
        count: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self, StartError> {
        let options = socket_options();
        let listen = tcp.then_some(|address| glassline_net::listen(address, false));
        let (first, tcp) = open_port(address, &options, listen)?;
        let local = first.local_addr();
        let sockets = match for_this_machine(local, count) {
            Some(sockets) => {
                // It held the port meanwhile.
                drop(first);
                sockets
            }
            None => {
                let more = (1..count).map(|_| UdpSocket::bind(local, &options));
                let more: Vec<_> = more.collect::<Result<_, _>>()?;
                std::iter::once(first).chain(more).collect()
            }
        };
        let mut workers = Vec::with_capacity(count);
        let mut handles = Vec::with_capacity(count);
        for (index, socket) in sockets.into_iter().enumerate() {
            let poll = mio::Poll::new()?;
            let waker = Arc::new(Waker::new(&poll, worker::WAKE)?);
            let (inbox, commands) = CommandSender::new(Arc::clone(&waker));
            let counters = Arc::new(Counters::default());
            handles.push(Handle {
                inbox,
                counters: Arc::clone(&counters),
            });
            let heartbeat = shared.supervisor.register(Part::Shard, &name(index));
            let parts = worker::Parts {
                index,
                poll,
                socket,
                waker,
                commands,
                counters,
            };
            let worker = worker::Worker::new(parts, Arc::clone(shared), &heartbeat)?;
            workers.push((worker, heartbeat));
        }
        shared
            .handles
            .set(handles)
            .expect("shards are started once");
        let mut threads = Vec::with_capacity(count);
        for (index, (worker, heartbeat)) in workers.into_iter().enumerate() {
            let supervisor = Arc::clone(&shared.supervisor);
            let thread = std::thread::Builder::new().name(name(index));
            threads.push(thread.spawn(move || supervisor.run(worker, &heartbeat))?);
        }
        Ok(Self {
            local,
            tcp,
            threads,
        })
    }

    /// Returns the UDP address that viewers' datagrams are sent to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Takes the port for media over TCP, if it was opened and not taken before.
    pub(crate) fn take_tcp(&mut self) -> Option<TcpListener> {
        self.tcp.take()
    }

    /// Waits until every shard stopped.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a shard ended in a panic");
            }
        }
    }
}

/// Opens `count` sockets in place of those at `local`, where that is the loopback address: they are
/// reached at every address of this machine, and by programs of this machine only. Firefox sends
/// nothing to 127.0.0.1. Returns `None` where `local` is another address, or the kernel refuses.
fn for_this_machine(local: SocketAddr, count: usize) -> Option<Vec<UdpSocket>> {
    if local.ip() != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return None;
    }
    let options = Options {
        this_machine_only: true,
        ..socket_options()
    };
    let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port());
    let sockets = (0..count).map(|_| UdpSocket::bind(everywhere, &options));
    sockets.collect::<Result<_, _>>().ok()
}

/// Opens `address` of UDP and, with `listen`, the same port of TCP.
fn open_port(
    address: SocketAddr,
    options: &Options,
    mut listen: Option<impl FnMut(SocketAddr) -> io::Result<TcpListener>>,
) -> Result<(UdpSocket, Option<TcpListener>), StartError> {
    // Sockets that share a port would silently join the sockets of another process, and each
    // process would get half of the viewers.
    glassline_net::port_is_free(address)?;
    let mut attempts = 1..=FREE_PORT_ATTEMPTS;
    loop {
        let socket = UdpSocket::bind(address, options)?;
        let Some(listen) = &mut listen else {
            return Ok((socket, None));
        };
        let local = socket.local_addr();
        match listen(local) {
            Ok(listener) => return Ok((socket, Some(listener))),
            // A port that is free for UDP may be taken for TCP.
            Err(_) if address.port() == 0 && attempts.next().is_some() => {}
            Err(source) => {
                return Err(StartError::Tcp {
                    address: local,
                    source,
                });
            }
        }
    }
}

/// Options of a shard's socket: several share a port, and the network's errors are reported.
fn socket_options() -> Options {
    Options {
        reuse_port: true,
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        send_buffer: Some(SEND_BUFFER_BYTES),
        path_errors: true,
        ..Options::default()
    }
}

/// Returns the name of a shard's thread.
fn name(index: usize) -> String {
    format!("shard-{index}")
}

/// The reason why the shards could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The media port could not be opened.
    #[error("media: {0}; `media.address` or --media sets it")]
    Bind(#[from] glassline_net::BindError),
    /// The media port could not be opened for TCP.
    #[error(
        "media: cannot listen on TCP {address}: {source}; stop the program that holds the port \
         (`ss -ltnp 'sport = :{port}'` names it), change `media.address`, or set `media.tcp: false`",
        port = address.port()
    )]
    Tcp {
        /// Address that could not be opened.
        address: SocketAddr,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The system has no thread or descriptor to give.
    #[error("cannot start a shard: {0}")]
    System(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn taken() -> io::Error {
        io::ErrorKind::AddrInUse.into()
    }

    #[test]
    fn udp_and_tcp_have_the_same_port_and_tcp_is_opened_only_where_it_is_wanted() {
        let listen = |address| glassline_net::listen(address, false);
        let (udp, tcp) = open_port(LOOPBACK, &socket_options(), Some(listen)).expect("free ports");
        let tcp = tcp.expect("asked for");
        assert_eq!(tcp.local_addr().expect("bound"), udp.local_addr());
        let listen = None::<fn(SocketAddr) -> io::Result<TcpListener>>;
        let (_, none) = open_port(LOOPBACK, &socket_options(), listen).expect("a free port");
        assert!(none.is_none());
        drop(udp);
        let shared = udp_port_that_others_may_share();
        let listen = None::<fn(SocketAddr) -> io::Result<TcpListener>>;
        let refused = open_port(shared.local_addr(), &socket_options(), listen);
        let error = refused.expect_err("half of the viewers would be another process's");
        assert!(matches!(error, StartError::Bind(_)), "{error}");
    }

    fn udp_port_that_others_may_share() -> UdpSocket {
        UdpSocket::bind(LOOPBACK, &socket_options()).expect("a free port")
    }

    #[test]
    fn a_port_that_is_free_for_udp_alone_is_passed_over_but_not_one_that_was_asked_for() {
        let mut tried = Vec::new();
        let listen = |address: SocketAddr| {
            tried.push(address.port());
            match tried.len() {
                ..FREE_PORT_ATTEMPTS => Err(taken()),
                _ => glassline_net::listen(address, false),
            }
        };
        let (udp, tcp) = open_port(LOOPBACK, &socket_options(), Some(listen)).expect("the last");
        assert!(tcp.is_some());
        assert_eq!(tried.last(), Some(&udp.local_addr().port()));
        assert!(tried.iter().all(|port| *port != 0), "a real port each time");
        let mut attempts = 0;
        let never = |_| {
            attempts += 1;
            Err(taken())
        };
        let error = open_port(LOOPBACK, &socket_options(), Some(never)).expect_err("all are taken");
        assert!(matches!(error, StartError::Tcp { .. }), "{error}");
        assert_eq!(attempts, FREE_PORT_ATTEMPTS + 1);
        let asked = udp_port_that_others_may_share().local_addr();
        let mut attempts = 0;
        let never = |_| {
            attempts += 1;
            Err(taken())
        };
        let error = open_port(asked, &socket_options(), Some(never)).expect_err("it is taken");
        assert_eq!(attempts, 1);
        let text = error.to_string();
        assert!(text.contains(&format!("TCP {asked}")), "{text}");
    }
}
