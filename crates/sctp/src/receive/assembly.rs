//! Fragments into messages.
//!
//! Fragments that follow each other are appended to one buffer as they come: that is
//! the only copy of a payload that arrives in order. A fragment behind a hole begins a
//! buffer of its own, and the buffers of a message are joined once, when it is whole.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

/// Room that is set aside for a message that has just begun, at the most: as large as
/// the one before it, because messages of a stream resemble each other.
const EXPECTED_MAX: usize = 256 * 1024;

/// What a fragment says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) stream: u16,
    /// SSN or MID as on the wire.
    pub(super) number: u32,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
}

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) label: Label,
    pub(super) data: Bytes,
}

/// What became of a fragment.
#[derive(Debug)]
pub(super) enum Fitted {
    /// Its message is not whole yet.
    Partly,
    /// That was the last one missing.
    Whole(Whole),
    /// The message is larger than allowed.
    TooLarge,
    /// It contradicts its neighbours.
    Contradiction(&'static str),
}

/// Fragments in a row, without a hole.
#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    begins: bool,
    ends: bool,
    label: Label,
    len: usize,
    parts: SmallVec<[Vec<u8>; 1]>,
}

/// Messages that are not whole, told apart by the numbers of their fragments alone:
/// TSNs for DATA, where a message's are consecutive; FSNs within one message of I-DATA.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Ascending, apart from each other.
    runs: Vec<Run>,
    bytes: usize,
    /// Size of the latest whole message.
    expected: usize,
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub(super) at: u64,
    pub(super) begins: bool,
    pub(super) ends: bool,
    pub(super) label: Label,
    pub(super) payload: &'a [u8],
}

impl Assembly {
    /// For messages of about so many bytes.
    pub(super) fn expecting(bytes: usize) -> Self {
        Self {
            expected: bytes,
            ..Self::default()
        }
    }

    /// Payload that is held.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Buffers that are held.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Takes in a fragment that was not here before.
    pub(super) fn insert(&mut self, fragment: &Fragment<'_>, max: usize) -> Fitted {
        let len = fragment.payload.len();
        if fragment.begins && fragment.ends {
            // Most messages of most applications.
            return if len > max {
                Fitted::TooLarge
            } else {
                Fitted::Whole(Whole {
                    label: fragment.label,
                    data: Bytes::copy_from_slice(fragment.payload),
                })
            };
        }
        // Nearly always the last one.
        let place = match self.runs.last() {
            Some(run) if run.last < fragment.at => self.runs.len(),
            None => 0,
            Some(_) => self.runs.partition_point(|run| run.last < fragment.at),
        };
        let joins = |run: &Run| run.last + 1 == fragment.at && !run.ends && !fragment.begins;
        let place = if place > 0 && joins(&self.runs[place - 1]) {
            let run = &mut self.runs[place - 1];
            if !is_same(&run.label, &fragment.label) {
                return Fitted::Contradiction("fragments of different messages follow each other");
            }
            match run.parts.last_mut() {
                Some(part) => part.extend_from_slice(fragment.payload),
                None => run.parts.push(fragment.payload.to_vec()),
            }
            run.last = fragment.at;
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
            return Fitted::TooLarge;
        }
        if run.begins && run.ends {
            let run = self.runs.remove(place);
            self.bytes -= run.len;
            self.expected = run.len;
            return Fitted::Whole(whole(run));
        }
        Fitted::Partly
    }

    fn begin(&mut self, place: usize, fragment: &Fragment<'_>) {
        let len = fragment.payload.len();
        let expected = if fragment.begins {
            self.expected.min(EXPECTED_MAX).max(len)
        } else {
            len
        };
        let mut part = Vec::with_capacity(expected);
        part.extend_from_slice(fragment.payload);
        let run = Run {
            first: fragment.at,
            last: fragment.at,
            begins: fragment.begins,
            ends: fragment.ends,
            label: fragment.label,
            len,
            parts: smallvec![part],
        };
        self.runs.insert(place, run);
    }

    /// Joins the run at `place` with the one behind it if they touch.
    fn join(&mut self, place: usize) {
        let (before, after) = (&self.runs[place], &self.runs[place + 1]);
        let touch = before.last + 1 == after.first && !before.ends && !after.begins;
        if !touch || !is_same(&before.label, &after.label) {
            return;
        }
        let mut after = self.runs.remove(place + 1);
        let before = &mut self.runs[place];
        before.last = after.last;
        before.ends = after.ends;
        before.len += after.len;
        before.parts.append(&mut after.parts);
    }

    /// Drops runs that begin at or before `at` and whose message was given up.
    pub(super) fn drop_if(&mut self, at: u64, given_up: impl Fn(&Label) -> bool) {
        let bytes = &mut self.bytes;
        self.runs.retain(|run| {
            let kept = run.first > at || !given_up(&run.label);
            if !kept {
                *bytes -= run.len;
            }
            kept
        });
    }
}

fn whole(mut run: Run) -> Whole {
    let data = if run.parts.len() == 1 {
        run.parts.pop().unwrap_or_default()
    } else {
        let mut data = Vec::with_capacity(run.len);
        run.parts
            .iter()
            .for_each(|part| data.extend_from_slice(part));
        data
    };
    Whole {
        label: run.label,
        data: Bytes::from(data),
    }
}

/// The payload protocol is only the first fragment's with I-DATA.
fn is_same(one: &Label, other: &Label) -> bool {
    one.stream == other.stream
        && one.unordered == other.unordered
        && (one.number == other.number || one.unordered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LABEL: Label = Label {
        stream: 1,
        number: 2,
        ppid: 51,
        unordered: false,
    };

    fn fragment(at: u64, last: u64, payload: &[u8]) -> Fragment<'_> {
        Fragment {
            at,
            begins: at == 0,
            ends: at == last,
            label: LABEL,
            payload,
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_out_once_whatever_the_order(
            order in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle()
        ) {
            let mut assembly = Assembly::default();
            let mut found = None;
            for at in order {
                let payload = [at as u8; 3];
                match assembly.insert(&fragment(at, 39, &payload), 1000) {
                    Fitted::Whole(whole) => prop_assert!(found.replace(whole).is_none()),
                    Fitted::Partly => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let expected: Vec<u8> = (0..40).flat_map(|at| [at; 3]).collect();
            prop_assert_eq!(found.map(|it| it.data.to_vec()), Some(expected));
            prop_assert_eq!((assembly.bytes(), assembly.runs()), (0, 0));
        }
    }

    #[test]
    fn a_message_that_never_ends_is_cut_off() {
        let mut assembly = Assembly::default();
        let payload = [0; 100];
        for at in 0..10 {
            let fitted = assembly.insert(&fragment(at, 99, &payload), 1000);
            assert!(matches!(fitted, Fitted::Partly), "{fitted:?}");
        }
        let fitted = assembly.insert(&fragment(10, 99, &payload), 1000);
        assert!(matches!(fitted, Fitted::TooLarge), "{fitted:?}");
    }

    #[test]
    fn what_was_given_up_is_let_go() {
        let mut assembly = Assembly::default();
        assembly.insert(&fragment(0, 9, b"abc"), 100);
        assembly.insert(&fragment(2, 9, b"def"), 100);
        assembly.insert(&fragment(8, 9, b"ghi"), 100);
        assembly.drop_if(2, |_| true);
        assert_eq!((assembly.bytes(), assembly.runs()), (3, 1));
    }
}
