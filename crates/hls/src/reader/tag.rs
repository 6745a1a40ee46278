//! The tags of a playlist, with the place of each in the text.

/// A tag that the text defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is called as its tag")]
pub enum Tag {
    ExtM3u,
    Version,
    IndependentSegments,
    Start,
    Define,
    TargetDuration,
    MediaSequence,
    DiscontinuitySequence,
    EndList,
    PlaylistType,
    IFramesOnly,
    PartInf,
    ServerControl,
    ExtInf,
    ByteRange,
    Discontinuity,
    Key,
    Map,
    ProgramDateTime,
    Gap,
    Bitrate,
    Part,
    DateRange,
    Skip,
    PreloadHint,
    RenditionReport,
    Media,
    StreamInf,
    IFrameStreamInf,
    SessionData,
    SessionKey,
    ContentSteering,
}

/// The kind of playlist in which a tag may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The tag may stand in both kinds of playlists.
    Any,
    /// The tag describes a media playlist as a whole.
    Media,
    /// The tag describes segments, or metadata of a media playlist.
    Segment,
    /// The tag stands in multivariant playlists only.
    Multivariant,
}

/// A row of the table: tag, name without `#`, level, section.
type Row = (Tag, &'static str, Level, &'static str);

const TAGS: [Row; 32] = [
    (Tag::ExtM3u, "EXTM3U", Level::Any, "4.4.1.1"),
    (Tag::Version, "EXT-X-VERSION", Level::Any, "4.4.1.2"),
    (
        Tag::IndependentSegments,
        "EXT-X-INDEPENDENT-SEGMENTS",
        Level::Any,
        "4.4.2.1",
    ),
    (Tag::Start, "EXT-X-START", Level::Any, "4.4.2.2"),
    (Tag::Define, "EXT-X-DEFINE", Level::Any, "4.4.2.3"),
    (
        Tag::TargetDuration,
        "EXT-X-TARGETDURATION",
        Level::Media,
        "4.4.3.1",
    ),
    (
        Tag::MediaSequence,
        "EXT-X-MEDIA-SEQUENCE",
        Level::Media,
        "4.4.3.2",
    ),
    (
        Tag::DiscontinuitySequence,
        "EXT-X-DISCONTINUITY-SEQUENCE",
        Level::Media,
        "4.4.3.3",
    ),
    (Tag::EndList, "EXT-X-ENDLIST", Level::Media, "4.4.3.4"),
    (
        Tag::PlaylistType,
        "EXT-X-PLAYLIST-TYPE",
        Level::Media,
        "4.4.3.5",
    ),
    (
        Tag::IFramesOnly,
        "EXT-X-I-FRAMES-ONLY",
        Level::Media,
        "4.4.3.6",
    ),
    (Tag::PartInf, "EXT-X-PART-INF", Level::Media, "4.4.3.7"),
    (
        Tag::ServerControl,
        "EXT-X-SERVER-CONTROL",
        Level::Media,
        "4.4.3.8",
    ),
    (Tag::ExtInf, "EXTINF", Level::Segment, "4.4.4.1"),
    (Tag::ByteRange, "EXT-X-BYTERANGE", Level::Segment, "4.4.4.2"),
    (
        Tag::Discontinuity,
        "EXT-X-DISCONTINUITY",
        Level::Segment,
        "4.4.4.3",
    ),
    (Tag::Key, "EXT-X-KEY", Level::Segment, "4.4.4.4"),
    (Tag::Map, "EXT-X-MAP", Level::Segment, "4.4.4.5"),
    (
        Tag::ProgramDateTime,
        "EXT-X-PROGRAM-DATE-TIME",
        Level::Segment,
        "4.4.4.6",
    ),
    (Tag::Gap, "EXT-X-GAP", Level::Segment, "4.4.4.7"),
    (Tag::Bitrate, "EXT-X-BITRATE", Level::Segment, "4.4.4.8"),
    (Tag::Part, "EXT-X-PART", Level::Segment, "4.4.4.9"),
    (Tag::DateRange, "EXT-X-DATERANGE", Level::Segment, "4.4.5.1"),
    (Tag::Skip, "EXT-X-SKIP", Level::Segment, "4.4.5.2"),
    (
        Tag::PreloadHint,
        "EXT-X-PRELOAD-HINT",
        Level::Segment,
        "4.4.5.3",
    ),
    (
        Tag::RenditionReport,
        "EXT-X-RENDITION-REPORT",
        Level::Segment,
        "4.4.5.4",
    ),
    (Tag::Media, "EXT-X-MEDIA", Level::Multivariant, "4.4.6.1"),
    (
        Tag::StreamInf,
        "EXT-X-STREAM-INF",
        Level::Multivariant,
        "4.4.6.2",
    ),
    (
        Tag::IFrameStreamInf,
        "EXT-X-I-FRAME-STREAM-INF",
        Level::Multivariant,
        "4.4.6.3",
    ),
    (
        Tag::SessionData,
        "EXT-X-SESSION-DATA",
        Level::Multivariant,
        "4.4.6.4",
    ),
    (
        Tag::SessionKey,
        "EXT-X-SESSION-KEY",
        Level::Multivariant,
        "4.4.6.5",
    ),
    (
        Tag::ContentSteering,
        "EXT-X-CONTENT-STEERING",
        Level::Multivariant,
        "4.4.6.6",
    ),
];

impl Tag {
    /// Divides a line into its tag and the value behind the colon; `None` for a comment, a URI, and a
    /// tag that the text does not define.
    pub(super) fn of(line: &str) -> Option<(Self, &str)> {
        let line = line.strip_prefix('#')?;
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let row = TAGS.iter().find(|row| row.1 == name)?;
        Some((row.0, value))
    }

    /// Name of the tag in a playlist, without `#`.
    pub const fn name(self) -> &'static str {
        TAGS[self as usize].1
    }

    /// Section of the text that defines the tag.
    pub const fn section(self) -> &'static str {
        TAGS[self as usize].3
    }

    pub(super) const fn level(self) -> Level {
        TAGS[self as usize].2
    }

    /// Whether a playlist may have the tag only once (§4.4.1.2, §4.4.2, §4.4.3, §4.4.5.2, §4.4.6.6).
    pub(super) fn stands_once(self) -> bool {
        self.level() == Level::Media
            || matches!(
                self,
                Self::Version
                    | Self::IndependentSegments
                    | Self::Start
                    | Self::Skip
                    | Self::ContentSteering
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_tags() {
        for (index, row) in TAGS.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!((row.0.name(), row.0.section()), (row.1, row.3));
        }
    }

    #[test]
    fn a_line_is_divided_at_its_first_colon() {
        let line = "#EXT-X-MAP:URI=\"http://h/init.mp4\"";
        assert_eq!(Tag::of(line), Some((Tag::Map, "URI=\"http://h/init.mp4\"")));
        assert_eq!(Tag::of("#EXT-X-GAP"), Some((Tag::Gap, "")));
        for other in ["# comment", "#EXT-X-NEW:1", "EXT-X-GAP", "#ext-x-gap", ""] {
            assert_eq!(Tag::of(other), None, "{other}");
        }
    }
}
