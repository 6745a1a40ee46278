//! Reader of playlists (draft-pantos-hls-rfc8216bis-22 §4).
//!
//! ```text
//! bytes ─► lines ─► Tag, value ─► Attributes ─► Playlist, as far as it can be understood
//!                        └──────────────────► Fault: line, section, what is wrong
//! ```
//!
//! Tags and attributes that the text does not define are ignored (§6.3.1). What is read is bounded:
//! [`BYTES_MAX`] of text, [`ITEMS_MAX`] segments, parts and the like, and values of variables of
//! [`BYTES_MAX`] in all.

use std::collections::BTreeMap;

mod attributes;
mod fault;
mod media;
mod multivariant;
mod playlist;
#[cfg(test)]
mod round_trip;
mod tag;
#[cfg(test)]
mod tests;
mod value;
mod variables;

pub use fault::Fault;
pub use multivariant::{
    ClosedCaptions, IFrameVariant, MultivariantPlaylist, Rendition, RenditionKind, Variant,
};
pub use playlist::{
    ByteRange, DateRange, HintKind, Key, Map, MediaPlaylist, OpenSegment, Part, PlaylistType,
    Position, PreloadHint, RenditionReport, Segment, ServerControl, Skip, Start, TextFacts,
};
pub use tag::Tag;
pub use value::DateTime;

use attributes::Attributes;
use fault::Faults;
use media::MediaReader;
use multivariant::MultivariantReader;
use tag::Level;
use variables::Variables;

/// Longest playlist that is read, in bytes.
pub const BYTES_MAX: usize = 4 << 20;

/// Most segments, parts, hints, reports, renditions and the like of one playlist.
pub const ITEMS_MAX: usize = 200_000;

/// A playlist of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Playlist {
    /// The segments of one rendition.
    Media(MediaPlaylist),
    /// The variants of a presentation.
    Multivariant(MultivariantPlaylist),
}

/// A playlist as far as it could be understood, and its faults.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The readable part of the playlist.
    pub playlist: Playlist,
    /// Places that break the rules of §4, in the order of the lines; at most a hundred.
    pub faults: Vec<Fault>,
}

/// Variables and parameters that a playlist takes from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Variables of the multivariant playlist that led to this one.
    pub variables: Option<&'a BTreeMap<String, String>>,
    /// Query of the playlist's URI, after redirections, percent-decoded.
    pub query: &'a [(String, String)],
}

/// Reads a playlist as far as it can be understood.
///
/// # Errors
/// The fault of a text that is no playlist: too long, not UTF-8, without `#EXTM3U`, or of both kinds.
pub fn read(bytes: &[u8], surroundings: Surroundings<'_>) -> Result<Reading, Fault> {
    if bytes.len() > BYTES_MAX {
        let what = format!(
            "the playlist has {} bytes, and more than {BYTES_MAX} are not read",
            bytes.len()
        );
        return Err(Fault::new(0, "4.1", what));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Fault::new(
            line_at(bytes, error.valid_up_to()),
            "4.1",
            "the playlist is not UTF-8",
        )
    })?;
    let mut faults = Faults::default();
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => {
            faults.add(1, "4.1", "the playlist begins with a byte order mark");
            rest
        }
        None => text,
    };
    if text.lines().next().map(str::trim_end) != Some("#EXTM3U") {
        let shown = fault::shown(text.lines().next().unwrap_or_default());
        let what = format!("the first line is '{shown}' and must be #EXTM3U");
        return Err(Fault::new(1, "4.4.1.1", what));
    }
    let is_multivariant = kind(text)?;
    let mut scope = Scope::new(surroundings, faults, is_multivariant);
    let playlist = match is_multivariant {
        true => Playlist::Multivariant(MultivariantReader::default().read(text, &mut scope)),
        false => Playlist::Media(MediaReader::default().read(text, &mut scope)),
    };
    Ok(Reading {
        playlist,
        faults: scope.faults.into_sorted(),
    })
}

/// Whether a text is a multivariant playlist (§4.1).
fn kind(text: &str) -> Result<bool, Fault> {
    let mut first: [Option<(usize, Tag)>; 2] = [None, None];
    for (index, line) in text.lines().enumerate() {
        let Some((tag, _)) = Tag::of(line) else {
            continue;
        };
        match tag.level() {
            Level::Any => {}
            Level::Media | Level::Segment => _ = first[0].get_or_insert((index + 1, tag)),
            Level::Multivariant => _ = first[1].get_or_insert((index + 1, tag)),
        }
    }
    match first {
        [Some((line, media)), Some((other, multivariant))] => {
            let what = format!(
                "{} is for media playlists, and {} of line {other} for multivariant playlists",
                media.name(),
                multivariant.name()
            );
            Err(Fault::new(line, "4.4.6", what))
        }
        [media, _] => Ok(media.is_none()),
    }
}

/// Number of the line with byte `at`.
fn line_at(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().filter(|it| **it == b'\n').count() + 1
}

/// State that the readers of both kinds share.
struct Scope<'a> {
    surroundings: Surroundings<'a>,
    is_multivariant: bool,
    variables: Variables,
    faults: Faults,
    text: TextFacts,
    version: Option<u64>,
    has_independent_segments: bool,
    start: Option<Start>,
    items: usize,
}

impl<'a> Scope<'a> {
    fn new(surroundings: Surroundings<'a>, faults: Faults, is_multivariant: bool) -> Self {
        Self {
            surroundings,
            is_multivariant,
            variables: Variables::default(),
            faults,
            text: TextFacts::default(),
            version: None,
            has_independent_segments: false,
            start: None,
            items: 0,
        }
    }

    /// Takes the text apart. `take` gets each tag that is not of both kinds, and each URI.
    fn lines<'text>(&mut self, text: &'text str, mut take: impl FnMut(&mut Self, Line<'text>)) {
        for (index, raw) in text.split('\n').enumerate() {
            let number = index + 1;
            let line = raw.strip_suffix('\r').unwrap_or(raw);
            if line.is_empty() {
                continue;
            }
            if line.chars().any(char::is_control) {
                self.faults
                    .add(number, "4.1", "the line has a control character");
            }
            if line.starts_with([' ', '\t'])
                || line.ends_with([' ', '\t']) && !line.starts_with("#EXTINF:")
            {
                self.faults
                    .add(number, "4.1", "the line begins or ends with a blank");
            }
            let line = line.trim();
            if !line.starts_with('#') {
                if self.has_room(number) && !line.is_empty() {
                    let uri = self.variables.replaced(line, number, &mut self.faults);
                    take(
                        self,
                        Line {
                            number,
                            content: Content::Uri(uri),
                        },
                    );
                }
                continue;
            }
            let Some((tag, value)) = Tag::of(line) else {
                continue;
            };
            if !self.text.note(tag, number) && tag.stands_once() {
                let what = format!("{} stands twice", tag.name());
                self.faults.add(number, tag.section(), what);
                continue;
            }
            match tag {
                Tag::ExtM3u => {}
                Tag::Version => self.version(value, number),
                Tag::IndependentSegments => self.has_independent_segments = true,
                Tag::Start => self.start(value, number),
                Tag::Define => self.define(value, number),
                tag if self.has_room(number) => {
                    take(
                        self,
                        Line {
                            number,
                            content: Content::Tag(tag, value),
                        },
                    );
                }
                _ => {}
            }
        }
        self.text.has_variables = self.variables.are_used;
    }

    fn attributes<'text, 'scope>(
        &'scope mut self,
        tag: Tag,
        value: &'text str,
        line: usize,
    ) -> Attributes<'text, 'scope> {
        let attributes = Attributes::read(tag, value, line, &mut self.variables, &mut self.faults);
        self.text.has_required_attributes |= attributes.has_prefix("REQ-");
        attributes
    }

    /// A number of a tag without attributes.
    fn integer(&mut self, tag: Tag, text: &str, line: usize) -> Option<u64> {
        let number = value::integer(text);
        if number.is_none() {
            let what = format!(
                "{} has '{}' and must have a whole number",
                tag.name(),
                fault::shown(text)
            );
            self.faults.add(line, tag.section(), what);
        }
        number
    }

    fn fault(&mut self, tag: Tag, line: usize, what: impl Into<String>) {
        self.faults.add(line, tag.section(), what);
    }

    /// Counts an item; false, with a fault once, if there are too many.
    fn has_room(&mut self, line: usize) -> bool {
        self.items += 1;
        if self.items == ITEMS_MAX + 1 {
            let what =
                format!("what follows is not read: the playlist has more than {ITEMS_MAX} items");
            self.faults.add(line, "4.1", what);
        }
        self.items <= ITEMS_MAX
    }

    fn version(&mut self, text: &str, line: usize) {
        self.version = self.integer(Tag::Version, text, line);
    }

    fn start(&mut self, text: &str, line: usize) {
        let mut it = self.attributes(Tag::Start, text, line);
        let offset = it.signed_seconds("TIME-OFFSET");
        let offset = it.must_have("TIME-OFFSET", offset);
        let is_precise = it.yes("PRECISE", true).unwrap_or(false);
        self.start = offset.map(|(is_from_end, offset)| Start {
            offset,
            is_from_end,
            is_precise,
        });
    }

    fn define(&mut self, text: &str, line: usize) {
        let (surroundings, is_multivariant) = (self.surroundings, self.is_multivariant);
        let mut it = self.attributes(Tag::Define, text, line);
        let (name, import, query) = (
            it.full_text("NAME"),
            it.full_text("IMPORT"),
            it.full_text("QUERYPARAM"),
        );
        let defined = match (name, import, query) {
            (Some(name), None, None) => {
                let value = it.text("VALUE");
                it.must_have("VALUE", value).map(|value| (name, value))
            }
            (None, Some(_), None) if is_multivariant => {
                it.fault("IMPORT is for media playlists only");
                None
            }
            (None, Some(name), None) => match surroundings.variables.and_then(|it| it.get(&name)) {
                Some(value) => Some((name, value.clone())),
                None => {
                    it.fault(format!(
                        "no multivariant playlist that led here defines the variable '{name}'"
                    ));
                    None
                }
            },
            (None, None, Some(name)) => {
                let found = surroundings.query.iter().find(|(key, _)| *key == name);
                let found = found.filter(|(_, value)| !value.is_empty());
                if found.is_none() {
                    it.fault(format!(
                        "the URI of the playlist has no value for the parameter '{name}'"
                    ));
                }
                self.text.has_query_variables = true;
                found.map(|(_, value)| (name, value.clone()))
            }
            _ => {
                it.fault("EXT-X-DEFINE must have one of NAME, IMPORT and QUERYPARAM");
                None
            }
        };
        let Some((name, value)) = defined else {
            return;
        };
        let is_legal = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
        if !name.bytes().all(is_legal) {
            let what = format!(
                "the variable '{}' has characters other than letters, digits, - and _",
                fault::shown(&name)
            );
            self.fault(Tag::Define, line, what);
        }
        if !self.variables.define(name.clone(), value) {
            self.fault(
                Tag::Define,
                line,
                format!("the variable '{name}' is defined twice"),
            );
        }
    }
}

/// A line that is read.
struct Line<'a> {
    number: usize,
    content: Content<'a>,
}

enum Content<'a> {
    Uri(String),
    Tag(Tag, &'a str),
}
