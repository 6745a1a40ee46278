//! An H.264 file: an index of its access units, and the units one at a time.

use std::io::{self, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{Track, VideoParameters};

use crate::access_unit::{Content, PictureFacts, Role, Splitter};
use crate::annexb::{self, Scanner, Span, nal_type};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::parameter_sets::{Needed, is_common_format, timing};
use crate::reader::{Reader, Unit};
use crate::{Data, FrameRate, sniff};

/// Bytes of one access unit. Level 6.2 at its highest rate stays below 7 MB.
const UNIT_BYTES_MAX: u64 = 16 << 20;

/// Pictures of one file: 6 days at 30 a second; their index has 256 MB.
const UNITS_MAX: usize = 1 << 24;

/// Different sets of parameter sets that keyframes come without.
const PREFIXES_MAX: usize = 256;

/// Bytes that may lie before the first start code.
const LEADING_BYTES_MAX: u64 = 1 << 20;

/// The access units of an H.264 file, in order, as often as asked.
pub(crate) struct Video {
    data: Box<dyn Data>,
    index: Arc<Index>,
    tracks: [Track; 1],
    next: usize,
    /// Half-pictures before the next unit.
    halves: u64,
}

struct Index {
    entries: Vec<Entry>,
    prefixes: Vec<Vec<u8>>,
    halves: u64,
    rate: FrameRate,
    parameters: VideoParameters,
}

/// Where an access unit lies: 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    length: u32,
    /// Number of the parameter sets to put before it, plus one; 0 for none.
    prefix: u16,
    keyframe: bool,
    field: bool,
}

impl Entry {
    fn halves(&self) -> u64 {
        if self.field { 1 } else { 2 }
    }
}

impl Video {
    /// Reads the file through once and remembers where its pictures lie.
    ///
    /// `fps` counts only if the bitstream does not say.
    pub(crate) fn open(
        mut data: Box<dyn Data>,
        fps: Option<f64>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let given = match fps {
            Some(fps) => Some(
                FrameRate::from_decimal(fps).ok_or_else(|| Fault::whole(Reason::FrameRate(fps)))?,
            ),
            None => None,
        };
        sniff::check(&mut data, sniff::H264, "bare H.264 video (Annex B)")?;
        let index = Indexer::new(given, warnings).run(&mut data)?;
        Ok(Self {
            data,
            tracks: [Track::h264(index.parameters.clone())],
            index: Arc::new(index),
            next: 0,
            halves: 0,
        })
    }

    fn read(&mut self, entry: &Entry) -> Result<Bytes, Fault> {
        let length = entry.length as usize;
        let failed = |error: io::Error| {
            Fault::at(
                entry.offset,
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => Reason::Shrunk,
                    _ => Reason::Read(error),
                },
            )
        };
        self.data
            .seek(SeekFrom::Start(entry.offset))
            .map_err(failed)?;
        let mut unit = vec![0; length];
        self.data.read_exact(&mut unit).map_err(failed)?;
        if let Some(prefix) = usize::from(entry.prefix).checked_sub(1) {
            // A delimiter, if there is one, must stay first (7.4.1.2.3).
            let at = delimiter_bytes(&unit);
            unit.splice(at..at, self.index.prefixes[prefix].iter().copied());
        }
        Ok(Bytes::from(unit))
    }
}

impl Reader for Video {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length_ns(&self) -> i64 {
        self.index.rate.nanos(self.index.halves)
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        Some(self.index.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(entry) = self.index.entries.get(self.next).copied() else {
            return Ok(None);
        };
        let data = self.read(&entry)?;
        let end = self.halves + entry.halves();
        let start_ns = self.index.rate.nanos(self.halves);
        let end_ns = self.index.rate.nanos(end);
        self.next += 1;
        self.halves = end;
        Ok(Some(Unit {
            track: 0,
            start_ns,
            end_ns,
            busy_ns: end_ns,
            decode_ns: start_ns,
            keyframe: entry.keyframe,
            data,
        }))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let found = self.index.last_keyframe(|start_ns| start_ns <= to_ns);
        (self.next, self.halves) = found.unwrap_or((0, 0));
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let (_, halves) = self.index.last_keyframe(|start_ns| start_ns <= at_ns)?;
        Some(self.index.rate.nanos(halves))
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        let mut starts = self.index.keyframes();
        starts.find_map(|(_, halves)| {
            let start_ns = self.index.rate.nanos(halves);
            (start_ns > at_ns).then_some(start_ns)
        })
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            tracks: self.tracks.clone(),
            next: 0,
            halves: 0,
        })
    }
}

impl Index {
    /// Place among the entries and half-pictures before it, of each keyframe.
    fn keyframes(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut halves = 0;
        let places = self.entries.iter().enumerate().map(move |(place, entry)| {
            let before = halves;
            halves += entry.halves();
            (place, before, entry.keyframe)
        });
        places.filter_map(|(place, before, keyframe)| keyframe.then_some((place, before)))
    }

    /// The last one whose start, in nanoseconds, is early enough.
    fn last_keyframe(&self, early: impl Fn(i64) -> bool) -> Option<(usize, u64)> {
        self.keyframes()
            .take_while(|(_, halves)| early(self.rate.nanos(*halves)))
            .last()
    }
}

/// Bytes that an access unit delimiter takes at the start of a unit, 0 without.
fn delimiter_bytes(unit: &[u8]) -> usize {
    let code = if unit.starts_with(&[0, 0, 0, 1]) {
        4
    } else {
        3
    };
    match annexb::nals(unit).next() {
        Some(nal) if nal_type(nal) == nal_type::AUD => code + nal.len(),
        _ => 0,
    }
}

/// Collects the index while the file is read through.
struct Indexer<'w> {
    given: Option<FrameRate>,
    warnings: &'w mut Warnings,
    splitter: Splitter,
    entries: Vec<Entry>,
    prefixes: Vec<Vec<u8>>,
    halves: u64,
    /// Of the first keyframe, which begins the track.
    start: Option<(VideoParameters, FrameRate)>,
    skipped: u64,
    skipped_at: Option<u64>,
    unit: Option<Pending>,
    /// The last NAL unit made no sense; at the end of a file that means it is cut.
    doubtful: Option<(u64, Option<Reason>)>,
}

/// An access unit that may get more NAL units.
struct Pending {
    offset: u64,
    end: u64,
    /// Behind the NAL unit before the last.
    end_before: u64,
    has_slice: bool,
    has_sps: bool,
    has_pps: bool,
    picture: Option<PictureFacts>,
    /// The parameter sets it could start with are known.
    decodable: bool,
    prefix: u16,
}

impl<'w> Indexer<'w> {
    fn new(given: Option<FrameRate>, warnings: &'w mut Warnings) -> Self {
        Self {
            given,
            warnings,
            splitter: Splitter::default(),
            entries: Vec::new(),
            prefixes: Vec::new(),
            halves: 0,
            start: None,
            skipped: 0,
            skipped_at: None,
            unit: None,
            doubtful: None,
        }
    }

    fn run(mut self, data: &mut dyn Data) -> Result<Index, Fault> {
        data.rewind().map_err(|e| Fault::at(0, Reason::Read(e)))?;
        let mut scanner = Scanner::new(data);
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
                check_leading(scanner.leading_bytes(), self.warnings)?;
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
        let role = match self.splitter.push(head) {
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
            Content::Sps => unit.has_sps = true,
            Content::Pps => unit.has_pps = true,
            Content::Picture(facts) => {
                unit.has_slice = true;
                if facts.reordered && self.start.is_some() {
                    return Err(Fault::at(span.code, Reason::Reordered));
                }
                if unit.picture.is_none() {
                    unit.picture = Some(facts);
                    if facts.idr {
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

    /// Sees to the parameter sets while they are those of this picture.
    fn begin_keyframe(&mut self, unit: &mut Pending, facts: PictureFacts) -> Result<(), Fault> {
        let Some(needed) = self.splitter.sets().needed_by(facts.pps) else {
            return Ok(());
        };
        unit.decodable = true;
        if !unit.has_sps || !unit.has_pps {
            let prefix = join(&needed);
            let known = self.prefixes.iter().position(|have| *have == prefix);
            let number = known.unwrap_or_else(|| {
                self.prefixes.push(prefix);
                self.prefixes.len() - 1
            });
            if number >= PREFIXES_MAX {
                return Err(too_large(
                    unit.offset,
                    "the number of parameter sets",
                    PREFIXES_MAX as u64,
                    "",
                ));
            }
            unit.prefix = u16::try_from(number + 1).expect("PREFIXES_MAX fits");
        }
        if self.start.is_none() {
            self.start = self.begin_track(unit.offset, facts.pps);
        }
        Ok(())
    }

    fn begin_track(&mut self, offset: u64, pps: u32) -> Option<(VideoParameters, FrameRate)> {
        let sets = self.splitter.sets();
        let needed = sets.needed_by(pps)?;
        let (sequence, _) = sets.of_picture(pps)?;
        let (width, height) = sequence.pixel_dimensions().ok()?;
        if !is_common_format(sequence) {
            self.warnings
                .add(Some(offset), WarningReason::PictureFormat);
        }
        let parameters = VideoParameters {
            sps: needed.sps.to_vec(),
            pps: needed.pps.to_vec(),
            width,
            height,
            reordered: false,
        };
        let fallback = self.given.unwrap_or(FrameRate::DEFAULT);
        let rate = match timing(sequence) {
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
        Some((parameters, rate))
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
        let length = unit.end - unit.offset;
        if length > UNIT_BYTES_MAX {
            return Err(too_large(unit.offset, "a picture", UNIT_BYTES_MAX, "bytes"));
        }
        if self.entries.len() == UNITS_MAX {
            return Err(too_large(
                unit.offset,
                "the file",
                UNITS_MAX as u64,
                "pictures",
            ));
        }
        let entry = Entry {
            offset: unit.offset,
            length: u32::try_from(length).expect("UNIT_BYTES_MAX fits"),
            prefix: unit.prefix,
            keyframe,
            field: unit.picture.is_some_and(|picture| picture.field),
        };
        self.halves += entry.halves();
        self.entries.push(entry);
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
        match self.start {
            Some((parameters, rate)) if !self.entries.is_empty() => Ok(Index {
                entries: self.entries,
                prefixes: self.prefixes,
                halves: self.halves,
                rate,
                parameters,
            }),
            _ if found_nothing => {
                let searched = file_bytes;
                Err(Fault::at(0, Reason::NoStartCode { searched }))
            }
            _ if self.skipped == 0 => Err(Fault::whole(Reason::NoKeyframe("it holds no picture"))),
            _ => Err(Fault::whole(Reason::NoKeyframe(
                "no IDR picture with its parameter sets, so no decoder could start",
            ))),
        }
    }
}

impl Pending {
    fn at(offset: u64) -> Self {
        Self {
            offset,
            end: offset,
            end_before: offset,
            has_slice: false,
            has_sps: false,
            has_pps: false,
            picture: None,
            decodable: false,
            prefix: 0,
        }
    }
}

fn check_leading(leading: u64, warnings: &mut Warnings) -> Result<(), Fault> {
    if leading > LEADING_BYTES_MAX {
        let searched = LEADING_BYTES_MAX;
        return Err(Fault::at(0, Reason::NoStartCode { searched }));
    }
    if leading > 0 {
        warnings.add(Some(0), WarningReason::Skipped(leading));
    }
    Ok(())
}

fn too_large(offset: u64, what: &'static str, limit: u64, unit: &'static str) -> Fault {
    let expected = "an H.264 file";
    Fault::at(
        offset,
        Reason::TooLarge {
            what,
            limit,
            unit,
            expected,
        },
    )
}

fn join(needed: &Needed<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for nal in std::iter::once(&needed.sps).chain(&needed.all_pps) {
        bytes.extend([0, 0, 0, 1]);
        bytes.extend_from_slice(nal);
    }
    bytes
}
