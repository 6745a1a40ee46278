//! The loop of a polling thread, which goes on after a panic.

use std::time::Instant;

use super::heartbeat::Heartbeat;
use super::panicked::{Panicked, catch};
use super::restart_limit::RestartLimit;
use super::supervisor::Supervisor;

/// Whether a polling thread has another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The thread goes on.
    Again,
    /// The thread was told to end, and is done.
    Ended,
}

/// A thread that waits for events and handles them in turns.
pub trait PollingThread {
    /// Waits for events, for a second at most, and handles them.
    fn turn(&mut self) -> Turn;

    /// Drops the peer that was served when the last turn panicked, and makes up for what the panic
    /// kept from the others. Returns false, and does nothing, if no peer was served.
    fn drop_served(&mut self) -> bool;

    /// Drops all peers, and everything else that the panic may have left half changed. Sockets,
    /// listeners and inbox stay, so that new peers are served at once.
    fn start_anew(&mut self);
}

impl Supervisor {
    /// Runs the turns of `thread` until it ends, or until it panics again and again; the server then
    /// fails as a whole.
    pub fn run(&self, mut thread: impl PollingThread, heartbeat: &Heartbeat) {
        let (part, name) = (heartbeat.part(), heartbeat.thread());
        let mut limit = RestartLimit::default();
        loop {
            let turn = catch(|| {
                heartbeat.beat();
                thread.turn()
            });
            match turn {
                Ok(Turn::Again) => continue,
                Ok(Turn::Ended) => return,
                Err(Panicked) => self.count_panic(part),
            }
            match catch(|| thread.drop_served()) {
                Ok(true) => {
                    tracing::error!(
                        thread = name,
                        "panic contained: its peer was disconnected, and all others are served on"
                    );
                    continue;
                }
                Ok(false) => {}
                Err(Panicked) => self.count_panic(part),
            }
            if !limit.allows(Instant::now()) {
                self.fail(format!("{name} panicked five times within a minute"));
                return;
            }
            if catch(|| thread.start_anew()).is_err() {
                self.count_panic(part);
                self.fail(format!("{name} panicked, and again while it started anew"));
                return;
            }
            self.counters(part).restarts.add(1);
            tracing::error!(
                thread = name,
                "thread started anew after a panic: its peers were disconnected and may come back at once"
            );
        }
    }
}
