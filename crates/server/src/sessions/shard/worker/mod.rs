//! The shard's loop.

mod ownership;
mod relay;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use glassline_media::{Burst, Track};
use glassline_net::{PathErrorKind, ReceiveBatch, UdpSocket};
use glassline_webrtc::{Received, stun_username};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::Shared;
use super::command::Command;
use crate::egress::webrtc::Outbox;
use crate::runtime::SessionId;
use crate::runtime::{Key, Slots, StreamSubscription, Timers, Waker};
use crate::sessions::peer::{Leaving, Peer, Served, ShardContext};
use crate::sessions::{Counters, SessionLocation};
use relay::Relay;

pub(super) const WAKE: Token = Token(0);
const SOCKET: Token = Token(1);

/// A shard looks around at least this often, should a wake-up be lost.
const IDLE: Duration = Duration::from_secs(1);

/// A full interface queue is tried again after this: it drains at line rate.
const RETRY: Duration = Duration::from_millis(1);

/// Datagrams taken before media gets its turn again.
const BATCHES_PER_TURN: usize = 8;

/// One shard's state; lives on its thread.
pub(super) struct Worker {
    index: usize,
    poll: Poll,
    outbox: Outbox,
    waits_writable: bool,
    local: SocketAddr,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
    peers: Slots<Box<Peer>>,
    by_address: HashMap<SocketAddr, Key>,
    by_session: HashMap<SessionId, Key>,
    feeds: Vec<StreamSubscription>,
    /// Of streams with data channels here.
    relays: Vec<Relay>,
    /// Sessions with data channels that something came from in this batch.
    talking: Vec<Key>,
    timers: Timers,
    /// Empty between turns, kept for their room.
    due: Vec<(Instant, Key)>,
    bursts: Vec<Arc<Burst>>,
    offered: Vec<Key>,
    leaving: Vec<Leaving>,
    control: Vec<u8>,
    stopping: bool,
}

/// Where a datagram came from and went to.
#[derive(Clone, Copy, Debug)]
struct Path {
    source: SocketAddr,
    /// As the session knows it: one of its candidates.
    destination: SocketAddr,
    /// For replies from a wildcard socket.
    local: Option<IpAddr>,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        poll: Poll,
        socket: UdpSocket,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
        counters: Arc<Counters>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        poll.registry().register(
            &mut SourceFd(&socket.as_raw_fd()),
            SOCKET,
            Interest::READABLE,
        )?;
        let local = socket.local_addr();
        Ok(Self {
            index,
            poll,
            outbox: Outbox::new(socket, Arc::clone(&counters.send)),
            waits_writable: false,
            local,
            waker,
            commands,
            counters,
            shared,
            peers: Slots::default(),
            by_address: HashMap::new(),
            by_session: HashMap::new(),
            feeds: Vec::new(),
            relays: Vec::new(),
            talking: Vec::new(),
            timers: Timers::default(),
            due: Vec::new(),
            bursts: Vec::new(),
            offered: Vec::new(),
            leaving: Vec::new(),
            control: Vec::new(),
            stopping: false,
        })
    }

    /// Runs until [`Command::Stop`].
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(8);
        let mut batch = ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX);
        while !self.stopping {
            let now = Instant::now();
            let longest = if self.outbox.is_congested() {
                RETRY
            } else {
                IDLE
            };
            let held = self
                .feeds
                .iter()
                .filter_map(StreamSubscription::deadline)
                .min();
            let next = [self.timers.next(), held].into_iter().flatten().min();
            let wait = next.map_or(longest, |at| at.saturating_duration_since(now).min(longest));
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, shard = self.index, "cannot wait for events");
                std::thread::sleep(Duration::from_millis(10));
            }
            // Media first: it is what is measured, and one wake-up brings it.
            self.waker.clear();
            let is_error = |event: &Event| event.token() == SOCKET && event.is_error();
            if events.iter().any(is_error) {
                self.take_path_errors();
            }
            self.publish();
            self.relay();
            self.process_commands();
            self.receive(&mut batch);
            self.expire();
            self.unblock();
        }
    }

    /// Reads every stream once and offers what is new to its viewers.
    fn publish(&mut self) {
        let mut bursts = std::mem::take(&mut self.bursts);
        let mut offered = std::mem::take(&mut self.offered);
        let mut place = 0;
        while place < self.feeds.len() {
            let picked = Instant::now();
            let feed = &mut self.feeds[place];
            feed.read(&mut bursts, picked);
            let changed = feed.take_changed();
            place += 1;
            if bursts.is_empty() && changed.is_none() {
                continue;
            }
            // A copy: whoever is served in between may leave.
            offered.clone_from(&feed.viewers);
            if let Some(tracks) = changed {
                self.let_go_of_reordered(&offered, &tracks, picked);
            }
            self.offer(&bursts, &offered, picked);
            bursts.clear();
        }
        self.bursts = bursts;
        self.offered = offered;
    }

    /// Says goodbye to viewers who are sent pictures that turn out to have B-frames:
    /// those who come now are refused, with the reason, for what these would see.
    fn let_go_of_reordered(&mut self, keys: &[Key], tracks: &[Track], now: Instant) {
        for key in keys {
            let Some(peer) = self.peers.get_mut(*key) else {
                continue;
            };
            if peer.gets_reordered(tracks) {
                let (session, stream) = (peer.id(), peer.stream().name());
                tracing::warn!(%session, %stream, "viewer sent away: the picture has B-frames");
                peer.session.close(now);
                self.serve(*key, now);
            }
        }
    }

    /// Gives `bursts` to the viewers named, in turn.
    ///
    /// A keyframe leaves in chunks. Those that have begun with it come first when
    /// their next chunk is due, so that with many viewers one after the other has it
    /// whole, instead of all together at the very end.
    fn offer(&mut self, bursts: &[Arc<Burst>], keys: &[Key], picked: Instant) {
        let mut now = picked;
        for (index, key) in keys.iter().enumerate() {
            if let Some(next) = keys.get(index + 1)
                && let Some(next) = self.peers.get_mut(*next)
            {
                std::hint::black_box(next.prefetch());
            }
            let Some(peer) = self.peers.get_mut(*key) else {
                continue;
            };
            for burst in bursts {
                peer.offer(burst, picked, &self.counters);
            }
            let mut context = ShardContext {
                key: *key,
                outbox: &mut self.outbox,
                counters: &self.counters,
                leaving: &mut self.leaving,
                control: &mut self.control,
                board: &self.shared.board,
            };
            peer.flush(now, &mut context);
            arm(peer, *key, now, &mut self.timers, &self.outbox);
            if self.outbox.is_ripe() {
                now = self.dispatch();
                if self.timers.next().is_some_and(|at| at <= now) {
                    self.expire();
                    now = Instant::now();
                }
            }
        }
        self.dispatch();
    }

    /// Hands what is sealed to the kernel and notes when it had it; the time then.
    fn dispatch(&mut self) -> Instant {
        self.outbox.flush();
        let sent = Instant::now();
        for leaving in self.leaving.drain(..) {
            if let Some(peer) = self.peers.get_mut(leaving.key) {
                peer.left(leaving.frame, sent);
            }
        }
        sent
    }

    fn process_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            let now = Instant::now();
            match command {
                Command::Adopt(peer) => {
                    let key = self.adopt(peer);
                    if let Some(peer) = self.peers.get_mut(key) {
                        peer.resume(now, &self.counters);
                    }
                    self.serve(key, now);
                }
                Command::Forward {
                    session,
                    from,
                    datagram,
                } => self.take_forwarded(&session, from, *datagram),
                Command::Leave { ref session, .. }
                | Command::Trickle(ref session, _)
                | Command::Restart { ref session, .. }
                | Command::Stamps { ref session, .. } => {
                    match self.by_session.get(session).copied() {
                        Some(key) => self.change(key, command, now),
                        None => self.pass_on(&session.clone(), command),
                    }
                }
                Command::Stop => {
                    for key in self.peers.keys() {
                        if let Some(peer) = self.peers.get_mut(key) {
                            peer.session.close(now);
                        }
                        self.serve(key, now);
                    }
                    self.stopping = true;
                }
            }
        }
        self.dispatch();
    }

    /// Does to one of our viewers what was asked, and serves it at once.
    fn change(&mut self, key: Key, command: Command, now: Instant) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        match command {
            Command::Leave { done, .. } => {
                peer.session.close(now);
                self.serve(key, now);
                // Whoever asked may not wait any more.
                let _ = done.send(());
                return;
            }
            Command::Trickle(_, candidates) => {
                for candidate in &candidates {
                    peer.session.add_remote_candidate(candidate, now);
                }
            }
            Command::Restart { ours, theirs, .. } => peer.session.restart_ice(ours, theirs, now),
            Command::Stamps {
                timestamps, reply, ..
            } => {
                let stamps = timestamps.into_iter().map(|it| peer.frame(it)).collect();
                // Whoever asked may have gone; then nobody wants to know.
                let _ = reply.send(stamps);
                return;
            }
            _ => return,
        }
        self.serve(key, now);
    }

    /// A request that was on its way to us while its viewer moved on.
    fn pass_on(&self, session: &SessionId, command: Command) {
        let Some(record) = self.shared.registry.by_id(session) else {
            return;
        };
        if let SessionLocation::Shard(index) = record.state().location
            && index != self.index
            && let Some(shard) = self.shared.shard(index)
        {
            // A full inbox counts it.
            let _ = shard.send(command);
        }
    }

    fn receive(&mut self, batch: &mut ReceiveBatch) {
        for _ in 0..BATCHES_PER_TURN {
            match self.outbox.socket().receive_batch(batch) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    // An answer to an earlier datagram shows up here, too; what waits
                    // behind it is not told of again.
                    tracing::debug!(%error, shard = self.index, "receive");
                    self.take_path_errors();
                    continue;
                }
            }
            let now = Instant::now();
            self.counters.received.add(batch.len() as u64);
            for datagram in batch.iter_mut() {
                let path = Path {
                    source: datagram.source,
                    destination: self.destination(datagram.destination),
                    local: datagram.destination,
                };
                self.on_datagram(datagram.bytes, path, now);
            }
            self.end_batch(now);
            self.dispatch();
            if batch.len() < batch.capacity() {
                return;
            }
        }
        // More may wait; an edge-triggered poll would not tell again.
        self.waker.wake();
    }

    /// Counts what the network answered. Nothing else comes of it: anybody could
    /// forge it, and a viewer that is gone is silent soon enough.
    fn take_path_errors(&self) {
        while let Some(error) = self.outbox.socket().take_path_error() {
            let counter = match error.kind {
                PathErrorKind::Refused => &self.counters.send.peer_refused,
                PathErrorKind::Unreachable => &self.counters.send.unreachable,
                PathErrorKind::TooLarge => &self.counters.send.too_large,
                _ => &self.counters.send.unsendable,
            };
            counter.add(1);
            tracing::trace!(destination = %error.destination, kind = ?error.kind, "answered");
        }
    }

    /// Our address as viewers know it.
    fn destination(&self, local: Option<IpAddr>) -> SocketAddr {
        let actual = local.unwrap_or(self.local.ip());
        let advertised = self
            .shared
            .advertise
            .iter()
            .find(|ip| ip.is_ipv4() == actual.is_ipv4());
        SocketAddr::new(advertised.copied().unwrap_or(actual), self.local.port())
    }

    fn on_datagram(&mut self, bytes: &mut [u8], path: Path, now: Instant) {
        let ufrag = stun_username(bytes).map(|(ours, _)| ours);
        if let Some(key) = self.by_address.get(&path.source).copied()
            && let Some(peer) = self.peers.get_mut(key)
            // The address may have a new owner: a page that was reloaded.
            && ufrag.is_none_or(|ufrag| ufrag == peer.session.local_credentials().ufrag)
        {
            self.dispatch_datagram(key, bytes, path, now);
            return;
        }
        match ufrag.and_then(|ufrag| self.shared.registry.by_ufrag(ufrag)) {
            Some(record) => self.on_unknown_stun(&record, bytes, path, now),
            None => self.counters.stray.add(1),
        }
    }

    /// A datagram for viewer `key` of this shard.
    fn dispatch_datagram(&mut self, key: Key, bytes: &mut [u8], path: Path, now: Instant) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        match peer
            .session
            .handle_datagram(now, path.source, path.destination, bytes)
        {
            Ok(received) => {
                if let Received::Rtp {
                    receiver,
                    sequence,
                    packet,
                    ..
                } = received
                {
                    peer.on_packet((receiver, sequence), &packet, now, &self.counters);
                }
                if peer.exchange().is_some() && self.talking.last() != Some(&key) {
                    self.talking.push(key);
                }
                peer.unmute(path.source);
                if let Some(forgotten) = peer.note_address(path.source, path.local) {
                    self.unlink(forgotten, key);
                }
                self.link(path.source, key);
            }
            Err(_) => self.counters.refused.add(1),
        }
        self.serve(key, now);
    }

    /// Lets a viewer do what it has to do now.
    fn serve(&mut self, key: Key, now: Instant) -> Served {
        let Some(peer) = self.peers.get_mut(key) else {
            return Served::Closed;
        };
        let mut context = ShardContext {
            key,
            outbox: &mut self.outbox,
            counters: &self.counters,
            leaving: &mut self.leaving,
            control: &mut self.control,
            board: &self.shared.board,
        };
        let served = peer.serve(now, &mut context);
        arm(peer, key, now, &mut self.timers, &self.outbox);
        if served == Served::Closed
            && let Some(peer) = self.release(key)
        {
            let (session, stream) = (peer.id().clone(), Arc::clone(peer.stream()));
            // Who sees it gone from the registry may rely on all of it being gone.
            drop(peer);
            if let Some(record) = self.shared.registry.remove(&session) {
                record.state().location = SessionLocation::Gone;
            }
            // A report that comes between finds it gone and forgets what it wrote.
            self.shared.board.forget(stream.name(), &session);
        }
        served
    }

    fn expire(&mut self) {
        let now = Instant::now();
        // Once each: one that is due again at once has its turn after the others
        // and after the socket.
        let mut due = std::mem::take(&mut self.due);
        self.timers.take_due(now, &mut due);
        for (at, key) in due.drain(..) {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            if peer.armed != Some(at) {
                continue;
            }
            peer.armed = None;
            if peer.session.poll_timeout().is_some_and(|due| due <= now) {
                peer.session.handle_timeout(now);
            }
            self.serve(key, now);
            if self.outbox.is_ripe() {
                self.dispatch();
            }
        }
        self.dispatch();
        self.due = due;
    }

    /// Goes on where the full socket stopped us, and asks to be told when it can.
    fn unblock(&mut self) {
        if self.outbox.is_blocked() {
            self.outbox.resume();
            if !self.outbox.is_blocked() {
                let now = Instant::now();
                for key in self.peers.keys() {
                    self.serve(key, now);
                    if self.outbox.is_ripe() {
                        self.dispatch();
                    }
                }
                self.dispatch();
            }
        }
        // A full interface queue leaves the socket writable: waiting would spin.
        let blocked = self.outbox.is_blocked() && !self.outbox.is_congested();
        if blocked == self.waits_writable {
            return;
        }
        let interest = if blocked {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let fd = self.outbox.socket().as_raw_fd();
        match self
            .poll
            .registry()
            .reregister(&mut SourceFd(&fd), SOCKET, interest)
        {
            Ok(()) => self.waits_writable = blocked,
            Err(error) => tracing::error!(%error, shard = self.index, "cannot wait for the socket"),
        }
    }
}

/// Sets the viewer's timer if it has to be served earlier than known.
fn arm(peer: &mut Peer, key: Key, now: Instant, timers: &mut Timers, outbox: &Outbox) {
    if let Some(at) = peer.deadline(now, outbox.is_blocked())
        && peer.armed.is_none_or(|armed| at < armed)
    {
        peer.armed = Some(at);
        timers.arm(at, key);
    }
}
