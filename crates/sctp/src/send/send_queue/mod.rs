//! The send queue: messages that wait to be sent, by stream, and the scheduler that picks
//! the next stream.
//!
//! Streams that have something to send share the path by weighted fair queueing (RFC 8260
//! §3.6). Each stream has a virtual time that advances with what it sends, slower the
//! higher its priority, and the stream with the smallest virtual time is next. With
//! interleaving the scheduler decides for every chunk, without it for every message.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use super::active_streams::ActiveStreams;
use crate::stream_map::StreamMap;

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
    /// Length of the whole message, in bytes.
    pub(crate) message_len: usize,
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
    /// Whether nothing distinguishes the stream from one that was never used, but its place among
    /// the others.
    fn is_unused(&self) -> bool {
        self.waiting.is_empty()
            && self.next_ordered == 0
            && self.next_unordered == 0
            && self.low == 0
            && self.priority == 0
            && !self.resetting
    }

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
    streams: StreamMap<OutgoingStream>,
    /// The streams that have something to send, by virtual time.
    active: ActiveStreams,
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
        self.streams.get(stream).map_or(0, |it| it.buffered)
    }

    /// Sets the threshold of `Event::BufferedLow`, in bytes.
    pub(crate) fn set_low(&mut self, stream: u16, bytes: usize) {
        self.streams.entry(stream).low = bytes;
    }

    /// Sets the weight of a stream against others.
    pub(crate) fn set_priority(&mut self, stream: u16, priority: u16) {
        self.streams.entry(stream).priority = priority;
    }

    /// Whether a stream is being reset.
    pub(crate) fn is_resetting(&self, stream: u16) -> bool {
        self.streams.get(stream).is_some_and(|it| it.resetting)
    }

    /// Sets whether a stream is being reset.
    pub(crate) fn set_resetting(&mut self, stream: u16, resetting: bool) {
        self.streams.entry(stream).resetting = resetting;
        self.forget_unused(stream);
    }

    /// Whether a stream has a state: something was sent on it, or its owner set a property.
    pub(crate) fn is_used(&self, stream: u16) -> bool {
        self.streams.get(stream).is_some_and(|it| !it.is_unused())
    }

    /// Returns the number of streams that have a state.
    #[cfg(test)]
    pub(crate) fn stream_states(&mut self) -> usize {
        self.streams
            .iter_mut()
            .filter(|it| !it.1.is_unused())
            .count()
    }

    /// Forgets the properties that the owner of a stream set.
    pub(crate) fn close(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.low = 0;
            stream.priority = 0;
        }
        self.forget_unused(stream);
    }

    /// Forgets the state of a stream that equals that of one that was never used.
    fn forget_unused(&mut self, stream: u16) {
        if self
            .streams
            .get(stream)
            .is_some_and(OutgoingStream::is_unused)
        {
            self.streams.remove(stream);
        }
    }

    /// Restarts the message numbers of a stream, after its reset.
    pub(crate) fn restart(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.next_ordered = 0;
            stream.next_unordered = 0;
            stream.resetting = false;
        }
        self.forget_unused(stream);
    }

    /// Whether nothing of a stream waits to be sent.
    pub(crate) fn is_drained(&self, stream: u16) -> bool {
        let drained = |it: &OutgoingStream| it.waiting.is_empty();
        self.streams.get(stream).is_none_or(drained)
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
        let stream = self.streams.entry(number);
        self.buffered += message.data.len();
        stream.buffered += message.data.len();
        stream.waiting.push_back(message);
        if stream.waiting.len() == 1 {
            // A stream gains no credit by being idle.
            stream.virtual_time = stream.virtual_time.max(self.virtual_time);
            self.active.insert(stream.virtual_time, number);
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
            let stream = self.streams.get(number)?;
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
            let Some(stream) = self.streams.get(*number) else {
                return false;
            };
            let len = stream.waiting.front().map_or(0, |it| it.data.len());
            let fits = len <= room.packet || (self.begun_bytes + len) as u64 <= room.peer;
            stream.fragments_sent > 0 || self.begun_bytes == 0 || fits
        };
        let first = self.active.first()?;
        if may_go(&first) {
            return Some(first);
        }
        self.active.iter().find(may_go)
    }

    /// Returns the next fragment that fits `room`, without removing it. `expired` counts
    /// messages that were dropped.
    pub(crate) fn peek(
        &mut self,
        room: FragmentRoom,
        now: Instant,
        expired: &mut u64,
    ) -> Option<OutgoingFragment> {
        let number = self.next_stream(room, now, expired)?;
        let stream = self.streams.get(number)?;
        let message = stream.waiting.front()?;
        let left = message.data.len() - stream.offset;
        let len = left.min(room.packet);
        Some(OutgoingFragment {
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
            message_len: message.data.len(),
            message: stream.message,
        })
    }

    /// Removes the fragment that [`peek`](Self::peek) returned, which is sent as part of
    /// outstanding message `message`. Returns the message if the fragment begins it.
    pub(crate) fn take(
        &mut self,
        fragment: &OutgoingFragment,
        message: u64,
    ) -> Option<QueuedMessage> {
        let stream = self.streams.get_mut(fragment.stream)?;
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
        let mut begun = None;
        if fragment.begins && !fragment.ends {
            self.begun_bytes += fragment.message_len;
            begun = stream.waiting.front().cloned();
        }
        if fragment.ends {
            // A message of one fragment, as most are, is moved and not cloned: the first
            // clone of a buffer allocates.
            let whole = stream.waiting.pop_front();
            if fragment.begins {
                begun = whole;
            } else {
                self.begun_bytes -= fragment.message_len;
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
        if empty || self.active.are_several() {
            self.active.remove(before, fragment.stream);
            if !empty {
                self.active.insert(after, fragment.stream);
            }
        } else {
            // A stream that is alone keeps its virtual time.
            stream.virtual_time = before;
        }
        begun
    }

    /// Abandons the unsent part of outstanding message `message` on stream `number`, if
    /// there is any.
    pub(crate) fn abandon(&mut self, number: u16, message: u64) {
        let Some(stream) = self.streams.get_mut(number) else {
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
        let Some(stream) = self.streams.get_mut(number) else {
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
            self.active.remove(stream.virtual_time, number);
        }
    }
}

#[cfg(test)]
mod tests;
