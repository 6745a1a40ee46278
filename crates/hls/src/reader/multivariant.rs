//! Reader of multivariant playlists (§4.4.6).

use std::collections::BTreeMap;

use super::playlist::{Start, TextFacts};
use super::tag::Tag;
use super::{Content, Scope, fault};

/// A multivariant playlist: the variants of a presentation, and the renditions that they combine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MultivariantPlaylist {
    /// Compatibility version; `None` without the tag, which means 1.
    pub version: Option<u64>,
    /// Whether each segment of the presentation is decoded without others.
    pub has_independent_segments: bool,
    /// Preferred point to start at.
    pub start: Option<Start>,
    /// Variants, in order.
    pub variants: Vec<Variant>,
    /// Variants of I-frames.
    pub i_frame_variants: Vec<IFrameVariant>,
    /// Renditions, in order.
    pub renditions: Vec<Rendition>,
    /// Variables that media playlists may import.
    pub variables: BTreeMap<String, String>,
    /// Facts about the text, for the judge.
    pub text: TextFacts,
}

/// A variant: renditions that can be combined to play the presentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    /// URI of the media playlist, as it stands there.
    pub uri: String,
    /// Peak bitrate of its segments in bit/s; 0 if the tag lacks it.
    pub bandwidth: u64,
    /// Average bitrate of its segments.
    pub average_bandwidth: Option<u64>,
    /// Formats of all samples, separated by commas.
    pub codecs: Option<String>,
    /// Width and height.
    pub resolution: Option<(u64, u64)>,
    /// Greatest frame rate.
    pub frame_rate: Option<f64>,
    /// Group of audio renditions.
    pub audio: Option<String>,
    /// Group of video renditions.
    pub video: Option<String>,
    /// Group of subtitles.
    pub subtitles: Option<String>,
    /// Group of closed captions, or `NONE`.
    pub closed_captions: Option<ClosedCaptions>,
    /// Whether the variant says how good it is.
    pub has_score: bool,
    /// Number of the line with the tag.
    pub line: usize,
}

/// Closed captions of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClosedCaptions {
    /// The presentation has none.
    None,
    /// A group of renditions.
    Group(String),
}

/// A variant of I-frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IFrameVariant {
    /// URI of the media playlist, as it stands there.
    pub uri: String,
    /// Peak bitrate in bit/s.
    pub bandwidth: u64,
    /// Number of its line.
    pub line: usize,
}

/// Kind of a rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RenditionKind {
    /// Sound for the ear alone.
    Audio,
    /// Video in another encoding or view.
    Video,
    /// Text in a playlist of its own.
    Subtitles,
    /// Text within video.
    ClosedCaptions,
}

/// One of several renditions of the same content.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendition {
    /// Kind of the rendition.
    pub kind: RenditionKind,
    /// URI of its media playlist; `None` if the media is within the variant's playlist.
    pub uri: Option<String>,
    /// Group to which it belongs.
    pub group: String,
    /// Name for people.
    pub name: String,
    /// Language of its content.
    pub language: Option<String>,
    /// Whether the rendition is played unless a viewer chooses.
    pub is_default: bool,
    /// Whether players may choose it; `None` if nothing is said, which means no.
    pub is_autoselected: Option<bool>,
    /// Rendition within the segments.
    pub instream_id: Option<String>,
    /// Number of audio channels, and more about them.
    pub channels: Option<String>,
    /// Number of its line.
    pub line: usize,
}

/// State of the reader between two lines.
#[derive(Debug, Default)]
pub(super) struct MultivariantReader {
    playlist: MultivariantPlaylist,
    /// The variant whose URI has not come.
    next: Option<Variant>,
    /// Whether the next URI belongs to a variant that is ignored.
    ignores_uri: bool,
}

impl MultivariantReader {
    pub(super) fn read(mut self, text: &str, scope: &mut Scope<'_>) -> MultivariantPlaylist {
        scope.lines(text, |scope, line| match line.content {
            Content::Uri(uri) => self.uri(uri, line.number, scope),
            Content::Tag(tag, value) => self.tag(tag, value, line.number, scope),
        });
        self.expect_no_variant(scope);
        let mut playlist = self.playlist;
        playlist.version = scope.version;
        playlist.has_independent_segments = scope.has_independent_segments;
        playlist.start = scope.start;
        playlist.text = std::mem::take(&mut scope.text);
        playlist.variables = std::mem::take(&mut scope.variables).into_values();
        playlist
    }

    fn uri(&mut self, uri: String, line: usize, scope: &mut Scope<'_>) {
        match self.next.take() {
            Some(variant) => self.playlist.variants.push(Variant { uri, ..variant }),
            None if std::mem::take(&mut self.ignores_uri) => {}
            None => {
                let what = format!(
                    "the URI '{}' has no EXT-X-STREAM-INF before it",
                    fault::shown(&uri)
                );
                scope.fault(Tag::StreamInf, line, what);
            }
        }
    }

    fn tag(&mut self, tag: Tag, value: &str, line: usize, scope: &mut Scope<'_>) {
        match tag {
            Tag::StreamInf => {
                self.expect_no_variant(scope);
                self.next = Some(variant(value, line, scope));
            }
            Tag::IFrameStreamInf => {
                let mut it = scope.attributes(tag, value, line);
                let (bandwidth, uri) = (it.integer("BANDWIDTH"), it.full_text("URI"));
                let bandwidth = it.must_have("BANDWIDTH", bandwidth).unwrap_or(0);
                if let Some(uri) = it.must_have("URI", uri) {
                    self.playlist.i_frame_variants.push(IFrameVariant {
                        uri,
                        bandwidth,
                        line,
                    });
                }
            }
            Tag::Media => self
                .playlist
                .renditions
                .extend(rendition(value, line, scope)),
            Tag::SessionData => {
                let mut it = scope.attributes(tag, value, line);
                let id = it.full_text("DATA-ID");
                it.must_have("DATA-ID", id);
                if it.has("VALUE") == it.has("URI") {
                    it.fault("EXT-X-SESSION-DATA must have either VALUE or URI");
                }
            }
            Tag::SessionKey => {
                let mut it = scope.attributes(tag, value, line);
                let method = it.word("METHOD");
                if it.must_have("METHOD", method).as_deref() == Some("NONE") {
                    it.fault("METHOD of EXT-X-SESSION-KEY is NONE");
                }
            }
            Tag::ContentSteering => {
                let mut it = scope.attributes(tag, value, line);
                let uri = it.full_text("SERVER-URI");
                it.must_have("SERVER-URI", uri);
            }
            _ => {}
        }
    }

    fn expect_no_variant(&mut self, scope: &mut Scope<'_>) {
        if let Some(variant) = self.next.take() {
            scope.fault(
                Tag::StreamInf,
                variant.line,
                "EXT-X-STREAM-INF has no URI behind it",
            );
        }
    }
}

fn variant(value: &str, line: usize, scope: &mut Scope<'_>) -> Variant {
    let mut it = scope.attributes(Tag::StreamInf, value, line);
    let bandwidth = it.integer("BANDWIDTH");
    let bandwidth = it.must_have("BANDWIDTH", bandwidth).unwrap_or(0);
    let closed_captions = match it
        .pairs()
        .iter()
        .find(|(name, _)| name == "CLOSED-CAPTIONS")
    {
        Some((_, none)) if none == "NONE" => Some(ClosedCaptions::None),
        Some(_) => it.full_text("CLOSED-CAPTIONS").map(ClosedCaptions::Group),
        None => None,
    };
    Variant {
        uri: String::new(),
        bandwidth,
        average_bandwidth: it.integer("AVERAGE-BANDWIDTH"),
        codecs: it.full_text("CODECS"),
        resolution: it.resolution("RESOLUTION"),
        frame_rate: it.decimal("FRAME-RATE"),
        audio: it.full_text("AUDIO"),
        video: it.full_text("VIDEO"),
        subtitles: it.full_text("SUBTITLES"),
        closed_captions,
        has_score: it.has("SCORE"),
        line,
    }
}

fn rendition(value: &str, line: usize, scope: &mut Scope<'_>) -> Option<Rendition> {
    let mut it = scope.attributes(Tag::Media, value, line);
    let kind = it.word("TYPE");
    let kind = match it.must_have("TYPE", kind)?.as_str() {
        "AUDIO" => RenditionKind::Audio,
        "VIDEO" => RenditionKind::Video,
        "SUBTITLES" => RenditionKind::Subtitles,
        "CLOSED-CAPTIONS" => RenditionKind::ClosedCaptions,
        other => {
            let what = format!(
                "TYPE of EXT-X-MEDIA is '{}', which the text does not know",
                fault::shown(other)
            );
            it.fault(what);
            return None;
        }
    };
    let (group, name) = (it.full_text("GROUP-ID"), it.full_text("NAME"));
    let (group, name) = (it.must_have("GROUP-ID", group), it.must_have("NAME", name));
    Some(Rendition {
        kind,
        uri: it.full_text("URI"),
        group: group?,
        name: name?,
        language: it.full_text("LANGUAGE"),
        is_default: it.yes("DEFAULT", true).unwrap_or(false),
        is_autoselected: it.yes("AUTOSELECT", true),
        instream_id: it.full_text("INSTREAM-ID"),
        channels: it.full_text("CHANNELS"),
        line,
    })
}
