//! The text of a Media Playlist, whole or as a delta update.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::date::Date;
use super::segment::Segment;
use super::{Directives, MediaPlaylist, Terms};

/// Version of the protocol (§8): delta updates have `EXT-X-SKIP`. All playlists of a stream state one
/// version, as some clients demand.
pub(crate) const VERSION: u32 = 9;

/// The newest segment and part of another playlist of the stream (`EXT-X-RENDITION-REPORT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenditionReport {
    /// URI of the playlist, relative to the one that has the report.
    pub uri: String,
    /// Media Sequence Number of the last part.
    pub segment: u64,
    /// Index of that part within its segment; `None` in a segment without parts.
    pub part: Option<u64>,
}

impl MediaPlaylist {
    /// Returns the report of this playlist, found at `uri`, for the others; `None` while it is empty.
    pub fn report(&self, uri: String) -> Option<RenditionReport> {
        let last = self.open.as_ref().or(self.segments.back())?;
        Some(RenditionReport {
            uri,
            segment: last.number,
            part: (last.listed_parts().len() as u64).checked_sub(1),
        })
    }

    /// Returns the text of the playlist, as a delta update if `skip` is set and something can be left out.
    pub fn text(&self, skip: bool, reports: &[RenditionReport]) -> String {
        let skipped = match skip && !self.ended {
            true => self.skippable(),
            false => 0,
        };
        let mut text = String::with_capacity(4096);
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, skipped, reports);
        text
    }

    /// Returns whether these directives are answered with a delta update. A client that awaits a segment
    /// keeps its playlist up to the one before, which must be listed: the playlist may have grown by more
    /// than `CAN-SKIP-UNTIL` at once, and the update would leave out segments that the client never saw.
    pub fn skips(&self, directives: &Directives) -> bool {
        let listed = self.first_segment() + self.skippable() as u64;
        let awaited = directives.segment;
        directives.skip && !self.ended && awaited.is_none_or(|awaited| listed < awaited)
    }

    /// Returns how many segments are further from the end of the last segment than the boundary.
    fn skippable(&self) -> usize {
        let mut rest: Duration = self.segments.iter().map(|it| it.duration).sum();
        let segments = self.segments.iter();
        let far = segments.take_while(|it| {
            rest -= it.duration;
            rest > self.terms.skip_boundary()
        });
        far.count()
    }

    fn write(&self, text: &mut String, skipped: usize, reports: &[RenditionReport]) -> fmt::Result {
        self.terms.write_head(text)?;
        writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{}", self.first_segment())?;
        let discontinuity = self.discontinuity_sequence;
        writeln!(text, "#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuity}")?;
        if skipped > 0 {
            writeln!(text, "#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}")?;
        }
        let all = self.segments.iter().chain(&self.open);
        let mut rest: Duration = all.clone().map(|it| it.duration).sum();
        let mut before: Option<&Segment> = None;
        for (index, segment) in all.enumerate() {
            let has_parts = rest <= self.terms.target() * 3;
            rest -= segment.duration;
            if index >= skipped {
                let has_map = before.is_some_and(|it| it.shares_map_with(segment));
                segment.write_head(text, !has_map)?;
                if has_parts && !self.ended {
                    segment.write_parts(text)?;
                }
                if index < self.segments.len() {
                    segment.write_end(text)?;
                }
            }
            before = Some(segment);
        }
        if self.ended {
            return writeln!(text, "#EXT-X-ENDLIST");
        }
        let (folder, number) = (&self.hint_folder, self.next_part);
        writeln!(
            text,
            "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{folder}/p{number}.m4s\""
        )?;
        reports.iter().try_for_each(|it| it.write(text))
    }
}

impl Terms {
    fn write_head(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{VERSION}")?;
        if self.independent {
            writeln!(text, "#EXT-X-INDEPENDENT-SEGMENTS")?;
        }
        writeln!(text, "#EXT-X-TARGETDURATION:{}", self.target)?;
        writeln!(
            text,
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL={},PART-HOLD-BACK={}",
            Seconds(self.skip_boundary()),
            Seconds(self.part_hold_back)
        )?;
        let part_target = Seconds(self.part_target);
        writeln!(text, "#EXT-X-PART-INF:PART-TARGET={part_target}")
    }
}

impl Segment {
    fn write_head(&self, text: &mut String, with_map: bool) -> fmt::Result {
        for _ in 0..self.discontinuities {
            writeln!(text, "#EXT-X-DISCONTINUITY")?;
        }
        if with_map {
            writeln!(text, "#EXT-X-MAP:URI=\"{}/{}\"", self.folder, self.map)?;
        }
        writeln!(text, "#EXT-X-PROGRAM-DATE-TIME:{}", Date(self.date))
    }

    fn write_parts(&self, text: &mut String) -> fmt::Result {
        for part in self.listed_parts() {
            let (folder, number) = (&part.folder, part.number);
            let duration = Seconds(part.duration);
            let independent = match part.independent {
                true => ",INDEPENDENT=YES",
                false => "",
            };
            writeln!(
                text,
                "#EXT-X-PART:DURATION={duration},URI=\"{folder}/p{number}.m4s\"{independent}"
            )?;
        }
        Ok(())
    }

    fn write_end(&self, text: &mut String) -> fmt::Result {
        if self.gap {
            writeln!(text, "#EXT-X-GAP")?;
        }
        let (duration, folder, number) = (Seconds(self.duration), &self.folder, self.number);
        writeln!(text, "#EXTINF:{duration},\n{folder}/s{number}.m4s")
    }
}

impl RenditionReport {
    fn write(&self, text: &mut String) -> fmt::Result {
        let Self { uri, segment, .. } = self;
        write!(
            text,
            "#EXT-X-RENDITION-REPORT:URI=\"{uri}\",LAST-MSN={segment}"
        )?;
        match self.part {
            Some(part) => writeln!(text, ",LAST-PART={part}"),
            None => writeln!(text),
        }
    }
}

/// A duration in seconds with at most 6 decimals.
pub(super) struct Seconds(pub(super) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = (self.0.as_nanos() + 500) / 1000;
        let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
        let part = format!("{part:06}");
        let part = part.trim_end_matches('0');
        let part = if part.is_empty() { "0" } else { part };
        write!(f, "{whole}.{part}")
    }
}
