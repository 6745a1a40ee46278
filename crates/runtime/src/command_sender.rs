//! The bounded inbox through which other threads send commands to a polling thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::{Counter, Waker};

/// Most commands that may wait for a thread: one for each of a few thousand receivers at once.
const COMMANDS_MAX: usize = 8192;

/// The sending half of a polling thread's inbox, which holds at most 8192 commands.
#[derive(Debug)]
pub struct CommandSender<C> {
    inbox: SyncSender<C>,
    waker: Arc<Waker>,
}

impl<C> CommandSender<C> {
    /// Creates an inbox whose thread is woken by `waker`. Returns the sending half and the half
    /// that the thread reads.
    pub fn new(waker: Arc<Waker>) -> (Self, Receiver<C>) {
        let (inbox, commands) = sync_channel(COMMANDS_MAX);
        (Self { inbox, waker }, commands)
    }

    /// Puts `command` into the inbox and wakes the thread.
    ///
    /// # Errors
    /// Returns the command if the thread has ended or the inbox is full. A full inbox is counted in
    /// `full`.
    pub fn send(&self, command: C, full: &Counter) -> Result<(), C> {
        match self.inbox.try_send(command) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(command)) => {
                full.add(1);
                Err(command)
            }
            Err(TrySendError::Disconnected(command)) => Err(command),
        }
    }
}

impl<C> Clone for CommandSender<C> {
    fn clone(&self) -> Self {
        Self {
            inbox: self.inbox.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}
