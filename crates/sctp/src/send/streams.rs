//! What waits to be sent, stream by stream, and whose turn it is.
//!
//! Streams that have something share the path by weighted fair queueing (RFC 8260
//! §3.6): each has a virtual time that runs on with what it sends, slower the higher
//! its priority, and the one that is furthest behind goes next. With interleaving it
//! is asked for every chunk, without for every message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;

/// RFC 8831 §6.4: "normal".
const PRIORITY: u16 = 256;

/// How long is tried to bring a message over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) retransmissions: Option<u32>,
    pub(crate) deadline: Option<Instant>,
}

impl Limits {
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

/// A message that was handed over.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) data: Bytes,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) limits: Limits,
}

/// The next piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) stream: u16,
    /// Number of the message in its stream: SSN or MID, widened.
    pub(crate) number: u64,
    pub(crate) unordered: bool,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// Number of the piece in its message.
    pub(crate) index: u32,
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    /// Number of the message among the outstanding ones, if this does not begin it.
    pub(crate) message: u64,
}

/// How much there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Payload of one chunk.
    pub(crate) packet: usize,
    /// What the peer can hold altogether, as far as it has said.
    pub(crate) peer: u64,
}

#[derive(Debug, Default)]
struct Stream {
    waiting: VecDeque<Outgoing>,
    /// How far the first of them has been sent.
    offset: usize,
    pieces: u32,
    /// Its number among the outstanding ones, once begun.
    message: u64,
    buffered: usize,
    low: usize,
    next_ordered: u64,
    next_unordered: u64,
    /// 0 stands for [`PRIORITY`].
    priority: u16,
    virtual_time: u64,
    resetting: bool,
}

impl Stream {
    fn weight(&self) -> u64 {
        let priority = if self.priority == 0 {
            PRIORITY
        } else {
            self.priority
        };
        u64::from(priority)
    }
}

/// All outgoing streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<u16, Stream>,
    /// Those that have something to send, by virtual time.
    active: BTreeSet<(u64, u16)>,
    /// Of the stream served last.
    virtual_time: u64,
    /// In the middle of a message, which nothing may interrupt without interleaving.
    current: Option<u16>,
    interleaving: bool,
    buffered: usize,
    /// Bytes of messages that were begun and not ended, sent or not.
    begun: usize,
    /// Fell to their threshold.
    low: Vec<u16>,
}

impl Streams {
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.interleaving = on;
    }

    /// Bytes that were not sent once, on all streams.
    pub(crate) const fn buffered_total(&self) -> usize {
        self.buffered
    }

    pub(crate) fn buffered(&self, stream: u16) -> usize {
        self.streams.get(&stream).map_or(0, |it| it.buffered)
    }

    pub(crate) fn set_low(&mut self, stream: u16, bytes: usize) {
        self.streams.entry(stream).or_default().low = bytes;
    }

    pub(crate) fn set_priority(&mut self, stream: u16, priority: u16) {
        self.streams.entry(stream).or_default().priority = priority;
    }

    pub(crate) fn is_resetting(&self, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|it| it.resetting)
    }

    pub(crate) fn set_resetting(&mut self, stream: u16, resetting: bool) {
        self.streams.entry(stream).or_default().resetting = resetting;
    }

    /// Its numbers begin again.
    pub(crate) fn restart(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.next_ordered = 0;
            stream.next_unordered = 0;
            stream.resetting = false;
        }
    }

    /// Nothing of it is left to send.
    pub(crate) fn is_drained(&self, stream: u16) -> bool {
        let drained = |it: &Stream| it.waiting.is_empty();
        self.streams.get(&stream).is_none_or(drained)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Streams whose buffer fell to its threshold since the last call.
    pub(crate) fn take_low(&mut self) -> impl Iterator<Item = u16> + '_ {
        self.low.drain(..)
    }

    pub(crate) fn has_low(&self) -> bool {
        !self.low.is_empty()
    }

    pub(crate) fn push(&mut self, number: u16, message: Outgoing) {
        let stream = self.streams.entry(number).or_default();
        self.buffered += message.data.len();
        stream.buffered += message.data.len();
        stream.waiting.push_back(message);
        if stream.waiting.len() == 1 {
            // Silence earns no credit.
            stream.virtual_time = stream.virtual_time.max(self.virtual_time);
            self.active.insert((stream.virtual_time, number));
        }
    }

    /// Whose turn it is, and the first message of that one; what has outlived its
    /// limit before anything of it was sent is dropped on the way and counted.
    fn next_stream(&mut self, room: Room, now: Instant, expired: &mut u64) -> Option<u16> {
        loop {
            let number = match self.current {
                Some(current) => current,
                None => self.furthest_behind(room)?,
            };
            let stream = self.streams.get(&number)?;
            let first = stream.waiting.front()?;
            if stream.pieces > 0 || !first.limits.is_expired(now) {
                return Some(number);
            }
            *expired += 1;
            self.drop_first(number);
        }
    }

    /// Whose turn it is by virtual time. But no message is begun beside others if the
    /// peer cannot hold all of them: parts of each would fill its window, and none
    /// could ever become whole.
    fn furthest_behind(&self, room: Room) -> Option<u16> {
        let may_go = |number: &u16| {
            let Some(stream) = self.streams.get(number) else {
                return false;
            };
            let len = stream.waiting.front().map_or(0, |it| it.data.len());
            let fits = len <= room.packet || (self.begun + len) as u64 <= room.peer;
            stream.pieces > 0 || self.begun == 0 || fits
        };
        self.active.iter().map(|it| it.1).find(may_go)
    }

    /// The next piece that fits `room`, with its message; not taken yet. `expired`
    /// counts messages that were dropped.
    pub(crate) fn peek(
        &mut self,
        room: Room,
        now: Instant,
        expired: &mut u64,
    ) -> Option<(Piece, &Outgoing)> {
        let number = self.next_stream(room, now, expired)?;
        let stream = self.streams.get(&number)?;
        let message = stream.waiting.front()?;
        let left = message.data.len() - stream.offset;
        let len = left.min(room.packet);
        let piece = Piece {
            stream: number,
            number: if message.unordered {
                stream.next_unordered
            } else {
                stream.next_ordered
            },
            unordered: message.unordered,
            offset: stream.offset,
            len,
            index: stream.pieces,
            begins: stream.offset == 0,
            ends: len == left,
            message: stream.message,
        };
        Some((piece, message))
    }

    /// What [`peek`](Self::peek) gave leaves, as part of outstanding `message`.
    pub(crate) fn take(&mut self, piece: &Piece, message: u64) {
        let Some(stream) = self.streams.get_mut(&piece.stream) else {
            return;
        };
        stream.message = message;
        self.buffered -= piece.len;
        let above = stream.buffered > stream.low;
        stream.buffered -= piece.len;
        if above && stream.buffered <= stream.low {
            self.low.push(piece.stream);
        }
        let before = stream.virtual_time;
        stream.virtual_time += (piece.len as u64) * u64::from(PRIORITY) / stream.weight();
        self.virtual_time = before;
        if piece.begins && !piece.ends {
            self.begun += stream.waiting.front().map_or(0, |it| it.data.len());
        }
        if piece.ends {
            let whole = stream.waiting.pop_front();
            if !piece.begins {
                self.begun -= whole.map_or(0, |it| it.data.len());
            }
            stream.offset = 0;
            stream.pieces = 0;
            if piece.unordered {
                stream.next_unordered += 1;
            } else {
                stream.next_ordered += 1;
            }
            self.current = None;
        } else {
            stream.offset += piece.len;
            stream.pieces += 1;
            self.current = (!self.interleaving).then_some(piece.stream);
        }
        let after = stream.virtual_time;
        let empty = stream.waiting.is_empty();
        if empty || self.active.len() > 1 {
            self.active.remove(&(before, piece.stream));
            if !empty {
                self.active.insert((after, piece.stream));
            }
        } else {
            // Alone, it need not move.
            stream.virtual_time = before;
        }
    }

    /// Gives up what is unsent of outstanding `message`, if anything is.
    pub(crate) fn abandon(&mut self, number: u16, message: u64) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if stream.pieces == 0 || stream.message != message {
            return;
        }
        if stream.waiting.front().is_some_and(|it| it.unordered) {
            stream.next_unordered += 1;
        } else {
            stream.next_ordered += 1;
        }
        self.drop_first(number);
    }

    fn drop_first(&mut self, number: u16) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let Some(message) = stream.waiting.pop_front() else {
            return;
        };
        if stream.pieces > 0 {
            self.begun -= message.data.len();
        }
        let unsent = message.data.len() - stream.offset;
        self.buffered -= unsent;
        let above = stream.buffered > stream.low;
        stream.buffered -= unsent;
        if above && stream.buffered <= stream.low {
            self.low.push(number);
        }
        stream.offset = 0;
        stream.pieces = 0;
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

    fn message(len: usize) -> Outgoing {
        Outgoing {
            data: Bytes::from(vec![7; len]),
            ppid: 53,
            unordered: false,
            limits: Limits::default(),
        }
    }

    const ROOM: Room = Room {
        packet: 100,
        peer: 1 << 20,
    };

    /// Streams of the next pieces of up to 100 bytes.
    fn order(streams: &mut Streams, count: usize) -> Vec<u16> {
        order_within(ROOM, streams, count)
    }

    fn order_within(room: Room, streams: &mut Streams, count: usize) -> Vec<u16> {
        let mut order = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "virtual time begins anywhere")]
        let now = Instant::now();
        for _ in 0..count {
            let Some((piece, _)) = streams.peek(room, now, &mut 0) else {
                break;
            };
            streams.take(&piece, 0);
            order.push(piece.stream);
        }
        order
    }

    #[test]
    fn without_interleaving_messages_take_turns_whole() {
        let mut streams = Streams::default();
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
        let mut streams = Streams::default();
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
        let mut streams = Streams::default();
        streams.set_interleaving(true);
        for stream in [1, 2, 3] {
            streams.push(stream, message(300));
        }
        // A message of one packet hinders nobody.
        streams.push(4, message(100));
        let room = Room { peer: 700, ..ROOM };
        assert_eq!(
            order_within(room, &mut streams, 20),
            [1, 2, 4, 1, 2, 1, 3, 3, 2, 3]
        );
        assert_eq!((streams.begun, streams.buffered_total()), (0, 0));
    }

    #[test]
    fn a_stream_that_was_silent_does_not_catch_up() {
        let mut streams = Streams::default();
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
        let mut streams = Streams::default();
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
