//! Reassembles fragments into messages.
//!
//! Consecutive fragments are appended to one buffer as they come: that is the only copy of
//! a payload that arrives in order. A fragment beyond a gap begins a buffer of its own, and
//! the buffers of a message are joined once, when it is complete.
//!
//! The queue counts the memory that it holds, and not the payload alone: a peer may send
//! fragments of one byte. It also drops what can never become complete.

use std::collections::BTreeMap;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

/// Most bytes that are reserved for a message that has just begun. The reservation is as
/// large as the message before, because messages of a stream resemble each other.
const EXPECTED_MAX: usize = 256 * 1024;

/// Memory that a run costs beyond its buffers, in bytes: its entry in a tree whose nodes may be
/// half full, and what an allocator adds to a small buffer.
pub(super) const RUN_BYTES: usize = 256;

/// The facts that a fragment tells about its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageInfo {
    /// Stream of the message.
    pub(super) stream: u16,
    /// SSN or MID as on the wire.
    pub(super) number: u32,
    /// Payload protocol identifier; with I-DATA only the first fragment has it.
    pub(super) ppid: u32,
    /// Whether the message is delivered without regard to order.
    pub(super) unordered: bool,
}

/// A message all of whose fragments arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReassembledMessage {
    /// Stream, number and identifier of the message.
    pub(super) info: MessageInfo,
    /// Content of the message.
    pub(super) data: Bytes,
}

/// Result of inserting a fragment.
#[derive(Debug)]
pub(super) enum InsertOutcome {
    /// The message is still incomplete.
    Incomplete,
    /// The fragment completed its message.
    Complete(ReassembledMessage),
    /// The message is larger than allowed.
    TooLarge,
    /// The fragment contradicts its neighbours; the text says how.
    Contradiction(&'static str),
}

/// Consecutive fragments of one message.
#[derive(Debug)]
struct FragmentRun {
    /// Number of the last fragment; that of the first is the key of the run.
    last: u64,
    /// Whether the first fragment begins the message.
    begins: bool,
    /// Whether the last fragment ends the message.
    ends: bool,
    /// Stream, number and identifier of the message.
    info: MessageInfo,
    /// Payload of all fragments, in bytes.
    len: usize,
    /// Buffers whose bytes, in order, are the payload.
    parts: SmallVec<[Vec<u8>; 1]>,
    /// Capacity of the first buffer at the beginning, in bytes.
    reserved: usize,
}

impl FragmentRun {
    /// Returns the memory of the run, in bytes. What was reserved for it, as long as that
    /// suffices, counts as it is used: there is one such run at a time.
    fn held(&self) -> usize {
        let capacity: usize = self.parts.iter().map(Vec::capacity).sum();
        let buffers = if capacity <= self.reserved {
            self.len
        } else {
            capacity
        };
        RUN_BYTES + buffers
    }

    /// Appends a fragment.
    fn append(&mut self, fragment: &Fragment<'_>) {
        match self.parts.last_mut() {
            Some(part) => part.extend_from_slice(fragment.payload),
            None => self.parts.push(fragment.payload.to_vec()),
        }
        self.last = fragment.number;
        self.len += fragment.payload.len();
        self.ends = fragment.ends;
    }
}

/// Key and number of the first fragment of a run; the order of the keys comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunStart<K> {
    key: K,
    number: u64,
}

/// Incomplete messages. Fragments are distinguished by a key and by their numbers. Those of
/// DATA all have the same key, and their TSNs, since those of a message are consecutive. Those
/// of I-DATA have the message as the key, and their FSNs.
#[derive(Debug)]
pub(super) struct ReassemblyQueue<K> {
    /// Runs of consecutive fragments, apart from each other.
    runs: BTreeMap<RunStart<K>, FragmentRun>,
    /// Payload of all runs, in bytes.
    bytes: usize,
    /// Memory of all runs, in bytes.
    held: usize,
}

impl<K> RunStart<K> {
    /// Returns the last start that a run of `key` may have.
    const fn last_of(key: K) -> Self {
        let number = u64::MAX;
        Self { key, number }
    }
}

impl<K> Default for ReassemblyQueue<K> {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
            bytes: 0,
            held: 0,
        }
    }
}

/// One fragment of a message, as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// Number of the fragment: TSN for DATA, FSN for I-DATA.
    pub(super) number: u64,
    /// Whether the fragment begins its message.
    pub(super) begins: bool,
    /// Whether the fragment ends its message.
    pub(super) ends: bool,
    /// Stream, number and identifier of the message.
    pub(super) info: MessageInfo,
    /// User data of the fragment.
    pub(super) payload: &'a [u8],
}

impl<K: Copy + Ord> ReassemblyQueue<K> {
    /// Returns the payload of incomplete messages, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the memory that incomplete messages take, in bytes.
    pub(super) const fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of runs.
    #[cfg(test)]
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are runs of `key`.
    pub(super) fn has(&self, key: K) -> bool {
        let (first, last) = (RunStart { key, number: 0 }, RunStart::last_of(key));
        self.runs.range(first..=last).next().is_some()
    }

    /// Inserts a fragment that was not here before. `max`: largest message that is allowed,
    /// in bytes. `expected`: bytes to reserve for a message that begins while no other is
    /// incomplete.
    pub(super) fn insert(
        &mut self,
        key: K,
        fragment: &Fragment<'_>,
        max: usize,
        expected: usize,
    ) -> InsertOutcome {
        if fragment.begins && fragment.ends {
            return whole(fragment, max);
        }
        let number = fragment.number;
        let earlier = RunStart { key, number: 0 }..RunStart { key, number };
        let mut before = self.runs.range_mut(earlier);
        let before = before.next_back().map(|(start, run)| (*start, run));
        let adjacent = before.filter(|(_, run)| run.last + 1 == number);
        let start = match adjacent {
            Some((start, run)) if !run.ends && !fragment.begins => {
                if !is_same(&run.info, &fragment.info) {
                    return InsertOutcome::Contradiction(
                        "fragments of different messages follow each other",
                    );
                }
                self.held -= run.held();
                run.append(fragment);
                self.held += run.held();
                start
            }
            _ => self.begin(key, fragment, expected),
        };
        self.bytes += fragment.payload.len();
        self.join(start);
        let run = &self.runs[&start];
        if run.len > max {
            return InsertOutcome::TooLarge;
        }
        if run.begins && run.ends {
            return match self.remove(start) {
                Some(run) => InsertOutcome::Complete(completed(run)),
                None => InsertOutcome::Incomplete,
            };
        }
        InsertOutcome::Incomplete
    }

    /// Begins a run with a fragment. Returns its start.
    fn begin(&mut self, key: K, fragment: &Fragment<'_>, expected: usize) -> RunStart<K> {
        let len = fragment.payload.len();
        let is_only_one = self.runs.is_empty() && fragment.begins;
        let reserved = if is_only_one {
            expected.min(EXPECTED_MAX).max(len)
        } else {
            len
        };
        let mut part = Vec::with_capacity(reserved);
        part.extend_from_slice(fragment.payload);
        let run = FragmentRun {
            last: fragment.number,
            begins: fragment.begins,
            ends: fragment.ends,
            info: fragment.info,
            len,
            parts: smallvec![part],
            reserved,
        };
        self.held += run.held();
        let number = fragment.number;
        let start = RunStart { key, number };
        self.runs.insert(start, run);
        start
    }

    /// Joins the run at `start` with the one behind it if they are adjacent.
    fn join(&mut self, start: RunStart<K>) {
        let before = &self.runs[&start];
        let next = RunStart {
            key: start.key,
            number: before.last + 1,
        };
        if before.ends {
            return;
        }
        let is_continued =
            |after: &FragmentRun| !after.begins && is_same(&before.info, &after.info);
        if !self.runs.get(&next).is_some_and(is_continued) {
            return;
        }
        let (Some(mut after), Some(before)) = (self.runs.remove(&next), self.runs.get_mut(&start))
        else {
            return;
        };
        self.held -= before.held() + after.held();
        before.last = after.last;
        before.ends = after.ends;
        before.len += after.len;
        before.reserved += after.reserved;
        before.parts.append(&mut after.parts);
        self.held += before.held();
    }

    /// Removes the run at `start`.
    fn remove(&mut self, start: RunStart<K>) -> Option<FragmentRun> {
        let run = self.runs.remove(&start)?;
        self.bytes -= run.len;
        self.held -= run.held();
        Some(run)
    }

    /// Drops all runs with keys in `keys`.
    pub(super) fn drop_keys(&mut self, keys: std::ops::RangeInclusive<K>) {
        let (key, number) = (*keys.start(), 0);
        let (first, last) = (RunStart { key, number }, RunStart::last_of(*keys.end()));
        while let Some((&start, _)) = self.runs.range(first..=last).next() {
            self.remove(start);
        }
    }
}

impl ReassemblyQueue<()> {
    /// Drops the runs that cannot become complete because everything up to `cumulative` has come
    /// or will not come: the fragment before or behind the run is not part of it. A peer that
    /// abandons a message leaves such runs.
    pub(super) fn drop_dead(&mut self, cumulative: u64) {
        while let Some((&start, run)) = self.runs.first_key_value()
            && start.number <= cumulative
            && (!run.begins || run.last < cumulative)
        {
            self.remove(start);
        }
    }

    /// Drops the run with `number`, if `is_abandoned` says that its message was abandoned. What
    /// begins before that run must have been dropped.
    pub(super) fn drop_if(&mut self, number: u64, is_abandoned: impl Fn(&MessageInfo) -> bool) {
        if let Some((&start, run)) = self.runs.first_key_value()
            && start.number <= number
            && is_abandoned(&run.info)
        {
            self.remove(start);
        }
    }
}

/// Makes a message of a fragment that begins and ends it, as most messages of most
/// applications are. `max`: largest message that is allowed, in bytes.
#[inline]
pub(super) fn whole(fragment: &Fragment<'_>, max: usize) -> InsertOutcome {
    if fragment.payload.len() > max {
        return InsertOutcome::TooLarge;
    }
    InsertOutcome::Complete(ReassembledMessage {
        info: fragment.info,
        data: Bytes::copy_from_slice(fragment.payload),
    })
}

/// Joins the buffers of a complete run.
fn completed(mut run: FragmentRun) -> ReassembledMessage {
    let data = if run.parts.len() == 1 {
        run.parts.pop().unwrap_or_default()
    } else {
        let mut data = Vec::with_capacity(run.len);
        run.parts
            .iter()
            .for_each(|part| data.extend_from_slice(part));
        data
    };
    ReassembledMessage {
        info: run.info,
        data: Bytes::from(data),
    }
}

/// Whether two fragments belong to the same message. The payload protocol identifier is not
/// compared, because with I-DATA only the first fragment has it.
fn is_same(one: &MessageInfo, other: &MessageInfo) -> bool {
    one.stream == other.stream
        && one.unordered == other.unordered
        && (one.number == other.number || one.unordered)
}

#[cfg(test)]
mod tests;
