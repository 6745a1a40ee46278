//! Puts complete messages into the order of their streams.

use std::collections::{BTreeMap, VecDeque};

use super::reassembly_queue::{
    Fragment, InsertOutcome, MessageInfo, ReassembledMessage, ReassemblyQueue, whole,
};
use crate::Ssn;
use crate::sequence::{widen, widen_short};
use crate::stream_map::StreamMap;

/// Stream, whether unordered, and 64-bit number of a message. With I-DATA ordered and
/// unordered messages are counted separately.
type Key = (u16, bool, u64);

/// State of one incoming stream.
#[derive(Debug, Default)]
struct IncomingStream {
    /// Number of the next ordered message.
    next: u64,
    /// Highest number of an unordered message, from which 32-bit numbers are widened.
    unordered: u64,
    /// Complete messages that wait for an earlier one, by number.
    waiting: BTreeMap<u64, ReassembledMessage>,
    /// Size of the latest message, in bytes.
    expected: usize,
}

/// All incoming streams, with their incomplete and waiting messages.
#[derive(Debug, Default)]
pub(super) struct ReassemblyStreams {
    /// State of each stream that was used.
    streams: StreamMap<IncomingStream>,
    /// Incomplete messages of DATA chunks, by TSN.
    fragments: ReassemblyQueue,
    /// Incomplete messages of I-DATA chunks, each with a queue of its own.
    interleaved: BTreeMap<Key, ReassemblyQueue>,
    /// Payload in `interleaved`, in bytes.
    interleaved_bytes: usize,
    /// Complete messages that wait for an earlier one.
    waiting: Waiting,
}

/// Amount of complete messages that wait for an earlier one of their streams.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Number of the messages.
    count: usize,
    /// Payload of the messages, in bytes.
    bytes: usize,
}

impl Waiting {
    /// Counts a message that begins to wait.
    fn add(&mut self, message: &ReassembledMessage) {
        self.count += 1;
        self.bytes += message.data.len();
    }

    /// Counts a message that waits no longer.
    fn remove(&mut self, message: &ReassembledMessage) {
        self.count -= 1;
        self.bytes -= message.data.len();
    }
}

impl IncomingStream {
    /// Delivers a complete ordered message, and those that waited for it, if it is the next
    /// one.
    #[inline]
    fn order(
        &mut self,
        number: u64,
        message: ReassembledMessage,
        waiting: &mut Waiting,
        ready: &mut VecDeque<ReassembledMessage>,
    ) {
        if number == FIRST + self.next {
            self.next += 1;
            ready.push_back(message);
            if !self.waiting.is_empty() {
                self.deliver(waiting, ready);
            }
        } else if number > FIRST + self.next {
            waiting.add(&message);
            if let Some(twin) = self.waiting.insert(number, message) {
                waiting.remove(&twin);
            }
        }
        // A message below the next number was abandoned by the peer and arrived
        // nevertheless.
    }

    /// Delivers the waiting messages below the next number, and those that follow it
    /// without a gap.
    fn deliver(&mut self, waiting: &mut Waiting, ready: &mut VecDeque<ReassembledMessage>) {
        while let Some(entry) = self.waiting.first_entry() {
            let next = FIRST + self.next;
            if *entry.key() > next {
                break;
            }
            self.next += u64::from(*entry.key() == next);
            let message = entry.remove();
            waiting.remove(&message);
            ready.push_back(message);
        }
    }
}

/// Why a fragment cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReassemblyError {
    /// The message is larger than allowed.
    TooLarge { stream: u16 },
    /// The fragment contradicts others; the text says how.
    Contradiction(&'static str),
}

/// Where 64-bit numbers of messages begin, so that a number below the first does not
/// underflow.
const FIRST: u64 = 1 << 32;

impl ReassemblyStreams {
    /// Returns the payload that cannot be delivered yet, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.fragments.bytes() + self.interleaved_bytes + self.waiting.bytes
    }

    /// Returns the number of buffers, each of which costs memory of its own.
    pub(super) fn buffers(&self) -> usize {
        self.fragments.run_count() + self.interleaved.len() + self.waiting.count
    }

    /// Inserts the fragment of a DATA chunk that was not here before. Messages that can be
    /// delivered go to `ready`.
    pub(super) fn insert_data(
        &mut self,
        fragment: &Fragment<'_>,
        max: usize,
        ready: &mut VecDeque<ReassembledMessage>,
    ) -> Result<(), ReassemblyError> {
        let outcome = if fragment.begins && fragment.ends {
            whole(fragment, max)
        } else {
            self.fragments.insert(fragment, max)
        };
        let Some(message) = completed(outcome, fragment)? else {
            return Ok(());
        };
        if message.info.unordered {
            ready.push_back(message);
            return Ok(());
        }
        let stream = self.streams.entry(message.info.stream);
        let near = FIRST + stream.next;
        #[expect(clippy::cast_possible_truncation, reason = "an SSN has 16 bits")]
        let number = widen_short(message.info.number as u16, near);
        stream.order(number, message, &mut self.waiting, ready);
        Ok(())
    }

    /// Inserts the fragment of an I-DATA chunk that was not here before. Messages that can
    /// be delivered go to `ready`.
    pub(super) fn insert_interleaved(
        &mut self,
        fragment: &Fragment<'_>,
        max: usize,
        ready: &mut VecDeque<ReassembledMessage>,
    ) -> Result<(), ReassemblyError> {
        let info = fragment.info;
        let stream = self.streams.entry(info.stream);
        let near = if info.unordered {
            stream.unordered
        } else {
            stream.next
        };
        let number = widen(info.number, FIRST + near);
        if info.unordered {
            stream.unordered = stream.unordered.max(number.saturating_sub(FIRST));
        } else if number < FIRST + stream.next {
            return Err(ReassemblyError::Contradiction(
                "a message came that was delivered before",
            ));
        }
        let message = if fragment.begins && fragment.ends {
            completed(whole(fragment, max), fragment)?
        } else {
            let key = (info.stream, info.unordered, number);
            let expected = stream.expected;
            let new = || ReassemblyQueue::expecting(expected);
            let queue = self.interleaved.entry(key).or_insert_with(new);
            let before = queue.bytes();
            let outcome = queue.insert(fragment, max);
            self.interleaved_bytes = self.interleaved_bytes - before + queue.bytes();
            let message = completed(outcome, fragment)?;
            if let Some(message) = &message {
                if queue.run_count() > 0 {
                    return Err(ReassemblyError::Contradiction(
                        "a fragment lies beyond its message's end",
                    ));
                }
                stream.expected = message.data.len();
                self.interleaved.remove(&key);
            }
            message
        };
        let Some(message) = message else {
            return Ok(());
        };
        if info.unordered {
            ready.push_back(message);
        } else {
            stream.order(number, message, &mut self.waiting, ready);
        }
        Ok(())
    }

    /// Handles a FORWARD TSN: drops incomplete messages at or before `tsn`, and stops
    /// waiting for ordered messages up to those in `skipped` (stream and SSN).
    pub(super) fn skip_data(
        &mut self,
        tsn: u64,
        skipped: impl Iterator<Item = (u16, u16)> + Clone,
        ready: &mut VecDeque<ReassembledMessage>,
    ) {
        let is_abandoned = |info: &MessageInfo| {
            info.unordered
                || skipped.clone().any(|(stream, ssn)| {
                    #[expect(clippy::cast_possible_truncation, reason = "an SSN has 16 bits")]
                    let number = Ssn(info.number as u16);
                    stream == info.stream && !number.is_after(Ssn(ssn))
                })
        };
        self.fragments.drop_if(tsn, is_abandoned);
        for (name, ssn) in skipped {
            let stream = self.streams.entry(name);
            let number = widen_short(ssn, FIRST + stream.next);
            stream.next = stream.next.max((number + 1).saturating_sub(FIRST));
            stream.deliver(&mut self.waiting, ready);
        }
    }

    /// Handles one entry of an I-FORWARD-TSN: drops incomplete messages of the stream up to
    /// `mid`, and stops waiting for ordered ones up to it.
    pub(super) fn skip_interleaved(
        &mut self,
        name: u16,
        unordered: bool,
        mid: u32,
        ready: &mut VecDeque<ReassembledMessage>,
    ) {
        let stream = self.streams.entry(name);
        let near = if unordered {
            stream.unordered
        } else {
            stream.next
        };
        let number = widen(mid, FIRST + near);
        let abandoned: Vec<Key> = self
            .interleaved
            .range((name, unordered, 0)..=(name, unordered, number))
            .map(|(key, _)| *key)
            .collect();
        for key in abandoned {
            let queue = self.interleaved.remove(&key);
            self.interleaved_bytes -= queue.map_or(0, |it| it.bytes());
        }
        if !unordered {
            stream.next = stream.next.max((number + 1).saturating_sub(FIRST));
            stream.deliver(&mut self.waiting, ready);
        }
    }

    /// Resets these streams, or all of them if the list is empty. Everything sent before
    /// the reset has arrived.
    pub(super) fn reset(&mut self, names: &[u16]) {
        let all = names.is_empty();
        for (name, stream) in self.streams.iter_mut() {
            if all || names.contains(&name) {
                for message in std::mem::take(&mut stream.waiting).into_values() {
                    self.waiting.remove(&message);
                }
                stream.next = 0;
                stream.unordered = 0;
            }
        }
        let bytes = &mut self.interleaved_bytes;
        self.interleaved.retain(|key, queue| {
            let kept = !all && !names.contains(&key.0);
            if !kept {
                *bytes -= queue.bytes();
            }
            kept
        });
    }
}

/// Returns the message that the fragment completed, if any.
fn completed(
    outcome: InsertOutcome,
    fragment: &Fragment<'_>,
) -> Result<Option<ReassembledMessage>, ReassemblyError> {
    match outcome {
        InsertOutcome::Incomplete => Ok(None),
        InsertOutcome::Complete(message) => Ok(Some(message)),
        InsertOutcome::TooLarge => Err(ReassemblyError::TooLarge {
            stream: fragment.info.stream,
        }),
        InsertOutcome::Contradiction(what) => Err(ReassemblyError::Contradiction(what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of an interleaved message, the first half or the second one.
    fn half(stream: u16, is_second: bool) -> Fragment<'static> {
        Fragment {
            number: u64::from(is_second),
            begins: !is_second,
            ends: is_second,
            info: MessageInfo {
                stream,
                unordered: false,
                number: 0,
                ppid: 53,
            },
            payload: &[7; 10],
        }
    }

    #[test]
    fn a_reset_forgets_what_is_incomplete_of_its_streams_and_of_no_others() {
        for (names, kept) in [(&[1][..], vec![0, 2]), (&[0, 2], vec![1]), (&[], vec![])] {
            let (mut streams, mut ready) = (ReassemblyStreams::default(), VecDeque::new());
            let mut insert = |streams: &mut ReassemblyStreams, fragment| {
                streams.insert_interleaved(&fragment, 100, &mut ready)
            };
            for stream in 0..3 {
                assert_eq!(insert(&mut streams, half(stream, false)), Ok(()));
            }
            assert_eq!(streams.bytes(), 30);
            streams.reset(names);
            assert_eq!(streams.bytes(), 10 * kept.len(), "{names:?}");
            assert_eq!(streams.buffers(), kept.len(), "{names:?}");
            for stream in 0..3 {
                assert_eq!(insert(&mut streams, half(stream, true)), Ok(()));
            }
            let came: Vec<_> = ready.iter().map(|it| it.info.stream).collect();
            assert_eq!(came, kept, "{names:?}");
        }
    }
}
