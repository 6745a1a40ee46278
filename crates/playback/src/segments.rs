//! Recorded files as segments of HLS: fragments that stand side by side, as they are.
//!
//! ```text
//!  file 1 │ K ─ ─ ─ K ─ ─ ─ K ─ │ file 2 │ K ─ ─ …  grows: its last segment waits for the next keyframe
//!         └ seg 1 ┘ └ seg 2 ┘ └3┘        └ seg 4
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glassline_cmaf::{CmafTrack, FragmentEntry, Header, ReadAt as _};
use glassline_recording::TimeRange;

use super::assembly::{Assembly, Piece};
use super::growing_files::FileOpener;
use super::holdings::PlacedFile;
use super::plan::OpenedFile;
use super::stretch::Stretch;
use super::{NoFootage, Playback, Subject};

/// Shortest segment that ends at a keyframe.
const WANTED: Duration = Duration::from_millis(3900);

/// Largest jump of decode times that is no discontinuity.
const JITTER_NANOS: u64 = 500_000_000;

/// A segment of a recorded file.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Place of the segment in its file.
    pub place: SegmentPlace,
    /// Time of its first frame.
    pub at: SystemTime,
    /// Time from the first frame to that of the next segment.
    pub duration: Duration,
    /// Whether decode times and parameters go on from the segment before.
    pub goes_on: bool,
}

/// The bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPlace {
    /// Start of the file.
    pub file: SystemTime,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Length in bytes, from the offset on.
    pub bytes: u64,
}

/// Cuts the files of a stream into segments, and goes on where files have grown.
#[derive(Clone, Debug)]
pub struct SegmentCutter {
    of: Subject,
    /// Longest duration of a segment that is cut from now on.
    longest: Duration,
    /// Whether a segment that may grow is taken as it is.
    takes_all: bool,
    last: Option<LastSegment>,
}

/// The end of the segments so far.
#[derive(Clone, Debug)]
struct LastSegment {
    file: SystemTime,
    /// Name of the other server that has the file.
    server: Option<Arc<str>>,
    /// End of the last frame.
    to: SystemTime,
    run: u64,
    number: u32,
    header: Header,
    /// Offset behind the segment.
    end: u64,
    /// Decode time behind the segment, in nanoseconds.
    decode_end: i64,
}

/// Segments that were cut, with what precedes them.
#[derive(Debug)]
pub struct CutSegments {
    /// The cutter, ready for what is recorded from now on.
    pub cutter: SegmentCutter,
    /// Segments behind those that the cutter had cut before.
    pub new: Vec<Segment>,
    /// Start of the oldest file that there is within the range.
    pub oldest: SystemTime,
}

/// The codecs and the size of segments.
#[derive(Clone, Debug)]
pub struct SegmentContent {
    /// Codecs as RFC 6381 writes them.
    pub codecs: String,
    /// Width and height of the video in pixels; `None` without video.
    pub size: Option<(u16, u16)>,
}

impl SegmentCutter {
    /// Creates one that is asked again and again: its segments are whole.
    pub fn following(of: Subject, longest: Duration) -> Self {
        Self {
            of,
            longest,
            takes_all: false,
            last: None,
        }
    }

    /// Creates one that is asked once.
    pub fn of_span(of: Subject, longest: Duration) -> Self {
        Self {
            takes_all: true,
            ..Self::following(of, longest)
        }
    }

    /// Makes segments from now on no longer than `longest`.
    pub const fn limit(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Returns the codecs and the size of the newest segment; `None` before the first.
    pub fn content(&self) -> Option<SegmentContent> {
        let header = &self.last.as_ref()?.header;
        Some(SegmentContent {
            codecs: header.codec_strings(),
            size: header.tracks().iter().find_map(CmafTrack::size),
        })
    }

    /// Cuts what has come of `stretches`. Blocks.
    fn cut(mut self, opener: &FileOpener, stretches: &[Stretch]) -> Result<CutSegments, NoFootage> {
        let files: Vec<&PlacedFile> = stretches.iter().flat_map(|it| &it.files).collect();
        let (Some(first), Some(newest)) = (files.first(), files.last()) else {
            return Err(NoFootage::Nothing);
        };
        let (oldest, newest) = (first.file.start, newest.file.start);
        let mut new = Vec::new();
        for placed in files {
            let cut_before = self.last.as_ref().map(|it| it.file);
            if cut_before.is_some_and(|it| placed.file.start < it) {
                continue;
            }
            let Some(opened) = OpenedFile::open(opener, placed)? else {
                continue;
            };
            let is_closed = placed.file.is_closed || opened.file.is_finished();
            let is_whole = is_closed || placed.file.start < newest;
            self.cut_file(placed, &opened, is_whole, &mut new);
        }
        Ok(CutSegments {
            cutter: self,
            new,
            oldest,
        })
    }

    fn cut_file(
        &mut self,
        placed: &PlacedFile,
        opened: &OpenedFile,
        is_whole: bool,
        new: &mut Vec<Segment>,
    ) {
        let file = &placed.file;
        let known = self.last.as_ref().filter(|it| it.file == file.start);
        let known = known.map_or(0, |it| it.end);
        let fragments = opened.file.fragments();
        let mut fragments = &fragments[fragments.partition_point(|it| it.offset < known)..];
        if let Some(last) = &self.last
            && last.server.as_deref() != placed.server()
        {
            fragments = opened.behind(fragments, last.to);
        }
        for group in cut(fragments, self.longest, is_whole || self.takes_all) {
            let (Some(first), Some(end)) = (group.first(), group.last()) else {
                continue;
            };
            let duration = group.iter().map(|it| it.duration).sum();
            new.push(Segment {
                place: SegmentPlace {
                    file: file.start,
                    offset: first.offset,
                    bytes: end.end() - first.offset,
                },
                at: opened.time_of(first),
                duration,
                goes_on: self.goes_on_with(placed, opened.file.header(), first),
            });
            self.last = Some(LastSegment {
                file: file.start,
                server: placed.server.as_ref().map(|it| Arc::clone(&it.name)),
                to: opened.time_of(end) + end.duration,
                run: file.run,
                number: file.number,
                header: opened.file.header().clone(),
                end: end.end(),
                decode_end: (end.decode_time + end.duration).nanos(),
            });
        }
    }

    fn goes_on_with(&self, placed: &PlacedFile, header: &Header, first: &FragmentEntry) -> bool {
        // Nothing is before the first.
        let Some(last) = &self.last else { return true };
        let file = &placed.file;
        let is_next = file.start == last.file
            || (file.run, file.number) == (last.run, last.number.saturating_add(1));
        let jump = first.decode_time.nanos().abs_diff(last.decode_end);
        let is_of_one = last.server.as_deref() == placed.server();
        is_of_one && is_next && *header == last.header && jump <= JITTER_NANOS
    }
}

/// Returns the fragments of each segment. Unless all of them are there (`is_whole`), the last segment may
/// grow, and is left out.
fn cut(fragments: &[FragmentEntry], longest: Duration, is_whole: bool) -> Vec<&[FragmentEntry]> {
    let mut groups = Vec::new();
    let (mut begin, mut elapsed) = (0, Duration::ZERO);
    for (index, fragment) in fragments.iter().enumerate() {
        let is_long = fragment.starts_with_sync && elapsed >= WANTED;
        if index > begin && (is_long || elapsed + fragment.duration > longest) {
            groups.push(&fragments[begin..index]);
            (begin, elapsed) = (index, Duration::ZERO);
        }
        elapsed += fragment.duration;
    }
    if is_whole && begin < fragments.len() {
        groups.push(&fragments[begin..]);
    }
    groups
}

impl Playback {
    /// Cuts what has come of a stream within `range` since the last call.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if nothing is there.
    pub async fn segments(
        &self,
        cutter: SegmentCutter,
        range: TimeRange,
    ) -> Result<CutSegments, NoFootage> {
        let stretches = self.stretches(&cutter.of, range).await?.items;
        let opener = self.opener(&cutter.of);
        let threads = self.threads_of(&stretches);
        let cutting = threads.reads.run(move || cutter.cut(&opener, &stretches));
        cutting.await.map_err(|_| NoFootage::Panicked)?
    }

    /// Returns the bytes of a segment.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the file is gone, or has no such bytes.
    pub async fn segment(&self, of: Subject, place: SegmentPlace) -> Result<Assembly, NoFootage> {
        self.of_file(of, place.file, move |opened| {
            let bytes = opened.file.source().byte_count().unwrap_or(0);
            let end = place.offset.checked_add(place.bytes);
            if end.is_none_or(|end| end > bytes) {
                return Err(NoFootage::Nothing);
            }
            let mut assembly = Assembly::default();
            assembly.push(Piece::Slice {
                of: opened.footage.clone(),
                offset: place.offset,
                bytes: place.bytes,
            });
            Ok(assembly)
        })
        .await
    }

    /// Returns the initialization of the file that begins at `start`.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if the file is gone.
    pub async fn initialization(
        &self,
        of: Subject,
        start: SystemTime,
    ) -> Result<Assembly, NoFootage> {
        self.of_file(of, start, |opened| {
            let mut assembly = Assembly::default();
            assembly.push(Piece::Bytes(opened.file.header().segment()));
            Ok(assembly)
        })
        .await
    }

    /// Returns what `take` makes of the file that begins at `start`.
    async fn of_file<T: Send + 'static>(
        &self,
        of: Subject,
        start: SystemTime,
        take: impl FnOnce(&OpenedFile) -> Result<T, NoFootage> + Send + 'static,
    ) -> Result<T, NoFootage> {
        let range = TimeRange {
            from: start,
            to: start + Duration::from_micros(1),
        };
        let stretches = self.stretches(&of, range).await?.items;
        let opener = self.opener(&of);
        let threads = self.threads_of(&stretches);
        let looking = threads.reads.run(move || {
            let mut files = stretches.iter().flat_map(|it| &it.files);
            let file = files.find(|it| it.file.start == start);
            let file = file.ok_or(NoFootage::Nothing)?;
            let opened = OpenedFile::open(&opener, file)?;
            take(&opened.ok_or(NoFootage::Nothing)?)
        });
        looking.await.map_err(|_| NoFootage::Panicked)?
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::MediaTime;

    use super::*;

    fn fragments(keys: &[usize], count: usize) -> Vec<FragmentEntry> {
        let entry = |index: usize| FragmentEntry {
            offset: 1000 + index as u64 * 10,
            bytes: 10,
            decode_time: MediaTime::from_nanos(index as i64 * 1_000_000_000),
            duration: Duration::from_secs(1),
            wall_clock: Duration::from_secs(1_800_000_000 + index as u64),
            starts_with_sync: keys.contains(&index),
        };
        (0..count).map(entry).collect()
    }

    fn lengths(keys: &[usize], count: usize, is_whole: bool) -> Vec<usize> {
        let fragments = fragments(keys, count);
        let groups = cut(&fragments, Duration::from_millis(10_450), is_whole);
        groups.iter().map(|it| it.len()).collect()
    }

    #[test]
    fn segments_end_at_keyframes_four_seconds_apart_and_what_grows_waits() {
        assert_eq!(lengths(&[0, 2, 4, 6, 8], 10, false), [4, 4]);
        assert_eq!(lengths(&[0, 2, 4, 6, 8], 10, true), [4, 4, 2]);
        // Keyframes three seconds apart, and none at all.
        assert_eq!(lengths(&[0, 3, 6, 9], 12, false), [6]);
        assert_eq!(lengths(&[0], 25, true), [10, 10, 5]);
        assert_eq!(lengths(&[], 0, true), [0; 0]);
    }

    #[test]
    fn what_was_cut_stays_when_the_file_grows() {
        let keys = [0, 2, 4, 7, 11, 12, 17];
        let whole = lengths(&keys, 20, false);
        for count in 0..20 {
            let part = lengths(&keys, count, false);
            assert_eq!(part, whole[..part.len()]);
        }
    }
}
