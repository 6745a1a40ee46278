//! Reassembles fragments into messages.
//!
//! Consecutive fragments are appended to one buffer as they come: that is the only copy of
//! a payload that arrives in order. A fragment beyond a gap begins a buffer of its own, and
//! the buffers of a message are joined once, when it is complete.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

/// Most bytes that are reserved for a message that has just begun. The reservation is as
/// large as the message before, because messages of a stream resemble each other.
const EXPECTED_MAX: usize = 256 * 1024;

/// What a fragment says about its message.
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
    /// Number of the first fragment.
    first: u64,
    /// Number of the last fragment.
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
}

/// Incomplete messages, distinguished by the numbers of their fragments alone: TSNs for
/// DATA, where a message's are consecutive; FSNs within one message of I-DATA.
#[derive(Debug, Default)]
pub(super) struct ReassemblyQueue {
    /// Runs of consecutive fragments: ascending, apart from each other.
    runs: Vec<FragmentRun>,
    /// Payload of all runs, in bytes.
    bytes: usize,
    /// Size of the latest complete message, in bytes.
    expected: usize,
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

impl ReassemblyQueue {
    /// Returns an empty queue that reserves `bytes` for its first message.
    pub(super) fn expecting(bytes: usize) -> Self {
        Self {
            expected: bytes,
            ..Self::default()
        }
    }

    /// Returns the payload of incomplete messages, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of runs.
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Inserts a fragment that was not here before. `max`: largest message that is allowed,
    /// in bytes.
    pub(super) fn insert(&mut self, fragment: &Fragment<'_>, max: usize) -> InsertOutcome {
        let len = fragment.payload.len();
        if fragment.begins && fragment.ends {
            return whole(fragment, max);
        }
        // The fragment nearly always follows the last run.
        let place = match self.runs.last() {
            Some(run) if run.last < fragment.number => self.runs.len(),
            None => 0,
            Some(_) => self.runs.partition_point(|run| run.last < fragment.number),
        };
        let joins =
            |run: &FragmentRun| run.last + 1 == fragment.number && !run.ends && !fragment.begins;
        let place = if place > 0 && joins(&self.runs[place - 1]) {
            let run = &mut self.runs[place - 1];
            if !is_same(&run.info, &fragment.info) {
                return InsertOutcome::Contradiction(
                    "fragments of different messages follow each other",
                );
            }
            match run.parts.last_mut() {
                Some(part) => part.extend_from_slice(fragment.payload),
                None => run.parts.push(fragment.payload.to_vec()),
            }
            run.last = fragment.number;
            run.len += len;
            run.ends = fragment.ends;
            place - 1
        } else {
            self.begin(place, fragment);
            place
        };
        self.bytes += len;
        if self.runs.len() > place + 1 {
            self.join(place);
        }
        let run = &self.runs[place];
        if run.len > max {
            return InsertOutcome::TooLarge;
        }
        if run.begins && run.ends {
            let run = self.runs.remove(place);
            self.bytes -= run.len;
            self.expected = run.len;
            return InsertOutcome::Complete(completed(run));
        }
        InsertOutcome::Incomplete
    }

    /// Begins a run at index `place` with a fragment.
    fn begin(&mut self, place: usize, fragment: &Fragment<'_>) {
        let len = fragment.payload.len();
        let expected = if fragment.begins {
            self.expected.min(EXPECTED_MAX).max(len)
        } else {
            len
        };
        let mut part = Vec::with_capacity(expected);
        part.extend_from_slice(fragment.payload);
        let run = FragmentRun {
            first: fragment.number,
            last: fragment.number,
            begins: fragment.begins,
            ends: fragment.ends,
            info: fragment.info,
            len,
            parts: smallvec![part],
        };
        self.runs.insert(place, run);
    }

    /// Joins the run at index `place` with the one behind it if they are adjacent.
    fn join(&mut self, place: usize) {
        let (before, after) = (&self.runs[place], &self.runs[place + 1]);
        let is_adjacent = before.last + 1 == after.first && !before.ends && !after.begins;
        if !is_adjacent || !is_same(&before.info, &after.info) {
            return;
        }
        let mut after = self.runs.remove(place + 1);
        let before = &mut self.runs[place];
        before.last = after.last;
        before.ends = after.ends;
        before.len += after.len;
        before.parts.append(&mut after.parts);
    }

    /// Drops runs that begin at or before `number` and whose message `is_abandoned` says was
    /// abandoned.
    pub(super) fn drop_if(&mut self, number: u64, is_abandoned: impl Fn(&MessageInfo) -> bool) {
        let bytes = &mut self.bytes;
        self.runs.retain(|run| {
            let kept = run.first > number || !is_abandoned(&run.info);
            if !kept {
                *bytes -= run.len;
            }
            kept
        });
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LABEL: MessageInfo = MessageInfo {
        stream: 1,
        number: 2,
        ppid: 51,
        unordered: false,
    };

    fn fragment(number: u64, last: u64, payload: &[u8]) -> Fragment<'_> {
        Fragment {
            number,
            begins: number == 0,
            ends: number == last,
            info: LABEL,
            payload,
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_out_once_whatever_the_order(
            order in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let mut queue = ReassemblyQueue::default();
            let mut found = None;
            for number in order {
                let payload = [number as u8; 3];
                match queue.insert(&fragment(number, 39, &payload), 1000) {
                    InsertOutcome::Complete(message) => prop_assert!(found.replace(message).is_none()),
                    InsertOutcome::Incomplete => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let expected: Vec<u8> = (0..40).flat_map(|number| [number; 3]).collect();
            prop_assert_eq!(found.map(|it| it.data.to_vec()), Some(expected));
            prop_assert_eq!((queue.bytes(), queue.run_count()), (0, 0));
        }
    }

    #[test]
    fn a_message_that_never_ends_is_cut_off() {
        let mut queue = ReassemblyQueue::default();
        let payload = [0; 100];
        for number in 0..10 {
            let outcome = queue.insert(&fragment(number, 99, &payload), 1000);
            assert!(matches!(outcome, InsertOutcome::Incomplete), "{outcome:?}");
        }
        let outcome = queue.insert(&fragment(10, 99, &payload), 1000);
        assert!(matches!(outcome, InsertOutcome::TooLarge), "{outcome:?}");
    }

    #[test]
    fn what_was_given_up_is_let_go() {
        let mut queue = ReassemblyQueue::default();
        queue.insert(&fragment(0, 9, b"abc"), 100);
        queue.insert(&fragment(2, 9, b"def"), 100);
        queue.insert(&fragment(8, 9, b"ghi"), 100);
        queue.drop_if(2, |_| true);
        assert_eq!((queue.bytes(), queue.run_count()), (3, 1));
    }
}
