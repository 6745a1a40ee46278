//! The treatment of sources, by the beginning of its text.

use glassline_config::YamlNode;
use glassline_ingest::{Input, stream_names};

use super::draft::{Draft, quoted};

/// The treatment of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// The server connects to the camera, unless that is asked for a playlist.
    Camera,
    /// The source stays as a comment, for this reason.
    Comment(&'static str),
}

/// The beginnings of sources. Another kind that this server learns changes one row.
const KINDS: &[(&str, Treatment)] = &[
    ("rtsp://", Treatment::Camera),
    ("rtsps://", Treatment::Camera),
    (
        "exec:",
        Treatment::Comment(
            "a program that writes media to its standard output may stand here, once \
             `limits.programs` allows it",
        ),
    ),
    (
        "ffmpeg:",
        Treatment::Comment(
            "FFmpeg may be started, once `limits.programs` allows it; its input is no other stream",
        ),
    ),
    ("http://", Treatment::Camera),
    ("https://", Treatment::Camera),
    (
        "rtmp://",
        Treatment::Comment("RTMP is not spoken here: have FFmpeg fetch and publish it"),
    ),
    (
        "rtmps://",
        Treatment::Comment("RTMP is not spoken here: have FFmpeg fetch and publish it"),
    ),
    (
        "srt://",
        Treatment::Comment("SRT is not spoken here: have FFmpeg fetch and publish it"),
    ),
    (
        "udp://",
        Treatment::Comment("MPEG-TS by UDP is not received here: have FFmpeg publish it"),
    ),
    (
        "whep://",
        Treatment::Comment("WHEP of other servers is not fetched here"),
    ),
    (
        "onvif://",
        Treatment::Comment("`glassline cameras` finds the RTSP address of an ONVIF camera"),
    ),
];

/// A source of another server, with the options that this server has, too.
#[derive(Debug)]
pub(super) struct ForeignSource<'a> {
    pub(super) name: &'a str,
    pub(super) line: u64,
    pub(super) text: &'a str,
    /// Options as keys with values as YAML.
    pub(super) options: Vec<(&'static str, String)>,
}

impl ForeignSource<'_> {
    /// Puts the source into the configuration, or as a comment with a note.
    pub(super) fn put(mut self, draft: &mut Draft) {
        let known = KINDS.iter().find(|(begin, _)| {
            let begins = self.text.get(..begin.len());
            begins.is_some_and(|it| it.eq_ignore_ascii_case(begin))
        });
        let why = match (stream_names::parse(self.name), known) {
            (Err(error), _) => error.to_string(),
            (Ok(_), Some((_, Treatment::Comment(why)))) => (*why).to_owned(),
            (Ok(_), None) => "a kind of source that this server does not have".to_owned(),
            (Ok(_), Some((_, Treatment::Camera))) if is_playlist(self.text) => {
                "HLS is not fetched here: have FFmpeg fetch and publish it".to_owned()
            }
            (Ok(_), Some((_, Treatment::Camera))) => match self.checked() {
                Ok(()) => return draft.source(self.name, self.text, &self.options),
                Err(error) => error,
            },
        };
        draft.note(self.line, self.name, why);
        draft.comment(self.name, self.text);
    }

    /// Checks the source as the configuration reads it. An option that it does not take is left out by
    /// nobody: the whole source is refused.
    fn checked(&mut self) -> Result<(), String> {
        let mut input = Input::parse(self.text).map_err(|error| error.to_string())?;
        for (option, value) in &self.options {
            let value = value.trim_matches('\'');
            input
                .set(option, value)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Returns whether a URL names an HLS playlist.
fn is_playlist(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let extension = path.rsplit('.').next().unwrap_or_default();
    extension.eq_ignore_ascii_case("m3u8")
}

/// Puts a stream that clients publish into the configuration.
pub(super) fn put_publisher(draft: &mut Draft, name: &str, line: u64, fallback: Option<&str>) {
    if let Err(error) = stream_names::parse(name) {
        return draft.note(line, name, error.to_string());
    }
    let fallback = fallback.map(|it| ("fallback", quoted(it)));
    draft.source(name, "publisher", fallback.as_slice());
}

/// Returns whether a switch is on, in the words of YAML 1.1.
pub(super) fn is_on(node: &YamlNode) -> bool {
    ["yes", "true", "on"].contains(&node.text().to_ascii_lowercase().as_str())
}

/// Returns whether there is nothing to take: no value, an empty list, or a switch that is off.
pub(super) fn is_nothing(node: &YamlNode) -> bool {
    let text = node.text().to_ascii_lowercase();
    let is_off = ["no", "false", "off"].contains(&text.as_str());
    is_off || text.is_empty() && node.entries().is_empty() && node.items().is_empty()
}
