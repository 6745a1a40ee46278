//! The TCP connections of one shard's peers.
//!
//! ```text
//!  media ─ sealed and framed ─────────────────► TcpConnection ─► kernel
//!  control ─ framed, waits for the flush ───────► │ full
//!                                                 └► the rest waits: no media is sealed for that peer
//! ```
//!
//! A connection that is full delays its own peer only. The peer's viewer then skips to the next
//! keyframe, as if the path were slow, and all others go on.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use glassline_runtime::{Key, Slots, shrink};
use mio::{Interest, Registry, Token};

use super::super::counters::SendCounters;
use super::connection::TcpConnection;

/// The connections, by the peer's address and by the token of their events.
#[derive(Debug)]
pub struct TcpConnections {
    connections: Slots<(Token, TcpConnection)>,
    by_peer: HashMap<SocketAddr, Key>,
    by_token: HashMap<Token, SocketAddr>,
    /// The connection that was looked up last. A viewer's connection is asked for several times
    /// while the viewer is served, and the address is hashed once.
    latest: Cell<Key>,
    /// The token of the next connection. None is used twice, so that an event of a connection that
    /// was closed leads to no other one.
    next: usize,
    /// Connections that got datagrams since the kernel was offered the last ones.
    unwritten: Vec<SocketAddr>,
    /// Connections that failed and are not closed yet.
    broken: Vec<SocketAddr>,
}

impl TcpConnections {
    /// The first token of connections; the owner of the poll has those before it.
    pub const FIRST: usize = 2;

    /// Adds `connection` and waits for its events.
    ///
    /// # Errors
    /// Another connection comes from the same address and port, or the system refuses.
    pub fn insert(&mut self, mut connection: TcpConnection, registry: &Registry) -> io::Result<()> {
        let peer = connection.peer();
        if self.by_peer.contains_key(&peer) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let token = Token(self.next);
        // Events are reported once for each change, so that room for writing costs nothing.
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(connection.stream(), token, interest)?;
        self.next += 1;
        if connection.has_waiting() {
            self.unwritten.push(peer);
        }
        self.by_token.insert(token, peer);
        let key = self.connections.insert((token, connection));
        self.by_peer.insert(peer, key);
        Ok(())
    }

    /// Removes the connection of `peer`, whose events are not waited for any more.
    pub fn remove(&mut self, peer: SocketAddr, registry: &Registry) -> Option<TcpConnection> {
        let key = self.by_peer.remove(&peer)?;
        let (token, mut connection) = self.connections.remove(key)?;
        self.by_token.remove(&token);
        shrink(&mut self.by_peer);
        shrink(&mut self.by_token);
        // Without the system's help, its events lead nowhere.
        let _ = registry.deregister(connection.stream());
        Some(connection)
    }

    /// Closes the connection of `peer` after a last attempt to send what waits.
    pub fn close(&mut self, peer: SocketAddr, registry: &Registry) {
        if let Some(mut connection) = self.remove(peer, registry) {
            connection.write();
        }
    }

    /// Returns the peer whose connection an event is about.
    pub fn of_token(&self, token: Token) -> Option<SocketAddr> {
        self.by_token.get(&token).copied()
    }

    /// Returns the connection of `peer`.
    pub fn get_mut(&mut self, peer: SocketAddr) -> Option<&mut TcpConnection> {
        let key = self.key_of(peer)?;
        let connection = self.connections.get_mut(key);
        connection.map(|(_, connection)| connection)
    }

    /// Returns the key of the connection of `peer`.
    fn key_of(&self, peer: SocketAddr) -> Option<Key> {
        let latest = self.latest.get();
        let is_latest = |(_, it): &(Token, TcpConnection)| it.peer() == peer;
        if self.connections.get(latest).is_some_and(is_latest) {
            return Some(latest);
        }
        let key = *self.by_peer.get(&peer)?;
        self.latest.set(key);
        Some(key)
    }

    /// Returns whether nothing more should be sealed for `peer`: datagrams wait for its connection,
    /// or the connection has ended.
    pub fn is_blocked(&self, peer: SocketAddr) -> bool {
        let key = self.key_of(peer);
        let connection = key.and_then(|key| self.connections.get(key));
        connection.is_none_or(|(_, it)| it.is_broken || it.is_full())
    }

    /// Returns whether connections failed since they were last taken.
    pub const fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Returns the connections that failed since the last call.
    pub fn take_broken(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.broken)
    }

    /// Has datagrams of `segment` bytes each wait for the next [`flush`](Self::flush).
    pub(super) fn queue(
        &mut self,
        peer: SocketAddr,
        datagrams: &[u8],
        segment: usize,
        counters: &SendCounters,
    ) {
        let count = datagrams.len().div_ceil(segment.max(1)) as u64;
        let Some(connection) = self.get_mut(peer) else {
            counters.abandoned.add(count);
            return;
        };
        if connection.queue(datagrams, segment) {
            if self.unwritten.last() != Some(&peer) {
                self.unwritten.push(peer);
            }
        } else {
            counters.dropped_backlog.add(count);
            self.broken.push(peer);
        }
    }

    /// Offers the kernel `framed`, which are `packets` datagrams with their lengths, behind what
    /// waits for `peer`.
    pub(super) fn send(
        &mut self,
        peer: SocketAddr,
        framed: &[u8],
        packets: u64,
        counters: &SendCounters,
    ) {
        let Some(connection) = self.get_mut(peer) else {
            counters.abandoned.add(packets);
            return;
        };
        let was_full = connection.is_full();
        let is_taken = connection.send(framed);
        if !was_full {
            counters.sends.add(1);
        }
        if !is_taken {
            counters.dropped_backlog.add(packets);
        }
        if connection.is_broken {
            self.broken.push(peer);
        } else if connection.is_full() && !was_full {
            counters.socket_full.add(1);
        }
    }

    /// Returns whether datagrams wait for [`flush`](Self::flush).
    pub(super) const fn is_ready(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Offers the kernel what was queued since the last call.
    pub(super) fn flush(&mut self, counters: &SendCounters) {
        let mut unwritten = std::mem::take(&mut self.unwritten);
        for peer in unwritten.drain(..) {
            self.write(peer, counters);
        }
        self.unwritten = unwritten;
    }

    /// Offers the kernel what waits for `peer`. Returns whether everything is gone now that waited
    /// before.
    pub fn write(&mut self, peer: SocketAddr, counters: &SendCounters) -> bool {
        let Some(connection) = self.get_mut(peer) else {
            return false;
        };
        if !connection.has_waiting() {
            return false;
        }
        connection.write();
        counters.sends.add(1);
        let is_gone = !connection.has_waiting();
        if connection.is_broken {
            self.broken.push(peer);
        } else if connection.is_full() {
            counters.socket_full.add(1);
        }
        is_gone
    }
}

impl Default for TcpConnections {
    fn default() -> Self {
        Self {
            connections: Slots::default(),
            by_peer: HashMap::new(),
            by_token: HashMap::new(),
            // No connection has this key.
            latest: Cell::new(Key::from_bits(u64::MAX)),
            next: Self::FIRST,
            unwritten: Vec::new(),
            broken: Vec::new(),
        }
    }
}
