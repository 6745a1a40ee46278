//! The map of sources, parsed entry by entry so that an error points at its line.

use std::collections::BTreeMap;
use std::fmt;

use glassline_hub::StreamName;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use glassline_ingest::stream_names;
use glassline_ingest::{CameraSource, Input, SpecError};

type Sources = BTreeMap<StreamName, Input>;

pub(super) fn serialize<S: Serializer>(sources: &Sources, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(sources.len()))?;
    for (name, input) in sources {
        // The display of an input hides its password.
        map.serialize_entry(name.as_str(), &input.to_string())?;
    }
    map.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Sources, D::Error> {
    from.deserialize_map(Entries)
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Sources;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stream names with their sources, like `cam: rtsp://…`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sources, A::Error> {
        let mut sources = Sources::new();
        while let Some((Name(name), Source(input))) = map.next_entry()? {
            sources.insert(name, input);
        }
        Ok(sources)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Sources, E> {
        Ok(Sources::new())
    }
}

struct Name(StreamName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        stream_names::parse(&text)
            .map(Self)
            .map_err(D::Error::custom)
    }
}

struct Source(Input);

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SourceEntry)
    }
}

/// A source as text, or as a map of the text and its options.
struct SourceEntry;

impl<'de> Visitor<'de> for SourceEntry {
    type Value = Source;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a source like `rtsp://…`, or a map like `{source: rtsp://…, on_demand: true}`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Source, E> {
        Input::parse(text).map(Source).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
        let keys = SourceKeys::deserialize(MapAccessDeserializer::new(map))?;
        keys.input().map(Source).map_err(A::Error::custom)
    }
}

/// The source of a stream, with its options as keys.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Source")]
#[serde(deny_unknown_fields)]
pub struct SourceKeys {
    /// `rtsp://…`, `http://…`, files separated by commas, `/dev/video0`, `ffmpeg:…`, `exec:…`, `publisher`,
    /// or `demo`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    source: String,
    /// In place of `source`, the streams of a camera's picture, the largest first: up to four URLs of RTSP,
    /// such as those of its main stream and its sub stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layers: Vec<String>,
    /// Transport of a camera's packets: `tcp` or `udp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<String>,
    /// UDP ports that a camera may send to, like `20000-20099`; `rtsp.camera_udp_ports` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_ports: Option<String>,
    /// SHA-256 of the certificate that a camera at `rtsps://` or `https://` must have, as 64 hexadecimal digits, in
    /// place of one that an authority signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Whether any certificate of a camera is accepted. An attacker on the path can then see and change
    /// everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure: Option<bool>,
    /// Time without packets after which a camera counts as gone, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    /// Time between two pictures of a camera at `http://` that answers with a single one, in seconds; 1 by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    every_s: Option<f64>,
    /// Whether a camera is connected, or a program runs, only while somebody watches.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_demand: Option<bool>,
    /// Time without receivers after which a camera on demand is left, in seconds; 10 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_s: Option<f64>,
    /// The camera's ONVIF, by which it is moved: the URL of its device service, `auto` for the usual
    /// ports of its host, or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    onvif: Option<String>,
    /// Stream that is shown while the source is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    /// `true` to show the last keyframe while the source is away, in grey for H.264; or a file `.jpg`
    /// to show, for H.264.
    #[serde(skip_serializing_if = "Option::is_none")]
    placeholder: Option<PlaceholderKey>,
    /// Time after which a source that is not connected counts as away, in seconds; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_s: Option<f64>,
    /// Time without a frame after which a source that is connected counts as away, in seconds; 8 by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_s: Option<f64>,
    /// Transcoding of video that browsers cannot show: `auto` for viewers who ask for it, `always` for
    /// every viewer who needs it, `never` for nobody; `transcoding.video` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    transcode: Option<String>,
    /// Lower layers that are encoded while somebody needs them, where the source has a single one: a list of
    /// heights and perhaps bitrates, like `[720p, 360p:500k]`, or `off`; `transcoding.ladder` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    ladder: Option<LadderKey>,
    /// Frames per second of elementary video, like `30` or `30000/1001`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fps: Option<FrameRate>,
    /// Variables of a program's environment, beside `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<BTreeMap<String, String>>,
    /// The treatment of the video of `ffmpeg:…`: `copy`, `h264` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    video: Option<String>,
    /// The treatment of the audio of `ffmpeg:…`: `copy`, `opus` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<String>,
    /// Whether a file is played only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    once: Option<bool>,
    /// Whether clients may publish under the name of a camera or file, too: `allowed`, or `refused` by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    publishers: Option<String>,
}

/// A number, or a fraction as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a frame rate is a number, or a fraction like '30000/1001'"
)]
enum FrameRate {
    Number(f64),
    Text(String),
}

/// The layers of a ladder as a list, or as one text with commas. YAML takes `off` for false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a ladder is a list of heights like [720p, 360p], true, or off"
)]
pub(super) enum LadderKey {
    Switch(bool),
    List(Vec<String>),
    Text(String),
}

impl LadderKey {
    /// Returns the text that names all layers; `off` for an empty list.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Switch(false) => "off".to_owned(),
            Self::Switch(true) => "true".to_owned(),
            Self::List(rungs) if rungs.is_empty() => "off".to_owned(),
            Self::List(rungs) => rungs.join(","),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A switch, or the path of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a placeholder is true, false, or the path of an image"
)]
enum PlaceholderKey {
    Switch(bool),
    File(String),
}

impl SourceKeys {
    /// Returns the source that the keys name.
    ///
    /// # Errors
    /// Returns [`SpecError`] if the text or an option is wrong; it never contains a password.
    pub fn input(&self) -> Result<Input, SpecError> {
        let mut input = match (&*self.source, &self.layers[..]) {
            ("", []) => return Err(SpecError::NeitherSourceNorLayers),
            (source, []) => Input::parse(source)?,
            ("", layers) => CameraSource::of_layers(layers).map(Input::Camera)?,
            (_, layers) => return Err(SpecError::SourceAndLayers(layers.len())),
        };
        let options = [
            ("transport", self.transport.clone()),
            ("udp_ports", self.udp_ports.clone()),
            ("sha256", self.sha256.clone()),
            ("insecure", self.insecure.map(|it| it.to_string())),
            ("timeout_s", self.timeout_s.map(|it| it.to_string())),
            ("every_s", self.every_s.map(|it| it.to_string())),
            ("video", self.video.clone()),
            ("audio", self.audio.clone()),
            // `on_demand: false` beside an idle time turns it off.
            ("idle_s", self.idle_s.map(|it| it.to_string())),
            ("on_demand", self.on_demand.map(|it| it.to_string())),
            ("onvif", self.onvif.clone()),
            ("fallback", self.fallback.clone()),
            (
                "placeholder",
                self.placeholder.as_ref().map(|it| match it {
                    PlaceholderKey::Switch(is_on) => is_on.to_string(),
                    PlaceholderKey::File(path) => path.clone(),
                }),
            ),
            ("after_s", self.after_s.map(|it| it.to_string())),
            ("silent_s", self.silent_s.map(|it| it.to_string())),
            ("transcode", self.transcode.clone()),
            ("ladder", self.ladder.as_ref().map(LadderKey::text)),
            (
                "fps",
                self.fps.as_ref().map(|it| match it {
                    FrameRate::Number(number) => number.to_string(),
                    FrameRate::Text(text) => text.clone(),
                }),
            ),
            ("once", self.once.map(|it| it.to_string())),
            ("publishers", self.publishers.clone()),
        ];
        for (name, value) in self.env.iter().flatten() {
            input.set("env", &format!("{name}={value}"))?;
        }
        for (option, value) in options {
            if let Some(value) = value {
                input.set(option, &value)?;
            }
        }
        Ok(input)
    }
}

/// The text may have a password, which is not shown.
impl fmt::Debug for SourceKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.input() {
            Ok(input) => write!(f, "SourceKeys({input})"),
            Err(error) => write!(f, "SourceKeys({error})"),
        }
    }
}

/// The form of an entry in the JSON schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "only its schema is used"
)]
pub(super) enum SourceSchema {
    Text(String),
    Keys(SourceKeys),
}
