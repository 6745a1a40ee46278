//! The streams that the clients of one thread have set up: each is read once for all of them.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;
use glassline_runtime::{Key, Slots, Waker};

use glassline_egress::rtsp::{StreamContext, StreamReader};

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

    /// Returns the reader of `stream`, its present track layout and the present calendar, subscribed if
    /// no client on this thread has them yet. The reports of a reader go on when the calendar is set;
    /// clients that come later get another reader, whose reports have the right time. A reader that no client joins must be dropped with [`Self::leave`].
    pub(super) fn subscribe(&mut self, stream: &Arc<Stream>, now: Instant) -> Key {
        let mut known = self.readers.entries();
        let wall = self.context.clock.wall();
        let is_same = |reader: &StreamReader| {
            Arc::ptr_eq(reader.stream(), stream)
                && reader.is_current()
                && !wall.is_set_since(&reader.wall)
        };
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
        reader.read(now).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_hub::{Hub, StreamName};
    use glassline_media::{Codec, Track, WallClock};
    use mio::{Poll, Token};

    use super::*;
    use glassline_egress::rtsp::{Bounds, Budget, NumberKeys, Timing};
    use glassline_runtime::{Clock, Current};

    /// evercam/ex_nvr#404: the calendar is set by NTP after the server started.
    #[test]
    fn clients_after_a_calendar_was_set_get_reports_of_the_new_one() {
        let poll = Poll::new().expect("a descriptor");
        let second = Duration::from_secs(1);
        let context = StreamContext {
            latencies: Arc::default(),
            clock: Clock::start(),
            keys: NumberKeys::default(),
            timing: Arc::new(Current::new(Timing {
                budget: Budget {
                    lag: second,
                    stall: second,
                    skips_in_a_row: 2,
                },
                bounds: Bounds {
                    bytes: 1 << 20,
                    span: second,
                    lag: second,
                },
            })),
        };
        let waker = Arc::new(Waker::new(&poll, Token(0)).expect("a descriptor"));
        let mut streams = Streams::new(context, waker, 0);
        let now = Instant::now();
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let tracks = vec![Track::new(Codec::H264)];
        let _publisher = stream.publish(tracks, now).expect("free");
        let first = streams.subscribe(&stream, now);
        assert_eq!(streams.subscribe(&stream, now), first, "one reader for all");
        let old = streams.get(first).expect("it is there").wall;
        let three_days = Duration::from_secs(3 * 86_400);
        let before = WallClock::new(now, old.unix(now).saturating_sub(three_days));
        streams.get_mut(first).expect("it is there").wall = before;
        let second = streams.subscribe(&stream, now);
        assert_ne!(second, first);
        let wall = |key| streams.get(key).expect("it is there").wall;
        assert!(!wall(second).is_set_since(&old));
        assert_eq!(wall(first).unix(now), before.unix(now), "its reports go on");
    }
}
