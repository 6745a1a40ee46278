//! The thread that sends to multicast groups: each stream once, whoever plays it.
//!
//! ```text
//! Groups (what is played) ─► Sender ─ StreamReader.read ─► Ring ─► Cursor, paced ─► group
//! ```
//!
//! It has its own copy of what the RTSP threads have for a stream, so that none of
//! them sends for the others. A group is fed like one client by UDP: large frames in
//! chunks, reports every two seconds, from a keyframe on. Its receivers are not heard:
//! their sessions live by what they ask for over RTSP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use glassline_hub::Wake;
use glassline_net::{Multicast, ReceiveBatch};
use mio::{Events, Poll, Token};
use smallvec::SmallVec;

use super::connection_writer::Sent;
use super::cursor::{Cursor, bit};
use super::groups::{Groups, Plan, Played};
use super::srtp::TrackSrtps;
use super::stream_reader::StreamReader;
use super::udp::{Recipient, Target, Udp};
use crate::rtsp::{Shared, worker};
use crate::runtime::{Key, Slots, StreamWaker, Waker};

const MEDIA: Token = Token(0);
const CONTROL: Token = Token(1);

/// Keyframes are asked for again, and a full socket is tried again, this often.
const SWEEP: Duration = Duration::from_millis(250);

/// Datagrams read at once, to be dropped.
const BATCH: usize = 8;

/// The thread.
#[derive(Debug)]
pub(crate) struct Sender {
    poll: Poll,
    waker: Arc<Waker>,
    groups: Arc<Groups>,
    shared: Arc<Shared>,
    udp: Udp,
    batch: ReceiveBatch,
    sendings: Slots<Sending>,
    /// [`Groups::changes`] when it was looked at.
    changes: u64,
    swept: Instant,
    /// Number of this thread for the tables of delays.
    index: usize,
}

/// A stream that somebody plays.
#[derive(Debug)]
struct Sending {
    source: StreamReader,
    waker: Arc<StreamWaker>,
    /// The group of each track that is played.
    targets: SmallVec<[Option<Target>; 2]>,
    place: Cursor,
    paced_until: Option<Instant>,
    bytes: u64,
}

/// What the thread waits with, made before all else so that it can be rung.
pub(crate) fn open(plan: Plan) -> io::Result<(Groups, Poll, Arc<Waker>)> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(&poll, worker::WAKE)?);
    Ok((Groups::new(plan, Arc::clone(&waker)), poll, waker))
}

impl Sender {
    /// Opens the sockets. `index`: as no RTSP thread is numbered.
    pub(crate) fn new(
        groups: Arc<Groups>,
        poll: Poll,
        waker: Arc<Waker>,
        shared: Arc<Shared>,
        index: usize,
    ) -> io::Result<Self> {
        let interface = groups.plan.interface;
        let multicast = Multicast {
            ttl: groups.plan.ttl,
            interface,
            is_looped: true,
        };
        let from = IpAddr::V4(interface.unwrap_or(Ipv4Addr::UNSPECIFIED));
        let udp = Udp::bind(from, 0, Some(multicast)).map_err(|error| {
            io::Error::new(error.kind(), format!("for rtsp.multicast: {error}"))
        })?;
        udp.register(poll.registry(), MEDIA, CONTROL)?;
        Ok(Self {
            poll,
            waker,
            groups,
            shared,
            udp,
            batch: ReceiveBatch::new(BATCH),
            sendings: Slots::default(),
            changes: 0,
            swept: Instant::now(),
            index,
        })
    }

    /// Runs until [`Groups::stop`].
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        loop {
            let wait = self.longest_wait(Instant::now());
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the multicast thread cannot wait for events");
                std::thread::sleep(Duration::from_millis(10));
            }
            self.waker.clear();
            let now = Instant::now();
            for event in &events {
                if event.is_writable() {
                    self.udp.unblock();
                }
                if event.is_readable() {
                    self.udp.receive(&mut self.batch, |_| {});
                }
            }
            if self.groups.is_stopping() {
                for key in self.sendings.keys() {
                    self.say_goodbye(key, now);
                }
                return;
            }
            self.follow(now);
            for key in self.sendings.keys() {
                self.send(key, now);
            }
            self.sweep(now);
        }
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        let deadlines = self.sendings.iter().flat_map(|it| {
            let paced = it.paced_until.filter(|_| !self.udp.is_full());
            [it.source.feed.deadline(), paced]
        });
        let until = deadlines.flatten().fold(self.swept + SWEEP, Instant::min);
        until.saturating_duration_since(now)
    }

    /// Begins with what is played now and was not, and lets go of what is not any more.
    fn follow(&mut self, now: Instant) {
        let changes = self.groups.changes();
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        let played = self.groups.played();
        for key in self.sendings.keys() {
            let Some(sending) = self.sendings.get_mut(key) else {
                continue;
            };
            if !sending.aim(&played) {
                if sending.has_ended() {
                    self.say_goodbye(key, now);
                }
                self.sendings.remove(key);
            }
        }
        for Played { stream, .. } in &played {
            let mut known = self.sendings.iter();
            if known.any(|it| Arc::ptr_eq(it.source.stream(), stream)) {
                continue;
            }
            drop(known);
            let waker = Arc::new(StreamWaker::new(Arc::clone(&self.waker)));
            let stages = self.shared.board.stages(stream.name(), self.index);
            let wake = Arc::clone(&waker) as Arc<dyn Wake>;
            let (keys, bounds) = (&self.shared.keys, self.shared.bounds);
            let source = StreamReader::new(stream, wake, stages, keys, bounds, now);
            let place = Cursor::begin_at(source.ring.end(), 0, now);
            let mut sending = Sending {
                source,
                waker,
                targets: SmallVec::new(),
                place,
                paced_until: None,
                bytes: 0,
            };
            sending.aim(&played);
            sending.source.stream().request_keyframe();
            self.sendings.insert(sending);
        }
    }

    /// Sends what is new of one stream.
    fn send(&mut self, key: Key, now: Instant) {
        let Some(sending) = self.sendings.get_mut(key) else {
            return;
        };
        let is_due = sending.source.feed.deadline().is_some_and(|at| at <= now);
        if sending.waker.take() || is_due {
            sending.source.read(&self.shared.wall, now);
        }
        let is_paced = sending.paced_until.is_some_and(|at| at > now);
        if is_paced || self.udp.is_full() {
            return;
        }
        sending.paced_until = None;
        let (mut sent, mut left) = (Sent::default(), Vec::new());
        let recipient = Recipient {
            client: key,
            from: None,
            targets: &sending.targets,
            seals: &mut TrackSrtps::new(),
            place: &mut sending.place,
            paced_until: &mut sending.paced_until,
            bytes: &mut sending.bytes,
        };
        let (ring, budget) = (&mut sending.source.ring, &self.shared.budget);
        // However often it skips, there is no client to send away.
        let _ = self.udp.plan(recipient, ring, budget, now, &mut sent);
        let counters = &self.groups.counters;
        self.udp.flush(ring, counters, &mut sent, &mut left);
        counters.add(&sent);
        if let Some((_, entry)) = left.iter().min_by_key(|(_, entry)| *entry) {
            sending.place.advance(*entry, ring);
        }
    }

    fn sweep(&mut self, now: Instant) {
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        self.udp.unblock();
        for sending in self.sendings.iter() {
            if sending.place.is_waiting() && !sending.has_ended() {
                sending.source.stream().request_keyframe();
            }
        }
    }

    /// BYE to every group of a stream.
    fn say_goodbye(&mut self, key: Key, now: Instant) {
        let Some(sending) = self.sendings.get_mut(key) else {
            return;
        };
        let targets = mem::take(&mut sending.targets);
        for (track, target) in targets.iter().enumerate() {
            if let Some(target) = target
                && let Some(packet) = sending.source.farewell(track, &self.shared.wall, now)
            {
                self.udp.send_report(&packet, target, None);
            }
        }
    }
}

impl Sending {
    /// Sends the tracks of its stream that are played; false if none is, and then it
    /// keeps those that it had.
    fn aim(&mut self, played: &[Played]) -> bool {
        let stream = self.source.stream();
        let own = played.iter().filter(|it| Arc::ptr_eq(&it.stream, stream));
        let mut targets = SmallVec::<[Option<Target>; 2]>::new();
        let mut tracks = 0;
        for Played { track, group, .. } in own {
            tracks |= bit(*track);
            if targets.len() <= *track {
                targets.resize(*track + 1, None);
            }
            targets[*track] = Some(Target {
                media: SocketAddr::new(group.address, group.ports.0),
                control: SocketAddr::new(group.address, group.ports.1),
            });
        }
        if tracks == 0 {
            return false;
        }
        self.targets = targets;
        self.place.keep(tracks);
        self.place.add(tracks);
        true
    }

    fn has_ended(&self) -> bool {
        let state = self.source.stream().state();
        matches!(state, glassline_hub::State::Ended { .. })
    }
}
