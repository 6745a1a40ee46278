//! What a request for a part of the past gets: fragments of files, one behind the other.
//!
//! ```text
//!  file 1 │ … │ K ── │ ── │ ── │        file 2 │ K ── │ ── │ ── │ …
//!           wanted from ┘      gap: cut, or joined      ┘ wanted to
//!             └ begins at the keyframe before
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_cmaf::{FragmentEntry, Header, ReadError, RecordedFile};
use glassline_recording::{CopyState, TimeRange};

use super::NoFootage;
use super::assembly::{Assembly, Footage, OpenFootage, Piece, Shift};
use super::distant_file::DistantFile;
use super::growing_files::FileOpener;
use super::holdings::PlacedFile;
use super::stretch::Stretch;

/// Largest jump between two fragments that is no gap.
const JITTER: Duration = Duration::from_millis(500);

/// The reason why a copy is not read.
const NO_STORAGE: &str =
    "only its copy in object storage is left, and `recordings.copy` names no storage";

/// A part of the past that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// First instant that is wanted; footage begins at the keyframe before.
    pub from: SystemTime,
    /// First instant behind what is wanted.
    pub to: SystemTime,
    /// Whether the part ends at the first gap. Otherwise what is behind a gap follows at once.
    pub stops_at_gap: bool,
}

impl Wanted {
    /// Returns the span of time that is wanted.
    pub const fn range(&self) -> TimeRange {
        TimeRange {
            from: self.from,
            to: self.to,
        }
    }
}

/// Fragments in the order in which they play, under one header.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) header: Header,
    /// Fragments, each with its file and its move in time.
    fragments: Vec<PlannedFragment>,
    /// Time of the first frame.
    pub(super) from: SystemTime,
    /// End of the last frame.
    pub(super) to: SystemTime,
}

#[derive(Debug)]
struct PlannedFragment {
    of: Footage,
    entry: FragmentEntry,
    /// Nanoseconds from the decode time in the file to the one in the answer.
    moved: i128,
}

/// A file with its fragments.
pub(super) struct OpenedFile {
    pub(super) footage: Footage,
    pub(super) file: RecordedFile<OpenFootage>,
    /// Time of the first frame.
    start: SystemTime,
}

impl OpenedFile {
    /// Opens a file; `None` if retention has removed it meanwhile. Blocks.
    pub(super) fn open(
        opener: &FileOpener,
        placed: &PlacedFile,
    ) -> Result<Option<Self>, NoFootage> {
        let file = &placed.file;
        let unreadable = |error: &dyn std::fmt::Display| {
            NoFootage::Unreadable(format!("{}: {error}", file.path.display()))
        };
        let (footage, opened) = match &placed.server {
            None => {
                let Some(held) = opener.catalogue.hold(file) else {
                    return match file.copy {
                        CopyState::Alone => Err(unreadable(&NO_STORAGE)),
                        _ => Ok(None),
                    };
                };
                let footage = Footage::here(held);
                let opened = opener.growing.open(&file.path, || footage.open());
                (footage, opened)
            }
            Some(server) => {
                let (server, stream) = (server.clone(), file.stream.clone());
                let distant = DistantFile::new(server, stream, file.path.clone(), file.bytes);
                let fragments = distant
                    .fragments()
                    .map_err(|error| NoFootage::Away(error.to_string()))?;
                let Some(fragments) = fragments else {
                    return Ok(None);
                };
                let footage = Footage::there(distant);
                let open = footage.open().map_err(|error| unreadable(&error))?;
                (footage, RecordedFile::open_with(open, fragments))
            }
        };
        match opened {
            Ok(opened) => Ok(Some(Self {
                footage,
                file: opened,
                start: file.start,
            })),
            // The file was just begun.
            Err(ReadError::NoHeader { .. }) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Returns the time of the first frame of a fragment.
    pub(super) fn time_of(&self, entry: &FragmentEntry) -> SystemTime {
        time_of(&self.file, self.start, entry)
    }

    /// Returns the fragments of what is wanted, from one that a decoder can start with.
    pub(super) fn fragments(&self, wanted: &Wanted) -> &[FragmentEntry] {
        let all = self.file.fragments();
        let end = all.partition_point(|it| self.time_of(it) < wanted.to);
        let begun = all.partition_point(|it| self.time_of(it) <= wanted.from);
        let is_over = |it: &FragmentEntry| self.time_of(it) + it.duration <= wanted.from;
        // The file may end before what is wanted begins.
        if begun == all.len() && all.last().is_none_or(is_over) {
            return &[];
        }
        let start = all[..begun].iter().rposition(|it| it.starts_with_sync);
        let start = start.or_else(|| all.iter().position(|it| it.starts_with_sync));
        all.get(start.unwrap_or(end)..end).unwrap_or_default()
    }

    /// Returns those of `fragments` that another recorder of the stream does not have, whose newest frame ends
    /// at `end`; from a keyframe on.
    pub(super) fn behind<'a>(
        &self,
        fragments: &'a [FragmentEntry],
        end: SystemTime,
    ) -> &'a [FragmentEntry] {
        let since_1970 = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let begins = |it: &FragmentEntry| since_1970(self.time_of(it));
        let first = FragmentEntry::taking_over(fragments, since_1970(end), begins);
        &fragments[first.unwrap_or(fragments.len())..]
    }
}

/// Returns the time of the first frame of a fragment of `file`, which begins at `start`.
pub(super) fn time_of(
    file: &RecordedFile<OpenFootage>,
    start: SystemTime,
    entry: &FragmentEntry,
) -> SystemTime {
    if !entry.wall_clock.is_zero() {
        return UNIX_EPOCH + entry.wall_clock;
    }
    let first = file.fragments().first().unwrap_or(entry);
    start + entry.decode_time.saturating_since(first.decode_time)
}

impl Plan {
    /// Finds the footage of what is wanted in `stretches`. Blocks.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if there is none.
    pub(super) fn of(
        opener: &FileOpener,
        stretches: &[Stretch],
        wanted: &Wanted,
    ) -> Result<Self, NoFootage> {
        let mut plan: Option<Self> = None;
        let mut server = None;
        for placed in stretches.iter().flat_map(|it| &it.files) {
            let Some(opened) = OpenedFile::open(opener, placed)? else {
                continue;
            };
            let mut fragments = opened.fragments(wanted);
            if let Some(plan) = plan.as_ref().filter(|_| placed.server() != server) {
                fragments = opened.behind(fragments, plan.to);
            }
            let Some(first) = fragments.first() else {
                continue;
            };
            let from = opened.time_of(first);
            let plan = plan.get_or_insert_with(|| Self {
                header: opened.file.header().clone(),
                fragments: Vec::new(),
                from,
                to: from,
            });
            let is_gap = from > plan.to + JITTER;
            if is_gap && wanted.stops_at_gap || plan.header != *opened.file.header() {
                break;
            }
            server = placed.server();
            plan.add(&opened, fragments)?;
        }
        plan.ok_or(NoFootage::Nothing)
    }

    fn add(&mut self, opened: &OpenedFile, fragments: &[FragmentEntry]) -> Result<(), NoFootage> {
        for entry in fragments {
            let nanos = i128::from(entry.decode_time.nanos());
            let moved = match self.fragments.last() {
                None => -nanos,
                Some(last) => {
                    let end =
                        i128::from(last.entry.decode_time.nanos()) + as_nanos(last.entry.duration);
                    let jump = nanos - end;
                    match jump.unsigned_abs() <= JITTER.as_nanos() {
                        true => last.moved,
                        false => {
                            let moved = end + last.moved - nanos;
                            moved + overlap(last, opened, entry, moved)?
                        }
                    }
                }
            };
            self.fragments.push(PlannedFragment {
                of: opened.footage.clone(),
                entry: *entry,
                moved,
            });
            self.to = self.to.max(opened.time_of(entry) + entry.duration);
        }
        Ok(())
    }

    /// Returns the fragments behind their header: playable from the first bytes on, times counted from zero.
    pub(super) fn assembly(&self) -> Assembly {
        let mut assembly = Assembly::default();
        assembly.push(Piece::Bytes(self.header.segment()));
        let timescales: Arc<[u32]> = self
            .header
            .tracks()
            .iter()
            .map(glassline_cmaf::CmafTrack::timescale)
            .collect();
        for PlannedFragment { of, entry, moved } in &self.fragments {
            assembly.push(Piece::Fragment {
                of: of.clone(),
                offset: entry.offset,
                bytes: entry.bytes,
                shift: Shift {
                    timescales: Arc::clone(&timescales),
                    nanos: *moved,
                },
            });
        }
        assembly
    }
}

/// Returns the nanoseconds for which the tracks of `last` go on behind the beginning of the fragment `entry` of
/// `opened`, moved by `moved`: fragments are cut by their video, and the audio of one run ends elsewhere than
/// that of another one begins. No track may go back in time where two runs meet.
fn overlap(
    last: &PlannedFragment,
    opened: &OpenedFile,
    entry: &FragmentEntry,
    moved: i128,
) -> Result<i128, NoFootage> {
    let open = last.of.open();
    let open = open.map_err(|error| NoFootage::Unreadable(error.to_string()))?;
    let unreadable = |error: ReadError| NoFootage::Unreadable(error.to_string());
    let before = RecordedFile::open_with(open, vec![last.entry]).map_err(unreadable)?;
    let before = track_times(&before, &last.entry).map_err(unreadable)?;
    let behind = track_times(&opened.file, entry).map_err(unreadable)?;
    let overlaps = behind.iter().filter_map(|(track, times)| {
        let (_, before) = before.iter().find(|(it, _)| it == track)?;
        Some(before.end + last.moved - (times.start + moved))
    });
    Ok(overlaps.max().unwrap_or(0).max(0))
}

/// Returns the decode times of each track of a fragment in nanoseconds, by the track's position.
fn track_times(
    file: &RecordedFile<OpenFootage>,
    entry: &FragmentEntry,
) -> Result<Vec<(usize, Range<i128>)>, ReadError> {
    let fragment = file.fragment(entry)?;
    let tracks = fragment.tracks.iter().map(|it| {
        let track = &it.track;
        let rate = i128::from(file.header().tracks()[track.position].timescale());
        let nanos = |ticks: u64| i128::from(ticks) * 1_000_000_000 / rate;
        let end = track.decode_ticks + track.duration_ticks();
        (track.position, nanos(track.decode_ticks)..nanos(end))
    });
    Ok(tracks.collect())
}

fn as_nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}
