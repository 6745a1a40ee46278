use glassline_media::{Bitrate, Codec, Kind, Track};
use serde_json::{Map, Value};

use super::error::CatalogError;
use super::rendition::{Rendition, UnsupportedRendition};
use crate::moq::codec::{self, Framing, RECORD_BYTES_MAX};

/// Longest name of a track, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// Most pixels of a side: the limit of the codecs' levels.
const SIDE_MAX: u64 = 16_384;

/// A rendition as the document describes it.
pub(super) struct RenditionEntry<'a> {
    name: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> RenditionEntry<'a> {
    pub(super) fn new(name: &'a str, fields: &'a Value) -> Result<Self, CatalogError> {
        let is_good = (1..=NAME_BYTES_MAX).contains(&name.len());
        let shown: String = name.chars().take(40).collect();
        if !is_good {
            return Err(CatalogError::InvalidField {
                name: shown,
                field: "its name",
                value: format!("{} bytes long", name.len()),
            });
        }
        let fields = fields.as_object().ok_or_else(|| {
            CatalogError::Malformed(format!("rendition `{shown}` is not an object"))
        })?;
        Ok(Self { name, fields })
    }

    fn invalid_field(&self, field: &'static str) -> CatalogError {
        let value = self.fields.get(field).map(Value::to_string);
        CatalogError::InvalidField {
            name: self.name.to_owned(),
            field,
            value: value.unwrap_or_default().chars().take(40).collect(),
        }
    }

    /// Returns a number within `bounds`, if the field exists.
    fn number(
        &self,
        field: &'static str,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, CatalogError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) if bounds.contains(&number) => Ok(Some(number)),
                _ => Err(self.invalid_field(field)),
            },
        }
    }

    pub(super) fn read(
        &self,
        kind: Kind,
    ) -> Result<Result<Rendition, UnsupportedRendition>, CatalogError> {
        let name = self.fields.get("codec").and_then(Value::as_str);
        let name = name.ok_or_else(|| self.invalid_field("codec"))?;
        if self.fields.get("broadcast").is_some_and(|it| !it.is_null()) {
            return Ok(Err(UnsupportedRendition::Elsewhere));
        }
        let codec = codec::codec_of(name).filter(|codec| codec.kind() == kind);
        let Some(codec) = codec else {
            return Ok(Err(UnsupportedRendition::Codec(
                name.chars().take(40).collect(),
            )));
        };
        let container = self.fields.get("container").and_then(|it| it.get("kind"));
        match container.and_then(Value::as_str) {
            None | Some("legacy") => {}
            Some(other) => {
                return Ok(Err(UnsupportedRendition::Container(
                    other.chars().take(40).collect(),
                )));
            }
        }
        let description = self.description()?;
        let bitrate = self.number("bitrate", 0..=10_000_000_000)?;
        let (track, record) = match kind {
            Kind::Video => self.video(codec, description)?,
            _ => self.audio(codec, name, description)?,
        };
        Ok(Ok(Rendition {
            name: self.name.to_owned(),
            track,
            framing: record.framing,
            sets: record.sets,
            bitrate: bitrate.map(Bitrate::from_bps),
        }))
    }

    fn description(&self) -> Result<Option<Vec<u8>>, CatalogError> {
        let text = match self.fields.get("description") {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_str(),
        };
        let text = text.filter(|text| text.len() <= 2 * RECORD_BYTES_MAX);
        let bytes = text.and_then(codec::unhex);
        bytes
            .map(Some)
            .ok_or_else(|| self.invalid_field("description"))
    }

    fn video(
        &self,
        codec: Codec,
        description: Option<Vec<u8>>,
    ) -> Result<(Track, codec::Record), CatalogError> {
        let side = |field| self.number(field, 1..=SIDE_MAX);
        let (width, height) = (side("codedWidth")?, side("codedHeight")?);
        let record = match (codec, description) {
            (Codec::H264, Some(record)) => codec::avcc(&record),
            (Codec::H265, Some(record)) => codec::hvcc(&record),
            _ => Some(codec::Record {
                framing: Framing::Whole,
                sets: Vec::new(),
            }),
        };
        let record = record.ok_or_else(|| self.invalid_field("description"))?;
        let pixels = |side: Option<u64>| side.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        let track = codec::video(codec, &record.sets, pixels(width), pixels(height));
        Ok((track, record))
    }

    fn audio(
        &self,
        codec: Codec,
        name: &str,
        description: Option<Vec<u8>>,
    ) -> Result<(Track, codec::Record), CatalogError> {
        let rate = self.number("sampleRate", 1_000..=384_000)?;
        let rate = rate.ok_or_else(|| self.invalid_field("sampleRate"))?;
        let channels = self.number("numberOfChannels", 1..=8)?;
        let channels = channels.ok_or_else(|| self.invalid_field("numberOfChannels"))?;
        let channels = u8::try_from(channels).unwrap_or(u8::MAX);
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        let plain = |framing| codec::Record {
            framing,
            sets: Vec::new(),
        };
        if codec == Codec::Opus {
            // The RTP clock of Opus is 48 kHz, and its channels are two, whatever the packets
            // contain (RFC 7587 §4.1, §7).
            return Ok((Track::audio(Codec::Opus, 2), plain(Framing::Whole)));
        }
        let framing = match description {
            Some(_) => Framing::Whole,
            None => Framing::Adts,
        };
        let config = description.or_else(|| {
            let object_type = name.strip_prefix("mp4a.40.")?.parse().ok()?;
            codec::make_audio_config(object_type, rate, channels)
        });
        let config = config.filter(|config| (2..=64).contains(&config.len()));
        let config = config.ok_or_else(|| self.invalid_field("codec"))?;
        Ok((codec::aac(&config, rate, channels), plain(framing)))
    }
}
