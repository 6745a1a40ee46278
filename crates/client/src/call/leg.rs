//! One voice more in a call: a session of its own, of which only its packets matter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;

use super::network::{Incoming, Network};
use super::{Call, CallError, Ended, Feed, Line, Shared, spawn, stamping};

/// A session whose voices are heard in a call, until it ends or is dropped.
pub struct Leg {
    shared: Arc<Shared>,
    /// Of the call that hears it.
    call: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Leg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leg").finish_non_exhaustive()
    }
}

/// What adds legs to a call, from any thread.
#[derive(Clone)]
pub struct Ear {
    call: Arc<Shared>,
    packets: Feed<Incoming>,
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}

impl Call {
    /// What adds legs to it. The call must have been begun with
    /// [`start_among`](Self::start_among).
    pub fn ear(&self) -> Ear {
        Ear {
            call: Arc::clone(&self.shared),
            packets: self.packets.clone(),
        }
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
        // Nor for its records: what is heard is told with the call's.
        let (_, again, talk, _) = stamping::queues(&shared, None, false);
        let feed = self.packets.clone();
        let network = Network::new(Arc::clone(&shared), feed, again, talk, connected)?;
        let thread = spawn("call leg", move || network.run())?;
        Ok(Leg {
            shared,
            call: Arc::clone(&self.call),
            thread: Some(thread),
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
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of a call has panicked");
        }
        let line = self.shared.line();
        let voices = line.session.receivers().iter();
        let voices = voices.filter_map(glassline_webrtc::Receiver::ssrc);
        self.call.gone().extend(voices);
    }
}
