//! Events of a hub's streams, for parts that begin and end with them: hooks, logs, egresses and
//! recorders.
//!
//! ```text
//! Stream: publish, finish, set_state, first viewer … ─┐ summary, under the stream's lock
//! Hub: list, remove, sweep ───────────────────────────┴─► queue of each reader ─► StreamEvents::poll
//!                                                          full: emptied        ─► Present
//! ```
//!
//! A reader first gets all present streams, and then each change, without a gap. A full queue is emptied,
//! and its reader gets all present streams again, so that no loss goes unnoticed and no publisher or
//! viewer waits for a reader. Without readers, a change costs one look at a counter.
//!
//! Locks are taken in the order list of streams, stream, queues. A stream locks the queues while its
//! own lock is held, so that its events have the order of its changes, and pushes after it gave its own
//! lock back.

mod event;
mod queues;
mod table;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

pub use event::{Incarnation, SourceNumber, StreamChange, StreamEvent, StreamSummary};
pub(crate) use queues::EventQueues;
use queues::{Bound, Waiting};
pub use table::StreamTable;

use crate::wake::Wake;
use crate::{Hub, StreamName};

/// Bound of a reader of all streams: the events of a thousand cameras whose network fails and returns.
const OF_ALL: Bound = Bound {
    events: 4096,
    bytes: 2 << 20,
};

/// Bound of a reader of one stream.
const OF_ONE: Bound = Bound {
    events: 16,
    bytes: 64 << 10,
};

/// Reader of a hub's events: first all present streams, then each change of a stream.
///
/// [`Hub::events`] and [`Hub::events_of`] create readers.
#[derive(derive_more::Debug)]
#[debug("StreamEvents {{ only: {only:?}, .. }}")]
pub struct StreamEvents {
    hub: Arc<Hub>,
    only: Option<StreamName>,
    /// Number of the queue.
    queue: u64,
}

impl Hub {
    /// Returns a reader of the events of all streams. `wake` is called at once, for the
    /// present streams, and after each change, for as long as the reader lives.
    ///
    /// The waker is called while the events are locked: it must neither block nor call the hub.
    pub fn events(self: &Arc<Self>, wake: Arc<dyn Wake>) -> StreamEvents {
        StreamEvents::new(self, None, wake, OF_ALL)
    }

    /// Returns a reader of the events of the stream called `name`, and of any that is made under this
    /// name later, as [`events`](Self::events) does for all streams.
    pub fn events_of(self: &Arc<Self>, name: StreamName, wake: Arc<dyn Wake>) -> StreamEvents {
        StreamEvents::new(self, Some(name), wake, OF_ONE)
    }
}

impl StreamEvents {
    fn new(hub: &Arc<Hub>, only: Option<StreamName>, wake: Arc<dyn Wake>, bound: Bound) -> Self {
        let queue = hub.events.add(only.clone(), wake, bound);
        Self {
            hub: Arc::clone(hub),
            only,
            queue,
        }
    }

    /// Appends the events since the last call to `out`, in the order of each stream's changes.
    ///
    /// The first event of all, and the first one after more changes than a queue takes, is
    /// [`StreamEvent::Present`]. Its cost is a short lock of each stream.
    pub fn poll(&mut self, out: &mut Vec<StreamEvent>) {
        let taken = self.hub.events.take(self.queue);
        if !taken.is_behind {
            out.extend(taken.events.into_iter().map(changed));
            return;
        }
        // The queue keeps events again, so no change falls between them and these summaries.
        let present = self.present();
        let later = self.hub.events.take(self.queue);
        if later.is_behind {
            self.hub.events.fall_behind(self.queue);
        }
        let mut unseen = later.events;
        keep_unseen(&mut unseen, &present);
        out.push(StreamEvent::Present(present));
        out.extend(unseen.into_iter().map(changed));
    }

    /// Returns the streams that the hub lists.
    fn present(&self) -> Vec<Arc<StreamSummary>> {
        let streams = match &self.only {
            Some(name) => self.hub.stream(name.as_str()).into_iter().collect(),
            None => self.hub.streams(),
        };
        let listed = streams.iter().filter_map(|it| it.listed_summary());
        listed.map(Arc::new).collect()
    }
}

/// Drops events that the summaries `present` have already, and those of streams that were removed
/// before.
fn keep_unseen(events: &mut VecDeque<Waiting>, present: &[Arc<StreamSummary>]) {
    let seen = present.iter().map(|it| (it.incarnation, it.revision));
    let mut seen: HashMap<Incarnation, u64> = seen.collect();
    events.retain(|(change, stream)| {
        if *change == StreamChange::Listed {
            seen.entry(stream.incarnation).or_insert(0);
        }
        let seen = seen.get(&stream.incarnation);
        seen.is_some_and(|seen| *seen < stream.revision)
    });
}

fn changed((change, stream): Waiting) -> StreamEvent {
    StreamEvent::Changed { change, stream }
}

impl Drop for StreamEvents {
    fn drop(&mut self) {
        self.hub.events.remove(self.queue);
    }
}

#[cfg(test)]
mod tests;
