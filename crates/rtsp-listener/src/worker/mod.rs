//! The poll loop of one RTSP thread, which waits for events and hands each to the component that
//! handles it.

mod accept;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use glassline_egress::rtsp::UdpPair;
use glassline_net::ReceiveBatch;
use glassline_runtime::{Heartbeat, Key, Serving, SourceRates, Turn, Waker};
use mio::event::Event;
use mio::{Events, Poll};

use crate::background::Background;
use crate::clients::{Clients, ReadOutcome};
use crate::command::{AwaitedStream, ClaimOutcome, Command, LookupResult};
use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::event_source::EventSource;
use crate::listener::ThreadListeners;
use crate::publishers::{self, Publishers};
use crate::requests::Requests;
use crate::shared::Shared;
use crate::streams::Streams;
use crate::tunnels::Handover;
use crate::udp_clients::UdpClients;
use crate::{effect::Effect, media_folder};

/// Events that are handled in one turn.
const EVENTS: usize = 1024;

/// Interval of a thread's periodic checks; clients' timeouts are seconds.
const SWEEP: Duration = Duration::from_millis(250);

/// Size of the buffer that all clients of a thread are read into.
const READ_BYTES: usize = 64 << 10;

/// Reads of one client before other clients are read.
const READS_PER_TURN: usize = 8;

/// Connections that one address may open a second on each thread, and at once.
const CONNECTS_PER_S: f64 = 1_000.0;
const CONNECTS_AT_ONCE: f64 = 1_024.0;

/// Time that clients have to read the last messages when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// One thread of [`Rtsp`](super::Rtsp).
#[derive(Debug)]
pub(super) struct Worker {
    index: usize,
    poll: Poll,
    pub(super) waker: Arc<Waker>,
    commands: Receiver<Command>,
    pub(super) listeners: ThreadListeners,
    rates: SourceRates,
    pub(super) clients: Clients,
    requests: Requests,
    pub(super) publishers: Publishers,
    background: Background,
    shared: Arc<Shared>,
    /// Clients that have more to read than one turn allows.
    pub(super) unread: Vec<Key>,
    buffer: Vec<u8>,
    /// Buffers for datagrams; `None` after a panic.
    batch: Option<ReceiveBatch>,
    /// Whether datagrams may wait that the last turn did not read.
    pub(super) has_datagrams: bool,
    events: Events,
    /// Whether a panic may have kept events from clients.
    pub(super) is_behind: bool,
    swept: Instant,
    stopping: Option<Instant>,
}

/// The parts of a thread before it serves clients.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) index: usize,
    pub(super) poll: Poll,
    pub(super) waker: Arc<Waker>,
    pub(super) commands: Receiver<Command>,
    pub(super) listeners: ThreadListeners,
    /// The ports for media by UDP; `None` if media may not go by UDP.
    pub(super) udp: Option<UdpPair>,
    pub(super) counters: Arc<Counters>,
}

impl Worker {
    pub(super) fn new(
        parts: Parts,
        shared: Arc<Shared>,
        heartbeat: &Heartbeat,
    ) -> io::Result<Self> {
        let Parts {
            index,
            poll,
            waker,
            commands,
            mut listeners,
            udp,
            counters,
        } = parts;
        let registry = poll.registry();
        listeners.register(registry)?;
        if let Some(udp) = &udp {
            let (media, control) = (EventSource::UdpMedia, EventSource::UdpControl);
            udp.register(registry, media.token(), control.token())?;
        }
        let udp = udp.map(UdpClients::new);
        let streams = Streams::new(shared.context.clone(), Arc::clone(&waker), index);
        let serving = Serving::new(heartbeat);
        let delivery = Delivery::new(streams, udp, counters, serving);
        let clients = Clients::new(index, delivery, registry, Arc::clone(&shared))?;
        Ok(Self {
            index,
            poll,
            waker,
            commands,
            listeners,
            rates: SourceRates::new(CONNECTS_PER_S, CONNECTS_AT_ONCE),
            clients,
            requests: Requests::new(Arc::clone(&shared)),
            publishers: Publishers::default(),
            background: Background::new(Arc::clone(&shared), index),
            shared,
            unread: Vec::new(),
            buffer: vec![0; READ_BYTES],
            batch: None,
            has_datagrams: false,
            events: Events::with_capacity(EVENTS),
            is_behind: false,
            swept: Instant::now(),
            stopping: None,
        })
    }

    /// Waits for events and handles them. After [`Command::Stop`], the turn in which the last
    /// messages to all clients are written is the last one.
    pub(super) fn next_turn(&mut self) -> Turn {
        if self.events.capacity() == 0 {
            self.events = Events::with_capacity(EVENTS);
        }
        let wait = self.longest_wait(Instant::now());
        // Media goes first: one wake-up announces it, and viewers wait for it.
        self.waker.wait(&mut self.poll, &mut self.events, wait);
        if self.is_behind {
            self.catch_up();
        }
        self.forward_streams();
        self.process_commands();
        if self.has_datagrams {
            self.read_datagrams();
        }
        // A panic loses the events, and `catch_up` makes up for them.
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            self.react(event);
        }
        self.events = events;
        self.read_rest();
        let now = Instant::now();
        self.clients.delivery.serving.end();
        for index in self.listeners.due(now) {
            self.accept(index);
        }
        self.publishers.publish_held(&mut self.clients, now);
        self.sweep();
        let has_ended = |until| self.clients.is_empty() || until <= Instant::now();
        if self.stopping.is_some_and(has_ended) {
            Turn::Ended
        } else {
            Turn::Again
        }
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        let deadlines = [
            self.clients.delivery.deadline(),
            self.publishers.held_until,
            self.listeners.deadline(),
        ];
        let deadlines = deadlines.into_iter().flatten();
        let until = deadlines.fold(self.swept + SWEEP, Instant::min);
        until.saturating_duration_since(now)
    }

    /// Reads every stream that has something new, once for all of its clients here.
    fn forward_streams(&mut self) {
        for reader in self.clients.delivery.streams.keys() {
            let read_at = Instant::now();
            self.clients.delivery.serving.end();
            if let Some(before) = self.clients.delivery.streams.read(reader, read_at) {
                self.answer_starts(reader, read_at);
                self.clients.offer(reader, before, read_at);
            }
        }
        self.clients.offer_due_datagrams(Instant::now());
    }

    fn process_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            let now = Instant::now();
            self.clients.delivery.serving.end();
            match command {
                Command::Answer { client, id, answer } => {
                    self.clients.delivery.serving.begin(client);
                    self.clients.delivery.answer(client, id, *answer, now);
                    self.serve(client, now);
                }
                // The requester may have stopped waiting; the reply is then dropped.
                Command::Dismiss(dismissal) => {
                    let found = self.clients.to_dismiss(&dismissal, now);
                    found.into_iter().for_each(|key| self.dismiss(key, now));
                    // The operator may not wait any more.
                    let _ = dismissal.reply.send(found.is_some());
                }
                Command::List(reply) => drop(reply.send(self.clients.views(now))),
                Command::MakeRoom(source) => {
                    self.clients.make_room(source);
                }
                Command::Tunnel(handover) => self.adopt_tunnel(*handover, now),
                Command::Found(found) => self.answer_found(*found, now),
                Command::Awaited(awaited) => self.answer_awaited(&awaited, now),
                Command::Claimed(claimed) => self.answer_claimed(*claimed, now),
                Command::Stop => self.begin_to_stop(now),
            }
        }
    }

    fn answer_found(&mut self, found: LookupResult, now: Instant) {
        let (key, id) = (found.client, found.id);
        self.clients.delivery.serving.begin(key);
        if let Some(mut scope) = self.clients.scope(key, now) {
            let answer = self.requests.answer_found(&mut scope, found);
            self.clients.delivery.answer(key, id, answer, now);
            self.serve(key, now);
        }
    }

    fn answer_awaited(&mut self, awaited: &AwaitedStream, now: Instant) {
        let key = awaited.client;
        self.clients.delivery.serving.begin(key);
        if let Some(mut scope) = self.clients.scope(key, now) {
            let (requests, name) = (&self.requests, awaited.demand.stream().name().as_str());
            let answer = requests.answer_awaited(&mut scope, name, &awaited.request);
            self.clients.delivery.answer(key, awaited.id, answer, now);
            self.serve(key, now);
        }
    }

    fn answer_claimed(&mut self, claimed: ClaimOutcome, now: Instant) {
        let (key, id) = (claimed.client, claimed.id);
        self.clients.delivery.serving.begin(key);
        // The claim of a client that left is given back when it is dropped.
        if let Some(mut scope) = self.clients.scope(key, now) {
            let answer = self.requests.answer_claimed(&mut scope, claimed);
            self.clients.delivery.answer(key, id, answer, now);
            self.serve(key, now);
        }
    }

    /// Sends BYE on every track of every client, and then ends the sessions.
    fn begin_to_stop(&mut self, now: Instant) {
        self.stopping = Some(now + FAREWELL);
        self.listeners.deregister(self.poll.registry());
        for key in self.clients.keys() {
            self.dismiss(key, now);
        }
    }

    /// Ends a client's session with the last messages to it.
    fn dismiss(&mut self, key: Key, now: Instant) {
        self.clients.delivery.serving.begin(key);
        self.clients.delivery.push_farewell(key, now);
        if let Some(client) = self.clients.get_mut(key) {
            client.closing.get_or_insert(now + FAREWELL);
        }
        self.serve(key, now);
    }

    fn react(&mut self, event: &Event) {
        let now = Instant::now();
        match EventSource::of(event.token()) {
            EventSource::Waker => {}
            EventSource::UdpMedia | EventSource::UdpControl => {
                self.read_datagrams();
                self.clients.take_refused(event, now);
                if event.is_writable() {
                    self.clients.unblock_datagrams(now);
                }
            }
            EventSource::Listener(index) => self.accept(index),
            EventSource::Tunnel(post) => self.read_tunnel(post),
            EventSource::Client(key) => {
                if event.is_writable()
                    && let Some(client) = self.clients.get_mut(key)
                    && (client.is_full || client.wire.holds_back())
                {
                    client.is_full = false;
                    self.clients.pump(key, now);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.read(key);
                }
            }
        }
    }

    /// Reads datagrams, up to a limit. The rest is read in the next turn, behind media.
    fn read_datagrams(&mut self) {
        let now = Instant::now();
        let batch = self.batch.take();
        let mut batch = batch.unwrap_or_else(|| ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX));
        let (publishers, is_rest) = self.clients.delivery.receive(&mut batch, now);
        self.batch = Some(batch);
        self.has_datagrams = is_rest;
        if is_rest {
            self.waker.wake();
        }
        for key in publishers {
            self.clients.delivery.serving.begin(key);
            self.publishers.publish(&mut self.clients, key, now);
        }
    }

    /// Takes the buffer that clients are read into. A panic loses it, and another one takes its
    /// place.
    fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ_BYTES, 0);
        buffer
    }

    fn read(&mut self, key: Key) {
        let mut buffer = self.take_buffer();
        let mut reads = 0;
        while self.clients.get(key).is_some() {
            if reads == READS_PER_TURN {
                self.unread.push(key);
                self.waker.wake();
                break;
            }
            reads += 1;
            self.clients.delivery.serving.begin(key);
            match self.clients.read(key, &mut buffer) {
                ReadOutcome::Bytes(count) => {
                    let now = Instant::now();
                    self.clients.take_bytes(key, &buffer[..count], now);
                    self.publishers.publish(&mut self.clients, key, now);
                    self.serve(key, now);
                }
                ReadOutcome::Blocked => break,
                ReadOutcome::Ended => {
                    self.clients.release(key);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// Takes the second connection of one of this thread's clients.
    fn adopt_tunnel(&mut self, handover: Handover, now: Instant) {
        let Handover {
            client,
            wire,
            permit,
            rest,
        } = handover;
        if self.clients.get(client).is_some() && self.clients.tunnels.adopt(client, wire, permit) {
            self.take_tunnelled(client, &rest, now);
        }
    }

    fn read_tunnel(&mut self, post: Key) {
        let mut buffer = self.take_buffer();
        for reads in 0.. {
            if reads == READS_PER_TURN {
                self.clients.tunnels.read_later(post);
                self.waker.wake();
                break;
            }
            let Some((client, count)) = self.clients.tunnels.read(post, &mut buffer) else {
                break;
            };
            self.take_tunnelled(client, &buffer[..count], Instant::now());
        }
        self.buffer = buffer;
    }

    fn take_tunnelled(&mut self, key: Key, base64: &[u8], now: Instant) {
        self.clients.delivery.serving.begin(key);
        self.clients.take_tunnelled(key, base64, now);
        self.publishers.publish(&mut self.clients, key, now);
        self.serve(key, now);
    }

    /// Reads the data that was left to this turn.
    fn read_rest(&mut self) {
        for key in std::mem::take(&mut self.unread) {
            self.read(key);
        }
        for post in self.clients.tunnels.take_unread() {
            self.read_tunnel(post);
        }
    }

    /// Serves a client after any input: first its requests, then what waits for it.
    fn serve(&mut self, key: Key, now: Instant) {
        self.clients.delivery.serving.begin(key);
        while let Some(event) = self.clients.poll_event(key) {
            let Some(mut scope) = self.clients.scope(key, now) else {
                break;
            };
            if let Some(effect) = self.requests.handle(event, &mut scope) {
                self.carry_out(key, effect, now);
            }
        }
        self.clients.count_answered(key, now);
        self.clients.pump(key, now);
    }

    fn carry_out(&mut self, key: Key, effect: Effect, now: Instant) {
        let (background, clients) = (&self.background, &mut self.clients);
        match effect {
            Effect::Answer(id, answer) => clients.delivery.answer(key, id, answer, now),
            Effect::Play(id, answer) => clients.answer_play(key, id, answer, now),
            Effect::Verify(id, credentials) => background.verify(key, id, credentials),
            Effect::LookUp { id, path, request } => background.look_up(key, id, path, request),
            Effect::LookBack(id, back) => background.look_back(key, id, back),
            Effect::Await {
                id,
                stream,
                request,
            } => background.await_tracks(clients, key, id, stream, request),
            Effect::ChooseServer(id, placing) => background.place(clients, key, id, *placing),
            Effect::ClaimName {
                id,
                name,
                description,
            } => background.claim(key, id, name, description),
            Effect::Leave => clients.tear_down(key, now),
            Effect::OpenTunnel { cookie } => clients.open_tunnel(key, cookie),
            Effect::JoinTunnel { cookie, rest } => clients.join_tunnel(key, &cookie, rest),
            Effect::Close(reason) => clients.close(key, &reason, now),
        }
    }

    /// Answers PLAY requests whose reading has begun, after units of the stream were read.
    fn answer_starts(&mut self, reader: Key, now: Instant) {
        let reader = self.clients.delivery.streams.get(reader);
        // A private stream has only this client.
        if let Some(reader) = reader
            && let [key] = reader.subscription.viewers[..]
        {
            self.answer_start(key, now);
        }
    }

    /// Answers a PLAY request for a file that has begun, or that takes too long.
    fn answer_start(&mut self, key: Key, now: Instant) {
        let scope = self.clients.scope(key, now);
        let started = scope.and_then(|mut scope| media_folder::answer_start(&mut scope));
        if let Some((id, answer)) = started {
            self.clients.answer_play(key, id, answer, now);
            self.serve(key, now);
        }
    }

    /// Runs four times a second: handles timeouts and clients that stopped reading.
    fn sweep(&mut self) {
        let now = Instant::now();
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        self.listeners.check_outages(now);
        for key in self.clients.begin_sweep() {
            self.clients.delivery.serving.begin(key);
            if !self.clients.check_progress(key, now) {
                continue;
            }
            self.answer_start(key, now);
            if publishers::check(&mut self.clients, key, now)
                && self.clients.check_deadlines(key, SWEEP * 2, now)
            {
                self.serve(key, now);
            }
        }
        self.clients.delivery.serving.end();
        let playing = self.clients.playing();
        self.clients.delivery.counters.playing.set(playing);
        self.clients.check_streams(now);
        self.clients.note_unserved(now);
    }
}
