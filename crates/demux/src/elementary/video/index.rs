//! The index of a byte stream of H.264 or H.265, built in one pass: location and output order
//! of each picture, and what its keyframes need.

use glassline_media::Track;

use crate::elementary::annexb::{Scanner, Span};
use crate::elementary::display_order::DisplayOrder;
use crate::elementary::grammar::{Content, Grammar, Leading, OutputOrder, Role, Set, VideoFacts};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::{Data, FrameRate};

/// Longest access unit in bytes. Level 6.2 at its highest bitrate stays below 7 MB.
const UNIT_BYTES_MAX: u64 = 16 << 20;

/// Most pictures of one file: 6 days at 30 per second. Their index takes 400 MB.
const UNITS_MAX: usize = 1 << 24;

/// Most different parameter sets that must be inserted before keyframes.
const PREFIXES_MAX: usize = 256;

/// Most bytes before the first start code.
const LEADING_BYTES_MAX: u64 = 1 << 20;

pub(super) struct Index {
    pub(super) entries: Vec<Entry>,
    pub(super) prefixes: Vec<Vec<u8>>,
    /// Length of one pass, in field periods (half the duration of a frame).
    pub(super) halves: u64,
    /// Field periods by which decoding is ahead of output, so that every picture is decoded
    /// before it is output.
    pub(super) ahead: u64,
    pub(super) rate: FrameRate,
    pub(super) track: Track,
}

/// Location and order of an access unit, in 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Field periods by which the picture is output later than in decoding order; negative if
    /// earlier.
    pub(super) later: i32,
    /// Index of the parameter sets to insert before the unit, plus one; 0 for none.
    pub(super) prefix: u16,
    pub(super) keyframe: bool,
    pub(super) field: bool,
    /// Whether a decoder that starts at the keyframe before this picture cannot decode it.
    pub(super) needs_earlier: bool,
}

impl Entry {
    pub(super) fn halves(&self) -> u64 {
        if self.field { 1 } else { 2 }
    }
}

/// An entry's index, and the field periods before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPosition {
    pub(super) number: usize,
    pub(super) halves: u64,
    /// Field periods before the entry in output order.
    pub(super) shown: u64,
}

impl Index {
    /// Returns the time of field period `shown` in ns.
    pub(super) fn nanos(&self, shown: u64) -> i64 {
        self.rate.nanos(shown)
    }

    /// Returns when the picture behind `halves` field periods must be decoded, in ns.
    pub(super) fn decode_nanos(&self, halves: u64) -> i64 {
        match halves.checked_sub(self.ahead) {
            Some(halves) => self.rate.nanos(halves),
            None => -self.rate.nanos(self.ahead - halves),
        }
    }

    pub(super) fn keyframes(&self) -> impl Iterator<Item = EntryPosition> + '_ {
        let mut halves = 0;
        let positions = self.entries.iter().enumerate().map(move |(number, entry)| {
            let before = halves;
            halves += entry.halves();
            let shown = before.saturating_add_signed(entry.later.into());
            let position = EntryPosition {
                number,
                halves: before,
                shown,
            };
            (position, entry.keyframe)
        });
        positions.filter_map(|(position, keyframe)| keyframe.then_some(position))
    }

    /// Returns the last keyframe whose output time in ns satisfies `early`.
    pub(super) fn last_keyframe(&self, early: impl Fn(i64) -> bool) -> Option<EntryPosition> {
        self.keyframes()
            .take_while(|position| early(self.nanos(position.shown)))
            .last()
    }
}

/// Builds the index while the file is read.
pub(super) struct Indexer<'w, G> {
    given: Option<FrameRate>,
    warnings: &'w mut Warnings,
    grammar: G,
    order: DisplayOrder,
    /// Field periods of the entries that were output.
    shown: u64,
    reordered: bool,
    entries: Vec<Entry>,
    prefixes: Vec<Vec<u8>>,
    halves: u64,
    last_order: OutputOrder,
    /// Track and frame rate of the first keyframe.
    start: Option<(Track, FrameRate)>,
    skipped: u64,
    skipped_at: Option<u64>,
    unit: Option<Pending>,
    /// The last NAL unit, if it was damaged: at the end of a file this means that the file is
    /// cut.
    doubtful: Option<(u64, Option<Reason>)>,
}

/// An access unit that may get more NAL units.
struct Pending {
    offset: u64,
    end: u64,
    /// Offset behind the last NAL unit but one.
    end_before: u64,
    has_slice: bool,
    sets: Vec<Set>,
    picture: Option<VideoFacts>,
    /// Whether the parameter sets that the picture needs are known.
    decodable: bool,
    prefix: u16,
}

impl<'w, G: Grammar> Indexer<'w, G> {
    pub(super) fn new(given: Option<FrameRate>, warnings: &'w mut Warnings) -> Self {
        Self {
            given,
            warnings,
            grammar: G::default(),
            order: DisplayOrder::default(),
            shown: 0,
            reordered: false,
            entries: Vec::new(),
            prefixes: Vec::new(),
            halves: 0,
            last_order: OutputOrder {
                begins_sequence: true,
                order: 0,
            },
            start: None,
            skipped: 0,
            skipped_at: None,
            unit: None,
            doubtful: None,
        }
    }

    pub(super) fn run(mut self, data: &mut dyn Data) -> Result<Index, Fault> {
        data.rewind().map_err(|e| Fault::at(0, Reason::Read(e)))?;
        let mut scanner = Scanner::new(data, G::is_parameter_set);
        loop {
            let at = scanner.read_bytes();
            let Some((span, head)) = scanner
                .next_nal()
                .map_err(|e| Fault::at(at, Reason::Read(e)))?
            else {
                break;
            };
            self.take(span, head)?;
            if self.entries.is_empty() {
                self.check_leading(scanner.leading_bytes())?;
            }
        }
        let searched = scanner.read_bytes();
        self.finish(searched)
    }

    fn take(&mut self, span: Span, head: &[u8]) -> Result<(), Fault> {
        if let Some((offset, Some(reason))) = self.doubtful.take() {
            return Err(Fault::at(offset, reason));
        }
        if head.is_empty() {
            self.doubtful = Some((span.code, None));
            return Ok(());
        }
        let role = match self.grammar.push(head) {
            Ok(role) => role,
            Err((role, reason)) => {
                self.doubtful = Some((span.start, Some(reason)));
                role
            }
        };
        if role.begins_unit {
            self.close_unit()?;
        }
        let mut unit = self.unit.take().unwrap_or_else(|| Pending::at(span.code));
        unit.end_before = unit.end;
        unit.end = span.end;
        self.add_to(&mut unit, role, span)?;
        self.unit = Some(unit);
        Ok(())
    }

    fn add_to(&mut self, unit: &mut Pending, role: Role, span: Span) -> Result<(), Fault> {
        match role.content {
            Content::ParameterSet(set) => unit.sets.push(set),
            Content::Picture(facts) => {
                unit.has_slice = true;
                if facts.reordered && self.start.is_some() {
                    self.note_reordered(span.code);
                }
                if unit.picture.is_none() {
                    unit.picture = Some(facts);
                    if facts.keyframe {
                        self.begin_keyframe(unit, facts)?;
                    }
                }
            }
            Content::OrphanSlice => unit.has_slice = true,
            Content::DamagedSlice => {
                unit.has_slice = true;
                self.doubtful = Some((span.start, None));
            }
            Content::Other => {}
        }
        Ok(())
    }

    /// Stores the parameter sets of a keyframe while they are still those of this picture.
    fn begin_keyframe(&mut self, unit: &mut Pending, facts: VideoFacts) -> Result<(), Fault> {
        let Some(prefix) = self.grammar.sets_for(facts.pps) else {
            return Ok(());
        };
        unit.decodable = true;
        if G::SETS.iter().any(|set| !unit.sets.contains(set)) {
            let known = self.prefixes.iter().position(|have| *have == prefix);
            let number = known.unwrap_or_else(|| {
                self.prefixes.push(prefix);
                self.prefixes.len() - 1
            });
            if number >= PREFIXES_MAX {
                let what = "the number of parameter sets";
                return Err(too_large::<G>(unit.offset, what, PREFIXES_MAX as u64, ""));
            }
            unit.prefix = u16::try_from(number + 1).expect("PREFIXES_MAX fits");
        }
        if self.start.is_none() {
            self.start = self.begin_track(unit.offset, facts.pps);
        }
        Ok(())
    }

    fn note_reordered(&mut self, offset: u64) {
        self.reordered = true;
        self.warnings.add(Some(offset), WarningReason::Reordered);
    }

    fn begin_track(&mut self, offset: u64, pps: u32) -> Option<(Track, FrameRate)> {
        let opening = self.grammar.opening(pps)?;
        if !opening.common_format {
            let reason = WarningReason::FrameFormat;
            self.warnings.add(Some(offset), reason);
        }
        let fallback = self.given.unwrap_or(FrameRate::DEFAULT);
        let rate = match opening.timing {
            None => fallback,
            Some((numerator, denominator)) => match FrameRate::new(numerator, denominator) {
                Some(rate) => {
                    let differs = |given: &FrameRate| (given.fps() / rate.fps() - 1.0).abs() > 1e-3;
                    if self.given.as_ref().is_some_and(differs) {
                        let reason = WarningReason::FrameRateIgnored(rate);
                        self.warnings.add(Some(offset), reason);
                    }
                    rate
                }
                None => {
                    let reason = WarningReason::FrameRateImplausible {
                        numerator,
                        denominator,
                        used: fallback,
                    };
                    self.warnings.add(Some(offset), reason);
                    fallback
                }
            },
        };
        Some((opening.track, rate))
    }

    fn close_unit(&mut self) -> Result<(), Fault> {
        let Some(unit) = self.unit.take().filter(|unit| unit.has_slice) else {
            return Ok(());
        };
        let keyframe = unit.decodable;
        if self.start.is_none() {
            self.skipped += 1;
            self.skipped_at = self.skipped_at.or(Some(unit.offset));
            return Ok(());
        }
        if unit.picture.is_none() {
            let reason = WarningReason::MissingParameterSet;
            self.warnings.add(Some(unit.offset), reason);
        }
        let leading = unit.picture.map_or(Leading::No, |picture| picture.leading);
        if leading == Leading::Lost {
            return Ok(());
        }
        let length = unit.end - unit.offset;
        if length > UNIT_BYTES_MAX {
            let what = "a picture";
            return Err(too_large::<G>(unit.offset, what, UNIT_BYTES_MAX, "bytes"));
        }
        if self.entries.len() == UNITS_MAX {
            let (what, limit) = ("the file", UNITS_MAX as u64);
            return Err(too_large::<G>(unit.offset, what, limit, "pictures"));
        }
        let entry = Entry {
            offset: unit.offset,
            length: u32::try_from(length).expect("UNIT_BYTES_MAX fits"),
            // The output order is added when the picture is output.
            later: -i32::try_from(self.halves).expect("twice UNITS_MAX fits"),
            prefix: unit.prefix,
            keyframe,
            field: unit.picture.is_some_and(|picture| picture.field),
            needs_earlier: leading == Leading::NeedsEarlier,
        };
        self.halves += entry.halves();
        self.last_order = match unit.picture {
            Some(picture) => picture.output_order,
            // An undecodable picture stays with the one before it.
            None => OutputOrder {
                begins_sequence: false,
                ..self.last_order
            },
        };
        let number = self.entries.len();
        self.entries.push(entry);
        let (entries, shown) = (&mut self.entries, &mut self.shown);
        self.order.push(number, self.last_order, |number| {
            set_output_order(&mut entries[number], shown);
        });
        Ok(())
    }

    fn finish(mut self, file_bytes: u64) -> Result<Index, Fault> {
        if let Some((offset, _)) = self.doubtful.take() {
            let reason = WarningReason::TruncatedUnit;
            self.warnings.add(Some(offset), reason);
            if let Some(unit) = self.unit.as_mut().filter(|unit| offset < unit.end) {
                unit.end = unit.end_before;
                unit.has_slice = unit.picture.is_some();
            }
        }
        let found_nothing = self.unit.is_none() && self.entries.is_empty() && self.skipped == 0;
        self.close_unit()?;
        if self.skipped > 0 {
            let reason = WarningReason::BeforeKeyframe(self.skipped);
            self.warnings.add(self.skipped_at, reason);
        }
        let (entries, shown) = (&mut self.entries, &mut self.shown);
        let finish = |number: usize| set_output_order(&mut entries[number], shown);
        std::mem::take(&mut self.order).finish(finish);
        match self.start.take() {
            Some((track, rate)) if !self.entries.is_empty() => Ok(self.index(track, rate)),
            _ if found_nothing => {
                let searched = file_bytes;
                Err(Fault::at(0, no_start_code::<G>(searched)))
            }
            _ if self.skipped == 0 => Err(Fault::whole(Reason::NoKeyframe("it holds no picture"))),
            _ => Err(Fault::whole(Reason::NoKeyframe(
                "no IDR picture (H.265: IRAP) with its parameter sets, so no decoder could start",
            ))),
        }
    }

    fn index(self, mut track: Track, rate: FrameRate) -> Index {
        let mut entries = self.entries;
        // Some encoders write random order counts and output pictures in decoding order.
        if !self.reordered {
            entries.iter_mut().for_each(|entry| entry.later = 0);
        }
        let earliest = entries.iter().map(|entry| entry.later).min();
        track.video.reordered = self.reordered;
        Index {
            ahead: earliest.map_or(0, |later| u64::from(later.min(0).unsigned_abs())),
            entries,
            prefixes: self.prefixes,
            halves: self.halves,
            rate,
            track,
        }
    }

    fn check_leading(&mut self, leading: u64) -> Result<(), Fault> {
        if leading > LEADING_BYTES_MAX {
            let reason = no_start_code::<G>(LEADING_BYTES_MAX);
            return Err(Fault::at(0, reason));
        }
        if leading > 0 {
            self.warnings.add(Some(0), WarningReason::Skipped(leading));
        }
        Ok(())
    }
}

fn set_output_order(entry: &mut Entry, shown: &mut u64) {
    entry.later += i32::try_from(*shown).expect("twice UNITS_MAX fits");
    *shown += entry.halves();
}

impl Pending {
    fn at(offset: u64) -> Self {
        Self {
            offset,
            end: offset,
            end_before: offset,
            has_slice: false,
            sets: Vec::new(),
            picture: None,
            decodable: false,
            prefix: 0,
        }
    }
}

fn no_start_code<G: Grammar>(searched: u64) -> Reason {
    let coding = G::NAME;
    Reason::NoStartCode { coding, searched }
}

fn too_large<G: Grammar>(offset: u64, what: &'static str, limit: u64, unit: &'static str) -> Fault {
    Fault::too_large(offset, G::NAME, what, limit, unit)
}
