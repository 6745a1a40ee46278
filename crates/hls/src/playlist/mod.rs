//! A live Media Playlist as parts arrive.
//!
//! ```text
//!  Numbers │ complete segments … │ open segment: part part part │ hint of the next part
//!          └ the oldest leave the window                        └ push: the next one is hinted
//! ```
//!
//! A part is listed at once. The `EXTINF` of a segment is listed together with the first part of the next
//! segment, so that a playlist never ends with a segment whose successor has no part yet: clients ask for
//! the next part by its index then.
//!
//! A frame that stands for longer than a part may last, because the source paused, is a segment by itself,
//! which only clients that load whole segments see: no part breaks the promise of `PART-TARGET`. A part that
//! is too short for it ends its segment, as the last part of a segment may be of any length. So frames of any
//! distance keep the promise, also behind a change.
//!
//! Names of parts have a number of their own that runs through all segments. So the hinted part is the next
//! one in any case, whether it continues the segment or begins another one.

mod date;
mod recorded;
mod reload;
mod segment;
mod text;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use recorded::{RecordedForm, RecordedPlaylist, RecordedSegment, RecordedText};
pub use reload::{Answer, Directives, DirectivesError};
use segment::{Part, Segment};
pub use text::RenditionReport;
pub(crate) use text::VERSION;

/// Part of a Target Duration by which a segment may exceed it: durations are compared as whole seconds
/// (§4.4.3.1).
const ROUNDING: Duration = Duration::from_millis(450);

/// Part of a part's duration that is not worth a digit of the playlist.
const PART_ROUNDING: Duration = Duration::from_micros(500);

/// Difference to the wanted length at which a segment is long enough. Timestamps of cameras vary by as
/// much.
const NEARLY: Duration = Duration::from_millis(60);

/// The promises of a playlist for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Target Duration (`EXT-X-TARGETDURATION`), in seconds; at least 1.
    pub target: u32,
    /// Longest duration of a part (`PART-TARGET`).
    pub part_target: Duration,
    /// Distance from the end at which clients begin (`PART-HOLD-BACK`).
    pub part_hold_back: Duration,
    /// Duration of the complete segments that the playlist keeps; at least 6 Target Durations count.
    pub window: Duration,
    /// Whether a decoder can begin with each segment, as it can with audio.
    pub independent: bool,
}

impl Terms {
    /// Returns the Target Duration.
    pub const fn target(&self) -> Duration {
        Duration::from_secs(self.target as u64)
    }

    /// Returns the distance from the end beyond which delta updates leave out segments
    /// (`CAN-SKIP-UNTIL`).
    pub const fn skip_boundary(&self) -> Duration {
        Duration::from_secs(self.target as u64 * 6)
    }

    /// Returns the longest duration of a segment.
    pub fn longest(&self) -> Duration {
        self.target() + ROUNDING
    }

    /// Returns the shortest duration of a part that is neither independent nor the last of its segment
    /// (§4.4.4.9).
    pub fn shortest_part(&self) -> Duration {
        self.part_target.mul_f64(0.85)
    }

    fn window(&self) -> Duration {
        self.window.max(self.skip_boundary())
    }
}

/// The numbers with which a playlist begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Media Sequence Number of the first segment.
    pub segment: u64,
    /// Number of the first part, for its name.
    pub part: u64,
    /// Discontinuity Sequence Number of the first segment.
    pub discontinuity: u64,
}

impl Numbers {
    /// Returns the numbers of a playlist that begins at `unix` after 1970-01-01 UTC.
    ///
    /// A stream that ends its playlists and begins others later goes on with greater numbers, as clients
    /// expect that did not notice. The numbers stay small all the same, since hls.js 1.7 has arrays of
    /// discontinuities by their number, and hangs over a large one.
    pub const fn at(unix: Duration) -> Self {
        let seconds = unix.as_secs().saturating_sub(EPOCH.as_secs());
        Self {
            segment: seconds,
            part: unix.as_secs() * 1000 + unix.subsec_millis() as u64,
            discontinuity: seconds / 3600,
        }
    }
}

/// Beginning of 2026, from which numbers count.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// A part that is ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct NewPart {
    /// Duration of its media.
    pub duration: Duration,
    /// Number of its bytes.
    pub bytes: usize,
    /// Whether the part has a frame with which a decoder can begin.
    pub independent: bool,
    /// Whether the part begins a segment.
    pub begins_segment: bool,
    /// Time of its first frame since 1970-01-01 UTC.
    pub date: Duration,
}

/// Bitrates of the segments of a playlist, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRate {
    /// Highest bitrate of a segment.
    pub peak: u64,
    /// Bitrate of all segments together.
    pub average: u64,
}

/// A live Media Playlist with parts.
#[derive(Clone, Debug)]
pub struct MediaPlaylist {
    terms: Terms,
    /// Complete segments, the oldest first.
    segments: VecDeque<Segment>,
    open: Option<Segment>,
    next_segment: u64,
    /// Discontinuity Sequence Number of the playlist.
    discontinuity_sequence: u64,
    /// Discontinuities before the next segment.
    discontinuities: u32,
    /// Whether the next part begins a segment, whatever it says.
    cut: bool,
    /// Name of the initialization of segments that begin from now on.
    map: Arc<str>,
    /// Folder of the parts that are hinted from now on.
    folder: Arc<str>,
    /// Number and folder of the next part.
    next_part: u64,
    hint_folder: Arc<str>,
    rate: RateMeter,
    ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct RateMeter {
    peak: u64,
    bits: u64,
    span: Duration,
}

impl MediaPlaylist {
    /// Creates an empty playlist whose files are below `folder`, relative to the playlist, and whose
    /// initialization is called `map`.
    pub fn new(terms: Terms, first: Numbers, folder: Arc<str>, map: Arc<str>) -> Self {
        Self {
            terms,
            segments: VecDeque::new(),
            open: None,
            next_segment: first.segment,
            discontinuity_sequence: first.discontinuity,
            discontinuities: 0,
            cut: false,
            map,
            folder: Arc::clone(&folder),
            next_part: first.part,
            hint_folder: folder,
            rate: RateMeter::default(),
            ended: false,
        }
    }

    /// Returns the terms of the playlist.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the number in the name of the next part.
    pub const fn next_part(&self) -> u64 {
        self.next_part
    }

    /// Returns whether the segment that is open ends before a keyframe that follows `pending` of media
    /// behind the last part. `group` is the usual distance of keyframes.
    pub fn ends_at_keyframe(&self, pending: Duration, group: Duration) -> bool {
        let Some(open) = &self.open else { return true };
        if open.parts.last().is_some_and(|it| self.is_too_short(it)) {
            // A segment begins in any case, and with a keyframe decoders can begin, too.
            return true;
        }
        let elapsed = open.duration + pending;
        // Every frame of audio is a keyframe, and the next one is soon enough.
        let nearly = NEARLY.min(group / 2);
        elapsed + nearly >= self.terms.target() || elapsed + group > self.terms.longest()
    }

    /// Returns whether the segment that is open has no room for a part of this duration, with or without a
    /// keyframe: groups of pictures may be longer than a segment can be.
    pub fn is_full_for(&self, part: Duration) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.duration + part > self.terms.longest())
    }

    /// Takes the initialization called `map` from the next part on, which begins a segment. Unless the old
    /// one says the same, [`discontinue`](Self::discontinue) comes with it.
    pub fn set_map(&mut self, map: Arc<str>) {
        self.map = map;
        self.cut = true;
    }

    /// Begins another sequence of timestamps with the next part. All playlists of a stream do so together.
    pub fn discontinue(&mut self) {
        self.cut = true;
        match self.has_segments() {
            true => self.discontinuities += 1,
            // Nobody has seen what was before.
            false => self.discontinuity_sequence += 1,
        }
    }

    /// Puts the files of segments and parts that are announced from now on below `folder`.
    pub fn set_folder(&mut self, folder: Arc<str>) {
        self.folder = folder;
    }

    /// Adds a part. Returns the Media Sequence Number of its segment, and how many segments left the
    /// playlist.
    pub fn push(&mut self, part: NewPart) -> Pushed {
        let is_long = part.duration > self.terms.part_target + PART_ROUNDING;
        let begins = part.begins_segment || self.cut || is_long || self.open.is_none();
        if begins {
            self.close();
            self.begin(part.date);
        }
        let folder = Arc::clone(&self.hint_folder);
        let number = self.next_part;
        if !is_long {
            self.next_part += 1;
            self.hint_folder = Arc::clone(&self.folder);
        }
        let part = Part {
            number,
            folder,
            duration: part.duration,
            bytes: part.bytes,
            independent: part.independent,
        };
        self.cut = is_long || self.is_too_short(&part);
        let open = self.open.as_mut().expect("a segment is open");
        open.push(part);
        open.undivided = is_long;
        Pushed {
            segment: open.number,
            part: number,
            undivided: is_long,
            begins_segment: begins,
        }
    }

    /// Adds a segment without media for a time in which the source sent nothing.
    pub fn push_gap(&mut self, duration: Duration, date: Duration) {
        self.close();
        self.begin(date);
        let mut segment = self.open.take().expect("a segment is open");
        segment.gap = true;
        segment.duration = duration;
        self.segments.push_back(segment);
        self.cut = true;
        self.trim();
    }

    /// Ends the playlist: nothing follows.
    pub fn end(&mut self) {
        self.close();
        self.ended = true;
    }

    /// Returns whether nothing follows.
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether clients without low latency can begin: there is a complete segment.
    pub fn is_playable(&self) -> bool {
        self.segments.iter().any(|it| !it.gap)
    }

    /// Returns the Media Sequence Number of the oldest segment, of the next one if there is none.
    pub fn first_segment(&self) -> u64 {
        let first = self.segments.front().or(self.open.as_ref());
        first.map_or(self.next_segment, |it| it.number)
    }

    /// Returns the bitrates of all segments so far; before the first is complete, those of the open one.
    pub fn rate(&self) -> Option<SegmentRate> {
        let mut meter = self.rate;
        if meter.span.is_zero() {
            meter.add(self.open.as_ref()?);
        }
        let average = per_second(meter.bits, meter.span)?;
        Some(SegmentRate {
            peak: meter.peak,
            average,
        })
    }

    /// Drops the oldest segment, because memory is short. Returns whether the playlist can do without it.
    pub fn shorten(&mut self) -> bool {
        let all = self.segments.iter().map(|it| it.duration);
        let rest: Duration = all.skip(1).sum();
        // §6.2.2: no segment is removed if less than three Target Durations would be left.
        let can = !self.segments.is_empty() && rest >= self.terms.target() * 3;
        if can {
            self.drop_first();
        }
        can
    }

    /// Returns whether a part may only be the last of its segment.
    fn is_too_short(&self, part: &Part) -> bool {
        !part.independent && part.duration < self.terms.shortest_part()
    }

    fn has_segments(&self) -> bool {
        self.open.is_some() || !self.segments.is_empty()
    }

    fn begin(&mut self, date: Duration) {
        self.cut = false;
        let number = self.next_segment;
        self.next_segment += 1;
        self.open = Some(Segment {
            number,
            folder: Arc::clone(&self.hint_folder),
            map: Arc::clone(&self.map),
            date,
            discontinuities: std::mem::take(&mut self.discontinuities),
            gap: false,
            undivided: false,
            duration: Duration::ZERO,
            parts: Vec::new(),
        });
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.rate.add(&open);
        self.segments.push_back(open);
        self.trim();
    }

    /// Drops segments as long as the rest is as long as the window.
    fn trim(&mut self) {
        let mut rest: Duration = self.segments.iter().map(|it| it.duration).sum();
        while let Some(first) = self.segments.front() {
            rest -= first.duration;
            if rest < self.terms.window() {
                return;
            }
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.segments.pop_front() {
            self.discontinuity_sequence += u64::from(first.discontinuities);
        }
    }
}

/// Place of a new part in its playlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Media Sequence Number of its segment.
    pub segment: u64,
    /// Number in its name.
    pub part: u64,
    /// Whether the part has no name: it is longer than a part may be, and all of its segment. The number
    /// goes to the next one.
    pub undivided: bool,
    /// Whether the part begins its segment.
    pub begins_segment: bool,
}

impl RateMeter {
    fn add(&mut self, segment: &Segment) {
        let bits = segment.parts.iter().map(|it| it.bytes as u64 * 8).sum();
        self.bits += bits;
        self.span += segment.duration;
        let rate = per_second(bits, segment.duration);
        self.peak = self.peak.max(rate.unwrap_or_default());
    }
}

fn per_second(bits: u64, span: Duration) -> Option<u64> {
    let micros = u64::try_from(span.as_micros()).ok()?;
    bits.saturating_mul(1_000_000).checked_div(micros)
}

#[cfg(test)]
mod tests;
