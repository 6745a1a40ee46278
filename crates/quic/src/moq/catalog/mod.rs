//! The catalog of a broadcast: JSON on a track of its own (`hang`'s format).
//!
//! A group begins with a whole document; each further frame of it changes that by a
//! merge patch (RFC 7396). Whatever is in it was written by somebody else: sizes,
//! counts and names are bounded before anything is made of them.

use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Bitrate, Codec, Kind, Track};
use serde_json::{Map, Value, json};

use super::codec::{self, Framing, RECORD_BYTES_MAX};

/// The name of its track.
pub(super) const TRACK: &str = "catalog.json";

/// Bytes of the document, or of one patch.
pub(super) const BYTES_MAX: usize = 256 << 10;

/// Ways in which picture and sound may be offered, together.
pub(super) const RENDITIONS_MAX: usize = 64;

/// Characters of a track's name.
const NAME_BYTES_MAX: usize = 128;

/// Pixels of a side; what levels of codecs go up to.
const SIDE_MAX: u64 = 16_384;

/// 2020-01-01 in milliseconds since 1970: where the clock of catalogs begins.
const EPOCH_UNIX_MS: u64 = 1_577_836_800_000;

/// What a broadcast offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Picture first, the largest of it first; then sound.
    pub renditions: Vec<Rendition>,
    /// Those that nobody here can carry, and why.
    pub left_out: Vec<(String, LeftOut)>,
    /// Since 1970, at the media time zero, by the publisher's clock.
    pub clock: Option<Duration>,
    /// The publisher reads answers to its frames.
    pub(super) answers: bool,
}

/// One way in which picture or sound is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendition {
    /// Of its track in the broadcast.
    pub name: String,
    /// What it is, as far as it is told.
    pub track: Track,
    /// How frames are put together.
    pub framing: Framing,
    /// Parameter sets that decoders need, NAL units without start codes.
    pub sets: Vec<Vec<u8>>,
    /// The most that it takes, if told.
    pub bitrate: Option<Bitrate>,
}

/// Why a rendition is not carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// Nothing that the hub has.
    #[error("codec `{0}` is not carried")]
    Codec(String),
    /// Not the plain one.
    #[error("container `{0}` is not read: publish with `legacy`")]
    Container(String),
    /// In another broadcast.
    #[error("its track is in another broadcast")]
    Elsewhere,
}

/// Why a catalog is refused. Its publisher's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Longer than any list of tracks.
    #[error("the catalog has {bytes} bytes, at most {BYTES_MAX} are read")]
    Long {
        /// Length found.
        bytes: usize,
    },
    /// No JSON, or not of this form.
    #[error("the catalog is none: {0}")]
    Malformed(String),
    /// More than anybody chooses from.
    #[error("the catalog offers {count} renditions, at most {RENDITIONS_MAX} are read")]
    Many {
        /// How many.
        count: usize,
    },
    /// A rendition that cannot be what it says.
    #[error("rendition `{name}`: {field} cannot be {value}")]
    Nonsense {
        /// Which.
        name: String,
        /// What of it.
        field: &'static str,
        /// As it stands there, shortened.
        value: String,
    },
    /// Nothing in it is of use.
    #[error("nothing in the catalog can be carried{}", list(.left_out))]
    Nothing {
        /// What there is, and why not.
        left_out: Vec<(String, LeftOut)>,
    },
}

fn list(left_out: &[(String, LeftOut)]) -> String {
    let told = left_out.iter().take(4);
    told.map(|(name, why)| format!("; `{name}`: {why}"))
        .collect()
}

impl Catalog {
    /// Reads a document as it stands on the wire.
    ///
    /// # Errors
    /// [`CatalogError`] names the first thing that is wrong.
    pub fn parse(document: &[u8]) -> Result<Self, CatalogError> {
        Document::default().take(document, true)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`CatalogError`] names the first thing that is wrong.
    fn read(document: &Value) -> Result<Self, CatalogError> {
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
            answers: root.get(OURS).and_then(|it| it.get("answers")) == Some(&json!(1)),
            ..Self::default()
        };
        for (kind, map) in [(Kind::Video, video), (Kind::Audio, audio)] {
            for (name, fields) in map.into_iter().flatten() {
                match Entry::new(name, fields)?.read(kind)? {
                    Ok(rendition) => catalog.renditions.push(rendition),
                    Err(why) => catalog.left_out.push((name.clone(), why)),
                }
            }
        }
        let size =
            |it: &Rendition| u64::from(it.track.video.width) * u64::from(it.track.video.height);
        catalog.renditions.sort_by_key(|it| {
            let is_sound = it.track.kind() != Kind::Video;
            (is_sound, std::cmp::Reverse((size(it), it.bitrate)))
        });
        Ok(catalog)
    }

    /// The one of this kind that the hub takes.
    pub fn best(&self, kind: Kind) -> Option<&Rendition> {
        self.renditions.iter().find(|it| it.track.kind() == kind)
    }

    /// One picture and one sound, if there is either.
    ///
    /// # Errors
    /// [`CatalogError::Nothing`] if there is neither.
    pub fn choose(&self) -> Result<Vec<Rendition>, CatalogError> {
        let kinds = [Kind::Video, Kind::Audio].into_iter();
        let chosen: Vec<_> = kinds.filter_map(|kind| self.best(kind).cloned()).collect();
        if chosen.is_empty() {
            let left_out = self.left_out.clone();
            return Err(CatalogError::Nothing { left_out });
        }
        Ok(chosen)
    }
}

/// Where our own words are; others pass over them.
const OURS: &str = "glassline";

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
            "`{section}.renditions` is no object"
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

/// A rendition as it stands in the document.
struct Entry<'a> {
    name: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> Entry<'a> {
    fn new(name: &'a str, fields: &'a Value) -> Result<Self, CatalogError> {
        let is_good = (1..=NAME_BYTES_MAX).contains(&name.len());
        let shown: String = name.chars().take(40).collect();
        if !is_good {
            return Err(CatalogError::Nonsense {
                name: shown,
                field: "its name",
                value: format!("{} bytes long", name.len()),
            });
        }
        let fields = fields
            .as_object()
            .ok_or_else(|| CatalogError::Malformed(format!("rendition `{shown}` is no object")))?;
        Ok(Self { name, fields })
    }

    fn nonsense(&self, field: &'static str) -> CatalogError {
        let value = self.fields.get(field).map(Value::to_string);
        CatalogError::Nonsense {
            name: self.name.to_owned(),
            field,
            value: value.unwrap_or_default().chars().take(40).collect(),
        }
    }

    /// A number within bounds, if it is there.
    fn number(
        &self,
        field: &'static str,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, CatalogError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) if bounds.contains(&number) => Ok(Some(number)),
                _ => Err(self.nonsense(field)),
            },
        }
    }

    fn read(&self, kind: Kind) -> Result<Result<Rendition, LeftOut>, CatalogError> {
        let name = self.fields.get("codec").and_then(Value::as_str);
        let name = name.ok_or_else(|| self.nonsense("codec"))?;
        if self.fields.get("broadcast").is_some_and(|it| !it.is_null()) {
            return Ok(Err(LeftOut::Elsewhere));
        }
        let codec = codec::codec_of(name).filter(|codec| codec.kind() == kind);
        let Some(codec) = codec else {
            return Ok(Err(LeftOut::Codec(name.chars().take(40).collect())));
        };
        let container = self.fields.get("container").and_then(|it| it.get("kind"));
        match container.and_then(Value::as_str) {
            None | Some("legacy") => {}
            Some(other) => {
                return Ok(Err(LeftOut::Container(other.chars().take(40).collect())));
            }
        }
        let description = self.description()?;
        let bitrate = self.number("bitrate", 0..=10_000_000_000)?;
        let (track, record) = match kind {
            Kind::Video => self.picture(codec, description)?,
            _ => self.sound(codec, name, description)?,
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
        bytes.map(Some).ok_or_else(|| self.nonsense("description"))
    }

    fn picture(
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
        let record = record.ok_or_else(|| self.nonsense("description"))?;
        let pixels = |side: Option<u64>| side.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
        let track = codec::picture(codec, &record.sets, pixels(width), pixels(height));
        Ok((track, record))
    }

    fn sound(
        &self,
        codec: Codec,
        name: &str,
        description: Option<Vec<u8>>,
    ) -> Result<(Track, codec::Record), CatalogError> {
        let rate = self.number("sampleRate", 1_000..=384_000)?;
        let rate = rate.ok_or_else(|| self.nonsense("sampleRate"))?;
        let channels = self.number("numberOfChannels", 1..=8)?;
        let channels = channels.ok_or_else(|| self.nonsense("numberOfChannels"))?;
        let channels = u8::try_from(channels).unwrap_or(u8::MAX);
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        let plain = |framing| codec::Record {
            framing,
            sets: Vec::new(),
        };
        if codec == Codec::Opus {
            // RTP's clock of Opus is this one, and its channels are two, whatever is in
            // the packets (RFC 7587 §4.1, §7).
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
        let config = config.ok_or_else(|| self.nonsense("codec"))?;
        Ok((codec::aac(&config, rate, channels), plain(framing)))
    }
}

/// Follows the document of a broadcast through its patches.
#[derive(Debug, Default)]
pub(super) struct Document {
    value: Value,
}

impl Document {
    /// Takes a frame of the catalog's track; `is_first` of its group.
    ///
    /// # Errors
    /// [`CatalogError`]: it is too long, no JSON, or nonsense.
    pub(super) fn take(&mut self, frame: &[u8], is_first: bool) -> Result<Catalog, CatalogError> {
        let bytes = frame.len();
        if bytes > BYTES_MAX {
            return Err(CatalogError::Long { bytes });
        }
        let value: Value = serde_json::from_slice(frame)
            .map_err(|error| CatalogError::Malformed(error.to_string()))?;
        if is_first {
            self.value = value;
        } else {
            merge(&mut self.value, value);
        }
        Catalog::read(&self.value)
    }
}

/// RFC 7396 §2. The depth of a patch is bounded by the parser's, 128.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(map) = target {
        for (key, value) in patch {
            if value.is_null() {
                map.remove(&key);
            } else {
                merge(map.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

/// One rendition as it is offered.
#[derive(Clone, Debug)]
pub(super) struct Offered<'a> {
    pub(super) name: &'a str,
    pub(super) track: &'a Track,
    pub(super) codec: &'a str,
    pub(super) bitrate: Option<Bitrate>,
}

/// The document that offers `renditions`, whose times count from `clock` since 1970.
pub(super) fn write(renditions: &[Offered<'_>], clock: Option<Duration>, answers: bool) -> Bytes {
    let (mut video, mut audio) = (Map::new(), Map::new());
    for it in renditions {
        let mut fields = Map::new();
        fields.insert("codec".to_owned(), json!(it.codec));
        fields.insert("container".to_owned(), json!({"kind": "legacy"}));
        if let Some(bitrate) = it.bitrate {
            fields.insert("bitrate".to_owned(), json!(bitrate.bps()));
        }
        let section = if it.track.kind() == Kind::Video {
            let (width, height) = (it.track.video.width, it.track.video.height);
            if width > 0 && height > 0 {
                fields.insert("codedWidth".to_owned(), json!(width));
                fields.insert("codedHeight".to_owned(), json!(height));
            }
            &mut video
        } else {
            fields.insert("sampleRate".to_owned(), json!(it.track.clock_rate));
            fields.insert("numberOfChannels".to_owned(), json!(it.track.channels));
            if let Some(config) = codec::audio_config(it.track) {
                fields.insert("description".to_owned(), json!(codec::hex(&config)));
            }
            &mut audio
        };
        section.insert(it.name.to_owned(), Value::Object(fields));
    }
    let mut root = json!({"video": {"renditions": video}, "audio": {"renditions": audio}});
    if let Some(clock) = clock {
        let wall = clock.saturating_sub(Duration::from_millis(EPOCH_UNIX_MS));
        let micros = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        root["clock"] = json!({"wall": micros, "timescale": 1_000_000});
    }
    if answers {
        root[OURS] = json!({"answers": 1});
    }
    Bytes::from(root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Catalog, CatalogError> {
        Document::default().take(text.as_bytes(), true)
    }

    /// As hang 0.21 writes it (its test `simple`).
    const HANG: &str = r#"{"video":{"renditions":{"video":{"codec":"avc1.64001f","codedWidth":1280,
        "codedHeight":720,"bitrate":6000000,"framerate":30.0,"container":{"kind":"legacy"}}}},
        "audio":{"renditions":{"audio":{"codec":"opus","sampleRate":48000,"numberOfChannels":2,
        "bitrate":128000,"container":{"kind":"legacy"}}}}}"#;

    #[test]
    fn catalogs_of_hang_are_read() {
        let catalog = read(HANG).expect("a catalog");
        let chosen = catalog.choose().expect("both");
        let codecs: Vec<_> = chosen.iter().map(|it| it.track.codec).collect();
        assert_eq!(codecs, [Codec::H264, Codec::Opus]);
        assert_eq!(
            (chosen[0].name.as_str(), chosen[1].name.as_str()),
            ("video", "audio")
        );
        let video = &chosen[0].track.video;
        assert_eq!((video.width, video.height), (1280, 720));
        assert_eq!(chosen[0].bitrate, Some(Bitrate::from_bps(6_000_000)));
        assert!(!catalog.answers && catalog.clock.is_none());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (mut h264, opus) = (Track::new(Codec::H264), Track::audio(Codec::Opus, 2));
        (h264.video.width, h264.video.height) = (640, 360);
        let aac = codec::aac(&[0x11, 0x90], 48_000, 2);
        let offered = |name, track, codec| Offered {
            name,
            track,
            codec,
            bitrate: Some(Bitrate::from_bps(7)),
        };
        let clock = Duration::from_micros(1_795_000_000_123_456);
        let renditions = [
            offered("v", &h264, "avc3.42c01f"),
            offered("a", &opus, "opus"),
            offered("b", &aac, "mp4a.40.2"),
        ];
        let text = write(&renditions, Some(clock), true);
        let catalog = Document::default().take(&text, true).expect("ours");
        assert_eq!(catalog.clock, Some(clock));
        assert!(catalog.answers);
        let tracks: Vec<_> = catalog.renditions.iter().map(|it| &it.track).collect();
        assert_eq!(tracks, [&h264, &opus, &aac]);
    }

    #[test]
    fn patches_change_the_document() {
        let mut document = Document::default();
        document.take(HANG.as_bytes(), true).expect("a catalog");
        let patch = r#"{"audio":null,"video":{"renditions":{"video":null,"hd":{"codec":"vp8"}}}}"#;
        let catalog = document.take(patch.as_bytes(), false).expect("patched");
        assert_eq!(catalog.renditions.len(), 1);
        assert_eq!(catalog.renditions[0].track.codec, Codec::Vp8);
    }

    #[test]
    fn lies_are_named() {
        let video = |fields: &str| format!(r#"{{"video":{{"renditions":{{"v":{{{fields}}}}}}}}}"#);
        let audio = |fields: &str| format!(r#"{{"audio":{{"renditions":{{"a":{{{fields}}}}}}}}}"#);
        for (text, expected) in [
            ("nonsense".to_owned(), "the catalog is none"),
            ("[]".to_owned(), "not an object"),
            (
                r#"{"video":{"renditions":7}}"#.to_owned(),
                "`video.renditions` is no object",
            ),
            (video(r#""codec":7"#), "codec cannot be 7"),
            (
                video(r#""codec":"vp8","codedWidth":0"#),
                "codedWidth cannot be 0",
            ),
            (
                video(r#""codec":"vp8","codedHeight":1e9"#),
                "codedHeight cannot be",
            ),
            (
                video(r#""codec":"avc1.64001f","description":"01"#.to_owned().as_str()),
                "none",
            ),
            (
                video(r#""codec":"avc1.64001f","description":"zz""#),
                "description cannot be",
            ),
            (
                video(r#""codec":"avc1.64001f","description":"0164001fffe1ffff""#),
                "description",
            ),
            (
                audio(r#""codec":"opus","numberOfChannels":2"#),
                "sampleRate cannot be",
            ),
            (
                audio(r#""codec":"mp4a.40.2","sampleRate":47999,"numberOfChannels":2"#),
                "codec",
            ),
            (
                audio(r#""codec":"opus","sampleRate":48000,"numberOfChannels":200"#),
                "numberOf",
            ),
        ] {
            let error = read(&text).expect_err(&text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        for (text, expected) in [
            ("{}".to_owned(), "nothing in the catalog"),
            (video(r#""codec":"vp10""#), "codec `vp10` is not carried"),
            (video(r#""codec":"opus""#), "codec `opus` is not carried"),
            (
                video(r#""codec":"vp8","container":{"kind":"cmaf","init":""}"#),
                "container `cmaf` is not read",
            ),
            (
                video(r#""codec":"vp8","broadcast":"../other""#),
                "in another broadcast",
            ),
        ] {
            let catalog = read(&text).expect(&text);
            let error = catalog.choose().expect_err(&text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn floods_are_refused_before_they_are_read() {
        let long = " ".repeat(BYTES_MAX + 1);
        assert_eq!(
            read(&long),
            Err(CatalogError::Long {
                bytes: BYTES_MAX + 1
            })
        );
        let many: Vec<_> = (0..=RENDITIONS_MAX)
            .map(|number| format!(r#""{number}":{{"codec":"vp8"}}"#))
            .collect();
        let many = format!(r#"{{"video":{{"renditions":{{{}}}}}}}"#, many.join(","));
        assert_eq!(read(&many), Err(CatalogError::Many { count: 65 }));
        let name = "n".repeat(NAME_BYTES_MAX + 1);
        let named = format!(r#"{{"video":{{"renditions":{{"{name}":{{"codec":"vp8"}}}}}}}}"#);
        assert!(matches!(read(&named), Err(CatalogError::Nonsense { .. })));
        let deep = format!("{}1{}", "[".repeat(4000), "]".repeat(4000));
        assert!(matches!(read(&deep), Err(CatalogError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn documents_of_strangers_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut document = Document::default();
            let _ = document.take(&bytes, true);
            let _ = document.take(&bytes, false);
        }
    }
}
