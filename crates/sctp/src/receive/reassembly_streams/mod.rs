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
    /// Whether there is a state; a table of low numbers has entries without.
    exists: bool,
    /// Whether the owner of the association opened the stream.
    is_open: bool,
    /// Number of the next ordered message.
    next: u64,
    /// Highest number of an unordered message, from which 32-bit numbers are widened.
    unordered: u64,
    /// Complete messages that wait for an earlier one, by number.
    waiting: BTreeMap<u64, ReassembledMessage>,
}

/// All incoming streams, with their incomplete and waiting messages.
///
/// A peer may use any of 65,536 numbers. Where streams are opened, as channels are, one that is
/// not open has a state only as long as a message of it waits or is unread, and that state counts
/// as memory of the receive window.
#[derive(Debug, Default)]
pub(super) struct ReassemblyStreams {
    /// State of each stream that is open or was used.
    streams: StreamMap<IncomingStream>,
    /// Whether streams must be opened to have a lasting state.
    are_opened: bool,
    /// Number of streams that have a state and are not open.
    unopened: usize,
    /// Incomplete messages of DATA chunks, by TSN.
    fragments: ReassemblyQueue<()>,
    /// Incomplete messages of I-DATA chunks, by message and FSN.
    interleaved: ReassemblyQueue<Key>,
    /// Size of the latest message that came in fragments, in bytes.
    expected: usize,
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

/// The reason why a fragment cannot be accepted.
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

/// Memory that a stream's state costs, in bytes: its entry in a tree whose nodes may be half full.
const STREAM_BYTES: usize = 192;

impl ReassemblyStreams {
    /// Requires that streams are opened to have a lasting state.
    pub(super) fn require_opening(&mut self) {
        self.are_opened = true;
    }

    /// Whether streams must be opened to have a lasting state.
    pub(super) const fn are_opened(&self) -> bool {
        self.are_opened
    }

    /// Returns what begins anew for an association that is established now: open streams stay
    /// open.
    pub(super) fn restarted(&mut self) -> Self {
        let mut anew = Self {
            are_opened: self.are_opened,
            ..Self::default()
        };
        for (name, stream) in self.streams.iter_mut() {
            if stream.is_open {
                anew.open(name);
            }
        }
        anew
    }

    /// Opens a stream: it has a state until it is closed.
    pub(super) fn open(&mut self, name: u16) {
        self.make(name);
        if let Some(stream) = self.streams.get_mut(name)
            && !std::mem::replace(&mut stream.is_open, true)
        {
            self.unopened -= 1;
        }
    }

    /// Closes a stream. Its state remains as long as messages came that belong to the next one
    /// to open it.
    pub(super) fn close(&mut self, name: u16) {
        let Some(stream) = self.existing(name) else {
            return;
        };
        let was_open = std::mem::replace(&mut stream.is_open, false);
        let is_unused = stream.next == 0 && stream.unordered == 0 && stream.waiting.is_empty();
        self.unopened += usize::from(was_open);
        if is_unused {
            self.forget(name);
        }
    }

    /// Forgets a stream that is not open, with everything that waits on it.
    pub(super) fn forget(&mut self, name: u16) {
        self.drop_held(name);
        if self.existing(name).is_some_and(|it| !it.is_open) {
            self.unopened -= 1;
            self.streams.remove(name);
        }
    }

    /// Returns the state of a stream that has one.
    fn existing(&mut self, name: u16) -> Option<&mut IncomingStream> {
        self.streams.get_mut(name).filter(|it| it.exists)
    }

    /// Makes a state for a stream that has none.
    fn make(&mut self, name: u16) {
        let stream = self.streams.entry(name);
        self.unopened += usize::from(!std::mem::replace(&mut stream.exists, true));
    }

    /// Makes a state for a stream that has none, unless it would have to be opened.
    fn make_undemanded(&mut self, name: u16) {
        if !self.are_opened {
            self.make(name);
        }
    }

    /// Returns the number of the next ordered message of a stream, and the highest of an unordered
    /// one.
    fn numbers(&mut self, name: u16) -> (u64, u64) {
        let stream = self.existing(name);
        stream.map_or((0, 0), |it| (it.next, it.unordered))
    }

    /// Returns the number of streams that have a state.
    #[cfg(test)]
    pub(super) fn states(&mut self) -> usize {
        self.streams.iter_mut().filter(|it| it.1.exists).count()
    }

    /// Returns the payload that cannot be delivered yet, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.fragments.bytes() + self.interleaved.bytes() + self.waiting.bytes
    }

    /// Returns the memory of what cannot be delivered yet, in bytes, where each waiting message
    /// costs `overhead` beyond its payload.
    pub(super) fn held(&self, overhead: usize) -> usize {
        let unopened = if self.are_opened { self.unopened } else { 0 };
        self.fragments.held()
            + self.interleaved.held()
            + self.waiting.bytes
            + self.waiting.count * overhead
            + unopened * STREAM_BYTES
    }

    /// Inserts the fragment of a DATA chunk that was not here before. Everything up to `cumulative`
    /// has come or will not come. Messages that can be delivered go to `ready`.
    pub(super) fn insert_data(
        &mut self,
        fragment: &Fragment<'_>,
        max: usize,
        cumulative: u64,
        ready: &mut VecDeque<ReassembledMessage>,
    ) -> Result<(), ReassemblyError> {
        let outcome = if fragment.begins && fragment.ends {
            whole(fragment, max)
        } else {
            self.fragments.insert((), fragment, max, self.expected)
        };
        self.fragments.drop_dead(cumulative);
        let Some(message) = self.completed(outcome, fragment)? else {
            return Ok(());
        };
        if message.info.unordered {
            ready.push_back(message);
            return Ok(());
        }
        let (next, _) = self.numbers(message.info.stream);
        // An SSN has 16 bits.
        let number = widen_short(message.info.number as u16, FIRST + next);
        self.order(number, message, ready);
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
        self.make_undemanded(info.stream);
        let (next, unordered) = self.numbers(info.stream);
        let near = if info.unordered { unordered } else { next };
        let number = widen(info.number, FIRST + near);
        if info.unordered {
            if let Some(stream) = self.existing(info.stream) {
                stream.unordered = stream.unordered.max(number.saturating_sub(FIRST));
            }
        } else if number < FIRST + next {
            return Err(ReassemblyError::Contradiction(
                "a message came that was delivered before",
            ));
        }
        let key = (info.stream, info.unordered, number);
        let outcome = self.interleaved.insert(key, fragment, max, self.expected);
        let Some(message) = self.completed(outcome, fragment)? else {
            return Ok(());
        };
        if self.interleaved.has(key) {
            return Err(ReassemblyError::Contradiction(
                "a fragment lies beyond its message's end",
            ));
        }
        if info.unordered {
            ready.push_back(message);
        } else {
            self.order(number, message, ready);
        }
        Ok(())
    }

    /// Delivers a complete ordered message, or lets it wait.
    fn order(
        &mut self,
        number: u64,
        message: ReassembledMessage,
        ready: &mut VecDeque<ReassembledMessage>,
    ) {
        let name = message.info.stream;
        if number >= FIRST {
            self.make(name);
        }
        if let Some(stream) = self.streams.get_mut(name).filter(|it| it.exists) {
            stream.order(number, message, &mut self.waiting, ready);
        }
    }

    /// Handles a FORWARD TSN: drops incomplete messages at or before `tsn`, and stops
    /// waiting for ordered messages up to those in `skipped` (stream and SSN). Everything up to
    /// `cumulative` has come or will not come.
    pub(super) fn skip_data(
        &mut self,
        tsn: u64,
        cumulative: u64,
        skipped: impl Iterator<Item = (u16, u16)> + Clone,
        ready: &mut VecDeque<ReassembledMessage>,
    ) {
        let is_abandoned = |info: &MessageInfo| {
            info.unordered
                || skipped.clone().any(|(stream, ssn)| {
                    // An SSN has 16 bits.
                    let number = Ssn(info.number as u16);
                    stream == info.stream && !number.is_after(Ssn(ssn))
                })
        };
        self.fragments.drop_dead(cumulative);
        self.fragments.drop_if(tsn, is_abandoned);
        for (name, ssn) in skipped {
            self.make_undemanded(name);
            let (next, _) = self.numbers(name);
            let number = widen_short(ssn, FIRST + next);
            self.skip_ordered(name, number, ready);
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
        self.make_undemanded(name);
        let (next, highest) = self.numbers(name);
        let near = if unordered { highest } else { next };
        let number = widen(mid, FIRST + near);
        self.interleaved
            .drop_keys((name, unordered, 0)..=(name, unordered, number));
        if !unordered {
            self.skip_ordered(name, number, ready);
        }
    }

    /// Stops waiting for ordered messages of a stream up to `number`. A stream without a state has
    /// nothing that waits, and a channel on it would have begun with a message that is not
    /// abandoned (RFC 8832 §6).
    fn skip_ordered(&mut self, name: u16, number: u64, ready: &mut VecDeque<ReassembledMessage>) {
        if let Some(stream) = self.streams.get_mut(name).filter(|it| it.exists) {
            stream.next = stream.next.max((number + 1).saturating_sub(FIRST));
            stream.deliver(&mut self.waiting, ready);
        }
    }

    /// Resets these streams, or all of them if the list is empty. Everything sent before
    /// the reset has arrived.
    pub(super) fn reset(&mut self, names: &[u16]) {
        let every: Vec<u16> = if names.is_empty() {
            self.streams.iter_mut().map(|it| it.0).collect()
        } else {
            Vec::new()
        };
        if names.is_empty() {
            self.interleaved
                .drop_keys((0, false, 0)..=(u16::MAX, true, u64::MAX));
        }
        for &name in names.iter().chain(&every) {
            self.drop_held(name);
            let Some(stream) = self.existing(name) else {
                continue;
            };
            stream.next = 0;
            stream.unordered = 0;
            if !stream.is_open {
                self.forget(name);
            }
        }
    }

    /// Drops the incomplete and waiting messages of a stream. Those of DATA are not known by
    /// stream; they come to an end with their TSNs.
    fn drop_held(&mut self, name: u16) {
        self.interleaved
            .drop_keys((name, false, 0)..=(name, true, u64::MAX));
        let waiting = self
            .existing(name)
            .map(|stream| std::mem::take(&mut stream.waiting));
        for message in waiting.unwrap_or_default().values() {
            self.waiting.remove(message);
        }
    }

    /// Returns the message that the fragment completed, if any.
    fn completed(
        &mut self,
        outcome: InsertOutcome,
        fragment: &Fragment<'_>,
    ) -> Result<Option<ReassembledMessage>, ReassemblyError> {
        match outcome {
            InsertOutcome::Incomplete => Ok(None),
            InsertOutcome::Complete(message) => {
                if !(fragment.begins && fragment.ends) {
                    self.expected = message.data.len();
                }
                Ok(Some(message))
            }
            InsertOutcome::TooLarge => Err(ReassemblyError::TooLarge {
                stream: fragment.info.stream,
            }),
            InsertOutcome::Contradiction(what) => Err(ReassemblyError::Contradiction(what)),
        }
    }
}

#[cfg(test)]
mod tests;
