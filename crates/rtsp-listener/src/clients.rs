//! The clients of one thread: their connections, and the data that they send.
//!
//! Sending to clients is the task of [`Delivery`]. A client that `Delivery` gives up is released
//! here, with its tunnel, its stream and its addresses.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::rtsp::TransportKind;
use glassline_ingest::Ended;
use glassline_rtsp::server::{Answer, Closed, Connection, Endpoints, Event, RequestId};
use glassline_runtime::{ConnectionPermit, Key, Newcomers, SourcePrefix};
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use rustls::ServerConfig;

use super::client::{Client, Role};
use super::client_scope::ClientScope;
use super::command::Command;
use super::delivery::Delivery;
use super::event_source::EventSource;
use super::failures::{ConnectionEnd, unpublished};
use super::shared::Shared;
use super::tunnels::{Handover, TunnelOwner, TunnelPosts};
use super::view::ClientView;
use super::wire::Wire;

/// Time that a client has to read the last response.
const LINGER: Duration = Duration::from_secs(2);

/// The clients of one thread.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) delivery: Delivery,
    /// How many clients there are.
    count: usize,
    /// Clients that may make room: all but those that were playing or publishing when they were looked at.
    pub(super) newcomers: Newcomers<Key>,
    /// The connections from client to server of tunnels.
    pub(super) tunnels: TunnelPosts,
    /// Index of this thread, by which other threads know the tunnels of its clients.
    thread: usize,
    registry: Registry,
    pub(super) shared: Arc<Shared>,
}

/// The result of a read.
pub(super) enum ReadOutcome {
    /// This many bytes were read.
    Bytes(usize),
    /// No more data is there for now.
    Blocked,
    /// The connection has ended.
    Ended,
}

impl Clients {
    pub(super) fn new(
        thread: usize,
        delivery: Delivery,
        registry: &Registry,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        Ok(Self {
            delivery,
            count: 0,
            newcomers: Newcomers::default(),
            tunnels: TunnelPosts::new(registry.try_clone()?),
            thread,
            registry: registry.try_clone()?,
            shared,
        })
    }

    pub(super) fn get(&self, key: Key) -> Option<&Client> {
        self.delivery.clients.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Client> {
        self.delivery.clients.get_mut(key)
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.delivery.clients.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how many clients play.
    pub(super) fn playing(&self) -> usize {
        self.delivery
            .clients
            .iter()
            .filter(|it| it.is_playing())
            .count()
    }

    /// Returns a client, with the parts of the thread that its requests may change.
    pub(super) fn scope(&mut self, key: Key, now: Instant) -> Option<ClientScope<'_>> {
        Some(ClientScope {
            key,
            client: self.delivery.clients.get_mut(key)?,
            streams: &mut self.delivery.streams,
            udp: self.delivery.udp.as_mut(),
            now,
        })
    }

    /// Returns the client at this address if it has a session.
    pub(super) fn with_session(&self, address: SocketAddr) -> Option<Key> {
        self.keys().into_iter().find(|key| {
            let client = self.delivery.clients.get(*key);
            client.is_some_and(|it| it.peer == address && it.has_session())
        })
    }

    /// Returns the clients that have a session, as the API shows them.
    pub(super) fn views(&self, now: Instant) -> Vec<ClientView> {
        let views = self.delivery.clients.iter().filter_map(|client| {
            let reader = client
                .reader()
                .and_then(|key| self.delivery.streams.get(key));
            client.view(reader, now)
        });
        views.collect()
    }
}

/// Accepting and releasing clients.
impl Clients {
    /// Takes an accepted connection; with `tls` the client must speak TLS.
    pub(super) fn accept(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        tls: Option<&Arc<ServerConfig>>,
        permit: ConnectionPermit,
        now: Instant,
    ) -> io::Result<()> {
        let endpoints = Endpoints {
            peer,
            local: stream.local_addr()?,
            secure: tls.is_some(),
        };
        let wire = Wire::new(stream, tls, now)?;
        let config = self.shared.connection.get();
        let connection = Connection::new(config, endpoints, rand::random(), now);
        let fd = wire.as_raw_fd();
        let client = Client::new(wire, connection, endpoints, permit, now);
        let key = self.delivery.clients.insert(client);
        let arrival = self.newcomers.add(SourcePrefix::from(peer.ip()), key);
        if let Some(client) = self.delivery.clients.get_mut(key) {
            client.arrival = Some(arrival);
        }
        // The poll is edge-triggered: the kernel reports room only to sockets whose write it
        // refused, so registering for writable events from the start costs nothing.
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = EventSource::Client(key).token();
        if let Err(error) = self.registry.register(&mut SourceFd(&fd), token, interest) {
            self.delivery.clients.remove(key);
            self.newcomers.remove(arrival);
            return Err(error);
        }
        self.count += 1;
        self.delivery.counters.open.set(self.count);
        Ok(())
    }

    /// Closes the oldest connection whose client neither plays nor publishes, of `source` if that is
    /// given. Returns false if there is none.
    pub(super) fn make_room(&mut self, source: Option<SourcePrefix>) -> bool {
        while let Some(key) = self.newcomers.take_oldest(source) {
            let Some(client) = self.delivery.clients.get_mut(key) else {
                continue;
            };
            client.arrival = None;
            if !client.is_served() {
                tracing::debug!(client = %client.name(), "RTSP connection closed: it neither played nor published, and others need its place");
                self.delivery.counters.closed_for_others.add(1);
                self.note_end(key, &ConnectionEnd::Evicted, Instant::now());
                self.release(key);
                return true;
            }
        }
        false
    }

    /// Removes a client and closes its connection.
    pub(super) fn release(&mut self, key: Key) {
        drop(self.take(key));
    }

    /// Notes the failure of a publisher that is disconnected before it published anything.
    pub(super) fn note_unpublished(&self, key: Key, why: &Ended, now: Instant) {
        if let Some(client) = self.delivery.clients.get(key)
            && let Some(session) = client.publisher()
            && !session.recording.is_live()
        {
            let stream = session.recording.name().as_str();
            let failure = unpublished(stream, why, client.peer.ip());
            self.shared.failures.note(failure, now);
        }
    }

    /// Forgets all clients that could not be released in order.
    pub(super) fn clear(&mut self) {
        self.tunnels.clear();
        self.delivery.clear();
        self.newcomers = Newcomers::default();
        self.count = 0;
        self.delivery.counters.open.set(0);
        self.delivery.counters.playing.set(0);
    }

    /// Removes a client and returns it with its connection.
    fn take(&mut self, key: Key) -> Option<Client> {
        let mut client = self.delivery.clients.remove(key)?;
        if let Some(arrival) = client.arrival.take() {
            self.newcomers.remove(arrival);
        }
        if let Some(cookie) = client.cookie.take() {
            let owner = self.tunnel_owner(key);
            let tunnels = &self.shared.tunnels;
            tunnels.close(client.peer.ip(), &cookie, owner);
            self.tunnels.close(key);
        }
        let role = std::mem::take(&mut client.role);
        self.forget_role(key, &role);
        // Closing the socket would deregister it, too, unless the descriptor is also open
        // elsewhere.
        let fd = client.wire.as_raw_fd();
        let _ = self.registry.deregister(&mut SourceFd(&fd));
        self.count -= 1;
        self.delivery.counters.open.set(self.count);
        Some(client)
    }

    /// Ends what a client plays or publishes; the connection stays. A stream that the client
    /// published is down with this `reason`.
    pub(super) fn leave(&mut self, key: Key, reason: &str) {
        let Some(client) = self.delivery.clients.get_mut(key) else {
            return;
        };
        let role = std::mem::take(&mut client.role);
        self.forget_role(key, &role);
        if let Role::Publisher(session) = role {
            session.leave(reason.to_owned());
        }
    }

    /// Removes a client from its stream and its UDP addresses.
    fn forget_role(&mut self, key: Key, role: &Role) {
        if let Role::Player(session) = role {
            self.delivery.streams.leave(session.reader, key);
        }
        if let (Some(udp), Some(transports)) = (&mut self.delivery.udp, role.transports()) {
            for addresses in transports.addresses() {
                udp.forget(addresses, key);
            }
        }
    }

    /// Ends a client's session, and closes the connection once everything is written.
    pub(super) fn close(&mut self, key: Key, reason: &Closed, now: Instant) {
        self.note_end(key, &ConnectionEnd::Closed(reason), now);
        self.leave(key, "the publisher stopped");
        if let Some(client) = self.delivery.clients.get_mut(key) {
            tracing::debug!(client = %client.name(), %reason, "RTSP connection closed");
            client.closing.get_or_insert(now + LINGER);
        }
    }

    /// Notes that a client's connection is the one from server to client of a tunnel.
    pub(super) fn open_tunnel(&mut self, key: Key, cookie: String) {
        let owner = self.tunnel_owner(key);
        if let Some(client) = self.delivery.clients.get_mut(key) {
            let tunnels = &self.shared.tunnels;
            tunnels.open(client.peer.ip(), cookie.clone(), owner);
            client.cookie = Some(cookie.into());
        }
    }

    /// Hands a connection to the thread that has the other connection of its tunnel.
    pub(super) fn join_tunnel(&mut self, key: Key, cookie: &str, rest: Vec<u8>) {
        let Some(client) = self.delivery.clients.get_mut(key) else {
            return;
        };
        let Some(owner) = self.shared.tunnels.find(client.peer.ip(), cookie) else {
            client.connection.refuse_tunnel();
            return;
        };
        let Some(client) = self.take(key) else {
            return;
        };
        let handover = Handover {
            client: owner.client,
            wire: client.wire,
            permit: client.permit,
            rest,
        };
        let command = Command::Tunnel(Box::new(handover));
        self.shared.send(owner.thread, command);
    }

    fn tunnel_owner(&self, client: Key) -> TunnelOwner {
        TunnelOwner {
            thread: self.thread,
            client,
        }
    }
}

/// The input of clients, by their connections, tunnels and datagrams.
impl Clients {
    /// Reads once from a client's connection, and handles the data.
    pub(super) fn read(&mut self, key: Key, buffer: &mut [u8]) -> ReadOutcome {
        let Some(client) = self.delivery.clients.get_mut(key) else {
            return ReadOutcome::Blocked;
        };
        let error = loop {
            match client.wire.read(buffer) {
                Ok(0) => break None,
                Ok(count) => return ReadOutcome::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ReadOutcome::Blocked;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = &error
            && client.wire.is_secure()
            && error.kind() == io::ErrorKind::InvalidData
        {
            self.delivery.counters.closed_tls.add(1);
            tracing::debug!(client = %client.name(), %error, "RTSP client closed: TLS failed");
        }
        let end = error
            .as_ref()
            .map_or(ConnectionEnd::ByClient, ConnectionEnd::Broken);
        self.note_end(key, &end, Instant::now());
        ReadOutcome::Ended
    }

    /// Handles data from a client's connection.
    pub(super) fn take_bytes(&mut self, key: Key, bytes: &[u8], now: Instant) {
        if let Some(client) = self.delivery.clients.get_mut(key) {
            client.recheck_rights(&self.shared.users);
            client.take(bytes, now, &self.delivery.counters);
        }
    }

    /// Handles data from the other connection of a client's tunnel.
    pub(super) fn take_tunnelled(&mut self, key: Key, base64: &[u8], now: Instant) {
        if let Some(client) = self.delivery.clients.get_mut(key) {
            client.recheck_rights(&self.shared.users);
            client.take_tunnelled(base64, now, &self.delivery.counters);
        }
    }

    /// Returns the next event of a client's connection.
    pub(super) fn poll_event(&mut self, key: Key) -> Option<Event> {
        let client = self.delivery.clients.get_mut(key)?;
        let event = client.connection.poll_event()?;
        client.requested.note(&event);
        Some(event)
    }

    /// Counts the requests of a client that were answered, and notes those that were refused.
    pub(super) fn count_answered(&mut self, key: Key, now: Instant) {
        if let Some(client) = self.delivery.clients.get_mut(key) {
            while let Some(answered) = client.connection.poll_answered() {
                self.delivery.counters.requests.add(&answered);
                if let Some(failure) = client.requested.answered(&answered, client.peer.ip()) {
                    self.shared.failures.note(failure, now);
                }
            }
        }
    }
}

/// Sending to clients, and releasing those that are given up.
impl Clients {
    /// Answers PLAY, with reports behind the answer, and begins to send.
    pub(super) fn answer_play(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        self.delivery.answer_play(key, id, answer, now);
        self.release_gone();
    }

    /// Sends a publisher the reports and keyframe requests that are due.
    pub(super) fn tell_publisher(&mut self, key: Key, now: Instant) {
        self.delivery.tell_publisher(key, now);
        self.release_gone();
    }

    /// Writes what waits for a client.
    pub(super) fn pump(&mut self, key: Key, now: Instant) {
        self.delivery.pump(key, now);
        self.release_gone();
    }

    /// Writes the new entries of a stream, from entry `before` on, to its clients in turn.
    pub(super) fn offer(&mut self, reader: Key, before: u64, read_at: Instant) {
        self.delivery.offer(reader, before, read_at);
        self.release_gone();
    }

    /// Sends the next chunks to clients by UDP, if some are due.
    pub(super) fn offer_due_datagrams(&mut self, now: Instant) {
        self.delivery.offer_due_datagrams(now);
        self.release_gone();
    }

    /// Continues to send by UDP after the socket was full, because it has room again.
    pub(super) fn unblock_datagrams(&mut self, now: Instant) {
        self.delivery.unblock_datagrams(now);
        self.release_gone();
    }

    /// Notifies the clients of streams that came to their end, and asks for a keyframe for clients
    /// that wait for one.
    pub(super) fn check_streams(&mut self, now: Instant) {
        self.delivery.check_streams(now);
        self.release_gone();
    }

    fn release_gone(&mut self) {
        while let Some(key) = self.delivery.gone.pop() {
            self.note_slow(key);
            self.release(key);
        }
    }

    /// Takes the limits on delays that are in force now, and lines up clients that may make room. Returns all.
    pub(super) fn begin_sweep(&mut self) -> Vec<Key> {
        self.delivery.budget = self.shared.context.timing.get().budget;
        self.line_up_unserved();
        self.keys()
    }

    /// Releases a client that takes no bytes any more, whose TLS handshake takes too long, or whose
    /// token has expired.
    /// Returns false if the client was released.
    pub(super) fn check_progress(&mut self, key: Key, now: Instant) -> bool {
        let Some(client) = self.delivery.clients.get_mut(key) else {
            return false;
        };
        let idle = now.saturating_duration_since(client.progressed);
        // Feedback to publishers is bounded, and they need not read it.
        let is_player = client.publisher().is_none();
        if client.is_full && idle > self.delivery.budget.stall && is_player {
            self.delivery.counters.closed_stalled.add(1);
            tracing::warn!(client = %client.name(), idle_s = idle.as_secs(), "RTSP client closed: it has read nothing for rtsp.stall_s");
            self.note_end(key, &ConnectionEnd::Stalled(idle), now);
        } else if client.wire.is_overdue(now) {
            self.delivery.counters.closed_tls.add(1);
            tracing::debug!(client = %client.name(), "RTSP client closed: its TLS handshake took too long");
            self.note_end(key, &ConnectionEnd::HandshakeTimeout, now);
        } else if client.has_lapsed(&self.shared.users) {
            self.delivery.counters.closed_expired.add(1);
            tracing::info!(client = %client.name(), "RTSP client closed: its token has expired");
            self.note_end(key, &ConnectionEnd::Lapsed, now);
        } else {
            return true;
        }
        self.release(key);
        false
    }

    /// Handles the deadlines of a client's connection. Returns whether the client may have
    /// something to be sent now. A client that took media within the time `active` is alive.
    pub(super) fn check_deadlines(&mut self, key: Key, active: Duration, now: Instant) -> bool {
        let Some(client) = self.delivery.clients.get_mut(key) else {
            return false;
        };
        if client.closing.is_some_and(|at| at <= now) {
            self.release(key);
            return false;
        }
        // Clients that get datagrams show by reports or requests that they are alive.
        let session = client.player();
        let takes = session.is_some_and(|it| it.is_playing() && it.is(TransportKind::Interleaved));
        let idle = now.saturating_duration_since(client.progressed);
        if takes && idle < active {
            client.connection.note_alive(now);
        }
        let is_due = client.connection.poll_timeout().is_some_and(|at| at <= now);
        if is_due {
            client.connection.handle_timeout(now);
        }
        is_due
    }
}
