//! The loop of a shard's thread.

mod commands;
mod connections;
mod datagrams;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod layers;
mod messages;
mod ownership;
mod peers;
mod recovery;
mod rounds;
mod sightings;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::Outbox;
use glassline_hub::StreamName;
use glassline_media::MediaUnit;
use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_runtime::{
    Heartbeat, Key, Serving, SessionId, StreamSubscription, Timers, Turn, Waker,
};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::Shared;
use super::command::Command;
use crate::sessions::counters::Counters;
use crate::sessions::peer::{Leaving, Peer, Served, ShardContext};
use crate::sessions::record::SessionLocation;
use connections::Ready;
use messages::BrokerSubscription;
use peers::PeerTable;

pub(super) const WAKE: Token = Token(0);
const SOCKET: Token = Token(1);

/// Most events of one wait: those of the socket and the waker, and of TCP connections.
const EVENTS: usize = 128;

/// Longest time that a shard sleeps, in case a wake-up is lost.
const IDLE: Duration = Duration::from_secs(1);

/// Wait before a full interface queue is tried again; the queue drains at line rate.
const RETRY: Duration = Duration::from_millis(1);

/// The state of one shard, which lives on the shard's thread.
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
    peers: PeerTable,
    streams: Vec<StreamSubscription>,
    /// Subscriptions to the message brokers of streams whose sessions here have data channels.
    subscriptions: Vec<BrokerSubscription>,
    /// Sessions with data channels that datagrams of this read came from.
    with_new_data: Vec<Key>,
    timers: Timers,
    scratch: Scratch,
    events: Events,
    /// Buffers for datagrams; `None` after a panic.
    batch: Option<ReceiveBatch>,
    /// The peer whose input or deadline is being handled.
    serving: Serving,
    /// Whether a panic may have kept units from peers, which are offered again then.
    is_behind: bool,
    stopping: bool,
}

/// The parts of a shard that outlive a panic of its thread, before the thread starts.
pub(super) struct Parts {
    pub(super) index: usize,
    pub(super) poll: Poll,
    pub(super) socket: UdpSocket,
    pub(super) waker: Arc<Waker>,
    pub(super) commands: Receiver<Command>,
    pub(super) counters: Arc<Counters>,
}

/// Buffers that are empty between turns of the loop and kept for their capacity.
#[derive(Debug, Default)]
struct Scratch {
    due: Vec<(Instant, Key)>,
    units: Vec<Arc<MediaUnit>>,
    leaving: Vec<Leaving>,
    /// Buffer for one control datagram.
    control: Vec<u8>,
    /// TCP connections that are served in this turn.
    ready: Vec<Ready>,
    /// Buffer for bytes of a TCP connection.
    read: Vec<u8>,
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
            socket,
            waker,
            commands,
            counters,
        } = parts;
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
            peers: PeerTable::default(),
            streams: Vec::new(),
            subscriptions: Vec::new(),
            with_new_data: Vec::new(),
            timers: Timers::default(),
            scratch: Scratch::default(),
            events: Events::with_capacity(EVENTS),
            batch: None,
            serving: Serving::new(heartbeat),
            is_behind: false,
            stopping: false,
        })
    }

    /// Waits for events and handles them. [`Command::Stop`] makes this turn the last one.
    fn next_turn(&mut self) -> Turn {
        // Media goes first: its delay is measured, and one wake-up announces it.
        self.wait();
        let is_error = |event: &Event| event.token() == SOCKET && event.is_error();
        if self.events.iter().any(is_error) {
            self.take_path_errors();
        }
        self.note_ready();
        if self.is_behind {
            self.catch_up();
        }
        self.publish();
        self.deliver_messages();
        self.process_commands();
        self.receive();
        if !self.scratch.ready.is_empty() || self.outbox.connections().has_broken() {
            self.serve_connections();
        }
        self.expire();
        self.unblock();
        if self.stopping {
            Turn::Ended
        } else {
            Turn::Again
        }
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self) {
        let now = Instant::now();
        let longest = if self.outbox.is_congested() {
            RETRY
        } else {
            IDLE
        };
        let held = self
            .streams
            .iter()
            .filter_map(StreamSubscription::deadline)
            .min();
        let next = [self.timers.next(), held].into_iter().flatten().min();
        let wait = next.map_or(longest, |at| at.saturating_duration_since(now).min(longest));
        self.waker.wait(&mut self.poll, &mut self.events, wait);
    }

    /// Hands the sealed datagrams to the kernel and notes when it had them. Returns that time.
    fn dispatch(&mut self) -> Instant {
        self.serving.end();
        self.outbox.flush();
        let sent = Instant::now();
        for leaving in self.scratch.leaving.drain(..) {
            if let Some(peer) = self.peers.get_mut(leaving.key) {
                peer.left(leaving.frame, sent);
            }
        }
        sent
    }

    /// Serves one peer now.
    fn serve(&mut self, key: Key, now: Instant) -> Served {
        let Some(peer) = self.peers.get_mut(key) else {
            return Served::Closed;
        };
        self.serving.begin(key);
        let mut context = ShardContext {
            key,
            outbox: &mut self.outbox,
            counters: &self.counters,
            leaving: &mut self.scratch.leaving,
            control: &mut self.scratch.control,
            latencies: &self.shared.latencies,
        };
        let served = peer.serve(now, &mut context);
        if let Some(layer) = peer.take_wanted_layer() {
            self.move_viewer(key, layer, now);
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return served;
        };
        if peer.has_unopened_channels(now) {
            self.shared.note_unopened_channels(peer, now);
        }
        arm(peer, key, now, &mut self.timers, &self.outbox);
        if served == Served::Closed
            && let Some(peer) = self.release(key)
        {
            let (session, stream) = (peer.id().clone(), peer.listed_name().clone());
            if let Some(reason) = peer.ending() {
                self.shared.registry.note_ending(&session, reason, now);
            }
            if let Some(record) = self.shared.registry.by_id(&session) {
                self.shared.note_failure(&record, &peer, now);
            }
            self.close_connections(&peer);
            // A thread that does not find the session in the registry may rely on the peer being
            // released.
            drop(peer);
            self.forget(&session, &stream);
        }
        served
    }

    /// Removes a session whose peer was released from what other threads know.
    fn forget(&self, session: &SessionId, stream: &StreamName) {
        if let Some(record) = self.shared.registry.remove(session) {
            record.state().location = SessionLocation::Gone;
        }
        // A latency report that arrives in between does not find the session and drops what it
        // wrote.
        self.shared.latencies.forget(stream, session);
    }

    fn expire(&mut self) {
        let now = Instant::now();
        // Each peer is served once. One that is due again at once is served after the others and
        // after the socket.
        let mut due = std::mem::take(&mut self.scratch.due);
        self.timers.take_due(now, &mut due);
        for (at, key) in due.drain(..) {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            if peer.armed != Some(at) {
                continue;
            }
            peer.armed = None;
            self.serving.begin(key);
            if peer.session.poll_timeout().is_some_and(|due| due <= now) {
                peer.session.handle_timeout(now);
            }
            self.serve(key, now);
            if self.outbox.is_ripe() {
                self.dispatch();
            }
        }
        self.dispatch();
        self.scratch.due = due;
    }

    /// Continues where a full socket stopped, and asks to be told when the socket has room.
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
        // A full interface queue leaves the socket writable: waiting for that event would
        // busy-loop.
        self.wait_for_room(self.outbox.is_blocked() && !self.outbox.is_congested());
    }

    /// Has the poll report that the socket has room, or no longer.
    fn wait_for_room(&mut self, blocked: bool) {
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
            Err(error) => {
                tracing::error!(%error, shard = self.index, "shard cannot wait for its socket");
            }
        }
    }
}

/// Sets the peer's timer if the peer has to be served earlier than its timer says.
fn arm(peer: &mut Peer, key: Key, now: Instant, timers: &mut Timers, outbox: &Outbox) {
    if let Some(at) = peer.deadline(now, outbox)
        && peer.armed.is_none_or(|armed| at < armed)
    {
        peer.armed = Some(at);
        timers.arm(at, key);
    }
}
