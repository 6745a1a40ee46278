//! Assembles NAL units of a live stream to access units.

use std::collections::VecDeque;

use bytes::Bytes;
use glassline_media::Track;
use glassline_media::annexb::START_CODE;

use super::unit::{Error, HEAD_BYTES, Notes, UNIT_BYTES_MAX, Unit};
use crate::FrameRate;
use crate::elementary::annexb::PARAMETER_SET_BYTES_MAX;
use crate::elementary::grammar::{Content, Grammar, Leading, Role, Set, VideoFacts};

/// Collects the access units of one coding.
pub(super) struct Assembly<G> {
    grammar: G,
    pub(super) opening: Option<(Track, Option<FrameRate>)>,
    /// The parameter sets of the first keyframe, with start codes.
    pub(super) opening_sets: Vec<u8>,
    unit: Pending,
    pub(super) notes: Notes,
}

impl<G: Grammar> Default for Assembly<G> {
    fn default() -> Self {
        Self {
            grammar: G::default(),
            opening: None,
            opening_sets: Vec::new(),
            unit: Pending::default(),
            notes: Notes::default(),
        }
    }
}

/// An access unit that may get more NAL units.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    has_slice: bool,
    frame: Option<VideoFacts>,
    sets: Vec<Set>,
    /// Parameter sets that a decoder needs to start here, if the frame is a keyframe.
    start: Option<Vec<u8>>,
    /// Length of an access unit delimiter in bytes, which must stay first (H.264 7.4.1.2.3).
    delimiter: usize,
    /// Where the first NAL unit begins in the stream.
    begin: Option<u64>,
}

impl<G: Grammar> Assembly<G> {
    /// Parses the beginning of a NAL unit; of a parameter set, the whole unit. Returns false if
    /// more bytes are needed. `at`: where the unit begins in the stream.
    pub(super) fn announce(
        &mut self,
        nal: &[u8],
        is_whole: bool,
        at: u64,
        out: &mut VecDeque<Unit>,
    ) -> bool {
        let cap = match G::is_parameter_set(nal[0]) {
            true if !is_whole => return false,
            true => PARAMETER_SET_BYTES_MAX,
            false => HEAD_BYTES,
        };
        let role = match self.grammar.push(&nal[..nal.len().min(cap)]) {
            Ok(role) => role,
            Err((role, _)) => {
                self.notes.damaged_sets += 1;
                role
            }
        };
        if role.begins_unit {
            self.close(at, out);
        }
        self.unit.begin.get_or_insert(at);
        self.note(role);
        true
    }

    pub(super) fn append(&mut self, nal: &[u8]) -> Result<(), Error> {
        let unit = &mut self.unit;
        if unit.bytes.len() + nal.len() > UNIT_BYTES_MAX {
            return Err(Error::Endless);
        }
        if unit.bytes.is_empty() && G::is_delimiter(nal[0]) {
            unit.delimiter = nal.len() + 4;
        }
        unit.bytes.push(0);
        unit.bytes.extend(START_CODE);
        unit.bytes.extend_from_slice(nal);
        Ok(())
    }

    /// Drops the unit that is being collected, because a part of it is lost.
    pub(super) fn lose(&mut self) {
        self.unit = Pending::default();
        self.grammar.forget_order();
    }

    fn note(&mut self, role: Role) {
        let unit = &mut self.unit;
        match role.content {
            Content::ParameterSet(set) => unit.sets.push(set),
            Content::Picture(facts) => {
                unit.has_slice = true;
                self.notes.reordered += u64::from(facts.reordered);
                if unit.frame.is_some() {
                    return;
                }
                unit.frame = Some(facts);
                if facts.keyframe {
                    unit.start = self.grammar.sets_for(facts.pps);
                    if self.opening.is_none() {
                        let opening = self.grammar.opening(facts.pps);
                        self.opening = opening.map(|opening| {
                            let rate = opening.timing.and_then(|(n, d)| FrameRate::new(n, d));
                            (opening.track, rate)
                        });
                        self.opening_sets = unit.start.clone().unwrap_or_default();
                    }
                }
            }
            Content::OrphanSlice | Content::DamagedSlice => {
                unit.has_slice = true;
                self.notes.damaged_slices += 1;
            }
            Content::Other => {}
        }
    }

    /// Hands out the access unit, which ends at `end`. Returns whether there was ever a keyframe.
    pub(super) fn close(&mut self, end: u64, out: &mut VecDeque<Unit>) -> bool {
        let started = self.opening.is_some();
        let mut unit = std::mem::take(&mut self.unit);
        if !unit.has_slice {
            // NAL units before the first slice of a frame belong to that frame.
            self.unit = unit;
            return started;
        }
        let leading = unit.frame.map_or(Leading::No, |frame| frame.leading);
        if !started {
            self.notes.before_keyframe += 1;
            return started;
        }
        if unit.frame.is_none() || leading == Leading::Lost {
            return started;
        }
        let keyframe = unit.start.is_some();
        let mut has_inserted_sets = false;
        if let Some(sets) = unit.start.take()
            && G::SETS.iter().any(|set| !unit.sets.contains(set))
        {
            let at = unit.delimiter.min(unit.bytes.len());
            unit.bytes.splice(at..at, sets);
            has_inserted_sets = true;
        }
        out.push_back(Unit {
            data: Bytes::from(unit.bytes),
            keyframe,
            field: unit.frame.is_some_and(|frame| frame.field),
            span: unit.begin.unwrap_or(end)..end,
            has_inserted_sets,
        });
        started
    }
}
