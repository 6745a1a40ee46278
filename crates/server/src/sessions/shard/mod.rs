//! A thread that owns its peers whole: session state, timers, socket.
//!
//! ```text
//!  UDP in ──► by source address ──► Peer.session ──────────────┐
//!  STUN ──► by ufrag ──► registry ──► adopt                    ├─► Outbox ──► UDP out
//!  hub wake ──► StreamSubscription.read once ──► each viewer ──┘
//!  Negotiator ──► Command (leave, trickle, restart, frame stamps)
//! ```
//!
//! All shards share one port (`SO_REUSEPORT`), so a peer's datagrams keep
//! arriving at the shard where its first ones landed: that shard adopts it. When
//! the peer's address changes, the owner goes on to serve it until ICE has
//! chosen the new address and then hands the peer over whole.

mod command;
mod shared;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use glassline_net::{Options, UdpSocket};

pub use command::{Command, Forwarded};
pub use shared::{Handle, Shared};

use super::counters::Counters;
use crate::runtime::{CommandSender, Waker};

/// Receive buffer to ask for: a second of a few hundred viewers' feedback.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Send buffer to ask for; Linux grants twice as much, and counts its own overhead.
/// What waits in it is beyond every budget of ours, so it is no larger than a fast
/// interface empties in some 20 ms; what does not fit waits in the outbox, and then
/// viewers skip.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// The running shards; stop them with [`Command::Stop`] and then join.
#[derive(Debug)]
pub struct Shards {
    local: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Shards {
    /// Opens `count` sockets on `address` and starts a thread for each.
    ///
    /// # Errors
    /// [`StartError`] if the port is taken or the system has no thread to give.
    pub fn start(
        address: SocketAddr,
        count: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self, StartError> {
        // Sockets that share a port would silently join those of another
        // process, and each would get half of the viewers.
        glassline_net::port_is_free(address)?;
        let options = Options {
            reuse_port: true,
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            send_buffer: Some(SEND_BUFFER_BYTES),
            path_errors: true,
            ..Options::default()
        };
        let first = UdpSocket::bind(address, &options)?;
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
            workers.push(worker::Worker::new(
                index,
                poll,
                socket,
                waker,
                commands,
                counters,
                Arc::clone(shared),
            )?);
        }
        shared
            .handles
            .set(handles)
            .expect("shards are started once");
        let mut threads = Vec::with_capacity(count);
        for (index, worker) in workers.into_iter().enumerate() {
            let name = format!("shard-{index}");
            threads.push(
                std::thread::Builder::new()
                    .name(name)
                    .spawn(move || worker.run())?,
            );
        }
        Ok(Self { local, threads })
    }

    /// Where the viewers' datagrams go.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
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

/// Why the shards could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The media port.
    #[error("media: {0}; `media.address` or --media sets it")]
    Bind(#[from] glassline_net::BindError),
    /// Threads or descriptors.
    #[error("cannot start a shard: {0}")]
    System(#[from] std::io::Error),
}
