//! Commands to the viewers' thread, and the channel that carries them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use glassline_media::Histogram;
use mio::Waker;

use super::job::Dialled;
use super::{Id, Join, Progress, Viewer};

/// Commands from the pool and the signalling threads to the engine.
pub(super) enum Command {
    Join {
        id: Id,
        join: Join,
    },
    Answered {
        id: Id,
        result: Result<Dialled, String>,
    },
    /// A viewer's report was taken, and the next one is wanted after this time; or it was refused.
    Reported {
        id: Id,
        result: Result<Duration, String>,
    },
    Leave(Id),
    Snapshot(Sender<Vec<Viewer>>),
    Progress(Sender<Vec<Progress>>),
    TakeGaps(Sender<Histogram>),
    TakeDelays(Sender<Histogram>),
    Replaced(Sender<u64>),
    Stop,
}

/// Sending end of the engine's command channel; wakes the engine.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    ids: Arc<AtomicUsize>,
}

impl Mailbox {
    /// Makes a channel whose commands come out of the receiver; each command wakes the poll
    /// of `waker`.
    pub(super) fn new(waker: Waker) -> (Self, Receiver<Command>) {
        let (sender, commands) = channel();
        let mailbox = Self {
            commands: sender,
            waker: Arc::new(waker),
            ids: Arc::default(),
        };
        (mailbox, commands)
    }

    /// Sends a command. An engine that has ended takes none, which is no error: the pool is
    /// gone, or the engine's panic was reported.
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
