//! The content of a media playlist, as the reader gives it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::tag::Tag;
use super::value::DateTime;

/// A media playlist: the segments of one rendition, and the server's offers beside them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MediaPlaylist {
    /// Compatibility version; `None` without the tag, which means 1.
    pub version: Option<u64>,
    /// Target duration; `None` if the tag is missing.
    pub target_duration: Option<Duration>,
    /// Media sequence number of the first segment, skipped ones included.
    pub media_sequence: u64,
    /// Discontinuity sequence number of the first segment, skipped ones included.
    pub discontinuity_sequence: u64,
    /// How the playlist may change; `None` for a live playlist.
    pub kind: Option<PlaylistType>,
    /// Whether no segment will follow.
    pub is_ended: bool,
    /// Whether each segment is one I-frame.
    pub has_i_frames_only: bool,
    /// Whether each segment is decoded without others.
    pub has_independent_segments: bool,
    /// Preferred point to start at, from the beginning or, if negative, from the end.
    pub start: Option<Start>,
    /// Part target duration.
    pub part_target: Option<Duration>,
    /// Abilities of the server for requests of the playlist.
    pub server_control: Option<ServerControl>,
    /// Segments that a delta update leaves out.
    pub skip: Option<Skip>,
    /// Complete segments, in order, without the skipped ones.
    pub segments: Vec<Segment>,
    /// The segment behind the last complete one, of which there are only parts.
    pub open: OpenSegment,
    /// Resources that will come next.
    pub hints: Vec<PreloadHint>,
    /// How far other renditions are.
    pub reports: Vec<RenditionReport>,
    /// Date ranges, each tag on its own.
    pub date_ranges: Vec<DateRange>,
    /// Facts about the text, for the judge.
    pub text: TextFacts,
}

impl MediaPlaylist {
    /// Media sequence number of the first segment in [`Self::segments`].
    pub fn first_listed(&self) -> u64 {
        let skipped = self.skip.as_ref().map_or(0, |it| it.segments);
        self.media_sequence.saturating_add(skipped)
    }

    /// Media sequence number of the segment that follows the last complete one.
    pub fn next_sequence(&self) -> u64 {
        self.first_listed()
            .saturating_add(self.segments.len() as u64)
    }

    /// The listed segment with this media sequence number.
    pub fn segment(&self, sequence: u64) -> Option<&Segment> {
        let index = sequence.checked_sub(self.first_listed())?;
        self.segments.get(usize::try_from(index).ok()?)
    }

    /// Parts of the segment with this media sequence number, complete or not.
    pub fn parts(&self, sequence: u64) -> &[Part] {
        match self.segment(sequence) {
            Some(segment) => &segment.parts,
            None if sequence == self.next_sequence() => &self.open.parts,
            None => &[],
        }
    }

    /// Position of the last part; `None` without parts.
    pub fn last_part(&self) -> Option<Position> {
        if let Some(last) = self.open.parts.len().checked_sub(1) {
            return Some(Position::new(self.next_sequence(), last as u64));
        }
        let last = self.segments.last()?.parts.len().checked_sub(1)?;
        Some(Position::new(self.next_sequence() - 1, last as u64))
    }

    /// Position that the next blocking reload asks for.
    pub fn next_position(&self) -> Position {
        Position::new(self.next_sequence(), self.open.parts.len() as u64)
    }

    /// Whether the playlist has the part, or the whole segment, at `position` or a later one.
    pub fn has(&self, position: Position) -> bool {
        let next = self.next_sequence();
        position.sequence < next
            || (position.sequence == next && position.part < self.open.parts.len() as u64)
    }

    /// Sum of the durations of the listed segments and of the parts behind them.
    pub fn duration(&self) -> Duration {
        let open = self.open.parts.iter().map(|it| it.duration);
        self.segments.iter().map(|it| it.duration).chain(open).sum()
    }

    /// Whether the playlist has parts.
    pub fn has_parts(&self) -> bool {
        !self.open.parts.is_empty() || self.segments.iter().any(|it| !it.parts.is_empty())
    }

    /// Whether the server holds requests until the playlist has what they ask for.
    pub fn can_block(&self) -> bool {
        self.server_control
            .as_ref()
            .is_some_and(|it| it.can_block_reload)
    }

    /// Dates of all listed segments and of the open one, extrapolated from the dates that are given
    /// (§6.3.3).
    pub fn dates(&self) -> Vec<Option<DateTime>> {
        let mut dates = Vec::with_capacity(self.segments.len() + 1);
        let mut next = None;
        for segment in &self.segments {
            let date = segment.date_time.or(next);
            dates.push(date);
            next = date.map(|it| it.after(segment.duration));
        }
        dates.push(self.open.date_time.or(next));
        let Some(first) = dates.iter().position(Option::is_some) else {
            return dates;
        };
        let mut later = dates[first];
        for index in (0..first).rev() {
            let span = self.segments[index].duration.as_nanos();
            let span = i64::try_from(span).unwrap_or(i64::MAX);
            later = later.map(|it| DateTime(it.0.saturating_sub(span)));
            dates[index] = later;
        }
        dates
    }

    /// The full playlist of which `self` is a delta update to the earlier playlist `known`; `None` if
    /// `known` lacks segments that were skipped.
    pub fn completed_from(&self, known: &Self) -> Option<Self> {
        let Some(skip) = &self.skip else {
            return Some(self.clone());
        };
        let mut whole = self.clone();
        whole.skip = None;
        whole.segments = Vec::new();
        for index in 0..skip.segments {
            let sequence = self.media_sequence.checked_add(index)?;
            let mut segment = known.segment(sequence)?.clone();
            // Parts of a segment so far back are no longer listed.
            segment.parts.clear();
            whole.segments.push(segment);
        }
        let map = whole.segments.last().and_then(|it| it.map.clone());
        whole
            .segments
            .extend(self.segments.iter().cloned().map(|mut segment| {
                if segment.map.is_none() {
                    segment.map.clone_from(&map);
                }
                segment
            }));
        if whole.open.map.is_none() {
            whole.open.map = map;
        }
        Some(whole)
    }
}

/// Position of a part: its segment's media sequence number, and its index in the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Media sequence number.
    pub sequence: u64,
    /// Index of the part, from 0.
    pub part: u64,
}

impl Position {
    /// The position of a part.
    pub const fn new(sequence: u64, part: u64) -> Self {
        Self { sequence, part }
    }
}

/// How a playlist with `EXT-X-PLAYLIST-TYPE` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaylistType {
    /// Segments are only appended.
    Event,
    /// The playlist does not change.
    Vod,
}

/// A preferred point to start at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Distance from the beginning, or from the end.
    pub offset: Duration,
    /// Whether the offset counts from the end.
    pub is_from_end: bool,
    /// Whether samples before the point are left out.
    pub is_precise: bool,
}

/// Abilities of a server for requests of a playlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerControl {
    /// Skip boundary of delta updates.
    pub can_skip_until: Option<Duration>,
    /// Whether delta updates may leave out date ranges.
    pub can_skip_date_ranges: bool,
    /// Recommended distance from the end.
    pub hold_back: Option<Duration>,
    /// Recommended distance from the end with low latency.
    pub part_hold_back: Option<Duration>,
    /// Whether the server holds requests until the playlist has what they ask for.
    pub can_block_reload: bool,
}

/// The part of a playlist that a delta update leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Number of skipped segments.
    pub segments: u64,
    /// Date ranges that were removed recently; `None` if the update leaves out no date ranges.
    pub removed_date_ranges: Option<Vec<String>>,
}

/// A range of bytes of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Length of the range in bytes.
    pub length: u64,
    /// Offset of the first byte.
    pub offset: u64,
}

/// A media segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// URI as it stands in the playlist, its variables replaced.
    pub uri: String,
    /// Duration of the segment's media.
    pub duration: Duration,
    /// Title of the segment.
    pub title: Option<String>,
    /// Bytes of the resource that are the segment; `None` for the whole resource.
    pub byte_range: Option<ByteRange>,
    /// Whether the segment does not continue the one before.
    pub is_discontinuity: bool,
    /// Initialization section that the media needs.
    pub map: Option<Arc<Map>>,
    /// Keys, one for each format; empty for a segment that is not encrypted.
    pub keys: Arc<[Key]>,
    /// Date of the first sample, where the playlist gives one.
    pub date_time: Option<DateTime>,
    /// Whether the segment is not available.
    pub is_gap: bool,
    /// Approximate bitrate in kbit/s.
    pub bitrate: Option<u64>,
    /// Parts that are still listed.
    pub parts: Vec<Part>,
    /// Number of the line with the URI.
    pub line: usize,
}

/// The segment at the end of a playlist of which there are only parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenSegment {
    /// Parts so far.
    pub parts: Vec<Part>,
    /// Whether the segment does not continue the one before.
    pub is_discontinuity: bool,
    /// Initialization section that the media needs.
    pub map: Option<Arc<Map>>,
    /// Date of the first sample, where the playlist gives one.
    pub date_time: Option<DateTime>,
}

/// A partial segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// URI as it stands in the playlist, its variables replaced.
    pub uri: String,
    /// Duration of the part's media.
    pub duration: Duration,
    /// Whether the part has an independent frame.
    pub is_independent: bool,
    /// Bytes of the resource that are the part; `None` for the whole resource.
    pub byte_range: Option<ByteRange>,
    /// Whether the part is not available.
    pub is_gap: bool,
    /// Number of its line.
    pub line: usize,
}

/// An initialization section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// URI as it stands in the playlist, its variables replaced.
    pub uri: String,
    /// Bytes of the resource; `None` for the whole resource.
    pub byte_range: Option<ByteRange>,
    /// Number of its line.
    pub line: usize,
}

/// A way to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Method of the encryption, such as AES-128.
    pub method: String,
    /// URI of the key.
    pub uri: Option<String>,
    /// Initialization vector, as it stands there.
    pub iv: Option<String>,
    /// Format of the key; `identity` if the tag gives none.
    pub format: String,
    /// Versions of the format.
    pub format_versions: Option<String>,
}

/// A resource that the playlist will have next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreloadHint {
    /// Kind of the resource.
    pub kind: HintKind,
    /// URI as it stands in the playlist, its variables replaced.
    pub uri: String,
    /// First byte of the resource.
    pub start: u64,
    /// Number of bytes; `None` up to the end.
    pub length: Option<u64>,
    /// Number of its line.
    pub line: usize,
}

/// Kind of a resource that a playlist hints at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// A partial segment.
    Part,
    /// An initialization section.
    Map,
}

/// How far another rendition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenditionReport {
    /// URI of the other media playlist; `None` if the tag lacks it.
    pub uri: Option<String>,
    /// Media sequence number of its last segment or part; `None` if it is that of this playlist.
    pub last_sequence: Option<u64>,
    /// Index of its last part.
    pub last_part: Option<u64>,
    /// Number of its line.
    pub line: usize,
}

/// A tag of a date range.
#[derive(Clone, Debug, PartialEq)]
pub struct DateRange {
    /// Identifier of the range.
    pub id: String,
    /// Class of the range.
    pub class: Option<String>,
    /// Its begin, which only the first tag of a range must have.
    pub start: Option<DateTime>,
    /// Date at which the range ends.
    pub end: Option<DateTime>,
    /// Duration of the range, where it is known.
    pub duration: Option<Duration>,
    /// Whether the range ends where the next of its class begins.
    pub is_ended_by_next: bool,
    /// All attributes as they stand there.
    pub attributes: Vec<(String, String)>,
    /// Number of its line.
    pub line: usize,
}

/// Facts about a playlist's text: lines of tags, and features that need a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextFacts {
    /// First line of each tag.
    lines: BTreeMap<Tag, usize>,
    /// Whether a duration has a fraction.
    pub has_fractions: bool,
    /// Whether variables are used.
    pub has_variables: bool,
    /// Whether a variable is from the query of the playlist's URI.
    pub has_query_variables: bool,
    /// Whether an attribute begins with `REQ-`.
    pub has_required_attributes: bool,
}

impl TextFacts {
    /// Number of the first line with this tag; `None` without it.
    pub fn line(&self, tag: Tag) -> Option<usize> {
        self.lines.get(&tag).copied()
    }

    /// Notes a tag; false if it was there before.
    pub(super) fn note(&mut self, tag: Tag, line: usize) -> bool {
        let is_first = !self.lines.contains_key(&tag);
        self.lines.entry(tag).or_insert(line);
        is_first
    }

    /// Forgets the lines, for comparisons with what was never read.
    #[cfg(test)]
    pub(super) fn forget_lines(&mut self) {
        self.lines.clear();
    }
}
