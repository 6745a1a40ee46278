//! The queues of all readers of one hub's events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{Incarnation, StreamChange, StreamSummary};
use crate::StreamName;
use crate::wake::Wake;

/// Most events and bytes that wait for one reader. A reader beyond either bound gets the present
/// streams instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// A change that waits for a reader, with the stream after it.
pub(super) type Waiting = (StreamChange, Arc<StreamSummary>);

/// The queue of one reader.
struct Queue {
    number: u64,
    /// The stream that is read; `None` for all streams.
    only: Option<StreamName>,
    wake: Arc<dyn Wake>,
    bound: Bound,
    events: VecDeque<Waiting>,
    bytes: usize,
    /// Whether the reader needs the present streams, and no event is kept until then.
    is_behind: bool,
}

/// The queues of a hub's events, which the hub and all its streams share.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("EventQueues {{ .. }}")]
pub(crate) struct EventQueues(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: Mutex<Vec<Queue>>,
    /// Number of queues, for streams that change while nobody reads.
    count: AtomicUsize,
    /// Number of the latest incarnation, revision or queue.
    latest: AtomicU64,
}

/// Events that were taken out of a queue at one time.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) events: VecDeque<Waiting>,
    pub(super) is_behind: bool,
}

impl EventQueues {
    /// Returns whether there are no readers.
    ///
    /// A stream calls this under its own lock. A reader is counted before it locks the streams for their
    /// summaries, so it either gets the event of a change or reads the changed stream.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Returns the incarnation of a stream that is being made.
    pub(crate) fn next_incarnation(&self) -> Incarnation {
        Incarnation(self.next())
    }

    /// Returns the revision of a stream that is changing.
    pub(crate) fn next_revision(&self) -> u64 {
        self.next()
    }

    fn next(&self) -> u64 {
        self.0.latest.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a queue, and wakes its reader, who needs the present streams first; returns its number.
    pub(super) fn add(&self, only: Option<StreamName>, wake: Arc<dyn Wake>, bound: Bound) -> u64 {
        let number = self.next();
        let mut queues = self.0.queues.lock();
        wake.wake();
        queues.push(Queue {
            number,
            only,
            wake,
            bound,
            events: VecDeque::new(),
            bytes: 0,
            is_behind: true,
        });
        self.0.count.store(queues.len(), Ordering::Relaxed);
        number
    }

    pub(super) fn remove(&self, number: u64) {
        let mut queues = self.0.queues.lock();
        queues.retain(|it| it.number != number);
        self.0.count.store(queues.len(), Ordering::Relaxed);
    }

    /// Empties a queue, which keeps every event from now on.
    pub(super) fn take(&self, number: u64) -> Taken {
        let mut queues = self.0.queues.lock();
        let Some(queue) = queues.iter_mut().find(|it| it.number == number) else {
            return Taken::default();
        };
        queue.bytes = 0;
        Taken {
            events: std::mem::take(&mut queue.events),
            is_behind: std::mem::take(&mut queue.is_behind),
        }
    }

    /// Makes the reader of a queue learn of the present streams once more.
    pub(super) fn fall_behind(&self, number: u64) {
        let mut queues = self.0.queues.lock();
        if let Some(queue) = queues.iter_mut().find(|it| it.number == number) {
            queue.fall_behind();
            queue.wake.wake();
        }
    }

    /// Locks all queues, for events that are pushed in the order in which the lock was taken.
    pub(crate) fn open(&self) -> OpenQueues<'_> {
        OpenQueues(self.0.queues.lock())
    }
}

/// All queues of a hub, which nobody else reads or writes meanwhile.
pub(crate) struct OpenQueues<'a>(MutexGuard<'a, Vec<Queue>>);

impl OpenQueues<'_> {
    /// Adds the changes of one stream, and wakes the readers of that stream.
    pub(crate) fn push(&mut self, changes: &[StreamChange], stream: StreamSummary) {
        let bytes = stream.bytes();
        let stream = Arc::new(stream);
        for queue in self.0.iter_mut() {
            if queue.only.as_ref().is_some_and(|it| *it != stream.name) {
                continue;
            }
            for change in changes {
                queue.push((*change, Arc::clone(&stream)), bytes);
            }
            queue.wake.wake();
        }
    }
}

impl Queue {
    fn push(&mut self, event: Waiting, bytes: usize) {
        if self.is_behind {
            return;
        }
        let has_room = self.events.len() < self.bound.events;
        if !has_room || self.bytes + bytes > self.bound.bytes {
            return self.fall_behind();
        }
        self.bytes += bytes;
        self.events.push_back(event);
    }

    fn fall_behind(&mut self) {
        self.events = VecDeque::new();
        self.bytes = 0;
        self.is_behind = true;
    }
}
