//! A Media Playlist of segments that are files already: a span that is over, or the last hours of a stream.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::date::Date;
use super::text::Seconds;
use super::{Numbers, ROUNDING, SegmentRate, VERSION, per_second};

/// Bytes of a piece of text, after which the client has to take it.
const PIECE_BYTES: usize = 64 << 10;

/// Version of the protocol (§8) of a playlist without delta updates: it has `EXT-X-MAP`.
const SPAN_VERSION: u32 = 6;

/// A Media Segment that is a file already.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedSegment {
    /// URI of the segment, relative to the playlist.
    pub uri: String,
    /// URI of its initialization.
    pub map: Arc<str>,
    /// Time of its first frame since 1970-01-01 UTC.
    pub date: Duration,
    /// Duration of its media.
    pub duration: Duration,
    /// Number of its bytes.
    pub bytes: u64,
    /// Whether its timestamps and parameters go on from the segment before.
    pub goes_on: bool,
}

/// The segments of a part of the past, the oldest first.
#[derive(Clone, Debug, Hash)]
pub struct RecordedPlaylist {
    target: u32,
    first: Numbers,
    segments: VecDeque<RecordedSegment>,
}

/// The form in which a client gets a [`RecordedPlaylist`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedForm {
    /// Whether nothing is added any more.
    pub is_over: bool,
    /// Whether a delta update is wanted.
    pub skip: bool,
    /// Text behind each URI: empty, or a query with its question mark.
    pub query: String,
}

/// The text of a [`RecordedPlaylist`] in pieces, made as a client takes them: there are thousands of URIs in
/// it, and a client chooses what stands behind each.
#[derive(Clone, Debug, Hash)]
pub struct RecordedText {
    playlist: Arc<RecordedPlaylist>,
    form: RecordedForm,
    /// Segments that a delta update leaves out.
    skipped: usize,
    /// Number of segments that are written or left out; `None` before the head.
    written: Option<usize>,
    is_ended: bool,
}

impl RecordedPlaylist {
    /// Creates an empty playlist, whose Target Duration is at least `target` seconds.
    pub const fn new(target: u32, first: Numbers) -> Self {
        Self {
            target,
            first,
            segments: VecDeque::new(),
        }
    }

    /// Adds a segment. One that is longer than a Target Duration raises that, which only a playlist that
    /// nobody has read may do: see [`longest`](Self::longest).
    pub fn push(&mut self, segment: RecordedSegment) {
        let rounded = (segment.duration + Duration::from_millis(500)).as_secs();
        self.target = self.target.max(u32::try_from(rounded).unwrap_or(u32::MAX));
        self.segments.push_back(segment);
    }

    /// Returns the longest duration of a segment that leaves the Target Duration as it is.
    pub fn longest(&self) -> Duration {
        Duration::from_secs(self.target.into()) + ROUNDING
    }

    /// Drops segments that end before `from`, since 1970-01-01 UTC, and the oldest beyond `most`.
    pub fn trim(&mut self, from: Duration, most: usize) {
        while let Some(first) = self.segments.front()
            && (first.date + first.duration <= from || self.segments.len() > most)
        {
            self.first.segment += 1;
            self.first.discontinuity += u64::from(!first.goes_on);
            self.segments.pop_front();
        }
    }

    /// Returns whether the playlist has no segment.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the bitrates of the segments.
    pub fn rate(&self) -> Option<SegmentRate> {
        let rate = |bytes: u64, span| per_second(bytes.saturating_mul(8), span);
        let peaks = self.segments.iter();
        let bytes = self.segments.iter().map(|it| it.bytes).sum();
        Some(SegmentRate {
            peak: peaks.filter_map(|it| rate(it.bytes, it.duration)).max()?,
            average: rate(bytes, self.segments.iter().map(|it| it.duration).sum())?,
        })
    }

    fn skip_boundary(&self) -> Duration {
        Duration::from_secs(self.target.into()) * 6
    }

    /// Returns how many segments are further from the end than the boundary.
    fn skippable(&self) -> usize {
        let mut rest: Duration = self.segments.iter().map(|it| it.duration).sum();
        let far = self.segments.iter().take_while(|it| {
            rest -= it.duration;
            rest > self.skip_boundary()
        });
        far.count()
    }
}

impl RecordedText {
    /// Begins the text of `playlist`.
    pub fn new(playlist: Arc<RecordedPlaylist>, form: RecordedForm) -> Self {
        let skipped = match form.skip && !form.is_over {
            true => playlist.skippable(),
            false => 0,
        };
        Self {
            playlist,
            form,
            skipped,
            written: None,
            is_ended: false,
        }
    }

    fn write_piece(&mut self, text: &mut String) -> fmt::Result {
        let written = match self.written {
            Some(written) => written,
            None => {
                self.write_head(text)?;
                self.skipped
            }
        };
        let segments = &self.playlist.segments;
        let mut before = written.checked_sub(1).and_then(|it| segments.get(it));
        let mut next = written;
        for segment in segments.range(written.min(segments.len())..) {
            if text.len() >= PIECE_BYTES {
                break;
            }
            segment.write(text, before, &self.form.query)?;
            before = Some(segment);
            next += 1;
        }
        self.written = Some(next);
        self.is_ended = next >= segments.len();
        match self.is_ended && self.form.is_over {
            true => writeln!(text, "#EXT-X-ENDLIST"),
            false => Ok(()),
        }
    }

    fn write_head(&self, text: &mut String) -> fmt::Result {
        let (playlist, is_over) = (&self.playlist, self.form.is_over);
        let version = if is_over { SPAN_VERSION } else { VERSION };
        writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{version}")?;
        writeln!(text, "#EXT-X-TARGETDURATION:{}", playlist.target)?;
        match is_over {
            true => writeln!(text, "#EXT-X-PLAYLIST-TYPE:VOD")?,
            false => {
                let boundary = Seconds(playlist.skip_boundary());
                writeln!(text, "#EXT-X-SERVER-CONTROL:CAN-SKIP-UNTIL={boundary}")?;
            }
        }
        writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{}", playlist.first.segment)?;
        let discontinuity = playlist.first.discontinuity;
        writeln!(text, "#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuity}")?;
        match self.skipped {
            0 => Ok(()),
            skipped => writeln!(text, "#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"),
        }
    }
}

impl Iterator for RecordedText {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.is_ended {
            return None;
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_piece(&mut text);
        Some(text)
    }
}

impl RecordedSegment {
    fn write(&self, text: &mut String, before: Option<&Self>, query: &str) -> fmt::Result {
        if !self.goes_on {
            writeln!(text, "#EXT-X-DISCONTINUITY")?;
        }
        if before.is_none_or(|it| it.map != self.map) {
            writeln!(text, "#EXT-X-MAP:URI=\"{}{query}\"", self.map)?;
        }
        writeln!(text, "#EXT-X-PROGRAM-DATE-TIME:{}", Date(self.date))?;
        let duration = Seconds(self.duration);
        writeln!(text, "#EXTINF:{duration},\n{}{query}", self.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_playlist::{media, names};
    use crate::judge::{Findings, judge_delta, judge_media};

    const LIVE: RecordedForm = RecordedForm {
        is_over: false,
        skip: false,
        query: String::new(),
    };

    fn written(playlist: &RecordedPlaylist, form: RecordedForm) -> String {
        RecordedText::new(Arc::new(playlist.clone()), form).collect()
    }

    /// Returns segments of four seconds, from second `from` on, each ten of one file; those whose number
    /// `cuts` names do not go on.
    fn playlist(from: u64, count: u64, cuts: &[u64]) -> RecordedPlaylist {
        let first = Numbers {
            segment: from,
            part: 0,
            discontinuity: 7,
        };
        let mut playlist = RecordedPlaylist::new(4, first);
        for number in from..from + count {
            playlist.push(RecordedSegment {
                uri: format!("past/s{number}.m4s"),
                map: format!("past/i{}.mp4", number / 10).into(),
                date: Duration::from_secs(number * 4),
                duration: Duration::from_secs(4),
                bytes: 1000 + number,
                goes_on: !cuts.contains(&number),
            });
        }
        playlist
    }

    fn judged(text: &str) -> Vec<&'static str> {
        let mut findings = Findings::default();
        judge_media(&media(text), &mut findings);
        names(findings)
    }

    #[test]
    fn a_span_has_a_type_and_an_end_and_the_query_behind_each_uri() {
        let form = RecordedForm {
            is_over: true,
            skip: true,
            query: "?token=a".to_owned(),
        };
        let text = written(&playlist(0, 3, &[2]), form);
        let expected = "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:4\n#EXT-X-PLAYLIST-TYPE:VOD\n\
            #EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-DISCONTINUITY-SEQUENCE:7\n\
            #EXT-X-MAP:URI=\"past/i0.mp4?token=a\"\n#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:00.000Z\n\
            #EXTINF:4.0,\npast/s0.m4s?token=a\n#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:04.000Z\n\
            #EXTINF:4.0,\npast/s1.m4s?token=a\n#EXT-X-DISCONTINUITY\n\
            #EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:08.000Z\n\
            #EXTINF:4.0,\npast/s2.m4s?token=a\n#EXT-X-ENDLIST\n";
        assert_eq!(text, expected);
        assert_eq!(judged(&text), [""; 0]);
    }

    #[test]
    fn numbers_stay_with_their_segments_while_the_oldest_leave() {
        let mut one = playlist(100, 40, &[105, 120]);
        one.trim(Duration::from_secs(110 * 4), usize::MAX);
        let text = written(&one, LIVE);
        assert!(text.contains("#EXT-X-MEDIA-SEQUENCE:110\n"), "{text}");
        assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:8\n"), "{text}");
        assert!(!text.contains("s109.m4s") && text.contains("s110.m4s"));
        assert_eq!(judged(&text), [""; 0]);
        one.trim(Duration::ZERO, 5);
        let text = written(&one, LIVE);
        assert!(text.contains("#EXT-X-MEDIA-SEQUENCE:135\n"), "{text}");
        assert!(text.contains("#EXT-X-DISCONTINUITY-SEQUENCE:9\n"), "{text}");
    }

    #[test]
    fn a_delta_update_leaves_out_what_is_far_from_the_end() {
        let one = playlist(100, 40, &[]);
        let (whole, delta) = (
            written(&one, LIVE),
            written(&one, RecordedForm { skip: true, ..LIVE }),
        );
        // Six Target Durations of four seconds stay, and no more.
        assert!(
            delta.contains("#EXT-X-SKIP:SKIPPED-SEGMENTS=33\n"),
            "{delta}"
        );
        let rest = delta.split("SKIPPED-SEGMENTS=33\n").nth(1).expect("a rest");
        assert!(whole.ends_with(rest), "{delta}");
        assert_eq!(rest.matches("#EXTINF").count(), 7);
        let (whole, mut findings) = (media(&whole), Findings::default());
        judge_delta(&media(&delta), &whole, &whole, &mut findings);
        assert_eq!(names(findings), [""; 0]);
    }

    #[test]
    fn the_target_holds_what_is_cut_by_it() {
        let mut one = playlist(0, 1, &[]);
        assert_eq!(one.longest(), Duration::from_millis(4450));
        let mut long = one.segments[0].clone();
        long.duration = Duration::from_millis(6600);
        one.push(long);
        assert!(written(&one, LIVE).contains("#EXT-X-TARGETDURATION:7\n"));
        let rate = one.rate().expect("two segments");
        assert_eq!((rate.peak, rate.average), (2000, 16_000_000 / 10_600));
    }

    #[test]
    fn a_long_query_behind_thousands_of_uris_is_written_piece_by_piece() {
        const QUERY: usize = 8 << 10;
        let form = RecordedForm {
            is_over: true,
            query: format!("?token={}", "a".repeat(QUERY)),
            ..LIVE
        };
        let (mut pieces, mut uris) = (0, 0);
        for piece in RecordedText::new(Arc::new(playlist(0, 20_000, &[])), form) {
            // The last segment of a piece has a URI of its own, and one of its initialization.
            assert!(piece.len() <= PIECE_BYTES + 3 * QUERY, "{}", piece.len());
            pieces += 1;
            uris += piece.matches("#EXTINF").count();
        }
        assert_eq!(uris, 20_000);
        assert!(pieces > 1_000, "{pieces}");
        let empty = RecordedText::new(Arc::new(playlist(0, 0, &[])), LIVE);
        assert_eq!(empty.count(), 1, "the head");
    }
}
