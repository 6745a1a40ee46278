//! Whole messages into their streams' order.

use std::collections::{BTreeMap, VecDeque};

use super::assembly::{Assembly, Fitted, Fragment, Label, Whole};
use crate::Ssn;
use crate::sequence::{widen, widen_short};

/// A message and its place in a stream: with I-DATA ordered and unordered ones count
/// apart.
type Key = (u16, bool, u64);

#[derive(Debug, Default)]
struct Stream {
    /// Number of the next ordered message.
    next: u64,
    /// Where unordered ones are, for widening.
    unordered: u64,
    /// Whole, behind a hole.
    waiting: BTreeMap<u64, Whole>,
    /// Size of the latest message.
    expected: usize,
}

/// All incoming streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<u16, Stream>,
    /// DATA: all messages in one, by TSN.
    fragments: Assembly,
    /// I-DATA: one a message.
    interleaved: BTreeMap<Key, Assembly>,
    /// Payload in the latter, and in whole messages that wait.
    interleaved_bytes: usize,
    waiting_bytes: usize,
    waiting: usize,
}

/// What went wrong with a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    TooLarge { stream: u16 },
    Contradiction(&'static str),
}

/// Wide numbers of messages begin here, so that a number below the first is no
/// underflow.
const FIRST: u64 = 1 << 32;

impl Streams {
    /// Payload that cannot be delivered yet.
    pub(super) const fn bytes(&self) -> usize {
        self.fragments.bytes() + self.interleaved_bytes + self.waiting_bytes
    }

    /// Buffers that are held, each of which costs something of its own.
    pub(super) fn buffers(&self) -> usize {
        self.fragments.runs() + self.interleaved.len() + self.waiting
    }

    /// A DATA chunk that was not here before.
    pub(super) fn insert_data(
        &mut self,
        fragment: &Fragment<'_>,
        max: usize,
        ready: &mut VecDeque<Whole>,
    ) -> Result<(), Fault> {
        let fitted = self.fragments.insert(fragment, max);
        let Some(whole) = whole(fitted, fragment)? else {
            return Ok(());
        };
        if whole.label.unordered {
            ready.push_back(whole);
            return Ok(());
        }
        let stream = self.streams.entry(whole.label.stream).or_default();
        let near = FIRST + stream.next;
        #[expect(clippy::cast_possible_truncation, reason = "an SSN has 16 bits")]
        let number = widen_short(whole.label.number as u16, near);
        self.order(number, whole, ready);
        Ok(())
    }

    /// An I-DATA chunk that was not here before.
    pub(super) fn insert_interleaved(
        &mut self,
        fragment: &Fragment<'_>,
        max: usize,
        ready: &mut VecDeque<Whole>,
    ) -> Result<(), Fault> {
        let label = fragment.label;
        let stream = self.streams.entry(label.stream).or_default();
        let near = if label.unordered {
            stream.unordered
        } else {
            stream.next
        };
        let number = widen(label.number, FIRST + near);
        if label.unordered {
            stream.unordered = stream.unordered.max(number.saturating_sub(FIRST));
        } else if number < FIRST + stream.next {
            return Err(Fault::Contradiction(
                "a message came that was delivered before",
            ));
        }
        let whole = if fragment.begins && fragment.ends {
            whole(Assembly::default().insert(fragment, max), fragment)?
        } else {
            let key = (label.stream, label.unordered, number);
            let expected = stream.expected;
            let new = || Assembly::expecting(expected);
            let assembly = self.interleaved.entry(key).or_insert_with(new);
            let before = assembly.bytes();
            let fitted = assembly.insert(fragment, max);
            self.interleaved_bytes = self.interleaved_bytes - before + assembly.bytes();
            let whole = whole(fitted, fragment)?;
            if let Some(whole) = &whole {
                if assembly.runs() > 0 {
                    return Err(Fault::Contradiction(
                        "a fragment lies beyond its message's end",
                    ));
                }
                stream.expected = whole.data.len();
                self.interleaved.remove(&key);
            }
            whole
        };
        let Some(whole) = whole else {
            return Ok(());
        };
        if label.unordered {
            ready.push_back(whole);
        } else {
            self.order(number, whole, ready);
        }
        Ok(())
    }

    /// An ordered message is whole: it and what waited for it are ready if it is next.
    fn order(&mut self, number: u64, whole: Whole, ready: &mut VecDeque<Whole>) {
        let name = whole.label.stream;
        let Some(stream) = self.streams.get_mut(&name) else {
            return;
        };
        if number > FIRST + stream.next {
            self.waiting_bytes += whole.data.len();
            self.waiting += 1;
            if let Some(twin) = stream.waiting.insert(number, whole) {
                self.waiting_bytes -= twin.data.len();
                self.waiting -= 1;
            }
        } else if number == FIRST + stream.next {
            stream.next += 1;
            ready.push_back(whole);
            if !stream.waiting.is_empty() {
                self.deliver(name, ready);
            }
        }
        // One that is behind was given up by the peer and arrived all the same.
    }

    /// What waits below the next number, and what follows that without a hole.
    fn deliver(&mut self, name: u16, ready: &mut VecDeque<Whole>) {
        let Some(stream) = self.streams.get_mut(&name) else {
            return;
        };
        while let Some(entry) = stream.waiting.first_entry() {
            let next = FIRST + stream.next;
            if *entry.key() > next {
                break;
            }
            stream.next += u64::from(*entry.key() == next);
            let whole = entry.remove();
            self.waiting_bytes -= whole.data.len();
            self.waiting -= 1;
            ready.push_back(whole);
        }
    }

    /// The peer gave up what lies at or before `tsn` and is not whole; ordered messages
    /// up to the ones named will not come.
    pub(super) fn skip_data(
        &mut self,
        tsn: u64,
        skipped: impl Iterator<Item = (u16, u16)> + Clone,
        ready: &mut VecDeque<Whole>,
    ) {
        let given_up = |label: &Label| {
            label.unordered
                || skipped.clone().any(|(stream, ssn)| {
                    #[expect(clippy::cast_possible_truncation, reason = "an SSN has 16 bits")]
                    let number = Ssn(label.number as u16);
                    stream == label.stream && !number.is_after(Ssn(ssn))
                })
        };
        self.fragments.drop_if(tsn, given_up);
        for (name, ssn) in skipped {
            let stream = self.streams.entry(name).or_default();
            let number = widen_short(ssn, FIRST + stream.next);
            stream.next = stream.next.max((number + 1).saturating_sub(FIRST));
            self.deliver(name, ready);
        }
    }

    /// The same for one message of I-DATA.
    pub(super) fn skip_interleaved(
        &mut self,
        name: u16,
        unordered: bool,
        mid: u32,
        ready: &mut VecDeque<Whole>,
    ) {
        let stream = self.streams.entry(name).or_default();
        let near = if unordered {
            stream.unordered
        } else {
            stream.next
        };
        let number = widen(mid, FIRST + near);
        let gone: Vec<Key> = self
            .interleaved
            .range((name, unordered, 0)..=(name, unordered, number))
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            let assembly = self.interleaved.remove(&key);
            self.interleaved_bytes -= assembly.map_or(0, |it| it.bytes());
        }
        if !unordered {
            stream.next = stream.next.max((number + 1).saturating_sub(FIRST));
            self.deliver(name, ready);
        }
    }

    /// The peer begins these again, or all of them if none is named; everything up to
    /// that moment has arrived.
    pub(super) fn reset(&mut self, names: &[u16]) {
        let all = names.is_empty();
        for (name, stream) in &mut self.streams {
            if all || names.contains(name) {
                for whole in std::mem::take(&mut stream.waiting).into_values() {
                    self.waiting_bytes -= whole.data.len();
                    self.waiting -= 1;
                }
                stream.next = 0;
                stream.unordered = 0;
            }
        }
        let bytes = &mut self.interleaved_bytes;
        self.interleaved.retain(|key, assembly| {
            let kept = !all && !names.contains(&key.0);
            if !kept {
                *bytes -= assembly.bytes();
            }
            kept
        });
    }
}

fn whole(fitted: Fitted, fragment: &Fragment<'_>) -> Result<Option<Whole>, Fault> {
    match fitted {
        Fitted::Partly => Ok(None),
        Fitted::Whole(whole) => Ok(Some(whole)),
        Fitted::TooLarge => Err(Fault::TooLarge {
            stream: fragment.label.stream,
        }),
        Fitted::Contradiction(what) => Err(Fault::Contradiction(what)),
    }
}
