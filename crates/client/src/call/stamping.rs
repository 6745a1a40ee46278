//! Queues of a call's records: to the caller, who drains them, and to the far end if it asks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Instant;

use glassline_voice::far::RemoteRecord;
use glassline_voice::{DuplicateRecord, PlayoutStamps, Record, SendStamps, Ssrc};

use super::stamp_channels::StampChannels;
use super::{BoundedSender, Shared};

/// Most records that wait to be drained: 40 s of packets of 10 ms, 10 s of callbacks of 2.5
/// ms.
const RECORDS_MAX: usize = 4096;
/// Most records of the far end that wait: there are ten times as many, and they come in
/// batches.
const REMOTE_MAX: usize = 16_384;
/// Most records that wait for the network thread, which looks every 20 ms: a second.
const OWN_MAX: usize = 1_024;

/// Records of one end since the last drain: see [`Call::drain`](super::Call::drain).
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Frames that were sent.
    pub sent: Vec<SendStamps>,
    /// Packets that were played.
    pub played: Vec<PlayoutStamps>,
    /// Packets that arrived once more, or too late.
    pub duplicates: Vec<DuplicateRecord>,
    /// Times at which the microphone called back.
    pub capture_calls: Vec<Instant>,
    /// Times at which the loudspeaker called back.
    pub playout_calls: Vec<Instant>,
    /// All these records of the far end, converted to our clock; with
    /// [`Stamps::Exchange`](super::Stamps::Exchange).
    pub remote: Vec<RemoteRecord>,
}

impl Records {
    /// Removes all records, and keeps the memory.
    pub fn clear(&mut self) {
        self.sent.clear();
        self.played.clear();
        self.duplicates.clear();
        self.capture_calls.clear();
        self.playout_calls.clear();
        self.remote.clear();
    }
}

/// Receiving ends of the queues of [`Records`].
pub(super) struct Drains {
    sent: Receiver<SendStamps>,
    played: Receiver<PlayoutStamps>,
    duplicates: Receiver<DuplicateRecord>,
    capture_calls: Receiver<Instant>,
    playout_calls: Receiver<Instant>,
    remote: Receiver<RemoteRecord>,
}

impl Drains {
    pub(super) fn drain(&self, records: &mut Records) {
        records.sent.extend(self.sent.try_iter());
        records.played.extend(self.played.try_iter());
        records.duplicates.extend(self.duplicates.try_iter());
        records.capture_calls.extend(self.capture_calls.try_iter());
        records.playout_calls.extend(self.playout_calls.try_iter());
        records.remote.extend(self.remote.try_iter());
    }
}

/// Sending end of one of these queues; records also go to the far end of the call.
pub(crate) struct Stamp<T> {
    kept: BoundedSender<T>,
    shared: Arc<Shared>,
    own: SyncSender<Record>,
    as_record: Box<AsRecord<T>>,
}

/// Makes an item into a record; `None` for an item that cannot be joined with others.
type AsRecord<T> = dyn Fn(&T) -> Option<Record> + Send;

impl<T> Stamp<T> {
    pub(crate) fn push(&self, item: T) {
        if self.shared.is_requested.load(Ordering::Relaxed)
            && let Some(record) = (self.as_record)(&item)
            && let Err(TrySendError::Full(_)) = self.own.try_send(record)
        {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        self.kept.push(item);
    }
}

/// Sending ends for the devices' threads.
pub(crate) struct Stamping {
    pub(crate) sent: Stamp<SendStamps>,
    pub(crate) played: Stamp<PlayoutStamps>,
    pub(crate) duplicates: Stamp<DuplicateRecord>,
    pub(crate) capture_calls: Stamp<Instant>,
    pub(crate) playout_calls: Stamp<Instant>,
}

/// Makes sending ends for duplicate packets, which several threads and legs see.
#[derive(Clone)]
pub(crate) struct DuplicateStamps {
    kept: BoundedSender<DuplicateRecord>,
    shared: Arc<Shared>,
    own: SyncSender<Record>,
}

impl DuplicateStamps {
    pub(super) fn stamp(&self) -> Stamp<DuplicateRecord> {
        let as_record = |it: &DuplicateRecord| Some(Record::Duplicate(*it));
        stamp(&self.shared, &self.own, self.kept.clone(), as_record)
    }
}

/// Queues of a leg, whose records are the call's: its data channels, the queue of our records
/// for its far end, and the far end's records.
pub(super) fn leg_queues(
    shared: &Arc<Shared>,
    wants_records: bool,
    epoch: Instant,
) -> (StampChannels, SyncSender<Record>, Receiver<RemoteRecord>) {
    let (own_sender, own) = std::sync::mpsc::sync_channel(OWN_MAX);
    let (remote_sender, remote) =
        BoundedSender::new(if wants_records { REMOTE_MAX } else { 1 }, shared);
    let stamp_channels =
        StampChannels::new(Arc::clone(shared), wants_records, epoch, own, remote_sender);
    (stamp_channels, own_sender, remote)
}

/// Queues of all records: for the devices' threads, for the network thread, and for the
/// caller. `ssrc` is that of our voice; `wants_records` says whether the far end's records are
/// wanted; `epoch` is the origin of our stamps.
pub(super) fn queues(
    shared: &Arc<Shared>,
    ssrc: Option<Ssrc>,
    wants_records: bool,
    epoch: Instant,
) -> (Stamping, DuplicateStamps, StampChannels, Drains) {
    let (own_sender, own) = std::sync::mpsc::sync_channel(OWN_MAX);
    let (duplicates_sender, duplicates) = BoundedSender::new(RECORDS_MAX, shared);
    let duplicate_stamps = DuplicateStamps {
        kept: duplicates_sender,
        shared: Arc::clone(shared),
        own: own_sender.clone(),
    };
    let (sent_sender, sent) = BoundedSender::new(RECORDS_MAX, shared);
    let (played_sender, played) = BoundedSender::new(RECORDS_MAX, shared);
    let (capture_calls_sender, capture_calls) = BoundedSender::new(RECORDS_MAX, shared);
    let (playout_calls_sender, playout_calls) = BoundedSender::new(RECORDS_MAX, shared);
    let (remote_sender, remote) =
        BoundedSender::new(if wants_records { REMOTE_MAX } else { 1 }, shared);
    let stamping = Stamping {
        sent: stamp(shared, &own_sender, sent_sender, move |it: &SendStamps| {
            Some(Record::Sent(ssrc?, *it))
        }),
        played: stamp(shared, &own_sender, played_sender, |it| {
            Some(Record::Played(*it))
        }),
        duplicates: duplicate_stamps.stamp(),
        capture_calls: stamp(shared, &own_sender, capture_calls_sender, |at| {
            Some(Record::CaptureCalled(*at))
        }),
        playout_calls: stamp(shared, &own_sender, playout_calls_sender, |at| {
            Some(Record::PlayoutCalled(*at))
        }),
    };
    let stamp_channels =
        StampChannels::new(Arc::clone(shared), wants_records, epoch, own, remote_sender);
    let drains = Drains {
        sent,
        played,
        duplicates,
        capture_calls,
        playout_calls,
        remote,
    };
    (stamping, duplicate_stamps, stamp_channels, drains)
}

fn stamp<T>(
    shared: &Arc<Shared>,
    own: &SyncSender<Record>,
    kept: BoundedSender<T>,
    as_record: impl Fn(&T) -> Option<Record> + Send + 'static,
) -> Stamp<T> {
    Stamp {
        kept,
        shared: Arc::clone(shared),
        own: own.clone(),
        as_record: Box::new(as_record),
    }
}
