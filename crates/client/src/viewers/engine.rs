use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{Histogram, WallClock};
use glassline_webrtc::Certificate;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use super::command::{Command, Mailbox};
use super::counts::Counts;
use super::job::{Dialled, Job};
use super::peer::{Buffers, Peer};
use super::signalling::Workers;
use super::{Id, Join, Options, Wait};

pub(super) fn start(options: Options) -> io::Result<(Mailbox, JoinHandle<()>)> {
    let poll = Poll::new()?;
    let (mailbox, commands) = Mailbox::new(Waker::new(poll.registry(), WAKE)?);
    let certificate = Arc::new(Certificate::generate().map_err(io::Error::other)?);
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let wall = WallClock::new(Instant::now(), unix);
    let workers = Workers::start(&options, certificate, wall, mailbox.clone())?;
    let engine = Engine {
        buffers: Buffers::new(&options),
        options,
        wall,
        mailbox: mailbox.clone(),
        poll,
        commands,
        workers,
        peers: BTreeMap::new(),
        timers: BinaryHeap::new(),
        signalling: 0,
        stop_by: None,
        sweep_at: Instant::now(),
        absent: VecDeque::new(),
        replaced: 0,
    };
    let thread = std::thread::Builder::new()
        .name("viewers".to_owned())
        .spawn(move || engine.run())?;
    Ok((mailbox, thread))
}

/// Token of the waker; no viewer has it.
const WAKE: Token = Token(usize::MAX);

/// Longest time that a dropped pool waits for farewells.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// Time until a misbehaving viewer that ended is replaced, so that a server that refuses such
/// viewers is not asked in a tight loop.
const REPLACE_AFTER: Duration = Duration::from_secs(1);

/// The thread that owns all viewers.
struct Engine {
    buffers: Buffers,
    options: Options,
    wall: WallClock,
    mailbox: Mailbox,
    poll: Poll,
    commands: Receiver<Command>,
    workers: Workers,
    peers: BTreeMap<Id, Peer>,
    /// Deadlines, some of them outdated: [`Peer::armed`] has the valid one.
    timers: BinaryHeap<Reverse<(Instant, Id)>>,
    /// Joins that the signalling threads have not finished yet.
    signalling: usize,
    stop_by: Option<Instant>,
    /// When to read the viewers that make no events.
    sweep_at: Instant,
    /// Misbehaving viewers that ended, and when each is replaced.
    absent: VecDeque<(Instant, Join)>,
    replaced: u64,
}

impl Engine {
    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.is_over() {
            match self.poll.poll(&mut events, self.patience()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "cannot wait for datagrams; all viewers leave");
                    self.stop();
                    break;
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.process_command(command);
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.receive(Id(event.token().0));
            }
            self.sweep(Instant::now());
            let now = Instant::now();
            self.fire_timers(now);
            self.replace(now);
        }
        let deadline = self.stop_by.unwrap_or_else(Instant::now);
        self.workers.finish(deadline);
    }

    fn is_over(&self) -> bool {
        self.stop_by
            .is_some_and(|deadline| self.signalling == 0 || Instant::now() >= deadline)
    }

    /// Time until something is due; `None` if nothing is.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let absent = self.absent.front().map(|(at, _)| *at);
        let next = [timer, self.stop_by, absent].into_iter().flatten().min();
        let until_next = next.map(|at| at.saturating_duration_since(now));
        match self.options.wait {
            Wait::Events => until_next,
            Wait::Sweep(_) if self.peers.is_empty() => until_next,
            Wait::Sweep(_) => {
                let until_sweep = self.sweep_at.saturating_duration_since(now);
                Some(until_next.map_or(until_sweep, |until| until.min(until_sweep)))
            }
        }
    }

    fn process_command(&mut self, command: Command) {
        match command {
            Command::Join { id, join } if self.stop_by.is_none() => self.join(id, join),
            Command::Join { .. } => {}
            Command::Answered { id, result } => {
                self.signalling -= 1;
                self.answered(id, result);
            }
            Command::Reported { id, result } => self.reported(id, result),
            Command::Leave(id) => {
                if let Some(peer) = self.peers.remove(&id) {
                    self.farewell(peer);
                }
            }
            Command::Snapshot(reply) => {
                let viewers = self.peers.values().map(Peer::snapshot).collect();
                // The caller may have stopped waiting.
                let _ = reply.send(viewers);
            }
            Command::Progress(reply) => {
                let viewers = self.peers.values().map(Peer::progress).collect();
                let _ = reply.send(viewers);
            }
            Command::TakeGaps(reply) => {
                let _ = reply.send(self.collect(Counts::take_gaps));
            }
            Command::TakeDelays(reply) => {
                let _ = reply.send(self.collect(Counts::take_delays));
            }
            Command::Replaced(reply) => {
                let _ = reply.send(self.replaced);
            }
            Command::Stop => self.stop(),
        }
    }

    fn join(&mut self, id: Id, join: Join) {
        self.peers.insert(id, Peer::signalling(id, join.clone()));
        self.signalling += 1;
        self.workers.submit(Job::Join { id, join });
    }

    fn collect(&mut self, take: impl Fn(&mut Counts, &mut Histogram)) -> Histogram {
        let mut all = Histogram::new();
        for counts in self.peers.values_mut().filter_map(Peer::good_counts) {
            take(counts, &mut all);
        }
        all
    }

    fn answered(&mut self, id: Id, result: Result<Dialled, String>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            // The viewer left while the server was answering.
            if let Ok(Dialled::WebRtc(answered)) = result
                && let Some(location) = answered.answer.location
            {
                self.workers.submit(Job::Leave { location });
            }
            return;
        };
        match result {
            Ok(dialled) => {
                let now = Instant::now();
                peer.begin(dialled, &self.options, self.wall, now, &mut self.buffers);
                let descriptor = peer.descriptor();
                self.register(id, descriptor);
                // Datagrams that came before the registration make no event.
                self.receive(id);
            }
            Err(reason) => peer.fail(reason),
        }
        self.retire(id);
    }

    /// Sets the time of the next report of viewer `id`; one whose report was refused ends.
    fn reported(&mut self, id: Id, result: Result<Duration, String>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        match result {
            Ok(interval) => peer.report_again(interval, Instant::now()),
            Err(reason) => peer.fail(reason),
        }
        arm(&mut self.timers, id, peer);
        self.retire(id);
    }

    /// Registers descriptors of viewer `id` with the poll, unless all viewers are swept.
    fn register(&mut self, id: Id, descriptors: impl IntoIterator<Item = RawFd>) {
        let is_swept = matches!(self.options.wait, Wait::Sweep(_));
        if is_swept && !self.peers.get(&id).is_some_and(Peer::wants_events) {
            return;
        }
        for descriptor in descriptors {
            let mut source = SourceFd(&descriptor);
            let registry = self.poll.registry();
            let registered = registry.register(&mut source, Token(id.0), Interest::READABLE);
            if let (Err(error), Some(peer)) = (registered, self.peers.get_mut(&id)) {
                peer.fail(format!("cannot wait for its socket: {error}"));
            }
        }
    }

    fn receive(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        peer.receive(&mut self.buffers);
        arm(&mut self.timers, id, peer);
        let opened = peer.take_opened();
        if !opened.is_empty() {
            self.register(id, opened);
        }
        self.retire(id);
    }

    /// Reads all viewers that make no events, if that is due.
    fn sweep(&mut self, now: Instant) {
        let Wait::Sweep(interval) = self.options.wait else {
            return;
        };
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + interval;
        let mut ended = Vec::new();
        let peers = self.peers.iter_mut();
        for (id, peer) in peers.filter(|(_, peer)| !peer.wants_events()) {
            peer.receive(&mut self.buffers);
            arm(&mut self.timers, *id, peer);
            if peer.replacement().is_some() {
                ended.push(*id);
            }
        }
        for id in ended {
            self.retire(id);
        }
    }

    /// Schedules the replacement of a misbehaving viewer that has ended.
    fn retire(&mut self, id: Id) {
        if let Some(join) = self.peers.get(&id).and_then(Peer::replacement) {
            let at = Instant::now() + REPLACE_AFTER;
            self.absent.push_back((at, join.clone()));
            self.peers.remove(&id);
        }
    }

    fn replace(&mut self, now: Instant) {
        while self.absent.front().is_some_and(|(at, _)| *at <= now) {
            if let (Some((_, join)), None) = (self.absent.pop_front(), self.stop_by) {
                self.replaced += 1;
                let id = self.mailbox.next_id();
                self.join(id, join);
            }
        }
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some(&Reverse((at, id))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            if peer.armed == Some(at) {
                peer.armed = None;
                peer.handle_timeout(now, &mut self.buffers);
                if let Some(report) = peer.take_report(now) {
                    self.workers.submit(Job::Report { id, report });
                }
                arm(&mut self.timers, id, peer);
                self.retire(id);
            }
        }
    }

    fn stop(&mut self) {
        self.stop_by = Some(Instant::now() + FAREWELL_MAX);
        self.workers.stop_joining();
        for (_, peer) in std::mem::take(&mut self.peers) {
            self.farewell(peer);
        }
    }

    fn farewell(&mut self, peer: Peer) {
        if let Some(job) = peer.leave(Instant::now(), &mut self.buffers) {
            self.workers.submit(job);
        }
    }
}

/// Sets the timer of `peer`. An earlier timer that is already set stays: it fires too early,
/// finds nothing to do and sets the right one.
fn arm(timers: &mut BinaryHeap<Reverse<(Instant, Id)>>, id: Id, peer: &mut Peer) {
    let Some(deadline) = peer.poll_timeout() else {
        return;
    };
    if peer.armed.is_none_or(|armed| deadline < armed) {
        peer.armed = Some(deadline);
        timers.push(Reverse((deadline, id)));
    }
}
