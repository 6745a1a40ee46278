//! Reader of media playlists (§4.4.3 to §4.4.5).

use std::sync::Arc;
use std::time::Duration;

use super::playlist::{
    ByteRange, DateRange, HintKind, Key, Map, MediaPlaylist, OpenSegment, Part, PlaylistType,
    PreloadHint, RenditionReport, Segment, ServerControl, Skip,
};
use super::tag::Tag;
use super::value::{self, DateTime};
use super::{Content, Scope, fault};

/// State of the reader between two lines.
#[derive(Debug, Default)]
pub(super) struct MediaReader {
    playlist: MediaPlaylist,
    next: Next,
    map: Option<Arc<Map>>,
    keys: Arc<[Key]>,
    bitrate: Option<u64>,
    /// Resource of the last segment, and where its range ended.
    segment_end: Option<(String, u64)>,
    has_discontinuity: bool,
}

/// Tags so far of the segment whose URI has not come.
#[derive(Debug, Default)]
struct Next {
    duration: Option<Duration>,
    title: Option<String>,
    /// Length and offset, as they stand there.
    byte_range: Option<(u64, Option<u64>)>,
    is_discontinuity: bool,
    date_time: Option<DateTime>,
    is_gap: bool,
    parts: Vec<Part>,
    /// Resource of the last part, and where its range ended.
    part_end: Option<(String, u64)>,
    /// Line of the first tag, for a segment without a URI.
    line: usize,
}

impl MediaReader {
    pub(super) fn read(mut self, text: &str, scope: &mut Scope<'_>) -> MediaPlaylist {
        scope.lines(text, |scope, line| match line.content {
            Content::Uri(uri) => self.uri(uri, line.number, scope),
            Content::Tag(tag, value) => self.tag(tag, value, line.number, scope),
        });
        if self.next.duration.is_some() {
            let line = self.next.line;
            scope.fault(Tag::ExtInf, line, "EXTINF has no URI behind it");
        }
        let mut playlist = self.playlist;
        playlist.open = OpenSegment {
            parts: self.next.parts,
            is_discontinuity: self.next.is_discontinuity,
            map: self.map,
            date_time: self.next.date_time,
        };
        playlist.version = scope.version;
        playlist.has_independent_segments = scope.has_independent_segments;
        playlist.start = scope.start;
        playlist.text = std::mem::take(&mut scope.text);
        playlist
    }

    fn tag(&mut self, tag: Tag, value: &str, line: usize, scope: &mut Scope<'_>) {
        match tag {
            Tag::TargetDuration => {
                let seconds = scope.integer(tag, value, line);
                if seconds == Some(0) {
                    scope.fault(tag, line, "the target duration is 0 and must be 1 at least");
                }
                self.playlist.target_duration = seconds.map(Duration::from_secs);
            }
            Tag::MediaSequence => {
                self.before_segments(tag, line, scope);
                self.playlist.media_sequence = scope.integer(tag, value, line).unwrap_or(0);
            }
            Tag::DiscontinuitySequence => {
                self.before_segments(tag, line, scope);
                if self.has_discontinuity {
                    scope.fault(
                        tag,
                        line,
                        "EXT-X-DISCONTINUITY-SEQUENCE stands behind an EXT-X-DISCONTINUITY",
                    );
                }
                self.playlist.discontinuity_sequence = scope.integer(tag, value, line).unwrap_or(0);
            }
            Tag::EndList => self.playlist.is_ended = true,
            Tag::PlaylistType => match value {
                "EVENT" => self.playlist.kind = Some(PlaylistType::Event),
                "VOD" => self.playlist.kind = Some(PlaylistType::Vod),
                other => {
                    let what = format!(
                        "EXT-X-PLAYLIST-TYPE is '{}' and must be EVENT or VOD",
                        fault::shown(other)
                    );
                    scope.fault(tag, line, what);
                }
            },
            Tag::IFramesOnly => self.playlist.has_i_frames_only = true,
            Tag::PartInf => {
                let mut it = scope.attributes(tag, value, line);
                let target = it.seconds("PART-TARGET");
                self.playlist.part_target = it.must_have("PART-TARGET", target);
            }
            Tag::ServerControl => {
                self.playlist.server_control = Some(server_control(value, line, scope));
            }
            Tag::DateRange => self.date_range(value, line, scope),
            Tag::Skip => self.skip(value, line, scope),
            Tag::PreloadHint => self.hint(value, line, scope),
            Tag::RenditionReport => self.report(value, line, scope),
            tag => self.segment_tag(tag, value, line, scope),
        }
    }

    fn segment_tag(&mut self, tag: Tag, value: &str, line: usize, scope: &mut Scope<'_>) {
        if matches!(
            tag,
            Tag::Discontinuity | Tag::Key | Tag::Map | Tag::ProgramDateTime
        ) && !self.next.parts.is_empty()
        {
            let what = format!(
                "{} stands behind the first EXT-X-PART of its segment",
                tag.name()
            );
            scope.faults.add(line, Tag::Part.section(), what);
        }
        match tag {
            Tag::ExtInf => self.duration(value, line, scope),
            Tag::ByteRange => {
                self.next.byte_range = byte_range(value);
                if self.next.byte_range.is_none() {
                    let what = format!(
                        "EXT-X-BYTERANGE is '{}' and must be LENGTH or LENGTH@OFFSET",
                        fault::shown(value)
                    );
                    scope.fault(tag, line, what);
                }
            }
            Tag::Discontinuity => {
                self.next.is_discontinuity = true;
                self.has_discontinuity = true;
            }
            Tag::Key => self.key(value, line, scope),
            Tag::Map => self.map(value, line, scope),
            Tag::ProgramDateTime => {
                self.next.date_time = DateTime::parse(value);
                if self.next.date_time.is_none() {
                    let what = format!("the date '{}' is not of ISO 8601", fault::shown(value));
                    scope.fault(tag, line, what);
                }
            }
            Tag::Gap => self.next.is_gap = true,
            Tag::Bitrate => self.bitrate = scope.integer(tag, value, line),
            Tag::Part => self.part(value, line, scope),
            _ => {}
        }
    }

    /// Completes the segment whose URI this is.
    fn uri(&mut self, uri: String, line: usize, scope: &mut Scope<'_>) {
        let next = std::mem::take(&mut self.next);
        if next.duration.is_none() {
            let what = format!("the segment '{}' has no EXTINF", fault::shown(&uri));
            scope.fault(Tag::ExtInf, line, what);
        }
        let byte_range = next.byte_range.map(|(length, offset)| {
            let offset = offset.unwrap_or_else(|| match &self.segment_end {
                Some((resource, end)) if *resource == uri => *end,
                _ => {
                    let what = "EXT-X-BYTERANGE has no offset, and the segment before is not of this resource";
                    scope.fault(Tag::ByteRange, line, what);
                    0
                }
            });
            ByteRange { length, offset }
        });
        self.segment_end = byte_range.map(|it| (uri.clone(), it.offset.saturating_add(it.length)));
        self.playlist.segments.push(Segment {
            uri,
            duration: next.duration.unwrap_or_default(),
            title: next.title,
            byte_range,
            is_discontinuity: next.is_discontinuity,
            map: self.map.clone(),
            keys: Arc::clone(&self.keys),
            date_time: next.date_time,
            is_gap: next.is_gap,
            bitrate: self.bitrate,
            parts: next.parts,
            line,
        });
    }

    fn duration(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let (number, title) = match value.split_once(',') {
            Some((number, title)) => (number, Some(title.trim())),
            None => {
                scope.fault(
                    Tag::ExtInf,
                    line,
                    "EXTINF lacks the comma behind its duration",
                );
                (value, None)
            }
        };
        if self.next.duration.is_some() {
            scope.fault(Tag::ExtInf, line, "EXTINF stands twice before one URI");
        }
        let duration = value::seconds(number);
        if duration.is_none() {
            let what = format!(
                "EXTINF has '{}' and must have a number of seconds",
                fault::shown(number)
            );
            scope.fault(Tag::ExtInf, line, what);
        }
        scope.text.has_fractions |= number.contains('.');
        self.next.line = line;
        self.next.duration = Some(duration.unwrap_or_default());
        self.next.title = title.filter(|it| !it.is_empty()).map(str::to_owned);
    }

    fn map(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::Map, value, line);
        let uri = it.full_text("URI");
        let uri = it.must_have("URI", uri);
        let range = it.text("BYTERANGE");
        let byte_range = range.as_deref().and_then(byte_range);
        if range.is_some() && !matches!(byte_range, Some((_, Some(_)))) {
            it.fault("BYTERANGE of EXT-X-MAP must be LENGTH@OFFSET");
        }
        let byte_range = byte_range.map(|(length, offset)| ByteRange {
            length,
            offset: offset.unwrap_or(0),
        });
        self.map = uri.map(|uri| {
            Arc::new(Map {
                uri,
                byte_range,
                line,
            })
        });
    }

    fn key(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::Key, value, line);
        let method = it.word("METHOD");
        let Some(method) = it.must_have("METHOD", method) else {
            return;
        };
        let key = Key {
            uri: it.full_text("URI"),
            iv: it.word("IV"),
            format: it
                .full_text("KEYFORMAT")
                .unwrap_or_else(|| "identity".to_owned()),
            format_versions: it.full_text("KEYFORMATVERSIONS"),
            method,
        };
        if key.method == "NONE" {
            if ["URI", "IV", "KEYFORMAT", "KEYFORMATVERSIONS"]
                .iter()
                .any(|name| it.has(name))
            {
                it.fault("METHOD=NONE has other attributes");
            }
            self.keys = Arc::default();
            return;
        }
        if key.uri.is_none() {
            it.must_have::<()>("URI", None);
        }
        let is_other = |other: &&Key| other.format != key.format;
        // A tag follows the segments of the one before: then the set begins anew.
        let is_fresh = self
            .playlist
            .segments
            .last()
            .is_none_or(|last| !Arc::ptr_eq(&last.keys, &self.keys));
        let kept: Vec<Key> = match is_fresh {
            true => self.keys.iter().filter(is_other).cloned().collect(),
            false => Vec::new(),
        };
        // A list of many formats would be copied for each tag.
        const FORMATS_MAX: usize = 16;
        self.keys = kept.into_iter().take(FORMATS_MAX).chain([key]).collect();
    }

    fn part(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::Part, value, line);
        let (uri, duration) = (it.full_text("URI"), it.seconds("DURATION"));
        let (uri, duration) = (it.must_have("URI", uri), it.must_have("DURATION", duration));
        let range = it.text("BYTERANGE");
        let given = range.as_deref().and_then(byte_range);
        if range.is_some() && given.is_none() {
            it.fault("BYTERANGE of EXT-X-PART must be LENGTH or LENGTH@OFFSET");
        }
        let is_independent = it.yes("INDEPENDENT", false).unwrap_or(false);
        let is_gap = it.yes("GAP", false).unwrap_or(false);
        let (Some(uri), Some(duration)) = (uri, duration) else {
            return;
        };
        let byte_range = given.map(|(length, offset)| {
            let offset = offset.unwrap_or_else(|| match &self.next.part_end {
                Some((resource, end)) if *resource == uri => *end,
                _ => {
                    it.fault("BYTERANGE has no offset, and the part before is not of this resource and segment");
                    0
                }
            });
            ByteRange { length, offset }
        });
        self.next.part_end =
            byte_range.map(|it| (uri.clone(), it.offset.saturating_add(it.length)));
        self.next.parts.push(Part {
            uri,
            duration,
            is_independent,
            byte_range,
            is_gap,
            line,
        });
    }

    fn skip(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let is_late = !self.playlist.segments.is_empty();
        let mut it = scope.attributes(Tag::Skip, value, line);
        let segments = it.integer("SKIPPED-SEGMENTS");
        let segments = it.must_have("SKIPPED-SEGMENTS", segments);
        let removed = it.text("RECENTLY-REMOVED-DATERANGES");
        if is_late {
            it.fault("EXT-X-SKIP stands behind a segment");
        }
        self.playlist.skip = segments.map(|segments| Skip {
            segments,
            removed_date_ranges: removed.map(|list| {
                list.split('\t')
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned)
                    .collect()
            }),
        });
    }

    fn hint(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::PreloadHint, value, line);
        let (kind, uri) = (it.word("TYPE"), it.full_text("URI"));
        let (kind, uri) = (it.must_have("TYPE", kind), it.must_have("URI", uri));
        let start = it.integer("BYTERANGE-START").unwrap_or(0);
        let length = it.integer("BYTERANGE-LENGTH");
        let kind = match kind.as_deref() {
            Some("PART") => HintKind::Part,
            Some("MAP") => HintKind::Map,
            // Clients ignore other types (§6.3.8).
            _ => return,
        };
        if let Some(uri) = uri {
            self.playlist.hints.push(PreloadHint {
                kind,
                uri,
                start,
                length,
                line,
            });
        }
    }

    fn report(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::RenditionReport, value, line);
        self.playlist.reports.push(RenditionReport {
            uri: it.full_text("URI"),
            last_sequence: it.integer("LAST-MSN"),
            last_part: it.integer("LAST-PART"),
            line,
        });
    }

    fn date_range(&mut self, value: &str, line: usize, scope: &mut Scope<'_>) {
        let mut it = scope.attributes(Tag::DateRange, value, line);
        let id = it.full_text("ID");
        let Some(id) = it.must_have("ID", id) else {
            return;
        };
        let range = DateRange {
            id,
            class: it.full_text("CLASS"),
            start: it.date("START-DATE"),
            end: it.date("END-DATE"),
            duration: it.seconds("DURATION"),
            is_ended_by_next: it.yes("END-ON-NEXT", false).unwrap_or(false),
            attributes: it.pairs(),
            line,
        };
        let is_known = |other: &DateRange| other.id == range.id && other.start.is_some();
        if range.start.is_none()
            && !self
                .playlist
                .date_ranges
                .iter()
                .rev()
                .take(64)
                .any(is_known)
        {
            it.must_have::<()>("START-DATE", None);
        }
        self.playlist.date_ranges.push(range);
    }

    fn before_segments(&self, tag: Tag, line: usize, scope: &mut Scope<'_>) {
        if !self.playlist.segments.is_empty() {
            scope.fault(tag, line, format!("{} stands behind a segment", tag.name()));
        }
    }
}

fn server_control(value: &str, line: usize, scope: &mut Scope<'_>) -> ServerControl {
    let mut it = scope.attributes(Tag::ServerControl, value, line);
    ServerControl {
        can_skip_until: it.seconds("CAN-SKIP-UNTIL"),
        can_skip_date_ranges: it.yes("CAN-SKIP-DATERANGES", false).unwrap_or(false),
        hold_back: it.seconds("HOLD-BACK"),
        part_hold_back: it.seconds("PART-HOLD-BACK"),
        can_block_reload: it.yes("CAN-BLOCK-RELOAD", false).unwrap_or(false),
    }
}

/// Reads `LENGTH` or `LENGTH@OFFSET`.
fn byte_range(text: &str) -> Option<(u64, Option<u64>)> {
    match text.split_once('@') {
        Some((length, offset)) => Some((value::integer(length)?, Some(value::integer(offset)?))),
        None => Some((value::integer(text)?, None)),
    }
}
