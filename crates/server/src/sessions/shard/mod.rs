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

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use glassline_net::{Options, UdpSocket};

pub use command::{Command, Connected, Forwarded, PeerConnections};
pub use shared::{Handle, Shared};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use worker::fuzzing::registry as fuzz_registry;

use super::counters::Counters;
use crate::runtime::{CommandSender, Part, Waker};

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
    /// port of TCP, too, for [`take_tcp`](Self::take_tcp).
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
        let (first, tcp) = open_port(address, tcp, &options)?;
        let local = first.local_addr();
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(UdpSocket::bind(local, &options)?);
        }
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

/// Opens `address` of UDP and, if `tcp` asks for it, of TCP.
fn open_port(
    address: SocketAddr,
    tcp: bool,
    options: &Options,
) -> Result<(UdpSocket, Option<TcpListener>), StartError> {
    // Sockets that share a port would silently join the sockets of another process, and each
    // process would get half of the viewers.
    glassline_net::port_is_free(address)?;
    let mut attempts = 1..=FREE_PORT_ATTEMPTS;
    loop {
        let socket = UdpSocket::bind(address, options)?;
        if !tcp {
            return Ok((socket, None));
        }
        let local = socket.local_addr();
        match glassline_net::listen(local, false) {
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
        source: std::io::Error,
    },
    /// The system has no thread or descriptor to give.
    #[error("cannot start a shard: {0}")]
    System(#[from] std::io::Error),
}
