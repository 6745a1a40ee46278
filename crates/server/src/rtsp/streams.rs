//! The streams that the clients of one thread have set up: each is read once for all of them.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;

use crate::egress::rtsp::{StreamContext, StreamReader};
use crate::runtime::{Key, Slots, Waker};

/// The readers of one thread: one for each stream that its clients play.
#[derive(Debug)]
pub(super) struct Streams {
    readers: Slots<StreamReader>,
    pub(super) context: StreamContext,
    /// Wakes the thread when a stream has something new.
    waker: Arc<Waker>,
    /// Number of the thread in the tables of stage delays.
    table: usize,
}

impl Streams {
    /// Creates the state of RTSP thread `thread`, without streams.
    pub(super) fn new(context: StreamContext, waker: Arc<Waker>, thread: usize) -> Self {
        Self {
            readers: Slots::default(),
            context,
            waker,
            // The numbers of shards begin at 0, so these are counted down from the maximum.
            table: usize::MAX - thread,
        }
    }

    pub(super) fn get(&self, reader: Key) -> Option<&StreamReader> {
        self.readers.get(reader)
    }

    pub(super) fn get_mut(&mut self, reader: Key) -> Option<&mut StreamReader> {
        self.readers.get_mut(reader)
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.readers.keys()
    }

    /// Returns when the first reader has to release the audio that it holds.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self
            .readers
            .iter()
            .map(|reader| reader.subscription.deadline());
        deadlines.flatten().min()
    }

    /// Returns the reader of `stream` and its present track layout, subscribed if no client on this
    /// thread has them yet. A reader that no client joins must be dropped with [`Self::leave`].
    pub(super) fn subscribe(&mut self, stream: &Arc<Stream>, now: Instant) -> Key {
        let mut known = self.readers.entries();
        let is_same =
            |reader: &StreamReader| Arc::ptr_eq(reader.stream(), stream) && reader.is_current();
        if let Some((key, _)) = known.find(|(_, reader)| is_same(reader)) {
            return key;
        }
        drop(known);
        let reader = StreamReader::subscribe(stream, &self.context, &self.waker, self.table, now);
        self.readers.insert(reader)
    }

    /// Adds a client to the receivers of a stream.
    pub(super) fn join(&mut self, reader: Key, client: Key) {
        if let Some(reader) = self.readers.get_mut(reader) {
            reader.subscription.viewers.push(client);
        }
    }

    /// Removes a client from a stream. The reader is dropped with its last client.
    pub(super) fn leave(&mut self, reader: Key, client: Key) {
        let Some(it) = self.readers.get_mut(reader) else {
            return;
        };
        let clients = &mut it.subscription.viewers;
        clients.retain(|other| *other != client);
        if clients.is_empty() {
            self.readers.remove(reader);
        }
    }

    /// Drops all readers, whether clients have joined them or not.
    pub(super) fn clear(&mut self) {
        for key in self.readers.keys() {
            self.readers.remove(key);
        }
    }

    /// Reads the new units of a stream. Returns the number of the first new entry, if there is one.
    pub(super) fn read(&mut self, reader: Key, now: Instant) -> Option<u64> {
        let reader = self.readers.get_mut(reader)?;
        if !reader.take_due(now) {
            return None;
        }
        let before = reader.ring.end();
        reader.read(&self.context.wall, now).then_some(before)
    }
}
