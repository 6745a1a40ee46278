//! A leg: an additional session of a call, which receives the voice of one other participant
//! and exchanges records with that participant's end.
//!
//! The call's records go to the far end of each leg that asks for them: records of what was
//! sent go to all of them, records of what was played only to the leg that brought it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Instant;

use glassline_voice::far::{self, RemoteRecord};
use glassline_voice::{Record, Ssrc};

use super::network::{Incoming, Network};
use super::stamping::{self, DuplicateStamps};
use super::{BoundedSender, Call, CallError, Ended, MediaTransport, Shared, spawn};

/// A session whose voice is played in a call, until it ends or is dropped.
#[derive(derive_more::Debug)]
#[debug("Leg {{ .. }}")]
pub struct Leg {
    shared: Arc<Shared>,
    /// The call that plays the leg's voice.
    call: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Records of the far end.
    remote: Receiver<RemoteRecord>,
}

/// Adds legs to a call, from any thread.
#[derive(Clone, derive_more::Debug)]
#[debug("LegConnector {{ .. }}")]
pub struct LegConnector {
    pub(super) call: Arc<Shared>,
    pub(super) packets: BoundedSender<Incoming>,
    pub(super) duplicates: DuplicateStamps,
    /// Whether the far ends' records are wanted.
    pub(super) wants_records: bool,
    /// Origin of stamps, the same for all legs: a far end's leg may outlast ours, and ours
    /// may be dialled again.
    pub(super) epoch: Instant,
}

/// Far end of a leg, as the call sees it.
pub(crate) struct RecordRecipient {
    leg: Arc<Shared>,
    own: SyncSender<Record>,
}

impl RecordRecipient {
    fn wants_records(&self) -> bool {
        self.leg.is_requested.load(Ordering::Relaxed)
    }

    /// Whether a record is for this far end: it is of its leg, or for all.
    fn is_concerned(&self, record: &Record) -> bool {
        let came_by_it = |ssrc: Ssrc| self.leg.voice.get() == Some(&ssrc);
        match record {
            Record::Played(it) => came_by_it(it.ssrc),
            Record::Duplicate(it) => came_by_it(it.ssrc),
            _ => true,
        }
    }
}

impl Shared {
    /// Whether the far end of any leg wants records.
    pub(super) fn is_requested_by_a_leg(&self) -> bool {
        self.legs.lock().iter().any(RecordRecipient::wants_records)
    }

    /// Queues one of our records for the far ends of legs that want it.
    pub(super) fn send_to_legs(&self, record: &Record) {
        for recipient in self.legs.lock().iter() {
            if recipient.wants_records()
                && recipient.is_concerned(record)
                && let Err(TrySendError::Full(_)) = recipient.own.try_send(*record)
            {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Call {
    /// Returns a [`LegConnector`], which adds legs to the call. The call must have been
    /// started with [`start_among`](Self::start_among).
    pub fn leg_connector(&self) -> LegConnector {
        self.connector.clone()
    }
}

impl LegConnector {
    /// Connects over `transport`, too, and mixes its voice into the call.
    ///
    /// # Errors
    /// If the system refuses a thread, or a poll for the socket.
    pub fn connect(&self, transport: MediaTransport) -> Result<Leg, CallError> {
        let shared = Arc::new(Shared::new(transport, false));
        // Nothing waits for this session's keys.
        let (connected, _) = mpsc::channel();
        let (stamp_channels, own, remote) =
            stamping::leg_queues(&shared, self.wants_records, self.epoch);
        let (sender, duplicates) = (self.packets.clone(), self.duplicates.stamp());
        let network = Network::new(
            Arc::clone(&shared),
            sender,
            duplicates,
            stamp_channels,
            connected,
        )?;
        let thread = spawn("call leg", move || network.run())?;
        let leg = Arc::clone(&shared);
        self.call.legs.lock().push(RecordRecipient { leg, own });
        Ok(Leg {
            shared,
            call: Arc::clone(&self.call),
            thread: Some(thread),
            remote,
        })
    }
}

impl Leg {
    /// Whether keys are established.
    pub fn is_connected(&self) -> bool {
        self.shared.figures().is_connected
    }

    /// How the leg ended; `None` while it lasts.
    pub fn ended(&self) -> Option<Result<Ended, CallError>> {
        self.shared.end.get().cloned()
    }

    /// SSRC of the leg's voice; `None` before it has spoken.
    pub fn voice(&self) -> Option<Ssrc> {
        self.shared.voice.get().copied()
    }

    /// Exchange of stamps with the far end; `None` if it has no channel for them.
    pub fn far(&self) -> Option<far::Report> {
        self.shared.figures().far
    }

    /// Appends the far end's records since the last call, converted to our clock. Call it
    /// every few seconds, and after [`hang_up`](Self::hang_up).
    pub fn drain(&self, remote: &mut Vec<RemoteRecord>) {
        remote.extend(self.remote.try_iter());
    }

    /// Ends the leg, and waits until its last records are received.
    pub fn hang_up(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.join().is_err() {
            tracing::error!("a thread of a call has panicked");
        }
        self.call
            .legs
            .lock()
            .retain(|it| !Arc::ptr_eq(&it.leg, &self.shared));
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.hang_up();
        let transport = self.shared.transport();
        let voices = transport.session.receivers().iter();
        let voices = voices.filter_map(glassline_webrtc::Receiver::ssrc);
        self.call.gone().extend(voices);
    }
}
