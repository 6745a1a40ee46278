//! TCP connections of peers that UDP does not reach (RFC 6544).
//!
//! The listener hands a connection to the shard of the session that its first check names. From then
//! on the connection belongs to the peer: it moves with the peer, and is closed with it.

use std::net::SocketAddr;
use std::time::Instant;

use glassline_egress::webrtc::{TcpConnection, TcpConnections};
use glassline_runtime::Key;
use glassline_webrtc::{TransportAddress, stun_username};
use mio::Token;

use super::Worker;
use super::datagrams::Path;
use crate::sessions::peer::Peer;
use crate::sessions::record::SessionLocation;
use crate::sessions::shard::command::{Command, Connected, PeerConnections};

/// Bytes that are read from a connection at a time.
const READ_BYTES: usize = 16 << 10;

/// Reads from one connection before the other peers are served again.
const READS_PER_TURN: usize = 4;

/// A connection that has something to read, or room for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    peer: SocketAddr,
    read: Option<Extent>,
    is_writable: bool,
}

/// How far a connection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Until less arrives than the buffer takes: what comes later is reported.
    Arrived,
    /// Until nothing is there. The end of a connection is not reported twice, and stands behind the
    /// last bytes.
    Everything,
}

impl Worker {
    /// Notes which connections the events of this turn are about.
    pub(super) fn note_ready(&mut self) {
        for event in &self.events {
            let Token(token) = event.token();
            if token >= TcpConnections::FIRST
                && let Some(peer) = self.outbox.connections().of_token(event.token())
            {
                let read = match (event.is_read_closed(), event.is_readable()) {
                    (true, _) => Some(Extent::Everything),
                    (false, true) => Some(Extent::Arrived),
                    (false, false) => None,
                };
                self.scratch.ready.push(Ready {
                    peer,
                    read,
                    is_writable: event.is_writable(),
                });
            }
        }
    }

    /// Reads from the connections where something arrived, goes on with those that have room again,
    /// and closes those that failed.
    pub(super) fn serve_connections(&mut self) {
        let mut ready = std::mem::take(&mut self.scratch.ready);
        // What is noted from here on is for the next turn.
        for connection in ready.drain(..) {
            if connection.is_writable {
                self.resume_connection(connection.peer);
            }
            if let Some(extent) = connection.read {
                self.read_connection(connection.peer, extent);
            }
        }
        let later = std::mem::replace(&mut self.scratch.ready, ready);
        if !later.is_empty() {
            self.scratch.ready = later;
            self.waker.wake();
        }
        self.dispatch();
        for peer in self.outbox.connections().take_broken() {
            self.close_connection(peer);
        }
    }

    /// Takes a connection over which an authentic check for a session came.
    pub(super) fn take_connection(&mut self, connected: Box<Connected>, now: Instant) {
        let owner = self.owner_of(&connected.check);
        if owner.is_some_and(|owner| owner != self.index) {
            self.pass_connection(connected, owner);
            return;
        }
        let Connected { connection, check } = *connected;
        let path = self.path_of(&connection);
        let peer = connection.peer();
        let registry = self.poll.registry();
        if let Err(error) = self.outbox.connections().insert(connection, registry) {
            tracing::debug!(%peer, %error, "TCP connection of a peer refused");
            return;
        }
        self.on_datagram(&mut check.clone(), path, now);
        self.dispatch();
        if self.peers.by_address(path.source).is_some() {
            // Bytes behind the check may have arrived before the connection was waited for.
            self.read_connection(peer, Extent::Everything);
            return;
        }
        // Another shard may have adopted the peer in between.
        let registry = self.poll.registry();
        if let Some(connection) = self.outbox.connections().remove(peer, registry) {
            let owner = self.owner_of(&check).filter(|owner| *owner != self.index);
            self.pass_connection(Box::new(Connected { connection, check }), owner);
        }
    }

    /// Returns the shard that owns the session of a check.
    fn owner_of(&self, check: &[u8]) -> Option<usize> {
        let (ours, _) = stun_username(check)?;
        let record = self.shared.registry.by_ufrag(ours)?;
        match record.state().location {
            SessionLocation::Shard(owner) => Some(owner),
            _ => None,
        }
    }

    /// Sends a connection to the shard `owner`, or closes it if there is none.
    fn pass_connection(&self, connected: Box<Connected>, owner: Option<usize>) {
        if let Some(shard) = owner.and_then(|owner| self.shared.shard(owner)) {
            // A full inbox is counted by the handle; the peer connects again.
            let _ = shard.send(Command::Connect(connected));
        }
    }

    /// Adds the connections of a peer that came from another shard.
    pub(super) fn add_connections(&mut self, connections: PeerConnections) {
        for connection in connections.0 {
            let peer = connection.peer();
            let registry = self.poll.registry();
            if let Err(error) = self.outbox.connections().insert(connection, registry) {
                tracing::debug!(%peer, %error, "TCP connection of a peer lost");
                continue;
            }
            // What arrived during the move is not reported again.
            self.scratch.ready.push(Ready {
                peer,
                read: Some(Extent::Everything),
                is_writable: true,
            });
            self.waker.wake();
        }
    }

    /// Takes the connections of a peer away, so that they move with the peer.
    pub(super) fn take_connections(&mut self, addresses: &[TransportAddress]) -> PeerConnections {
        let tcp = addresses.iter().filter(|address| address.is_tcp());
        let registry = self.poll.registry();
        let connections = self.outbox.connections();
        let taken = tcp.filter_map(|address| connections.remove(address.socket, registry));
        PeerConnections(taken.collect())
    }

    /// Closes the connections of a peer whose session is over.
    pub(super) fn close_connections(&mut self, peer: &Peer) {
        for address in peer.addresses().iter().filter(|address| address.is_tcp()) {
            let registry = self.poll.registry();
            self.outbox.connections().close(address.socket, registry);
        }
    }

    /// Has `address` lead no longer to the peer `key`, which has too many.
    pub(super) fn forget_address(&mut self, address: TransportAddress, key: Key) {
        self.peers.unlink(address, key);
        if address.is_tcp() {
            let registry = self.poll.registry();
            self.outbox.connections().close(address.socket, registry);
        }
    }

    /// Closes a connection that has ended or failed. Its session may have other paths.
    pub(super) fn close_connection(&mut self, peer: SocketAddr) {
        let registry = self.poll.registry();
        self.outbox.connections().close(peer, registry);
        let address = TransportAddress::tcp(peer);
        if let Some(key) = self.peers.by_address(address) {
            self.peers.unlink(address, key);
            if let Some(peer) = self.peers.get_mut(key) {
                peer.forget_address(address);
            }
        }
    }

    /// Reads what has arrived on the connection of `peer`, up to a limit that leaves time for media.
    fn read_connection(&mut self, peer: SocketAddr, extent: Extent) {
        let mut buffer = std::mem::take(&mut self.scratch.read);
        buffer.resize(READ_BYTES, 0);
        let is_open = self.read_into(peer, extent, &mut buffer);
        self.scratch.read = buffer;
        self.end_batch(Instant::now());
        if !is_open {
            self.dispatch();
            self.close_connection(peer);
        }
    }

    /// Returns whether the connection is open.
    fn read_into(&mut self, peer: SocketAddr, extent: Extent, buffer: &mut [u8]) -> bool {
        for _ in 0..READS_PER_TURN {
            self.serving.end();
            let Some(connection) = self.outbox.connections().get_mut(peer) else {
                return true;
            };
            let count = match connection.read(buffer) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let mut reader = connection.take_reader();
            let path = self.path_of_peer(peer);
            let now = Instant::now();
            let read = reader.read(&mut buffer[..count], |datagram| {
                self.counters.received.add(1);
                if let Some(path) = path {
                    self.on_datagram(datagram, path, now);
                }
            });
            if let Err(error) = read {
                tracing::debug!(%peer, %error, "TCP connection of a peer closed");
                return false;
            }
            if let Some(connection) = self.outbox.connections().get_mut(peer) {
                connection.put_reader(reader);
            }
            self.dispatch();
            if extent == Extent::Arrived && count < buffer.len() {
                return true;
            }
        }
        // More may wait, which is not reported again.
        self.scratch.ready.push(Ready {
            peer,
            read: Some(extent),
            is_writable: false,
        });
        self.waker.wake();
        true
    }

    /// Goes on with a connection that has room again.
    fn resume_connection(&mut self, peer: SocketAddr) {
        if !self.outbox.resume_connection(peer) {
            return;
        }
        if let Some(key) = self.peers.by_address(TransportAddress::tcp(peer)) {
            self.serve_unblocked(key);
        }
    }

    fn serve_unblocked(&mut self, key: Key) {
        self.serve(key, Instant::now());
        if self.outbox.is_ripe() {
            self.dispatch();
        }
    }

    fn path_of_peer(&mut self, peer: SocketAddr) -> Option<Path> {
        let connection = self.outbox.connections().get_mut(peer)?;
        let (peer, local) = (connection.peer(), connection.local());
        Some(self.path(peer, local))
    }

    fn path_of(&self, connection: &TcpConnection) -> Path {
        self.path(connection.peer(), connection.local())
    }

    fn path(&self, peer: SocketAddr, local: SocketAddr) -> Path {
        let local = local.ip().to_canonical();
        Path {
            source: TransportAddress::tcp(peer),
            destination: TransportAddress::tcp(self.destination(Some(local))),
            local: Some(local),
        }
    }
}
