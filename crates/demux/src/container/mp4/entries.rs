//! The sample entries of a track: descriptions that hold for some of its units each (ISO/IEC
//! 14496-12 §8.5.2). Recorders begin another one when their encoder starts anew with other
//! parameter sets.

use std::mem::discriminant;

use glassline_media::Kind;

use super::boxes::InMemory;
use super::description;
use crate::container::coding::{Coding, Described};
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::error::{Fault, Warnings};

/// Most sample entries of a track that are read.
const ENTRIES_MAX: usize = 1024;

/// The sample entries of a track, read.
pub(super) struct Descriptions {
    /// Description of the entry that the track is named by: the first that can be played.
    pub(super) first: Described,
    /// All entries in order.
    pub(super) all: Vec<Other>,
}

/// A sample entry beside the one that names the track.
pub(super) enum Other {
    /// The entry is the one that names the track.
    First,
    Played(Coding),
    /// Units of the entry are not played; the text says why.
    Left(String),
}

impl Descriptions {
    /// Reads `entries`; the inner error is the name of the first coding if all are unknown.
    pub(super) fn read(
        entries: &[InMemory<'_>],
        warnings: &mut Warnings,
    ) -> Result<Result<Self, String>, Fault> {
        let mut first: Option<Described> = None;
        let mut others = Vec::new();
        let mut fault = None;
        for entry in entries.iter().take(ENTRIES_MAX) {
            let described = match description::read(entry, warnings) {
                Ok(described) => described,
                Err(damaged) => {
                    let name = format!("{}: it is damaged", named(entry));
                    fault.get_or_insert(damaged);
                    Err(name)
                }
            };
            others.push(match (described, &first) {
                (Err(name), _) => Other::Left(name),
                (Ok(described), None) => {
                    first = Some(described);
                    Other::First
                }
                (Ok(described), Some(first)) => Other::beside(first, described, entry),
            });
        }
        match (first, fault, others.into_iter()) {
            (Some(first), _, others) => Ok(Ok(Self {
                first,
                all: others.collect(),
            })),
            (None, Some(fault), _) => Err(fault),
            (None, None, mut others) => Ok(Err(match others.next() {
                Some(Other::Left(name)) => name,
                _ => "it has no sample entry".to_owned(),
            })),
        }
    }
}

impl Other {
    /// Decides whether units of `described` can be units of a track that `first` names. A decoder of
    /// video takes other parameter sets and another size; nothing tells receivers of other audio.
    fn beside(first: &Described, described: Described, entry: &InMemory<'_>) -> Self {
        let is_same_coding = first.track.codec == described.track.codec
            && discriminant(&first.coding) == discriminant(&described.coding);
        if is_same_coding && first.track.kind() == Kind::Video {
            return Self::Played(described.coding);
        }
        let is_equal = match (&first.coding, &described.coding) {
            (Coding::Plain(before), Coding::Plain(here)) => before == here,
            (Coding::Pcm(before), Coding::Pcm(here)) => before == here,
            _ => false,
        };
        match is_equal && first.track == described.track {
            true => Self::First,
            false => Self::Left(named(entry)),
        }
    }
}

/// The sample entries of a track while its units are collected.
pub(super) struct SampleEntries {
    all: Vec<SampleEntry>,
    /// Place of the present one.
    current: usize,
    /// Whether units were left out, so that the next one must be a keyframe.
    is_interrupted: bool,
}

struct SampleEntry {
    /// Place of the coding among those of the track; `Err` is why units are not played.
    coding: Result<usize, String>,
    /// Units that were not played.
    left: u32,
}

impl SampleEntries {
    /// Gives the codings of all entries to the track's `builder`.
    pub(super) fn new(descriptions: Vec<Other>, builder: &mut IndexedTrackBuilder) -> Self {
        let all = descriptions.into_iter().map(|other| SampleEntry {
            coding: match other {
                Other::First => Ok(0),
                Other::Played(coding) => Ok(builder.add_coding(coding)),
                Other::Left(why) => Err(why),
            },
            left: 0,
        });
        Self {
            all: all.collect(),
            current: 0,
            is_interrupted: false,
        }
    }

    /// Lets the entry with this number, from one, hold for the units that follow. Returns the place of
    /// their coding, if they are played. A number that no entry has stands for the first one, as in
    /// files of careless writers.
    pub(super) fn enter(&mut self, number: u32) -> Option<usize> {
        let place = (number as usize).wrapping_sub(1);
        self.current = if place < self.all.len() { place } else { 0 };
        self.all[self.current].coding.as_ref().ok().copied()
    }

    /// Returns whether the next unit is played, and counts it if not. `begins`: whether a decoder can
    /// begin with the unit.
    pub(super) fn takes(&mut self, begins: bool) -> bool {
        let entry = &mut self.all[self.current];
        self.is_interrupted = entry.coding.is_err() || (self.is_interrupted && !begins);
        entry.left = entry.left.saturating_add(self.is_interrupted.into());
        !self.is_interrupted
    }

    /// Returns a text about the units that are not played; `None` if all are.
    pub(super) fn left(&self) -> Option<String> {
        let left = self.all.iter().enumerate();
        let left = left.filter(|(_, entry)| entry.left > 0);
        let texts: Vec<String> = left
            .map(|(place, entry)| {
                let why = entry.coding.as_ref().err().map_or(
                    "no keyframe follows units of another coding",
                    String::as_str,
                );
                format!("{} of sample entry {} ({why})", entry.left, place + 1)
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

fn named(entry: &InMemory<'_>) -> String {
    entry
        .kind
        .iter()
        .map(|&letter| char::from(letter))
        .collect()
}
