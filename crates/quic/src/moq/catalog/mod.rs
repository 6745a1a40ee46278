//! The catalog of a broadcast: JSON on a track of its own (`hang`'s format).
//!
//! A group begins with a whole document; each further frame of the group is a merge patch to it
//! (RFC 7396). Documents come from the peer, so sizes, counts and names are checked against
//! bounds before they are used.

mod document;
mod entry;
mod error;
mod rendition;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

use glassline_media::Kind;
use serde_json::{Map, Value, json};

pub(super) use document::Document;
use entry::RenditionEntry;
pub(super) use error::BYTES_MAX;
pub use error::CatalogError;
use error::RENDITIONS_MAX;
pub use rendition::{Rendition, UnsupportedRendition};
use write::{EPOCH_UNIX_MS, OWN_KEY};
pub(super) use write::{OfferedRendition, write};

/// Most renditions of one video that are received, as many as simulcast layers.
pub const LAYERS_MAX: usize = 4;

/// Name of the catalog's track.
pub(super) const TRACK: &str = "catalog.json";

/// The renditions that a broadcast offers.
///
/// # Example
///
/// ```
/// use glassline_media::Kind;
/// use glassline_quic::moq::Catalog;
///
/// let document = br#"{
///     "video": {"renditions": {
///         "hd": {"codec": "avc3.64001f", "codedWidth": 1280, "codedHeight": 720},
///         "sd": {"codec": "avc3.42c01e", "codedWidth": 640, "codedHeight": 360}
///     }},
///     "audio": {"renditions": {
///         "voice": {"codec": "opus", "sampleRate": 48000, "numberOfChannels": 2}
///     }}
/// }"#;
/// let catalog = Catalog::parse(document)?;
/// assert_eq!(catalog.renditions.len(), 3);
/// let video = catalog.best(Kind::Video).expect("a rendition of video");
/// assert_eq!(video.name, "hd");
/// # Ok::<(), glassline_quic::moq::CatalogError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Video before audio; the largest video first.
    pub renditions: Vec<Rendition>,
    /// Renditions that this program cannot receive, and why.
    pub unsupported: Vec<(String, UnsupportedRendition)>,
    /// Wall-clock time at media time zero since 1970, by the publisher's clock.
    pub clock: Option<Duration>,
    /// Whether the publisher reads echoes of its frames.
    pub(super) echoes: bool,
}

impl Catalog {
    /// Reads a document.
    ///
    /// # Errors
    /// [`CatalogError`] names the first error.
    pub(super) fn read(document: &Value) -> Result<Self, CatalogError> {
        let root = document
            .as_object()
            .ok_or_else(|| CatalogError::Malformed("not an object".to_owned()))?;
        let (video, audio) = (renditions(root, "video")?, renditions(root, "audio")?);
        let count = video.map_or(0, Map::len) + audio.map_or(0, Map::len);
        if count > RENDITIONS_MAX {
            return Err(CatalogError::Many { count });
        }
        let mut catalog = Self {
            clock: root.get("clock").and_then(clock),
            echoes: root.get(OWN_KEY).and_then(|it| it.get("answers")) == Some(&json!(1)),
            ..Self::default()
        };
        for (kind, map) in [(Kind::Video, video), (Kind::Audio, audio)] {
            for (name, fields) in map.into_iter().flatten() {
                match RenditionEntry::new(name, fields)?.read(kind)? {
                    Ok(rendition) => catalog.renditions.push(rendition),
                    Err(why) => catalog.unsupported.push((name.clone(), why)),
                }
            }
        }
        let size =
            |it: &Rendition| u64::from(it.track.video.width) * u64::from(it.track.video.height);
        catalog.renditions.sort_by_key(|it| {
            let is_audio = it.track.kind() != Kind::Video;
            (is_audio, std::cmp::Reverse((size(it), it.bitrate)))
        });
        Ok(catalog)
    }

    /// Returns the best rendition of this kind.
    pub fn best(&self, kind: Kind) -> Option<&Rendition> {
        self.renditions.iter().find(|it| it.track.kind() == kind)
    }

    /// Returns the renditions of one video, the best first and at most [`LAYERS_MAX`], and one of audio,
    /// as far as they exist.
    ///
    /// # Errors
    /// [`CatalogError::Nothing`] if the catalog has neither.
    pub fn choose(&self) -> Result<Vec<Rendition>, CatalogError> {
        let mut chosen: Vec<Rendition> = Vec::new();
        let videos = self.renditions.iter();
        for rendition in videos.filter(|it| it.track.kind() == Kind::Video) {
            let is_lower = chosen
                .last()
                .is_none_or(|better| rendition.is_below(better));
            if is_lower && chosen.len() < LAYERS_MAX {
                chosen.push(rendition.clone());
            }
        }
        chosen.extend(self.best(Kind::Audio).cloned());
        if chosen.is_empty() {
            let unsupported = self.unsupported.clone();
            return Err(CatalogError::Nothing { unsupported });
        }
        Ok(chosen)
    }
}

fn renditions<'a>(
    root: &'a Map<String, Value>,
    section: &str,
) -> Result<Option<&'a Map<String, Value>>, CatalogError> {
    let Some(section_value) = root.get(section) else {
        return Ok(None);
    };
    match section_value.get("renditions") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(CatalogError::Malformed(format!(
            "`{section}.renditions` is not an object"
        ))),
    }
}

fn clock(value: &Value) -> Option<Duration> {
    let wall = value.get("wall")?.as_u64()?;
    let scale = match value.get("timescale") {
        Some(scale) => scale.as_u64()?,
        None => 1_000_000,
    };
    let nanos = u128::from(wall) * 1_000_000_000 / u128::from(scale.max(1));
    let nanos = u64::try_from(nanos).ok()?;
    Duration::from_millis(EPOCH_UNIX_MS).checked_add(Duration::from_nanos(nanos))
}
