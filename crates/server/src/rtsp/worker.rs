use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Wake};
use glassline_media::Stage;
use glassline_net::ReceiveBatch;
use glassline_rtsp::server::{Connection, Ends};
use mio::event::Event;
use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::client::{Client, Served, Session};
use super::counters::Counters;
use super::tunnel::Post;
use super::wire::Wire;
use super::{Command, Shared};
use crate::config::Identity;
use crate::egress::rtsp::stream_reader::StreamReader;
use crate::egress::rtsp::udp::{Arrived, Udp};
use crate::runtime::{Key, Slots, StreamWaker, Waker};

pub(crate) const WAKE: Token = Token(usize::MAX - 1);
const UDP_MEDIA: Token = Token(usize::MAX - 2);
const UDP_CONTROL: Token = Token(usize::MAX - 3);
/// The first of the listeners; further ones go down from here.
const DOORS: Token = Token(usize::MAX - 16);
const DOORS_MAX: usize = 4;

/// The coarse clock of a thread: time-outs of clients are seconds.
const SWEEP: Duration = Duration::from_millis(250);

/// Bytes read at once, by all clients of a thread into the same buffer.
const READ_BYTES: usize = 64 << 10;

/// Reads of one client before it is the others' turn.
pub(super) const READS_PER_TURN: usize = 8;

/// Connections accepted before it is the clients' turn.
const ACCEPTS_PER_TURN: usize = 64;

/// How long a client may take to read our last words.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// What a thread listens at.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) doors: Vec<ThreadListener>,
    pub(super) udp: Option<Udp>,
}

/// A thread's share of an entrance.
#[derive(Debug)]
pub(super) struct ThreadListener {
    listener: TcpListener,
    identity: Option<Identity>,
    /// There was more than one turn's share.
    more: bool,
}

impl ThreadListener {
    pub(super) fn new(listener: std::net::TcpListener, identity: Option<Identity>) -> Self {
        Self {
            listener: TcpListener::from_std(listener),
            identity,
            more: false,
        }
    }
}

fn door_token(index: usize) -> Token {
    debug_assert!(index < DOORS_MAX, "an entrance for each way to come");
    Token(DOORS.0 - index)
}

/// The door that an event is of, if it is of one.
fn door_of(Token(bits): Token) -> Option<usize> {
    let index = DOORS.0.checked_sub(bits)?;
    (index < DOORS_MAX).then_some(index)
}

/// One stream on this thread, and whether the hub rang for it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) source: StreamReader,
    waker: Arc<StreamWaker>,
}

/// One thread of [`Rtsp`](super::Rtsp).
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) poll: Poll,
    doors: Vec<ThreadListener>,
    pub(super) udp: Option<Udp>,
    batch: ReceiveBatch,
    pub(super) waker: Arc<Waker>,
    commands: Receiver<Command>,
    pub(super) counters: Arc<Counters>,
    pub(super) shared: Arc<Shared>,
    pub(super) clients: Slots<Client>,
    /// Other halves of tunnels.
    pub(super) posts: Slots<Post>,
    pub(super) unread_posts: Vec<Key>,
    pub(super) channels: Slots<Channel>,
    /// Clients with more to read than one turn's share.
    unread: Vec<Key>,
    /// The earliest time at which a client by UDP gets its next chunk.
    pub(super) paced_until: Option<Instant>,
    /// The earliest time at which a publisher's packet waited long enough for one
    /// before it.
    pub(super) held_until: Option<Instant>,
    swept: Instant,
    open: usize,
    pub(super) buffer: Vec<u8>,
    stopping: Option<Instant>,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        poll: Poll,
        Sockets { mut doors, udp }: Sockets,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
        counters: Arc<Counters>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        for (index, door) in doors.iter_mut().enumerate() {
            let token = door_token(index);
            poll.registry()
                .register(&mut door.listener, token, Interest::READABLE)?;
        }
        if let Some(udp) = &udp {
            udp.register(poll.registry(), UDP_MEDIA, UDP_CONTROL)?;
        }
        Ok(Self {
            index,
            poll,
            doors,
            udp,
            batch: ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX),
            paced_until: None,
            held_until: None,
            waker,
            commands,
            counters,
            shared,
            clients: Slots::default(),
            posts: Slots::default(),
            unread_posts: Vec::new(),
            channels: Slots::default(),
            unread: Vec::new(),
            swept: Instant::now(),
            open: 0,
            buffer: vec![0; READ_BYTES],
            stopping: None,
        })
    }

    /// Runs until [`Command::Stop`], and then until everyone was told.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = self.longest_wait(Instant::now());
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, thread = self.index, "cannot wait for events");
                std::thread::sleep(Duration::from_millis(10));
            }
            // Media first: one wake-up brings it, and others wait for it.
            self.waker.clear();
            self.publish();
            self.process_commands();
            for event in &events {
                self.react(event);
            }
            self.go_on();
            self.publish_held(Instant::now());
            self.sweep();
            if self
                .stopping
                .is_some_and(|until| self.open == 0 || until <= Instant::now())
            {
                return;
            }
        }
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        let held = self
            .channels
            .iter()
            .filter_map(|it| it.source.feed.deadline());
        let until = held
            .chain(self.paced_until)
            .chain(self.held_until)
            .fold(self.swept + SWEEP, Instant::min);
        until.saturating_duration_since(now)
    }

    /// Reads every stream that has something new, once, for all of its clients here.
    fn publish(&mut self) {
        for key in self.channels.keys() {
            let Some(channel) = self.channels.get_mut(key) else {
                continue;
            };
            let picked = Instant::now();
            let rung = channel.waker.take();
            let is_due = channel
                .source
                .feed
                .deadline()
                .is_some_and(|at| at <= picked);
            if !(rung || is_due) {
                continue;
            }
            let before = channel.source.ring.end();
            if channel.source.read(&self.shared.wall, picked) {
                self.offer(key, before, picked);
            }
        }
        let now = Instant::now();
        if self.paced_until.is_some_and(|at| at <= now) {
            self.paced_until = None;
            self.offer_datagrams_to_all(now);
        }
    }

    /// Writes what is new of a stream to its clients, in turn.
    fn offer(&mut self, key: Key, before: u64, picked: Instant) {
        self.answer_starts(key, picked);
        let Some(Channel { source, .. }) = self.channels.get_mut(key) else {
            return;
        };
        let budget = self.shared.budget;
        let mut gone = Vec::new();
        let clients = std::mem::take(&mut source.feed.viewers);
        for client in &clients {
            let Some(it) = self.clients.get_mut(*client) else {
                continue;
            };
            let is_playing = it.session.as_ref().is_some_and(|it| it.place.is_some());
            if is_playing && it.pump(Some(source), &budget, picked, &self.counters) == Served::Ends
            {
                gone.push(*client);
            }
        }
        // Nobody joined meanwhile: this thread alone lets them.
        source.feed.viewers = clients;
        self.offer_datagrams(key, picked);
        let Some(Channel { source, .. }) = self.channels.get_mut(key) else {
            return;
        };
        // The whole round counts: what the last client waited.
        let anchor = source.ring.anchor();
        let accounted = source.ring.since(before);
        if accounted
            .filter_map(|(_, entry)| entry.burst())
            .any(|burst| burst.track == anchor)
        {
            let sent = Instant::now();
            source.account(Stage::Send, sent.saturating_duration_since(picked), sent);
        }
        for client in gone {
            self.release(client);
        }
    }

    fn process_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            let now = Instant::now();
            match command {
                Command::Answer { client, id, answer } => {
                    if let Some(it) = self.clients.get_mut(client) {
                        it.connection.answer(now, id, *answer);
                        self.serve(client, now);
                    }
                }
                Command::List(reply) => {
                    let views = self.clients.iter().filter_map(|client| {
                        let session = client.session.as_deref();
                        let channel = session.and_then(|it| self.channels.get(it.source));
                        client.view(channel.map(|it| &it.source), now)
                    });
                    // Whoever asked may have gone; then nobody wants to know.
                    let _ = reply.send(views.collect());
                }
                Command::Tunnel(handover) => self.adopt_post(*handover, now),
                Command::LookupResult(found) => self.found(*found, now),
                Command::Stop => self.begin_to_stop(now),
            }
        }
    }

    fn begin_to_stop(&mut self, now: Instant) {
        self.stopping = Some(now + FAREWELL);
        for door in &mut self.doors {
            // It may be gone from the poll already.
            let _ = self.poll.registry().deregister(&mut door.listener);
        }
        for key in self.clients.keys() {
            self.say_goodbye(key, now);
        }
    }

    /// BYE on every track, then the end.
    fn say_goodbye(&mut self, key: Key, now: Instant) {
        self.push_farewell(key, now);
        if let Some(client) = self.clients.get_mut(key) {
            client.closing.get_or_insert(now + FAREWELL);
            self.serve(key, now);
        }
    }

    fn react(&mut self, event: &Event) {
        match event.token() {
            WAKE => {}
            UDP_MEDIA | UDP_CONTROL => self.react_to_udp(event),
            token if door_of(token).is_some() => {
                if let Some(door) = door_of(token) {
                    self.accept(door);
                }
            }
            token if Self::post_of(token).is_some() => {
                if let Some(post) = Self::post_of(token) {
                    self.read_post(post);
                }
            }
            Token(bits) => {
                let key = Key::from_bits(bits as u64);
                let now = Instant::now();
                if event.is_writable()
                    && let Some(client) = self.clients.get_mut(key)
                    && (client.is_full || client.wire.holds_back())
                {
                    client.is_full = false;
                    self.pump(key, now);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.read(key);
                }
            }
        }
    }

    fn react_to_udp(&mut self, event: &Event) {
        let now = Instant::now();
        let Some(udp) = &mut self.udp else {
            return;
        };
        let has_room = event.is_writable() && udp.is_full();
        let (clients, counters) = (&mut self.clients, &self.counters);
        let mut publishers = Vec::new();
        udp.receive(&mut self.batch, |arrived| {
            let Some(client) = clients.get_mut(arrived.client) else {
                return;
            };
            let Arrived {
                track,
                is_control,
                bytes,
                ..
            } = arrived;
            if let Some(recording) = &mut client.recording {
                if !recording.take(track, is_control, bytes, now) {
                    counters.srtp_refused.add(1);
                    return;
                }
                publishers.push(arrived.client);
            } else if let Some(session) = &mut client.session
                && !session.hear(track, is_control, bytes, counters)
            {
                return;
            }
            client.connection.note_alive(now);
        });
        if has_room {
            udp.unblock();
            self.offer_datagrams_to_all(now);
        }
        publishers.dedup();
        for key in publishers {
            self.publish_recorded(key, now);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(door) = self.doors.get_mut(index) else {
                return;
            };
            door.more = false;
            match door.listener.accept() {
                Ok((stream, peer)) => {
                    self.counters.accepted.add(1);
                    let identity = door.identity.clone();
                    if let Err(error) = self.adopt(stream, peer, identity.as_ref()) {
                        tracing::debug!(%peer, %error, "connection lost at once");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Most likely no descriptor is left: tried again with the next sweep.
                    tracing::warn!(%error, "cannot accept RTSP connections");
                    door.more = true;
                    return;
                }
            }
        }
        if let Some(door) = self.doors.get_mut(index) {
            door.more = true;
        }
        self.waker.wake();
    }

    fn adopt(
        &mut self,
        stream: mio::net::TcpStream,
        peer: std::net::SocketAddr,
        identity: Option<&Identity>,
    ) -> io::Result<()> {
        let taken = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        if taken >= self.shared.connections_max || self.stopping.is_some() {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            self.counters.turned_away.add(1);
            return Ok(());
        }
        let result = self.try_adopt(stream, peer, identity);
        if result.is_err() {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    fn try_adopt(
        &mut self,
        stream: mio::net::TcpStream,
        peer: std::net::SocketAddr,
        identity: Option<&Identity>,
    ) -> io::Result<()> {
        let now = Instant::now();
        let ends = Ends {
            peer,
            local: stream.local_addr()?,
            secure: identity.is_some(),
        };
        let wire = Wire::new(stream, identity, now)?;
        let config = Arc::clone(&self.shared.connection);
        let connection = Connection::new(config, ends, rand::random(), now);
        let fd = wire.as_raw_fd();
        let key = self
            .clients
            .insert(Client::new(wire, connection, ends, now));
        self.open += 1;
        self.counters.open.set(self.open);
        // Edges: the kernel tells of room only to those whose write it refused, so
        // that asking for it from the start costs nothing.
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut SourceFd(&fd), token(key), interest);
        if let Err(error) = registered {
            // Counted by the caller.
            self.clients.remove(key);
            self.open -= 1;
            return Err(error);
        }
        Ok(())
    }

    fn read(&mut self, key: Key) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut ended = false;
        let mut reads = 0;
        while let Some(client) = self.clients.get_mut(key) {
            if reads == READS_PER_TURN {
                self.unread.push(key);
                self.waker.wake();
                break;
            }
            reads += 1;
            match client.wire.read(&mut buffer) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(count) => {
                    let now = Instant::now();
                    client.take(&buffer[..count], now, &self.counters);
                    self.publish_recorded(key, now);
                    self.serve(key, now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if client.wire.is_secure() && error.kind() == io::ErrorKind::InvalidData {
                        self.counters.closed_tls.add(1);
                        tracing::debug!(client = %client.name(), %error, "closed: TLS went wrong");
                    }
                    ended = true;
                    break;
                }
            }
        }
        self.buffer = buffer;
        if ended {
            self.release(key);
        }
    }

    /// What did not fit into the last turn.
    fn go_on(&mut self) {
        for key in std::mem::take(&mut self.unread) {
            self.read(key);
        }
        for post in std::mem::take(&mut self.unread_posts) {
            self.read_post(post);
        }
    }

    /// After any input of a client: what it asks for, then what it gets.
    pub(super) fn serve(&mut self, key: Key, now: Instant) {
        self.converse(key, now);
        self.pump(key, now);
    }

    pub(super) fn pump(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let source = client.session.as_ref().map(|session| session.source);
        let channel = source.and_then(|source| self.channels.get_mut(source));
        let source = channel.map(|channel| &mut channel.source);
        if client.pump(source, &self.shared.budget, now, &self.counters) == Served::Ends {
            self.release(key);
        }
    }

    /// Four times a second: time-outs, clients that stopped, and a listener that failed.
    fn sweep(&mut self) {
        let now = Instant::now();
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        for index in 0..self.doors.len() {
            if self.doors[index].more {
                self.accept(index);
            }
        }
        let mut playing = 0;
        for key in self.clients.keys() {
            let Some(client) = self.clients.get_mut(key) else {
                continue;
            };
            let plays = client.session.as_ref().is_some_and(|it| it.place.is_some());
            playing += usize::from(plays);
            let idle = now.saturating_duration_since(client.progressed);
            // What publishers are told is bounded, and they need not read it.
            let is_player = client.recording.is_none();
            if client.is_full && idle > self.shared.budget.stall && is_player {
                self.counters.closed_stalled.add(1);
                tracing::warn!(client = %client.name(), idle_s = idle.as_secs(), "closed: it takes nothing any more");
                self.release(key);
                continue;
            }
            if client.wire.is_overdue(now) {
                self.counters.closed_tls.add(1);
                tracing::debug!(client = %client.name(), "closed: no TLS handshake in time");
                self.release(key);
                continue;
            }
            if client.session.as_ref().is_some_and(|it| it.file.is_some()) {
                self.answer_start(key, now);
            }
            if !self.check_publisher(key, now) {
                continue;
            }
            let Some(client) = self.clients.get_mut(key) else {
                continue;
            };
            if client.closing.is_some_and(|at| at <= now) {
                self.release(key);
                continue;
            }
            // Those who get datagrams say so in reports or requests.
            let takes = client
                .session
                .as_ref()
                .is_some_and(|it| it.is_interleaved());
            if plays && takes && idle < SWEEP * 2 {
                client.connection.note_alive(now);
            }
            if client.connection.poll_timeout().is_some_and(|at| at <= now) {
                client.connection.handle_timeout(now);
                self.serve(key, now);
            }
        }
        self.counters.playing.set(playing);
        self.look_at_sources(now);
    }

    /// Streams that came to their end are told so, waiting clients ask for a keyframe.
    fn look_at_sources(&mut self, now: Instant) {
        for key in self.channels.keys() {
            let Some(Channel { source, .. }) = self.channels.get_mut(key) else {
                continue;
            };
            let has_ended = matches!(source.stream().state(), glassline_hub::State::Ended { .. });
            let clients = source.feed.viewers.clone();
            for client in clients {
                let Some(session) = self
                    .clients
                    .get_mut(client)
                    .and_then(|it| it.session.as_deref_mut())
                else {
                    continue;
                };
                let is_multicast = session.is_multicast();
                let Some(place) = &mut session.place else {
                    continue;
                };
                let Some(Channel { source, .. }) = self.channels.get(key) else {
                    break;
                };
                if is_multicast {
                    // Another thread sends.
                    place.advance(source.ring.end(), &source.ring);
                }
                if has_ended && place.cursor() >= source.ring.end() {
                    // The session stays: it may be asked to play again.
                    session.rest();
                    self.push_farewell(client, now);
                    self.pump(client, now);
                } else if place.is_waiting() && !is_multicast {
                    source.stream().request_keyframe();
                }
            }
        }
    }

    /// The stream on this thread, subscribed to if nobody here has it yet.
    pub(super) fn source_of(&mut self, stream: &Arc<Stream>, now: Instant) -> Key {
        let mut known = self.channels.entries();
        if let Some((key, _)) = known.find(|(_, it)| Arc::ptr_eq(it.source.stream(), stream)) {
            return key;
        }
        drop(known);
        let waker = Arc::new(StreamWaker::new(Arc::clone(&self.waker)));
        // Beside those of the shards, whose numbers begin at 0.
        let table = usize::MAX - self.index;
        let stages = self.shared.board.stages(stream.name(), table);
        let wake = Arc::clone(&waker) as Arc<dyn Wake>;
        let (keys, bounds) = (&self.shared.keys, self.shared.bounds);
        let source = StreamReader::new(stream, wake, stages, keys, bounds, now);
        self.channels.insert(Channel { source, waker })
    }

    /// Takes a client off its stream; the stream goes with its last one.
    pub(super) fn leave(&mut self, client: Key, session: &Session) {
        self.unlearn(client, &session.targets);
        self.leave_source(client, session.source);
    }

    pub(super) fn leave_source(&mut self, client: Key, source: Key) {
        let Some(channel) = self.channels.get_mut(source) else {
            return;
        };
        let viewers = &mut channel.source.feed.viewers;
        viewers.retain(|viewer| *viewer != client);
        if viewers.is_empty() {
            self.channels.remove(source);
        }
    }

    /// Forgets a client and closes its connection.
    pub(super) fn release(&mut self, key: Key) {
        drop(self.take_client(key));
    }

    /// The same, but the connection is the caller's.
    pub(super) fn take_client(&mut self, key: Key) -> Option<Client> {
        let mut client = self.clients.remove(key)?;
        if let Some(cookie) = client.cookie.take() {
            self.close_tunnel(key, client.peer.ip(), &cookie);
        }
        if let Some(session) = client.session.take() {
            self.leave(key, &session);
        }
        if let Some(recording) = client.recording.take() {
            self.unlearn(key, &recording.targets);
        }
        // Closing would do it, too, unless the descriptor lives on elsewhere.
        let fd = client.wire.as_raw_fd();
        let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
        self.open -= 1;
        self.counters.open.set(self.open);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        Some(client)
    }
}

pub(super) fn token(key: Key) -> Token {
    // 64 bits: a server of clients by the thousand runs on nothing smaller.
    Token(usize::try_from(key.to_bits()).unwrap_or(usize::MAX - 4))
}
