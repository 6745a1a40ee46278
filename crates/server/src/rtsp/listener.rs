//! The ports for clients, which all threads share.

use std::io;
use std::net::{SocketAddr, TcpListener};

use mio::net::TcpStream;
use mio::{Interest, Registry};

use super::event_source::EventSource;
use crate::config::Identity;

/// One port, opened once for each thread.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    pub(super) listeners: Vec<TcpListener>,
    /// Certificate and key of a port within TLS; `None` for a plain port.
    pub(super) identity: Option<Identity>,
}

impl Listener {
    /// Opens `address` for `threads` threads; port 0 takes a free one.
    ///
    /// # Errors
    /// Returns an error if the port is taken.
    pub fn open(
        address: SocketAddr,
        threads: usize,
        identity: Option<Identity>,
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
            identity,
        })
    }

    /// Returns the certificate and key of a port within TLS.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the scheme of the port's URLs.
    pub fn name(&self) -> &'static str {
        match self.identity {
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
pub(super) struct ThreadListeners(Vec<ThreadListener>);

/// A thread's share of one listener.
#[derive(Debug)]
pub(super) struct ThreadListener {
    listener: mio::net::TcpListener,
    identity: Option<Identity>,
    /// Whether more connections may wait than were accepted.
    has_more: bool,
}

/// The result of accepting a connection.
pub(super) enum Accepted<'a> {
    /// A connection, its client's address, and the certificate to use if the port is within TLS.
    Connection(TcpStream, SocketAddr, Option<&'a Identity>),
    /// No connection waits.
    Nobody,
}

impl ThreadListeners {
    /// Divides listeners between threads: each thread gets a socket of each listener. The returned
    /// addresses are in the order of the listeners.
    pub(super) fn split(listeners: Vec<Listener>) -> (Vec<SocketAddr>, Vec<Self>) {
        let addresses = listeners.iter().map(Listener::local_addr).collect();
        let mut threads: Vec<Self> = Vec::new();
        for listener in listeners {
            let count = threads.len().max(listener.listeners.len());
            threads.resize_with(count, || Self(Vec::new()));
            for (socket, thread) in listener.listeners.into_iter().zip(&mut threads) {
                thread.0.push(ThreadListener {
                    listener: mio::net::TcpListener::from_std(socket),
                    identity: listener.identity.clone(),
                    has_more: false,
                });
            }
        }
        (addresses, threads)
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (index, it) in self.0.iter_mut().enumerate() {
            let token = EventSource::Listener(index).token();
            registry.register(&mut it.listener, token, Interest::READABLE)?;
        }
        Ok(())
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        for it in &mut self.0 {
            // The listener may have been deregistered before.
            let _ = registry.deregister(&mut it.listener);
        }
    }

    /// Accepts a connection of listener `index`.
    pub(super) fn accept(&mut self, index: usize) -> Accepted<'_> {
        let Some(it) = self.0.get_mut(index) else {
            return Accepted::Nobody;
        };
        it.has_more = false;
        loop {
            match it.listener.accept() {
                Ok((stream, peer)) => {
                    return Accepted::Connection(stream, peer, it.identity.as_ref());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Accepted::Nobody;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Most likely the process has no descriptor left. The next sweep tries again.
                    tracing::warn!(%error, "cannot accept RTSP connections");
                    it.has_more = true;
                    return Accepted::Nobody;
                }
            }
        }
    }

    /// Leaves the connections that still wait at listener `index` to a later turn.
    pub(super) fn leave_rest(&mut self, index: usize) {
        if let Some(it) = self.0.get_mut(index) {
            it.has_more = true;
        }
    }

    /// Returns the listeners at which more connections may wait than were accepted.
    pub(super) fn with_more(&self) -> Vec<usize> {
        let listeners = self.0.iter().enumerate();
        let with_more = listeners.filter(|(_, it)| it.has_more);
        with_more.map(|(index, _)| index).collect()
    }
}
