//! RTSP over HTTP: two connections, one client.
//!
//! ```text
//! GET  ◄── responses and frames ── the client's connection, on the thread it came to
//! POST ─── base64 ───────────────► handed over to that thread, wherever it came to
//! ```

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Token};

use super::Command;
use super::wire::Wire;
use super::worker::{READS_PER_TURN, Worker};
use crate::runtime::Key;

/// Marks the events of the other connection: generations of keys stay far below.
const POST_BIT: usize = 1 << (usize::BITS - 1);

/// Where the ways from server to client are: thread and client, by address and cookie.
/// A cookie is worth nothing from another address.
#[derive(Debug, Default)]
pub(super) struct Tunnels(Mutex<HashMap<(IpAddr, String), (usize, Key)>>);

impl Tunnels {
    /// The latest one with a cookie has it: a player that comes again means itself.
    fn open(&self, peer: IpAddr, cookie: String, place: (usize, Key)) {
        self.lock().insert((peer, cookie), place);
    }

    fn find(&self, peer: IpAddr, cookie: &str) -> Option<(usize, Key)> {
        self.lock().get(&(peer, cookie.to_owned())).copied()
    }

    fn close(&self, peer: IpAddr, cookie: &str, place: (usize, Key)) {
        let key = (peer, cookie.to_owned());
        let mut tunnels = self.lock();
        if tunnels.get(&key) == Some(&place) {
            tunnels.remove(&key);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(IpAddr, String), (usize, Key)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection from client to server on its way to its other half.
#[derive(Debug)]
pub(super) struct Handover {
    /// Whose it is.
    pub(super) client: Key,
    wire: Wire,
    /// What came behind its head.
    rest: Vec<u8>,
}

/// The other connection of a client.
#[derive(Debug)]
pub(super) struct Post {
    wire: Wire,
    client: Key,
}

impl Worker {
    pub(super) fn open_tunnel(&mut self, key: Key, cookie: String) {
        if let Some(client) = self.clients.get_mut(key) {
            let place = (self.index, key);
            let peer = client.peer.ip();
            self.shared.tunnels.open(peer, cookie.clone(), place);
            client.cookie = Some(cookie.into());
        }
    }

    pub(super) fn close_tunnel(&mut self, key: Key, peer: IpAddr, cookie: &str) {
        self.shared.tunnels.close(peer, cookie, (self.index, key));
        let posts = self.posts.entries().filter(|(_, post)| post.client == key);
        let posts: Vec<_> = posts.map(|(key, _)| key).collect();
        for post in posts {
            self.drop_post(post);
        }
    }

    /// Hands this connection to the thread that has its other half.
    pub(super) fn join_tunnel(&mut self, key: Key, cookie: &str, rest: Vec<u8>) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let Some((thread, owner)) = self.shared.tunnels.find(client.peer.ip(), cookie) else {
            client.connection.refuse_tunnel();
            return;
        };
        let Some(client) = self.take_client(key) else {
            return;
        };
        let handover = Handover {
            client: owner,
            wire: client.wire,
            rest,
        };
        // Counted where it goes from now on.
        self.shared
            .send(thread, Command::Tunnel(Box::new(handover)));
    }

    /// Takes the other half of a client of ours.
    pub(super) fn adopt_post(&mut self, handover: Handover, now: Instant) {
        let Handover { client, wire, rest } = handover;
        if self.clients.get(client).is_none() {
            return;
        }
        let fd = wire.as_raw_fd();
        let post = self.posts.insert(Post { wire, client });
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let token = Token(POST_BIT | super::worker::token(post).0);
        let registry = self.poll.registry();
        let registered = registry.register(&mut SourceFd(&fd), token, Interest::READABLE);
        if let Err(error) = registered {
            tracing::warn!(%error, "cannot wait for the other half of a tunnel");
            self.drop_post(post);
            return;
        }
        // TLS may hold what its socket will not tell of again.
        self.unread_posts.push(post);
        self.take_tunnelled(client, &rest, now);
    }

    /// The other half that an event is of, if it is of one.
    pub(super) fn post_of(token: Token) -> Option<Key> {
        let Token(bits) = token;
        (bits & POST_BIT != 0).then(|| Key::from_bits((bits & !POST_BIT) as u64))
    }

    pub(super) fn read_post(&mut self, post: Key) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reads = 0;
        while let Some(it) = self.posts.get_mut(post) {
            if reads == READS_PER_TURN {
                self.unread_posts.push(post);
                self.waker.wake();
                break;
            }
            reads += 1;
            let client = it.client;
            match it.wire.read(&mut buffer) {
                Ok(count @ 1..) => self.take_tunnelled(client, &buffer[..count], Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some players open a new one for each request: the client stays.
                Ok(_) | Err(_) => self.drop_post(post),
            }
        }
        self.buffer = buffer;
    }

    fn take_tunnelled(&mut self, key: Key, base64: &[u8], now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        client.take_tunnelled(base64, now, &self.counters);
        self.publish_recorded(key, now);
        self.serve(key, now);
    }

    fn drop_post(&mut self, post: Key) {
        if let Some(post) = self.posts.remove(post) {
            let fd = post.wire.as_raw_fd();
            // Closing does it, too.
            let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
