//! RTSP over HTTP: two connections of one client.
//!
//! ```text
//! GET  ◄── responses and frames ── the client's connection, on the thread it came to
//! POST ─── base64 ───────────────► handed over to that thread, wherever it came to
//! ```

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use glassline_runtime::ConnectionPermit;
use glassline_runtime::{Key, Slots, shrink};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use parking_lot::Mutex;

use super::event_source::EventSource;
use super::wire::Wire;

/// The thread and client that a tunnel leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TunnelOwner {
    pub(super) thread: usize,
    pub(super) client: Key,
}

/// The connections from server to client of all threads' tunnels, by address and cookie. A cookie
/// is valid only from the address that opened the tunnel.
#[derive(Debug, Default)]
pub(super) struct Tunnels(Mutex<HashMap<(IpAddr, String), TunnelOwner>>);

impl Tunnels {
    /// Adds a tunnel. The latest client with a cookie replaces an earlier one, because a player
    /// that connects again uses its own cookie.
    pub(super) fn open(&self, peer: IpAddr, cookie: String, owner: TunnelOwner) {
        self.0.lock().insert((peer, cookie), owner);
    }

    pub(super) fn find(&self, peer: IpAddr, cookie: &str) -> Option<TunnelOwner> {
        self.0.lock().get(&(peer, cookie.to_owned())).copied()
    }

    /// Removes a tunnel, unless another client has taken it over.
    pub(super) fn close(&self, peer: IpAddr, cookie: &str, owner: TunnelOwner) {
        let key = (peer, cookie.to_owned());
        let mut tunnels = self.0.lock();
        if tunnels.get(&key) == Some(&owner) {
            tunnels.remove(&key);
            shrink(&mut tunnels);
        }
    }
}

/// A connection from client to server on its way to the thread with the other connection of the
/// tunnel.
#[derive(Debug)]
pub(super) struct Handover {
    /// The client that the connection belongs to.
    pub(super) client: Key,
    pub(super) wire: Wire,
    pub(super) permit: ConnectionPermit,
    /// Data behind the head of the POST request.
    pub(super) rest: Vec<u8>,
}

/// The connections from client to server of one thread's tunnels.
#[derive(Debug)]
pub(super) struct TunnelPosts {
    posts: Slots<Post>,
    /// Connections that have more to read than one turn allows.
    unread: Vec<Key>,
    registry: Registry,
}

/// The connection from client to server of one client.
#[derive(Debug)]
struct Post {
    wire: Wire,
    client: Key,
    _permit: ConnectionPermit,
}

impl TunnelPosts {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            posts: Slots::default(),
            unread: Vec::new(),
            registry,
        }
    }

    /// Takes the connection from client to server of `client`. Returns false if it cannot be
    /// registered with the poll.
    pub(super) fn adopt(&mut self, client: Key, wire: Wire, permit: ConnectionPermit) -> bool {
        let fd = wire.as_raw_fd();
        let post = self.posts.insert(Post {
            wire,
            client,
            _permit: permit,
        });
        let token = EventSource::Tunnel(post).token();
        let registered = self
            .registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE);
        if let Err(error) = registered {
            tracing::warn!(%error, "cannot register the second connection of an RTSP tunnel");
            self.remove(post);
            return false;
        }
        // TLS may hold data that its socket does not report again.
        self.unread.push(post);
        true
    }

    /// Reads once. Returns the client and the number of bytes; `None` if nothing more is there for
    /// now.
    pub(super) fn read(&mut self, post: Key, buffer: &mut [u8]) -> Option<(Key, usize)> {
        let it = self.posts.get_mut(post)?;
        loop {
            match it.wire.read(buffer) {
                Ok(count @ 1..) => return Some((it.client, count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some players open a new connection for each request: the client stays.
                Ok(_) | Err(_) => {
                    self.remove(post);
                    return None;
                }
            }
        }
    }

    /// Closes all connections from clients to the server.
    pub(super) fn clear(&mut self) {
        for post in self.posts.keys() {
            self.remove(post);
        }
        self.unread.clear();
    }

    /// Has every connection read in the next turn.
    pub(super) fn read_all_later(&mut self) {
        self.unread = self.posts.keys();
    }

    /// Leaves the rest of a connection's data to the next turn.
    pub(super) fn read_later(&mut self, post: Key) {
        self.unread.push(post);
    }

    /// Returns the connections whose rest was left to this turn.
    pub(super) fn take_unread(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.unread)
    }

    /// Closes the connections from client to server of a client that is gone.
    pub(super) fn close(&mut self, client: Key) {
        let posts = self.posts.entries();
        let posts = posts.filter(|(_, post)| post.client == client);
        for post in posts.map(|(key, _)| key).collect::<Vec<_>>() {
            self.remove(post);
        }
    }

    fn remove(&mut self, post: Key) {
        if let Some(post) = self.posts.remove(post) {
            let fd = post.wire.as_raw_fd();
            // Closing the socket deregisters it, too.
            let _ = self.registry.deregister(&mut SourceFd(&fd));
        }
    }
}
