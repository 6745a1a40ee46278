//! Outstanding data: what was sent and not cumulatively acknowledged, in a ring indexed by
//! TSN.
//!
//! A chunk is a range of a message and holds no bytes of its own; the messages lie in a
//! second ring, in the order in which their sending began. The cost of a SACK is
//! proportional to what it newly acknowledges and to its gap ack blocks: what earlier
//! blocks covered is remembered as ranges and skipped.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Instant;

use super::send_queue::QueuedMessage;
use crate::chunk::DataFlags;

/// Largest offset of a gap ack block from the cumulative TSN (16 bits).
pub(crate) const GAP_OFFSET_MAX: usize = 65_535;

/// State of an outstanding chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// The chunk is in flight.
    InFlight,
    /// The chunk is lost and to be retransmitted.
    Lost,
    /// The peer acknowledged the chunk by a gap ack block.
    Acked,
    /// The message of the chunk was abandoned, so that its arrival no longer matters.
    Abandoned,
}

/// A chunk that was sent and is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutstandingChunk {
    /// Number of the message in the ring of messages.
    pub(crate) message: u64,
    /// Number of the packet that carried the chunk last.
    pub(crate) packet: u64,
    /// When that packet left.
    pub(crate) at: Instant,
    /// The packet that carried the chunk before, if any; otherwise the same packet.
    pub(crate) packet_before: u64,
    /// Offset of the payload in the message, in bytes.
    pub(crate) offset: u32,
    /// Number of the fragment in its message.
    pub(crate) index: u32,
    /// Length of the payload, in bytes.
    pub(crate) len: u16,
    /// How often the chunk was sent.
    pub(crate) times: u16,
    /// Flags of the chunk.
    pub(crate) flags: DataFlags,
    /// State of the chunk.
    pub(crate) state: ChunkState,
}

/// A message that was sent at least in part.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Stream of the message.
    pub(crate) stream: u16,
    /// SSN or MID in 64-bit form.
    pub(crate) number: u64,
    /// Content and options of the message.
    pub(crate) content: QueuedMessage,
    /// Number of chunks in the ring.
    pub(crate) chunks: u32,
    /// Whether no more chunks of the message will be sent for the first time.
    pub(crate) complete: bool,
    /// Whether the message was abandoned.
    pub(crate) abandoned: bool,
}

/// A range of TSNs, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TsnRange {
    first: u64,
    last: u64,
}

/// The ring of chunks and the ring of messages.
#[derive(Debug)]
pub(crate) struct Outstanding {
    /// TSN of the first chunk in `chunks`.
    first: u64,
    /// Chunks in the order of their TSNs.
    chunks: VecDeque<OutstandingChunk>,
    /// Number of the first message in `messages`.
    first_message: u64,
    /// Messages in the order in which their sending began; `None` for one that is done.
    messages: VecDeque<Option<Message>>,
    /// Ranges of TSNs acknowledged by gap ack blocks: ascending, apart from each other.
    acked_ranges: Vec<TsnRange>,
    /// Second buffer for `acked_ranges`; kept for its allocation.
    merged: Vec<TsnRange>,
    /// Payload that is not acknowledged, in bytes.
    bytes: usize,
    /// Payload of the messages in `messages`, in bytes.
    held: usize,
}

impl Outstanding {
    /// Returns an empty ring whose first chunk gets TSN `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            first,
            chunks: VecDeque::new(),
            first_message: 0,
            messages: VecDeque::new(),
            acked_ranges: Vec::new(),
            merged: Vec::new(),
            bytes: 0,
            held: 0,
        }
    }

    /// Returns the TSN that the next new chunk gets.
    pub(crate) fn next_tsn(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    /// Returns the cumulative TSN: everything up to it is acknowledged.
    pub(crate) const fn cumulative(&self) -> u64 {
        self.first - 1
    }

    /// Whether no chunk is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether another chunk would be beyond the range of gap ack blocks.
    pub(crate) fn is_full(&self) -> bool {
        self.chunks.len() >= GAP_OFFSET_MAX
    }

    /// Returns the payload that is not acknowledged, by which the peer's window is reduced,
    /// in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the payload of the messages that are held, unsent parts included, in bytes.
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// Returns the outstanding chunk `tsn`.
    pub(crate) fn get(&self, tsn: u64) -> Option<&OutstandingChunk> {
        self.chunks.get(self.place(tsn)?)
    }

    /// Returns chunk `tsn` to be changed.
    pub(crate) fn get_mut(&mut self, tsn: u64) -> Option<&mut OutstandingChunk> {
        let place = self.place(tsn)?;
        self.chunks.get_mut(place)
    }

    /// Returns the index of chunk `tsn` in `chunks`.
    fn place(&self, tsn: u64) -> Option<usize> {
        usize::try_from(tsn.checked_sub(self.first)?).ok()
    }

    /// Returns the outstanding message `number`.
    pub(crate) fn message(&self, number: u64) -> Option<&Message> {
        let place = usize::try_from(number.checked_sub(self.first_message)?).ok()?;
        self.messages.get(place)?.as_ref()
    }

    /// Returns message `number` to be changed.
    pub(crate) fn message_mut(&mut self, number: u64) -> Option<&mut Message> {
        let place = usize::try_from(number.checked_sub(self.first_message)?).ok()?;
        self.messages.get_mut(place)?.as_mut()
    }

    /// Returns the number that the next message gets.
    pub(crate) fn next_message(&self) -> u64 {
        self.first_message + self.messages.len() as u64
    }

    /// Adds a message whose first chunk is about to be sent, under the number
    /// [`next_message`](Self::next_message).
    pub(crate) fn begin(&mut self, message: Message) {
        self.held += message.content.data.len();
        self.messages.push_back(Some(message));
    }

    /// Adds a chunk that was sent for the first time.
    pub(crate) fn push(&mut self, chunk: OutstandingChunk) {
        self.bytes += usize::from(chunk.len);
        let last = chunk.flags.has(DataFlags::END);
        if let Some(message) = self.message_mut(chunk.message) {
            message.chunks += 1;
            message.complete |= last;
        }
        self.chunks.push_back(chunk);
    }

    /// Marks a chunk as acknowledged and returns its earlier state; `None` if it was
    /// acknowledged before or does not exist.
    pub(crate) fn mark_acked(&mut self, tsn: u64) -> Option<OutstandingChunk> {
        let chunk = self.get_mut(tsn)?;
        let before = *chunk;
        chunk.state = ChunkState::Acked;
        if before.state == ChunkState::Acked {
            return None;
        }
        self.bytes -= usize::from(before.len);
        Some(before)
    }

    /// Removes and returns the first chunk; `None` if there is none.
    pub(crate) fn pop(&mut self) -> Option<OutstandingChunk> {
        let chunk = self.chunks.pop_front()?;
        self.first += 1;
        if chunk.state != ChunkState::Acked {
            self.bytes -= usize::from(chunk.len);
        }
        self.release(chunk.message);
        Some(chunk)
    }

    /// Counts a removed chunk of message `number`, and removes the message with the last.
    fn release(&mut self, number: u64) {
        if let Some(message) = self.message_mut(number) {
            message.chunks -= 1;
            if message.chunks == 0 && message.complete {
                self.forget(number);
            }
        }
    }

    /// Notes that no more chunks of message `number` will be sent for the first time.
    pub(crate) fn complete(&mut self, number: u64) {
        if let Some(message) = self.message_mut(number) {
            message.complete = true;
            if message.chunks == 0 {
                self.forget(number);
            }
        }
    }

    /// Removes message `number`, and done messages at the front of the ring.
    fn forget(&mut self, number: u64) {
        let place = usize::try_from(number - self.first_message).unwrap_or(usize::MAX);
        if let Some(slot) = self.messages.get_mut(place) {
            self.held -= slot.as_ref().map_or(0, |it| it.content.data.len());
            *slot = None;
        }
        while let Some(None) = self.messages.front() {
            self.messages.pop_front();
            self.first_message += 1;
        }
    }

    /// Appends to `newly_acked` the ranges of `blocks` that were not acknowledged before, and
    /// remembers them. Blocks ascend and lie beyond the cumulative TSN; others are ignored.
    pub(crate) fn newly_acked(
        &mut self,
        blocks: impl Iterator<Item = (u64, u64)>,
        newly_acked: &mut Vec<RangeInclusive<u64>>,
    ) {
        let next_tsn = self.next_tsn();
        let mut merged = std::mem::take(&mut self.merged);
        merged.clear();
        let mut known = self.acked_ranges.iter().copied().peekable();
        // Ends of the last block and of the last known range, exclusive.
        let (mut reached, mut covered) = (self.first, 0);
        for (start, end) in blocks {
            if start < reached || end < start || end >= next_tsn {
                continue;
            }
            reached = end + 1;
            while let Some(before) = known.next_if(|it| it.last < start) {
                extend(&mut merged, before);
            }
            // A block may begin before a known range, and join several.
            let mut joined = TsnRange {
                first: start,
                last: end,
            };
            let mut from = start.max(covered);
            while let Some(within) = known.next_if(|it| it.first <= end) {
                if within.first > from {
                    newly_acked.push(from..=within.first - 1);
                }
                covered = within.last + 1;
                from = from.max(covered);
                joined.first = joined.first.min(within.first);
                joined.last = joined.last.max(within.last);
            }
            if from <= end {
                newly_acked.push(from..=end);
            }
            extend(&mut merged, joined);
        }
        known.for_each(|it| extend(&mut merged, it));
        self.merged = std::mem::replace(&mut self.acked_ranges, merged);
    }

    /// Forgets ranges that the cumulative TSN has passed.
    pub(crate) fn trim(&mut self) {
        if self
            .acked_ranges
            .first()
            .is_some_and(|it| it.first < self.first)
        {
            let first = self.first;
            self.acked_ranges.retain(|it| it.last >= first);
        }
    }

    /// Handles reneging: the first chunk is acknowledged although the SACK says that it is
    /// missing, so the peer discarded what it had acknowledged (RFC 9260 §3.3.4 allows it).
    /// All acknowledged chunks become lost, and their TSNs are returned.
    pub(crate) fn renege(&mut self) -> Vec<u64> {
        let is_reneged = |chunk: &OutstandingChunk| chunk.state == ChunkState::Acked;
        if !self.chunks.front().is_some_and(is_reneged) {
            return Vec::new();
        }
        self.acked_ranges.clear();
        let mut reneged = Vec::new();
        for (place, chunk) in self.chunks.iter_mut().enumerate() {
            if chunk.state == ChunkState::Acked {
                chunk.state = ChunkState::Lost;
                self.bytes += usize::from(chunk.len);
                reneged.push(self.first + place as u64);
            }
        }
        reneged
    }

    /// Returns the ranges acknowledged by gap ack blocks.
    #[cfg(test)]
    pub(crate) fn acked_ranges(&self) -> &[TsnRange] {
        &self.acked_ranges
    }
}

/// Appends a range that does not begin before the last one, and joins the two if they are
/// adjacent.
fn extend(ranges: &mut Vec<TsnRange>, next: TsnRange) {
    match ranges.last_mut() {
        Some(before) if next.first <= before.last + 1 => before.last = before.last.max(next.last),
        _ => ranges.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::send_queue::RetransmitLimits;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn with_chunks(count: u32) -> Outstanding {
        #[expect(clippy::disallowed_methods, reason = "virtual time begins anywhere")]
        let at = Instant::now();
        let mut outstanding = Outstanding::new(1000);
        let content = QueuedMessage {
            data: Bytes::from(vec![0; 10 * count as usize]),
            ppid: 0,
            unordered: false,
            limits: RetransmitLimits::default(),
        };
        let message = outstanding.next_message();
        outstanding.begin(Message {
            stream: 0,
            number: 0,
            content,
            chunks: 0,
            complete: false,
            abandoned: false,
        });
        for index in 0..count {
            outstanding.push(OutstandingChunk {
                message,
                packet: u64::from(index),
                at,
                packet_before: 0,
                offset: index * 10,
                index,
                len: 10,
                times: 1,
                flags: if index + 1 == count {
                    DataFlags::END
                } else {
                    DataFlags(0)
                },
                state: ChunkState::InFlight,
            });
        }
        outstanding
    }

    #[test]
    fn a_message_is_held_until_its_last_chunk_is_settled() {
        let mut outstanding = with_chunks(3);
        assert_eq!((outstanding.held(), outstanding.bytes()), (30, 30));
        assert!(outstanding.mark_acked(1001).is_some());
        assert!(outstanding.mark_acked(1001).is_none());
        assert_eq!(outstanding.bytes(), 20);
        outstanding.pop();
        outstanding.pop();
        assert_eq!((outstanding.held(), outstanding.bytes()), (30, 10));
        outstanding.pop();
        assert_eq!((outstanding.held(), outstanding.bytes()), (0, 0));
        assert!(outstanding.is_empty());
    }

    proptest! {
        #[test]
        fn newly_acked_ranges_are_what_sets_would_say(
            sacks in prop::collection::vec(
                prop::collection::vec((1000u64..1100, 0u64..9), 0..12), 1..12)
        ) {
            let mut outstanding = with_chunks(100);
            let mut known = BTreeSet::new();
            for mut blocks in sacks {
                blocks.sort_unstable();
                let blocks: Vec<_> = blocks.into_iter().map(|(at, len)| (at, at + len)).collect();
                let mut expected = BTreeSet::new();
                let mut reached = 1000;
                for &(start, end) in &blocks {
                    if start >= reached && end < 1100 {
                        reached = end + 1;
                        expected.extend((start..=end).filter(|tsn| !known.contains(tsn)));
                    }
                }
                let mut newly_acked = Vec::new();
                outstanding.newly_acked(blocks.into_iter(), &mut newly_acked);
                let found: Vec<u64> = newly_acked.into_iter().flatten().collect();
                prop_assert_eq!(&found, &expected.iter().copied().collect::<Vec<_>>());
                known.extend(expected);
                let ranges: Vec<u64> = outstanding.acked_ranges().iter().flat_map(|it| it.first..=it.last).collect();
                prop_assert_eq!(ranges, known.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
