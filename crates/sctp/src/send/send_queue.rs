//! The send queue: messages that wait to be sent, by stream, and the scheduler that picks
//! the next stream.
//!
//! Streams that have something to send share the path by weighted fair queueing (RFC 8260
//! §3.6). Each stream has a virtual time that advances with what it sends, slower the
//! higher its priority, and the stream with the smallest virtual time is next. With
//! interleaving the scheduler decides for every chunk, without it for every message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;

/// Priority of a stream at first: "normal" (RFC 8831 §6.4).
const PRIORITY: u16 = 256;

/// When a message is abandoned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetransmitLimits {
    /// Most retransmissions of a chunk; `None` for any number.
    pub(crate) retransmissions: Option<u32>,
    /// When the lifetime is over; `None` for never.
    pub(crate) deadline: Option<Instant>,
}

impl RetransmitLimits {
    /// Whether the lifetime is over.
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

/// A message as the application queued it.
#[derive(Clone, Debug)]
pub(crate) struct QueuedMessage {
    /// Content of the message.
    pub(crate) data: Bytes,
    /// Payload protocol identifier of the message.
    pub(crate) ppid: u32,
    /// Whether the message is delivered without regard to order.
    pub(crate) unordered: bool,
    /// When the message is abandoned.
    pub(crate) limits: RetransmitLimits,
}

/// The next fragment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingFragment {
    /// Stream of the message.
    pub(crate) stream: u16,
    /// SSN or MID of the message, in 64-bit form.
    pub(crate) number: u64,
    /// Whether the message is unordered.
    pub(crate) unordered: bool,
    /// Offset of the fragment in the message, in bytes.
    pub(crate) offset: usize,
    /// Length of the fragment, in bytes.
    pub(crate) len: usize,
    /// Number of the fragment in its message.
    pub(crate) index: u32,
    /// Whether the fragment begins the message.
    pub(crate) begins: bool,
    /// Whether the fragment ends the message.
    pub(crate) ends: bool,
    /// Number of the message among the outstanding ones; meaningless if the fragment begins
    /// it.
    pub(crate) message: u64,
}

/// Bounds of the next fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentRoom {
    /// Payload that fits the chunk, in bytes.
    pub(crate) packet: usize,
    /// Largest window that the peer announced, in bytes: what the peer can hold altogether.
    pub(crate) peer: u64,
}

/// State of one outgoing stream.
#[derive(Debug, Default)]
struct OutgoingStream {
    /// Messages that are not completely sent, oldest first.
    waiting: VecDeque<QueuedMessage>,
    /// Bytes of the first message that were sent.
    offset: usize,
    /// Fragments of the first message that were sent.
    fragments_sent: u32,
    /// Number of the first message among the outstanding ones, once it was begun.
    message: u64,
    /// Unsent bytes of the stream.
    buffered: usize,
    /// Threshold of `Event::BufferedLow`, in bytes.
    low: usize,
    /// Number of the next ordered message.
    next_ordered: u64,
    /// Number of the next unordered message.
    next_unordered: u64,
    /// Weight against other streams; 0 stands for [`PRIORITY`].
    priority: u16,
    /// Virtual time of the scheduler.
    virtual_time: u64,
    /// Whether the stream is being reset and accepts no messages.
    resetting: bool,
}

impl OutgoingStream {
    /// Returns the weight against other streams.
    fn weight(&self) -> u64 {
        let priority = if self.priority == 0 {
            PRIORITY
        } else {
            self.priority
        };
        u64::from(priority)
    }
}

/// All outgoing streams, and the scheduler.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// State of each stream that was used.
    streams: BTreeMap<u16, OutgoingStream>,
    /// Virtual time and number of each stream that has something to send.
    active: BTreeSet<(u64, u16)>,
    /// Virtual time of the stream that was served last.
    virtual_time: u64,
    /// Stream whose message is partly sent, which nothing may interrupt without
    /// interleaving.
    current: Option<u16>,
    /// Whether messages are interleaved (RFC 8260).
    interleaving: bool,
    /// Unsent bytes of all streams.
    buffered: usize,
    /// Bytes of messages that are partly sent, sent parts included.
    begun_bytes: usize,
    /// Streams whose queue fell to its threshold.
    low: Vec<u16>,
}

impl SendQueue {
    /// Sets whether messages are interleaved.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.interleaving = on;
    }

    /// Returns the unsent bytes of all streams.
    pub(crate) const fn buffered_total(&self) -> usize {
        self.buffered
    }

    /// Returns the unsent bytes of a stream.
    pub(crate) fn buffered(&self, stream: u16) -> usize {
        self.streams.get(&stream).map_or(0, |it| it.buffered)
    }

    /// Sets the threshold of `Event::BufferedLow`, in bytes.
    pub(crate) fn set_low(&mut self, stream: u16, bytes: usize) {
        self.streams.entry(stream).or_default().low = bytes;
    }

    /// Sets the weight of a stream against others.
    pub(crate) fn set_priority(&mut self, stream: u16, priority: u16) {
        self.streams.entry(stream).or_default().priority = priority;
    }

    /// Whether a stream is being reset.
    pub(crate) fn is_resetting(&self, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|it| it.resetting)
    }

    /// Sets whether a stream is being reset.
    pub(crate) fn set_resetting(&mut self, stream: u16, resetting: bool) {
        self.streams.entry(stream).or_default().resetting = resetting;
    }

    /// Restarts the message numbers of a stream, after its reset.
    pub(crate) fn restart(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.next_ordered = 0;
            stream.next_unordered = 0;
            stream.resetting = false;
        }
    }

    /// Whether nothing of a stream waits to be sent.
    pub(crate) fn is_drained(&self, stream: u16) -> bool {
        let drained = |it: &OutgoingStream| it.waiting.is_empty();
        self.streams.get(&stream).is_none_or(drained)
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Streams whose buffer fell to its threshold since the last call.
    pub(crate) fn take_low(&mut self) -> impl Iterator<Item = u16> + '_ {
        self.low.drain(..)
    }

    /// Whether a stream's queue fell to its threshold since the last call of `take_low`.
    pub(crate) fn has_low(&self) -> bool {
        !self.low.is_empty()
    }

    /// Queues a message on stream `number`.
    pub(crate) fn push(&mut self, number: u16, message: QueuedMessage) {
        let stream = self.streams.entry(number).or_default();
        self.buffered += message.data.len();
        stream.buffered += message.data.len();
        stream.waiting.push_back(message);
        if stream.waiting.len() == 1 {
            // A stream gains no credit by being idle.
            stream.virtual_time = stream.virtual_time.max(self.virtual_time);
            self.active.insert((stream.virtual_time, number));
        }
    }

    /// Returns the stream to serve next. Messages that expired before any part of them was
    /// sent are dropped on the way and counted in `expired`.
    fn next_stream(&mut self, room: FragmentRoom, now: Instant, expired: &mut u64) -> Option<u16> {
        loop {
            let number = match self.current {
                Some(current) => current,
                None => self.furthest_behind(room)?,
            };
            let stream = self.streams.get(&number)?;
            let first = stream.waiting.front()?;
            if stream.fragments_sent > 0 || !first.limits.is_expired(now) {
                return Some(number);
            }
            *expired += 1;
            self.drop_first(number);
        }
    }

    /// Returns the stream with the smallest virtual time that may send. A message is not
    /// begun beside others if the peer cannot hold all of them: parts of each would fill
    /// its window, and none could ever become complete.
    fn furthest_behind(&self, room: FragmentRoom) -> Option<u16> {
        let may_go = |number: &u16| {
            let Some(stream) = self.streams.get(number) else {
                return false;
            };
            let len = stream.waiting.front().map_or(0, |it| it.data.len());
            let fits = len <= room.packet || (self.begun_bytes + len) as u64 <= room.peer;
            stream.fragments_sent > 0 || self.begun_bytes == 0 || fits
        };
        self.active.iter().map(|it| it.1).find(may_go)
    }

    /// Returns the next fragment that fits `room`, with its message, without removing it.
    /// `expired` counts messages that were dropped.
    pub(crate) fn peek(
        &mut self,
        room: FragmentRoom,
        now: Instant,
        expired: &mut u64,
    ) -> Option<(OutgoingFragment, &QueuedMessage)> {
        let number = self.next_stream(room, now, expired)?;
        let stream = self.streams.get(&number)?;
        let message = stream.waiting.front()?;
        let left = message.data.len() - stream.offset;
        let len = left.min(room.packet);
        let fragment = OutgoingFragment {
            stream: number,
            number: if message.unordered {
                stream.next_unordered
            } else {
                stream.next_ordered
            },
            unordered: message.unordered,
            offset: stream.offset,
            len,
            index: stream.fragments_sent,
            begins: stream.offset == 0,
            ends: len == left,
            message: stream.message,
        };
        Some((fragment, message))
    }

    /// Removes the fragment that [`peek`](Self::peek) returned, which is sent as part of
    /// outstanding message `message`.
    pub(crate) fn take(&mut self, fragment: &OutgoingFragment, message: u64) {
        let Some(stream) = self.streams.get_mut(&fragment.stream) else {
            return;
        };
        stream.message = message;
        self.buffered -= fragment.len;
        let above = stream.buffered > stream.low;
        stream.buffered -= fragment.len;
        if above && stream.buffered <= stream.low {
            self.low.push(fragment.stream);
        }
        let before = stream.virtual_time;
        stream.virtual_time += (fragment.len as u64) * u64::from(PRIORITY) / stream.weight();
        self.virtual_time = before;
        if fragment.begins && !fragment.ends {
            self.begun_bytes += stream.waiting.front().map_or(0, |it| it.data.len());
        }
        if fragment.ends {
            let whole = stream.waiting.pop_front();
            if !fragment.begins {
                self.begun_bytes -= whole.map_or(0, |it| it.data.len());
            }
            stream.offset = 0;
            stream.fragments_sent = 0;
            if fragment.unordered {
                stream.next_unordered += 1;
            } else {
                stream.next_ordered += 1;
            }
            self.current = None;
        } else {
            stream.offset += fragment.len;
            stream.fragments_sent += 1;
            self.current = (!self.interleaving).then_some(fragment.stream);
        }
        let after = stream.virtual_time;
        let empty = stream.waiting.is_empty();
        if empty || self.active.len() > 1 {
            self.active.remove(&(before, fragment.stream));
            if !empty {
                self.active.insert((after, fragment.stream));
            }
        } else {
            // A stream that is alone keeps its virtual time.
            stream.virtual_time = before;
        }
    }

    /// Abandons the unsent part of outstanding message `message` on stream `number`, if
    /// there is any.
    pub(crate) fn abandon(&mut self, number: u16, message: u64) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if stream.fragments_sent == 0 || stream.message != message {
            return;
        }
        if stream.waiting.front().is_some_and(|it| it.unordered) {
            stream.next_unordered += 1;
        } else {
            stream.next_ordered += 1;
        }
        self.drop_first(number);
    }

    /// Drops the first message of stream `number`.
    fn drop_first(&mut self, number: u16) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let Some(message) = stream.waiting.pop_front() else {
            return;
        };
        if stream.fragments_sent > 0 {
            self.begun_bytes -= message.data.len();
        }
        let unsent = message.data.len() - stream.offset;
        self.buffered -= unsent;
        let above = stream.buffered > stream.low;
        stream.buffered -= unsent;
        if above && stream.buffered <= stream.low {
            self.low.push(number);
        }
        stream.offset = 0;
        stream.fragments_sent = 0;
        if self.current == Some(number) {
            self.current = None;
        }
        if stream.waiting.is_empty() {
            self.active.remove(&(stream.virtual_time, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> QueuedMessage {
        QueuedMessage {
            data: Bytes::from(vec![7; len]),
            ppid: 53,
            unordered: false,
            limits: RetransmitLimits::default(),
        }
    }

    const ROOM: FragmentRoom = FragmentRoom {
        packet: 100,
        peer: 1 << 20,
    };

    /// Returns the streams of the next fragments of up to 100 bytes.
    fn order(streams: &mut SendQueue, count: usize) -> Vec<u16> {
        order_within(ROOM, streams, count)
    }

    fn order_within(room: FragmentRoom, streams: &mut SendQueue, count: usize) -> Vec<u16> {
        let mut order = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "virtual time begins anywhere")]
        let now = Instant::now();
        for _ in 0..count {
            let Some((fragment, _)) = streams.peek(room, now, &mut 0) else {
                break;
            };
            streams.take(&fragment, 0);
            order.push(fragment.stream);
        }
        order
    }

    #[test]
    fn without_interleaving_messages_take_turns_whole() {
        let mut streams = SendQueue::default();
        for stream in [1, 2] {
            streams.push(stream, message(250));
            streams.push(stream, message(250));
        }
        assert_eq!(
            order(&mut streams, 20),
            [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]
        );
        assert!(streams.is_empty());
        assert_eq!(streams.buffered_total(), 0);
    }

    #[test]
    fn interleaved_chunks_follow_the_priorities() {
        let mut streams = SendQueue::default();
        streams.set_interleaving(true);
        streams.set_priority(1, 512);
        streams.set_priority(2, 128);
        for stream in [1, 2] {
            streams.push(stream, message(100_000));
        }
        let order = order(&mut streams, 500);
        let first = order.iter().filter(|&&stream| stream == 1).count();
        assert!((398..=402).contains(&first), "four of five: {first}");
    }

    #[test]
    fn no_more_is_begun_than_the_peer_can_hold() {
        let mut streams = SendQueue::default();
        streams.set_interleaving(true);
        for stream in [1, 2, 3] {
            streams.push(stream, message(300));
        }
        // A message of one packet delays no other.
        streams.push(4, message(100));
        let room = FragmentRoom { peer: 700, ..ROOM };
        assert_eq!(
            order_within(room, &mut streams, 20),
            [1, 2, 4, 1, 2, 1, 3, 3, 2, 3]
        );
        assert_eq!((streams.begun_bytes, streams.buffered_total()), (0, 0));
    }

    #[test]
    fn a_stream_that_was_silent_does_not_catch_up() {
        let mut streams = SendQueue::default();
        streams.set_interleaving(true);
        streams.push(1, message(100_000));
        streams.push(3, message(100_000));
        order(&mut streams, 200);
        streams.push(2, message(100_000));
        let order = order(&mut streams, 30);
        let second = order.iter().filter(|&&stream| stream == 2).count();
        assert!((9..=11).contains(&second), "a third: {second}");
    }

    #[test]
    fn the_threshold_is_told_once_it_is_reached() {
        let mut streams = SendQueue::default();
        streams.set_low(4, 150);
        streams.push(4, message(350));
        order(&mut streams, 1);
        assert!(!streams.has_low());
        order(&mut streams, 1);
        assert_eq!(streams.take_low().collect::<Vec<_>>(), [4]);
        order(&mut streams, 2);
        assert!(!streams.has_low());
    }
}
