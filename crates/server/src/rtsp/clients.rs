//! The clients of one thread, and what they are sent.
//!
//! ```text
//! Streams: what is new, read once ─► offer ─┬► each client's connection, in turn
//!                                           └► UdpClients: many with one system call
//! ```

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::Stage;
use glassline_net::ReceiveBatch;
use glassline_rtsp::interleaved;
use glassline_rtsp::server::{Answer, Closed, Connection, Ends, Event, RequestId};
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use super::client::{Client, Role, Served};
use super::client_scope::ClientScope;
use super::command::Command;
use super::connection_limit::ConnectionPermit;
use super::counters::Counters;
use super::event_source::EventSource;
use super::shared::Shared;
use super::streams::Streams;
use super::tunnels::{Handover, TunnelOwner, TunnelPosts};
use super::udp_clients::{ClientDatagram, UdpClients};
use super::view::ClientView;
use super::wire::Wire;
use crate::config::Identity;
use crate::egress::rtsp::{Budget, Recipient, Ring, Sent, TrackTransport, TransportKind};
use crate::runtime::{Key, Slots};

/// How long a client may take to read the last response.
const LINGER: Duration = Duration::from_secs(2);

/// The clients of one thread.
#[derive(Debug)]
pub(super) struct Clients {
    clients: Slots<Client>,
    /// How many clients there are.
    count: usize,
    pub(super) streams: Streams,
    /// `None` if media may not go by UDP.
    pub(super) udp: Option<UdpClients>,
    /// The other connections of clients that come by a tunnel.
    pub(super) tunnels: TunnelPosts,
    /// The number of this thread, by which others know the tunnels of its clients.
    thread: usize,
    registry: Registry,
    pub(super) counters: Arc<Counters>,
    shared: Arc<Shared>,
}

/// What came of a read.
pub(super) enum ReadOutcome {
    /// So many bytes came.
    Bytes(usize),
    /// Nothing more is there for now.
    Blocked,
    /// The connection is over.
    Ended,
}

/// What is said of every track of a player.
#[derive(Clone, Copy, Debug)]
enum ControlPacket {
    /// A sender report, so that a player can join audio and video from its first frame on.
    Report,
    /// The same with BYE behind it.
    Farewell,
}

impl Clients {
    pub(super) fn new(
        thread: usize,
        streams: Streams,
        udp: Option<UdpClients>,
        registry: &Registry,
        counters: Arc<Counters>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        Ok(Self {
            clients: Slots::default(),
            count: 0,
            streams,
            udp,
            tunnels: TunnelPosts::new(registry.try_clone()?),
            thread,
            registry: registry.try_clone()?,
            counters,
            shared,
        })
    }

    pub(super) fn get(&self, key: Key) -> Option<&Client> {
        self.clients.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Client> {
        self.clients.get_mut(key)
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.clients.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many clients play.
    pub(super) fn playing(&self) -> usize {
        self.clients.iter().filter(|it| it.is_playing()).count()
    }

    /// A client, with what its requests may change.
    pub(super) fn scope(&mut self, key: Key, now: Instant) -> Option<ClientScope<'_>> {
        Some(ClientScope {
            key,
            client: self.clients.get_mut(key)?,
            streams: &mut self.streams,
            udp: self.udp.as_mut(),
            now,
        })
    }

    /// What the API says of the clients that have a session.
    pub(super) fn views(&self, now: Instant) -> Vec<ClientView> {
        let views = self.clients.iter().filter_map(|client| {
            let reader = client.reader().and_then(|key| self.streams.get(key));
            client.view(reader, now)
        });
        views.collect()
    }
}

/// Coming and going.
impl Clients {
    /// Takes a connection that was accepted; with `identity` it is to speak TLS.
    pub(super) fn accept(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        identity: Option<&Identity>,
        permit: ConnectionPermit,
        now: Instant,
    ) -> io::Result<()> {
        let ends = Ends {
            peer,
            local: stream.local_addr()?,
            secure: identity.is_some(),
        };
        let wire = Wire::new(stream, identity, now)?;
        let config = Arc::clone(&self.shared.connection);
        let connection = Connection::new(config, ends, rand::random(), now);
        let fd = wire.as_raw_fd();
        let client = Client::new(wire, connection, ends, permit, now);
        let key = self.clients.insert(client);
        // Edges: the kernel tells of room only to those whose write it refused, so
        // that asking for it from the start costs nothing.
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = EventSource::Client(key).token();
        if let Err(error) = self.registry.register(&mut SourceFd(&fd), token, interest) {
            self.clients.remove(key);
            return Err(error);
        }
        self.count += 1;
        self.counters.open.set(self.count);
        Ok(())
    }

    /// Forgets a client and closes its connection.
    pub(super) fn release(&mut self, key: Key) {
        drop(self.take(key));
    }

    /// Forgets a client; the connection is the caller's.
    fn take(&mut self, key: Key) -> Option<Client> {
        let mut client = self.clients.remove(key)?;
        if let Some(cookie) = client.cookie.take() {
            let owner = self.tunnel_owner(key);
            let tunnels = &self.shared.tunnels;
            tunnels.close(client.peer.ip(), &cookie, owner);
            self.tunnels.close(key);
        }
        let role = std::mem::take(&mut client.role);
        self.forget_role(key, &role);
        // Closing would do it, too, unless the descriptor lives on elsewhere.
        let fd = client.wire.as_raw_fd();
        let _ = self.registry.deregister(&mut SourceFd(&fd));
        self.count -= 1;
        self.counters.open.set(self.count);
        Some(client)
    }

    /// Has a client play or publish nothing any more; the connection stays. What it
    /// published is down for `reason`.
    pub(super) fn leave(&mut self, key: Key, reason: &str) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let role = std::mem::take(&mut client.role);
        self.forget_role(key, &role);
        if let Role::Publisher(session) = role {
            session.leave(reason.to_owned());
        }
    }

    /// Takes a client off its stream and its UDP addresses.
    fn forget_role(&mut self, key: Key, role: &Role) {
        let transports = match role {
            Role::Idle => return,
            Role::Player(session) => {
                self.streams.leave(session.reader, key);
                &session.transports
            }
            Role::Publisher(session) => &session.transports,
        };
        if let Some(udp) = &mut self.udp {
            for addresses in transports.addresses() {
                udp.forget(addresses, key);
            }
        }
    }

    /// Ends a session, and closes its connection once everything was written.
    pub(super) fn close(&mut self, key: Key, reason: &Closed, now: Instant) {
        self.leave(key, "the publisher left");
        if let Some(client) = self.clients.get_mut(key) {
            tracing::debug!(client = %client.name(), %reason, "RTSP connection ends");
            client.closing.get_or_insert(now + LINGER);
        }
    }

    /// Notes that a client's connection is the way from server to client of a tunnel.
    pub(super) fn open_tunnel(&mut self, key: Key, cookie: String) {
        let owner = self.tunnel_owner(key);
        if let Some(client) = self.clients.get_mut(key) {
            let tunnels = &self.shared.tunnels;
            tunnels.open(client.peer.ip(), cookie.clone(), owner);
            client.cookie = Some(cookie.into());
        }
    }

    /// Hands a connection to the thread that has the other half of its tunnel.
    pub(super) fn join_tunnel(&mut self, key: Key, cookie: &str, rest: Vec<u8>) {
        let Some(client) = self.clients.get_mut(key) else {
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

/// What comes from clients.
impl Clients {
    /// Reads once from a client's connection, and takes what came.
    pub(super) fn read(&mut self, key: Key, buffer: &mut [u8]) -> ReadOutcome {
        let Some(client) = self.clients.get_mut(key) else {
            return ReadOutcome::Blocked;
        };
        loop {
            match client.wire.read(buffer) {
                Ok(0) => return ReadOutcome::Ended,
                Ok(count) => return ReadOutcome::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ReadOutcome::Blocked;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if client.wire.is_secure() && error.kind() == io::ErrorKind::InvalidData {
                        self.counters.closed_tls.add(1);
                        tracing::debug!(client = %client.name(), %error, "closed: TLS went wrong");
                    }
                    return ReadOutcome::Ended;
                }
            }
        }
    }

    /// Takes what came over a client's connection.
    pub(super) fn take_bytes(&mut self, key: Key, bytes: &[u8], now: Instant) {
        if let Some(client) = self.clients.get_mut(key) {
            client.take(bytes, now, &self.counters);
        }
    }

    /// Takes what came over the other connection of a client's tunnel.
    pub(super) fn take_tunnelled(&mut self, key: Key, base64: &[u8], now: Instant) {
        if let Some(client) = self.clients.get_mut(key) {
            client.take_tunnelled(base64, now, &self.counters);
        }
    }

    /// Takes the datagrams that came; the publishers among those that sent them.
    pub(super) fn receive(&mut self, batch: &mut ReceiveBatch, now: Instant) -> Vec<Key> {
        let mut publishers = Vec::new();
        let Some(udp) = &self.udp else {
            return publishers;
        };
        let (clients, counters) = (&mut self.clients, &self.counters);
        udp.receive(batch, |datagram| {
            let ClientDatagram {
                client: key,
                track,
                is_control,
                bytes,
            } = datagram;
            let Some(client) = clients.get_mut(key) else {
                return;
            };
            if !client.role.take(track, is_control, bytes, now, counters) {
                return;
            }
            client.connection.note_alive(now);
            if let Role::Publisher(_) = client.role {
                publishers.push(key);
            }
        });
        publishers.dedup();
        publishers
    }

    /// The next event of a client's connection.
    pub(super) fn poll_event(&mut self, key: Key) -> Option<Event> {
        self.clients.get_mut(key)?.connection.poll_event()
    }

    /// Counts the requests that a client was answered.
    pub(super) fn count_answered(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key) {
            while let Some(answered) = client.connection.poll_answered() {
                self.counters.requests.add(&answered);
            }
        }
    }
}

/// What clients are sent.
impl Clients {
    pub(super) fn answer(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
        }
    }

    /// Answers PLAY, with reports behind the answer, and begins to send.
    pub(super) fn answer_play(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        let plays = matches!(answer, Answer::Playing { .. });
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
            client.take_responses();
        }
        if plays {
            self.push_control(key, ControlPacket::Report, now);
            // The response first: datagrams may overtake it all the same.
            self.pump(key, now);
            self.offer_datagrams_to(key, now);
        }
    }

    /// BYE on every track of a client.
    pub(super) fn push_farewell(&mut self, key: Key, now: Instant) {
        self.push_control(key, ControlPacket::Farewell, now);
    }

    fn push_control(&mut self, key: Key, what: ControlPacket, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let (from, wall) = (client.local.ip(), self.streams.context.wall);
        let Role::Player(session) = &mut client.role else {
            return;
        };
        let Some(reader) = self.streams.get(session.reader) else {
            return;
        };
        let mut frames = Vec::new();
        for (track, transport) in session.transports.iter_mut() {
            let packet = match what {
                ControlPacket::Report => reader.report(track, &wall, now),
                ControlPacket::Farewell => reader.farewell(track, &wall, now),
            };
            let Some(packet) = packet.and_then(|packet| transport.seal_control(packet)) else {
                continue;
            };
            match (transport, &self.udp) {
                (TrackTransport::Interleaved { channels, .. }, _) => {
                    interleaved::write_frame(&mut frames, channels.control, &packet);
                }
                (TrackTransport::Udp { addresses, .. }, Some(udp)) => {
                    let sockets = &udp.writer.sockets;
                    sockets.send_report(&packet, *addresses, Some(from));
                }
                // The multicast thread reports to groups.
                (TrackTransport::Udp { .. }, None) | (TrackTransport::Multicast(_), _) => {}
            }
        }
        client.writer.push(&frames);
    }

    /// Sends a publisher the reports and keyframe requests that are due.
    pub(super) fn tell_publisher(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let from = client.local.ip();
        let Role::Publisher(session) = &mut client.role else {
            return;
        };
        let (recording, counters) = (&mut session.recording, &self.counters.recorded);
        let feedback = recording.poll_feedback(now, rand::random_range(0.5..1.5), counters);
        if feedback.is_empty() {
            return;
        }
        for (track, packet) in feedback {
            let Some(transport) = session.transports.get_mut(track) else {
                continue;
            };
            let Some(packet) = transport.seal_control(packet) else {
                continue;
            };
            match (transport, &self.udp) {
                // A publisher that reads nothing has a whole socket's buffer of reports;
                // the next one says the same.
                (TrackTransport::Interleaved { channels, .. }, _)
                    if client.writer.between_bytes() == 0 =>
                {
                    let mut frame = Vec::with_capacity(packet.len() + interleaved::HEADER_BYTES);
                    interleaved::write_frame(&mut frame, channels.control, &packet);
                    client.writer.push(&frame);
                }
                (TrackTransport::Udp { addresses, .. }, Some(udp)) => {
                    let sockets = &udp.writer.sockets;
                    sockets.send_report(&packet, *addresses, Some(from));
                }
                _ => {}
            }
        }
        self.pump(key, now);
    }

    /// Writes what a client is to get.
    pub(super) fn pump(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let reader = client.reader().and_then(|key| self.streams.get_mut(key));
        let budget = &self.shared.budget;
        if client.pump(reader, budget, now, &self.counters) == Served::Ends {
            self.release(key);
        }
    }

    /// Writes what is new of a stream, from entry `before` on, to its clients in turn.
    pub(super) fn offer(&mut self, reader_key: Key, before: u64, picked: Instant) {
        let Some(reader) = self.streams.get_mut(reader_key) else {
            return;
        };
        let budget = &self.shared.budget;
        let mut gone = Vec::new();
        let receivers = std::mem::take(&mut reader.feed.viewers);
        for key in &receivers {
            let Some(client) = self.clients.get_mut(*key) else {
                continue;
            };
            if client.is_playing()
                && client.pump(Some(reader), budget, picked, &self.counters) == Served::Ends
            {
                gone.push(*key);
            }
        }
        // Nobody joined meanwhile: this thread alone lets them.
        reader.feed.viewers = receivers;
        self.offer_datagrams(reader_key, picked);
        self.account(reader_key, before, picked);
        for key in gone {
            self.release(key);
        }
    }

    /// Adds the delay of a whole round, which is what the last client waited, if frames
    /// that delays are accounted of were among the new entries.
    fn account(&self, reader: Key, before: u64, picked: Instant) {
        let Some(reader) = self.streams.get(reader) else {
            return;
        };
        let anchor = reader.ring.anchor();
        let mut entries = reader.ring.since(before);
        let is_accounted = entries.any(|(_, entry)| {
            let burst = entry.burst();
            burst.is_some_and(|burst| burst.track == anchor)
        });
        if is_accounted {
            let sent = Instant::now();
            reader.account(Stage::Send, sent.saturating_duration_since(picked), sent);
        }
    }

    /// Sends what is new of a stream to its clients by UDP.
    fn offer_datagrams(&mut self, reader_key: Key, now: Instant) {
        let Some(reader) = self.streams.get_mut(reader_key) else {
            return;
        };
        let Some(udp) = &mut self.udp else {
            return;
        };
        if udp.writer.is_full() {
            return;
        }
        let counters = &self.counters.sent;
        let mut sent = Sent::default();
        let mut left = Vec::new();
        let mut hopeless = Vec::new();
        for key in &reader.feed.viewers {
            let Some(client) = self.clients.get_mut(*key) else {
                continue;
            };
            let before = sent.skips;
            if !plan(
                *key,
                client,
                &mut reader.ring,
                udp,
                &self.shared.budget,
                now,
                &mut sent,
            ) {
                hopeless.push(*key);
            }
            if sent.skips > before {
                client.log_skip(&sent);
            }
            if udp.writer.is_ripe() {
                udp.writer
                    .flush(&reader.ring, counters, &mut sent, &mut left);
                if udp.writer.is_full() {
                    break;
                }
            }
        }
        udp.writer
            .flush(&reader.ring, counters, &mut sent, &mut left);
        counters.add(&sent);
        for (key, entry) in left {
            let session = self.clients.get_mut(key).and_then(Client::player_mut);
            if let Some(cursor) = session.and_then(|session| session.cursor.as_mut())
                && entry < cursor.position()
            {
                cursor.advance(entry, &reader.ring);
            }
        }
        for key in hopeless {
            self.counters.closed_hopeless.add(1);
            self.release(key);
        }
    }

    /// Sends what is new of every stream by UDP: the socket has room again, or chunks are
    /// due.
    pub(super) fn offer_datagrams_to_all(&mut self, now: Instant) {
        if self.udp.is_none() {
            return;
        }
        for reader in self.streams.keys() {
            self.offer_datagrams(reader, now);
        }
    }

    /// Sends the next chunks to clients by UDP, if some are due.
    pub(super) fn offer_due_datagrams(&mut self, now: Instant) {
        if let Some(udp) = &mut self.udp
            && udp.paced_until.is_some_and(|at| at <= now)
        {
            udp.paced_until = None;
            self.offer_datagrams_to_all(now);
        }
    }

    /// Sends by UDP what is new of the stream of a client that has just begun to play.
    fn offer_datagrams_to(&mut self, key: Key, now: Instant) {
        let session = self.clients.get(key).and_then(Client::player);
        if let Some(session) = session.filter(|session| session.is(TransportKind::Udp)) {
            self.offer_datagrams(session.reader, now);
        }
    }

    /// Releases a client that takes nothing any more or is not done with its TLS handshake
    /// in time; false if it was released.
    pub(super) fn check_progress(&mut self, key: Key, now: Instant) -> bool {
        let Some(client) = self.clients.get_mut(key) else {
            return false;
        };
        let idle = now.saturating_duration_since(client.progressed);
        // What publishers are told is bounded, and they need not read it.
        let is_player = client.publisher().is_none();
        if client.is_full && idle > self.shared.budget.stall && is_player {
            self.counters.closed_stalled.add(1);
            tracing::warn!(client = %client.name(), idle_s = idle.as_secs(), "closed: it takes nothing any more");
        } else if client.wire.is_overdue(now) {
            self.counters.closed_tls.add(1);
            tracing::debug!(client = %client.name(), "closed: no TLS handshake in time");
        } else {
            return true;
        }
        self.release(key);
        false
    }

    /// Sees to the deadlines of a client's connection; whether that may have something to
    /// say now. A client that took media within `active` is alive.
    pub(super) fn check_deadlines(&mut self, key: Key, active: Duration, now: Instant) -> bool {
        let Some(client) = self.clients.get_mut(key) else {
            return false;
        };
        if client.closing.is_some_and(|at| at <= now) {
            self.release(key);
            return false;
        }
        // Those who get datagrams say so in reports or requests.
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

    /// Tells the clients of streams that came to their end, and asks for a keyframe for
    /// those that wait for one.
    pub(super) fn check_streams(&mut self, now: Instant) {
        for reader_key in self.streams.keys() {
            let Some(reader) = self.streams.get(reader_key) else {
                continue;
            };
            let has_ended = reader.has_ended();
            for key in reader.feed.viewers.clone() {
                let session = self.clients.get_mut(key).and_then(Client::player_mut);
                let Some(session) = session else {
                    continue;
                };
                let is_multicast = session.is(TransportKind::Multicast);
                let Some(cursor) = &mut session.cursor else {
                    continue;
                };
                let Some(reader) = self.streams.get(reader_key) else {
                    break;
                };
                if is_multicast {
                    // Another thread sends.
                    cursor.advance(reader.ring.end(), &reader.ring);
                }
                if has_ended && cursor.position() >= reader.ring.end() {
                    // The session stays: it may be asked to play again.
                    session.rest();
                    self.push_farewell(key, now);
                    self.pump(key, now);
                } else if cursor.is_waiting() && !is_multicast {
                    reader.stream().request_keyframe();
                }
            }
        }
    }
}

/// Plans the datagrams of a client, if it plays by UDP and its next chunk is due; false if
/// it will not catch up.
fn plan(
    key: Key,
    client: &mut Client,
    ring: &mut Ring,
    udp: &mut UdpClients,
    budget: &Budget,
    now: Instant,
    sent: &mut Sent,
) -> bool {
    let from = client.local.ip();
    let Role::Player(session) = &mut client.role else {
        return true;
    };
    let is_paced = session.paced_until.is_some_and(|at| at > now);
    if is_paced || !session.is(TransportKind::Udp) {
        return true;
    }
    session.paced_until = None;
    let Some(cursor) = &mut session.cursor else {
        return true;
    };
    let recipient = Recipient {
        client: key,
        from: Some(from),
        transports: &mut session.transports,
        cursor,
        paced_until: &mut session.paced_until,
        bytes: &mut session.bytes,
    };
    let will_catch_up = udp.writer.plan(recipient, ring, budget, now, sent);
    let deadlines = [udp.paced_until, session.paced_until];
    udp.paced_until = deadlines.into_iter().flatten().min();
    will_catch_up
}
