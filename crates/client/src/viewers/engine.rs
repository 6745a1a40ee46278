use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::WallClock;
use glassline_net::ReceiveBatch;
use glassline_webrtc::Certificate;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use url::Url;

use super::peer::Peer;
use super::signalling::{Dialled, Job, Workers};
use super::{Id, Options, Viewer, Wait};

/// What the pool and the signalling threads tell the engine.
pub(super) enum Command {
    Join {
        id: Id,
        url: Url,
    },
    Answered {
        id: Id,
        result: Result<Box<Dialled>, String>,
    },
    Leave(Id),
    Snapshot(Sender<Vec<Viewer>>),
    Stop,
}

/// The way to the engine; wakes it.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    ids: Arc<AtomicUsize>,
}

impl Mailbox {
    /// An engine that has ended takes no more commands, which is no error: the
    /// pool is gone or its panic was told.
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the viewers' thread");
        }
    }

    pub(super) fn next_id(&self) -> Id {
        Id(self.ids.fetch_add(1, Ordering::Relaxed))
    }
}

pub(super) fn start(options: Options) -> io::Result<(Mailbox, JoinHandle<()>)> {
    let poll = Poll::new()?;
    let (sender, commands) = channel();
    let mailbox = Mailbox {
        commands: sender,
        waker: Arc::new(Waker::new(poll.registry(), WAKE)?),
        ids: Arc::default(),
    };
    let certificate = Arc::new(Certificate::generate().map_err(io::Error::other)?);
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let wall = WallClock::new(Instant::now(), unix);
    let workers = Workers::start(&options, certificate, wall, mailbox.clone())?;
    let engine = Engine {
        options,
        poll,
        commands,
        workers,
        peers: BTreeMap::new(),
        timers: BinaryHeap::new(),
        signalling: 0,
        stop_by: None,
        batch: ReceiveBatch::new(32),
        scratch: Vec::with_capacity(2048),
    };
    let thread = std::thread::Builder::new()
        .name("viewers".to_owned())
        .spawn(move || engine.run())?;
    Ok((mailbox, thread))
}

/// No viewer has this token.
const WAKE: Token = Token(usize::MAX);

/// How long a dropped pool waits for farewells.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The thread that owns all viewers.
struct Engine {
    options: Options,
    poll: Poll,
    commands: Receiver<Command>,
    workers: Workers,
    peers: BTreeMap<Id, Peer>,
    /// Deadlines, some of them outdated: [`Peer::armed`] has the valid one.
    timers: BinaryHeap<Reverse<(Instant, Id)>>,
    /// Joins that the workers have not given back yet.
    signalling: usize,
    stop_by: Option<Instant>,
    batch: ReceiveBatch,
    scratch: Vec<u8>,
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
                self.obey(command);
            }
            if matches!(self.options.wait, Wait::Events) {
                for event in events.iter().filter(|event| event.token() != WAKE) {
                    self.receive(Id(event.token().0));
                }
            } else {
                self.sweep();
            }
            self.fire_timers(Instant::now());
        }
        let deadline = self.stop_by.unwrap_or_else(Instant::now);
        self.workers.finish(deadline);
    }

    fn is_over(&self) -> bool {
        self.stop_by
            .is_some_and(|deadline| self.signalling == 0 || Instant::now() >= deadline)
    }

    /// How long nothing needs to be done.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let next = [timer, self.stop_by].into_iter().flatten().min();
        let until_next = next.map(|at| at.saturating_duration_since(now));
        match self.options.wait {
            Wait::Events => until_next,
            Wait::Sweep(_) if self.peers.is_empty() => until_next,
            Wait::Sweep(interval) => Some(until_next.map_or(interval, |until| until.min(interval))),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Join { id, url } if self.stop_by.is_none() => {
                self.peers.insert(id, Peer::signalling(id, url.clone()));
                self.signalling += 1;
                self.workers.submit(Job::Join { id, url });
            }
            Command::Join { .. } => {}
            Command::Answered { id, result } => {
                self.signalling -= 1;
                self.answered(id, result);
            }
            Command::Leave(id) => {
                if let Some(peer) = self.peers.remove(&id) {
                    self.farewell(peer);
                }
            }
            Command::Snapshot(reply) => {
                let viewers = self.peers.values().map(Peer::snapshot).collect();
                // Nobody waits for it any more: not our concern.
                let _ = reply.send(viewers);
            }
            Command::Stop => self.stop(),
        }
    }

    fn answered(&mut self, id: Id, result: Result<Box<Dialled>, String>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            // It left while the server was answering.
            if let Ok(dialled) = result
                && let Some(location) = dialled.answer.location
            {
                self.workers.submit(Job::Leave { location });
            }
            return;
        };
        let dialled = match result {
            Ok(dialled) => dialled,
            Err(reason) => return peer.fail(reason),
        };
        if matches!(self.options.wait, Wait::Events) {
            let fd = dialled.socket.as_raw_fd();
            let registry = self.poll.registry();
            let registered = registry.register(&mut SourceFd(&fd), Token(id.0), Interest::READABLE);
            if let Err(error) = registered {
                return peer.fail(format!("cannot wait for its socket: {error}"));
            }
        }
        peer.begin(*dialled, Instant::now(), &mut self.scratch);
        // Datagrams that came before the registration make no event.
        self.receive(id);
    }

    fn receive(&mut self, id: Id) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.receive(&mut self.batch, &mut self.scratch);
            arm(&mut self.timers, id, peer);
        }
    }

    fn sweep(&mut self) {
        for (id, peer) in &mut self.peers {
            peer.receive(&mut self.batch, &mut self.scratch);
            arm(&mut self.timers, *id, peer);
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
                peer.handle_timeout(now, &mut self.scratch);
                arm(&mut self.timers, id, peer);
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

    fn farewell(&mut self, mut peer: Peer) {
        if let Some(location) = peer.leave(Instant::now(), &mut self.scratch) {
            self.workers.submit(Job::Leave { location });
        }
    }
}

/// Notes when `peer` wants to be called. An earlier timer that is already set
/// stays: it will come too early, find nothing to do and set the right one.
fn arm(timers: &mut BinaryHeap<Reverse<(Instant, Id)>>, id: Id, peer: &mut Peer) {
    let Some(deadline) = peer.poll_timeout() else {
        return;
    };
    if peer.armed.is_none_or(|armed| deadline < armed) {
        peer.armed = Some(deadline);
        timers.push(Reverse((deadline, id)));
    }
}
