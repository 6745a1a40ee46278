//! One voice more in a call: a session of its own, of which only its packets matter, and
//! what its far end and the call tell each other of their stages.
//!
//! What the call notes is told to the far end of each leg that asks: what was spoken to
//! all of them, of what was heard only what came by the leg.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use glassline_voice::far::{self, Told};
use glassline_voice::{Record, Ssrc};

use super::network::{Incoming, Network};
use super::stamping::{self, AgainStamps};
use super::{Call, CallError, Ended, Feed, Line, Shared, spawn};

/// A session whose voices are heard in a call, until it ends or is dropped.
pub struct Leg {
    shared: Arc<Shared>,
    /// Of the call that hears it.
    call: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    told: Receiver<Told>,
}

impl std::fmt::Debug for Leg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leg").finish_non_exhaustive()
    }
}

/// What adds legs to a call, from any thread.
#[derive(Clone)]
pub struct Ear {
    pub(super) call: Arc<Shared>,
    pub(super) packets: Feed<Incoming>,
    pub(super) again: AgainStamps,
    /// What the far ends note is wanted.
    pub(super) asks: bool,
    /// One for all legs: a far end's leg may outlast ours, and ours be dialled again.
    pub(super) epoch: Instant,
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}

/// The far end of a leg, as the call sees it.
pub(crate) struct Listener {
    leg: Arc<Shared>,
    own: SyncSender<Record>,
}

impl Listener {
    fn asks(&self) -> bool {
        self.leg.is_asked.load(Ordering::Relaxed)
    }

    /// What is of its leg, or of all of them.
    fn is_concerned(&self, record: &Record) -> bool {
        let came_by_it = |ssrc: Ssrc| self.leg.voice.get() == Some(&ssrc);
        match record {
            Record::Heard(it) => came_by_it(it.ssrc),
            Record::CameAgain(it) => came_by_it(it.ssrc),
            _ => true,
        }
    }
}

impl Shared {
    fn legs(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.legs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_asked_by_a_leg(&self) -> bool {
        self.legs().iter().any(Listener::asks)
    }

    /// Something happened here, which the far ends of legs may want to know.
    pub(super) fn tell_legs(&self, record: &Record) {
        for listener in self.legs().iter() {
            if listener.asks()
                && listener.is_concerned(record)
                && let Err(TrySendError::Full(_)) = listener.own.try_send(*record)
            {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Call {
    /// What adds legs to it. The call must have been begun with
    /// [`start_among`](Self::start_among).
    pub fn ear(&self) -> Ear {
        self.ear.clone()
    }
}

impl Ear {
    /// Connects over `line`, too, and mixes what comes there with the rest.
    ///
    /// # Errors
    /// The system gives no threads, or no way to wait for the socket.
    pub fn hear(&self, line: Line) -> Result<Leg, CallError> {
        let shared = Arc::new(Shared::new(line, false));
        // Nobody waits for this session's keys.
        let (connected, _) = mpsc::channel();
        let (talk, own, told) = stamping::leg_queues(&shared, self.asks, self.epoch);
        let (feed, again) = (self.packets.clone(), self.again.stamp());
        let network = Network::new(Arc::clone(&shared), feed, again, talk, connected)?;
        let thread = spawn("call leg", move || network.run())?;
        let leg = Arc::clone(&shared);
        self.call.legs().push(Listener { leg, own });
        Ok(Leg {
            shared,
            call: Arc::clone(&self.call),
            thread: Some(thread),
            told,
        })
    }
}

impl Leg {
    /// Keys are there.
    pub fn is_connected(&self) -> bool {
        self.shared.figures().is_connected
    }

    /// How it ended; `None` while it goes on.
    pub fn ended(&self) -> Option<Result<Ended, CallError>> {
        self.shared.end.get().cloned()
    }

    /// Under what number the other is heard; `None` before that has spoken.
    pub fn voice(&self) -> Option<Ssrc> {
        self.shared.voice.get().copied()
    }

    /// How it stands with the far end's stamps; `None` where there is no channel for them.
    pub fn far(&self) -> Option<far::Report> {
        self.shared.figures().far
    }

    /// What the far end has told since the last time, by our clock. Drain it every few
    /// seconds, and after [`hang_up`](Self::hang_up).
    pub fn drain(&self, told: &mut Vec<Told>) {
        told.extend(self.told.try_iter());
    }

    /// Says goodbye, and waits until the last of it is told.
    pub fn hang_up(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.join().is_err() {
            tracing::error!("a thread of a call has panicked");
        }
        self.call
            .legs()
            .retain(|it| !Arc::ptr_eq(&it.leg, &self.shared));
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.hang_up();
        let line = self.shared.line();
        let voices = line.session.receivers().iter();
        let voices = voices.filter_map(glassline_webrtc::Receiver::ssrc);
        self.call.gone().extend(voices);
    }
}
