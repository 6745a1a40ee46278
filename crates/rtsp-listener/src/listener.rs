//! The ports for clients, which all threads share.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{AcceptOutage, SpareDescriptor};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use rustls::ServerConfig;

use super::counters::Counters;
use super::event_source::EventSource;

/// Time until a listener with more connections than one turn allows is served again. Media goes out
/// in between, also during a flood.
const TURN: Duration = Duration::from_millis(2);

/// Time until a listener is tried again after descriptors ran out.
const RETRY: Duration = Duration::from_millis(100);

/// Most connections that make room, or are refused, in one turn without descriptors.
pub(super) const SHED_PER_TURN: usize = 16;

/// One port, opened once for each thread.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    pub(crate) listeners: Vec<TcpListener>,
    /// Handshakes of a port within TLS; `None` for a plain port.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Listener {
    /// Opens `address` for `threads` threads; port 0 takes a free one.
    ///
    /// # Errors
    /// Returns an error if the port is taken.
    pub fn open(
        address: SocketAddr,
        threads: usize,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        // Listeners that share a port would silently join those of another process, and each
        // process would get half of the clients.
        glassline_net::tcp_port_is_free(address)?;
        let first = glassline_net::listen(address, true)?;
        let local = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..threads {
            listeners.push(glassline_net::listen(local, true)?);
        }
        Ok(Self {
            local,
            listeners,
            tls,
        })
    }

    /// Returns the certificate and key of a port within TLS.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref()
    }

    /// Returns the scheme of the port's URLs.
    pub fn name(&self) -> &'static str {
        match self.tls {
            Some(_) => "rtsps",
            None => "rtsp",
        }
    }

    /// Returns the address that clients connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// A thread's share of every listener.
#[derive(Debug)]
pub(super) struct ThreadListeners {
    listeners: Vec<ThreadListener>,
    spare: SpareDescriptor,
}

/// A thread's share of one listener.
#[derive(Debug)]
pub(super) struct ThreadListener {
    listener: mio::net::TcpListener,
    tls: Option<Arc<ServerConfig>>,
    /// Time of the next turn; `None` if no connection waited after the last one.
    retry_at: Option<Instant>,
    outage: AcceptOutage,
}

/// The result of accepting a connection.
pub(super) enum Accepted<'a> {
    /// A connection, its client's address, and how to shake hands if the port is within TLS.
    Connection(TcpStream, SocketAddr, Option<&'a Arc<ServerConfig>>),
    /// No connection waits, or none may be accepted in this turn.
    Nobody,
    /// A connection waits, and the process has no descriptor for it.
    NoDescriptor,
}

impl ThreadListeners {
    /// Divides listeners between threads: each thread gets a socket of each listener. The returned
    /// addresses are in the order of the listeners.
    pub(super) fn split(listeners: Vec<Listener>) -> (Vec<SocketAddr>, Vec<Self>) {
        let addresses = listeners.iter().map(Listener::local_addr).collect();
        let mut threads: Vec<Self> = Vec::new();
        for listener in listeners {
            let (name, tls) = (listener.name(), listener.tls);
            let count = threads.len().max(listener.listeners.len());
            threads.resize_with(count, || Self {
                listeners: Vec::new(),
                spare: SpareDescriptor::held(),
            });
            for (socket, thread) in listener.listeners.into_iter().zip(&mut threads) {
                thread.listeners.push(ThreadListener {
                    listener: mio::net::TcpListener::from_std(socket),
                    tls: tls.clone(),
                    retry_at: None,
                    outage: AcceptOutage::new(name),
                });
            }
        }
        (addresses, threads)
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (index, it) in self.listeners.iter_mut().enumerate() {
            let token = EventSource::Listener(index).token();
            registry.register(&mut it.listener, token, Interest::READABLE)?;
        }
        Ok(())
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        for it in &mut self.listeners {
            // The listener may have been deregistered before.
            let _ = registry.deregister(&mut it.listener);
        }
    }

    /// Accepts a connection of listener `index`.
    pub(super) fn accept(
        &mut self,
        index: usize,
        counters: &Counters,
        now: Instant,
    ) -> Accepted<'_> {
        let Some(it) = self.listeners.get_mut(index) else {
            return Accepted::Nobody;
        };
        if it.retry_at.is_some_and(|at| now < at) {
            return Accepted::Nobody;
        }
        it.retry_at = None;
        loop {
            match it.listener.accept() {
                Ok((stream, peer)) => {
                    return Accepted::Connection(stream, peer, it.tls.as_ref());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Accepted::Nobody;
                }
                Err(error) if glassline_net::is_descriptor_shortage(&error) => {
                    let open = usize::try_from(counters.open.get()).unwrap_or(usize::MAX);
                    it.outage.note_failure(&error, open, now);
                    return Accepted::NoDescriptor;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The connection ended while it waited (accept(2)). The next turn goes on, so that an
                // error that lasts cannot hold the thread.
                Err(_) => {
                    it.retry_at = Some(now + TURN);
                    return Accepted::Nobody;
                }
            }
        }
    }

    /// Refuses connections of listener `index` for which there is no descriptor, and leaves the
    /// others to a later turn. Returns the number of refused ones.
    pub(super) fn refuse(&mut self, index: usize, now: Instant) -> u64 {
        let Some(it) = self.listeners.get_mut(index) else {
            return 0;
        };
        it.retry_at = Some(now + RETRY);
        let accept = || it.listener.accept().map(|(stream, _)| stream.into());
        let refused = (0..SHED_PER_TURN).take_while(|_| self.spare.refuse_one(accept));
        refused.count() as u64
    }

    /// Leaves the connections that still wait at listener `index` to a later turn.
    pub(super) fn leave_rest(&mut self, index: usize, now: Instant) {
        if let Some(it) = self.listeners.get_mut(index) {
            it.retry_at = Some(now + TURN);
        }
    }

    /// Has every listener accept in this turn.
    pub(super) fn accept_all(&mut self, now: Instant) {
        for it in &mut self.listeners {
            it.retry_at.get_or_insert(now);
        }
    }

    /// Returns the time of the next turn of any listener at which more connections may wait.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.listeners.iter().filter_map(|it| it.retry_at).min()
    }

    /// Returns the listeners whose next turn is due.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = usize> + use<> {
        let is_due = |it: &ThreadListener| it.retry_at.is_some_and(|at| at <= now);
        let due = self
            .listeners
            .iter()
            .map(is_due)
            .collect::<smallvec::SmallVec<[bool; 4]>>();
        due.into_iter()
            .enumerate()
            .filter_map(|(index, due)| due.then_some(index))
    }

    /// Notes the end of outages.
    pub(super) fn check_outages(&mut self, now: Instant) {
        for it in &mut self.listeners {
            it.outage.check(now);
        }
    }
}
