//! The catalog of a broadcast between servers: where the stream comes from, and its tracks.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Bitrate, Codec, Layer, Track, VideoParameters};
use serde_json::{Map, Value, json};

use crate::moq::codec::{hex, unhex};

/// Most servers that a stream passes, the one that it is published to included.
pub const PATH_MAX: usize = 4;

/// Version of the catalog and of the container.
const VERSION: u64 = 1;

/// Most tracks and layers of a broadcast.
const TRACKS_MAX: usize = 64;

/// Longest catalog, in bytes: the packed headers of Vorbis and Theora are in it.
pub(super) const BYTES_MAX: usize = 256 << 10;

/// Longest text of a track's description, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Longest name of a server, in bytes.
const NODE_BYTES_MAX: usize = 64;

/// Name of a server in its cluster: 1 to 64 letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct NodeName(String);

impl NodeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let fits = (1..=NODE_BYTES_MAX).contains(&text.len());
        match fits && text.bytes().all(is_word) {
            true => Ok(Self(text.to_owned())),
            false => Err(NodeNameError),
        }
    }
}

/// A text is no name of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node's name has 1 to {NODE_BYTES_MAX} letters, digits, `-` and `_`")]
pub struct NodeNameError;

/// Where a stream comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Number of the claim under which the stream is published; it rises with each new owner. 0 where
    /// nobody coordinates the servers.
    pub epoch: u64,
    /// Server that the stream is published to.
    pub node: NodeName,
    /// A random number of that server's process.
    pub incarnation: u64,
    /// Servers that the stream passed, from `node` to the one that offers it.
    pub path: Vec<NodeName>,
}

/// A number that the source draws into each frame, by which a page tells when the frame was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnCode {
    /// Numbers in a second.
    pub fps: u32,
    /// Count of numbers: they run from 0 to `frames` - 1 and then begin again.
    pub frames: u32,
    /// When number 0 was captured in some round, in ns of the sender's clock.
    pub epoch_ns: u64,
}

/// Differences of the epoch that are no other code: clocks of servers drift.
const SAME_EPOCH: Duration = Duration::from_millis(1);

impl DrawnCode {
    /// Returns the time in which all numbers are drawn once.
    pub fn round(&self) -> Duration {
        Duration::from_secs(self.frames.into()) / self.fps.max(1)
    }

    /// Returns whether both tell the same numbers, within a millisecond.
    pub fn is_like(&self, other: &Self) -> bool {
        let round = u64::try_from(self.round().as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let apart = self.epoch_ns.abs_diff(other.epoch_ns) % round;
        let apart = Duration::from_nanos(apart.min(round - apart));
        (self.fps, self.frames) == (other.fps, other.frames) && apart <= SAME_EPOCH
    }
}

/// The catalog of a broadcast between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitCatalog {
    /// Where the stream comes from.
    pub provenance: Provenance,
    /// The stream's tracks, by their index.
    pub tracks: Vec<Track>,
    /// For each track, the name of the broadcast's track for each layer.
    pub layers: Vec<Vec<String>>,
    /// Version of the messages that the sender passes beside the stream; 0 for none.
    pub messages: u64,
    /// The number in the frames; `None` for most streams.
    pub code: Option<DrawnCode>,
}

/// The reason why a catalog cannot be used. The sender is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitCatalogError {
    /// The catalog is too long, or no JSON.
    #[error("the catalog of a server is malformed: {0}")]
    Malformed(String),
    /// A field is missing or impossible.
    #[error("the catalog of a server has no usable `{0}`")]
    Field(&'static str),
    /// The sender uses another version.
    #[error(
        "the other server speaks version {0} of the container `bursts`, this one {VERSION}: use servers of one version"
    )]
    Version(u64),
    /// The stream has a codec that this server does not know.
    #[error(
        "the stream has codec `{0}`, which this server does not know: use servers of one version"
    )]
    Codec(String),
}

impl UnitCatalog {
    /// Returns the document.
    pub(super) fn write(&self) -> Bytes {
        let tracks = self.tracks.iter().zip(&self.layers);
        let tracks = tracks.map(|(track, names)| write_track(track, names));
        let Provenance {
            epoch,
            node,
            incarnation,
            path,
        } = &self.provenance;
        let document = json!({"glassline": {
            "bursts": VERSION,
            "epoch": epoch,
            "node": node.as_str(),
            "inc": incarnation,
            "path": path.iter().map(NodeName::as_str).collect::<Vec<_>>(),
            "tracks": tracks.collect::<Vec<_>>(),
            "messages": self.messages,
            "code": self.code.map(|it| [it.fps.into(), it.frames.into(), it.epoch_ns]),
        }});
        Bytes::from(document.to_string())
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`UnitCatalogError`] names the first error.
    pub fn parse(document: &[u8]) -> Result<Self, UnitCatalogError> {
        if document.len() > BYTES_MAX {
            let text = format!("it has {} bytes, more than {BYTES_MAX}", document.len());
            return Err(UnitCatalogError::Malformed(text));
        }
        let document: Value = serde_json::from_slice(document)
            .map_err(|error| UnitCatalogError::Malformed(error.to_string()))?;
        let fields = document.get("glassline").and_then(Value::as_object);
        let fields = fields.ok_or(UnitCatalogError::Field("glassline"))?;
        let version = number(fields, "bursts")?;
        if version != VERSION {
            return Err(UnitCatalogError::Version(version));
        }
        let path = array(fields, "path", PATH_MAX + 1)?.iter();
        let path = path
            .map(|it| node(Some(it), "path"))
            .collect::<Result<_, _>>()?;
        let provenance = Provenance {
            epoch: number(fields, "epoch")?,
            node: node(fields.get("node"), "node")?,
            incarnation: number(fields, "inc")?,
            path,
        };
        let mut catalog = Self {
            provenance,
            tracks: Vec::new(),
            layers: Vec::new(),
            // Older servers pass no messages and state nothing.
            messages: fields.get("messages").and_then(Value::as_u64).unwrap_or(0),
            code: fields.get("code").and_then(read_code),
        };
        for fields in array(fields, "tracks", TRACKS_MAX)? {
            let fields = fields
                .as_object()
                .ok_or(UnitCatalogError::Field("tracks"))?;
            let (track, layers) = read_track(fields)?;
            catalog.tracks.push(track);
            catalog.layers.push(layers);
        }
        if catalog.tracks.is_empty() {
            return Err(UnitCatalogError::Field("tracks"));
        }
        Ok(catalog)
    }
}

/// Reads the number in the frames. A stream plays without it, so what is malformed is left out.
fn read_code(value: &Value) -> Option<DrawnCode> {
    let [fps, frames, epoch_ns] = value.as_array()?.as_slice() else {
        return None;
    };
    let count = |value: &Value| u32::try_from(value.as_u64()?).ok().filter(|it| *it > 0);
    Some(DrawnCode {
        fps: count(fps)?,
        frames: count(frames)?,
        epoch_ns: epoch_ns.as_u64()?,
    })
}

fn write_track(track: &Track, names: &[String]) -> Value {
    let layers = names.iter().enumerate().map(|(index, name)| {
        // The base layer is none of the encodings.
        let layer = index.checked_sub(1).and_then(|it| track.layers.get(it));
        json!({
            "track": name,
            "rid": layer.map(|it| it.rid.as_str()),
            "size": layer.and_then(|it| it.size).map(|(width, height)| [width, height]),
            "bitrate": layer.and_then(|it| it.bitrate).map(Bitrate::bps),
        })
    });
    let layers: Vec<Value> = layers.collect();
    json!({
        "codec": track.codec.encoding_name(),
        "clockRate": track.clock_rate,
        "channels": track.channels,
        "parameters": track.format_parameters,
        "sps": hex(&track.video.sps),
        "pps": hex(&track.video.pps),
        "width": track.video.width,
        "height": track.video.height,
        "reordered": track.video.reordered,
        "layered": !track.layers.is_empty(),
        "layers": layers,
    })
}

fn read_track(fields: &Map<String, Value>) -> Result<(Track, Vec<String>), UnitCatalogError> {
    let codec = text(fields.get("codec"), "codec")?;
    let known = Codec::from_encoding_name(codec);
    let codec = known.ok_or_else(|| UnitCatalogError::Codec(codec.chars().take(40).collect()))?;
    let clock_rate = u32::try_from(number(fields, "clockRate")?).unwrap_or(0);
    let channels = u8::try_from(number(fields, "channels")?).unwrap_or(0);
    if !(1..=1_000_000).contains(&clock_rate) {
        return Err(UnitCatalogError::Field("clockRate"));
    }
    if channels == 0 {
        return Err(UnitCatalogError::Field("channels"));
    }
    let set = |key: &'static str| {
        let set = unhex(text(fields.get(key), key)?);
        set.ok_or(UnitCatalogError::Field(key))
    };
    let pixels = |key: &'static str| {
        u32::try_from(number(fields, key)?).map_err(|_| UnitCatalogError::Field(key))
    };
    let video = VideoParameters {
        sps: set("sps")?,
        pps: set("pps")?,
        width: pixels("width")?,
        height: pixels("height")?,
        reordered: fields.get("reordered") == Some(&Value::Bool(true)),
    };
    let (mut layers, mut names) = (Vec::new(), Vec::new());
    for fields in array(fields, "layers", TRACKS_MAX)? {
        let fields = fields
            .as_object()
            .ok_or(UnitCatalogError::Field("layers"))?;
        names.push(text(fields.get("track"), "track")?.to_owned());
        layers.push(read_layer(fields));
    }
    if names.is_empty() {
        return Err(UnitCatalogError::Field("layers"));
    }
    let is_layered = fields.get("layered") == Some(&Value::Bool(true));
    let track = Track {
        video,
        channels,
        ..Track::new(codec)
            .with_clock_rate(clock_rate)
            .with_format_parameters(text(fields.get("parameters"), "parameters")?)
            .with_layers(if is_layered {
                layers.split_off(1)
            } else {
                Vec::new()
            })
    };
    Ok((track, names))
}

fn read_layer(fields: &Map<String, Value>) -> Layer {
    let size = fields.get("size").and_then(Value::as_array);
    let pixels = |value: &Value| value.as_u64().and_then(|it| u16::try_from(it).ok());
    let size = size.and_then(|size| match size.as_slice() {
        [width, height] => Some((pixels(width)?, pixels(height)?)),
        _ => None,
    });
    let rid = fields
        .get("rid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let bitrate = fields.get("bitrate").and_then(Value::as_u64);
    Layer {
        rid: rid.chars().take(255).collect(),
        size,
        bitrate: bitrate.map(Bitrate::from_bps),
        ..Layer::default()
    }
}

fn number(fields: &Map<String, Value>, key: &'static str) -> Result<u64, UnitCatalogError> {
    let value = fields.get(key).and_then(Value::as_u64);
    value.ok_or(UnitCatalogError::Field(key))
}

fn text<'a>(value: Option<&'a Value>, key: &'static str) -> Result<&'a str, UnitCatalogError> {
    let value = value.and_then(Value::as_str);
    value
        .filter(|text| text.len() <= TEXT_BYTES_MAX)
        .ok_or(UnitCatalogError::Field(key))
}

fn node(value: Option<&Value>, key: &'static str) -> Result<NodeName, UnitCatalogError> {
    text(value, key)?
        .parse()
        .map_err(|_| UnitCatalogError::Field(key))
}

fn array<'a>(
    fields: &'a Map<String, Value>,
    key: &'static str,
    max: usize,
) -> Result<&'a [Value], UnitCatalogError> {
    let values = fields.get(key).and_then(Value::as_array);
    values
        .map(Vec::as_slice)
        .filter(|values| values.len() <= max)
        .ok_or(UnitCatalogError::Field(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_code_stays_the_same_while_clocks_drift() {
        let code = |epoch_ns| DrawnCode {
            fps: 30,
            frames: 300,
            epoch_ns,
        };
        let here = code(4_000_000_000);
        for (epoch_ns, is_like) in [
            (4_000_900_000, true),
            (3_999_100_000, true),
            (14_000_500_000, true),
            (4_002_000_000, false),
            (9_000_000_000, false),
        ] {
            assert_eq!(here.is_like(&code(epoch_ns)), is_like, "{epoch_ns}");
        }
        assert!(code(200_000).is_like(&code(9_999_900_000)));
        assert!(!here.is_like(&DrawnCode { fps: 25, ..here }));
    }

    fn catalog() -> UnitCatalog {
        let node = |text: &str| text.parse::<NodeName>().expect("a name");
        let mut h264 = Track::new(Codec::H264).with_layers(vec![
            Layer {
                rid: "q".to_owned(),
                size: Some((320, 180)),
                bitrate: Some(Bitrate::from_bps(150_000)),
                ..Layer::default()
            },
            Layer::default(),
        ]);
        h264.video = VideoParameters {
            sps: vec![0x67, 0x64, 0, 0x1f],
            pps: vec![0x68, 0xee],
            width: 1280,
            height: 720,
            reordered: true,
        };
        let all = Codec::all().map(Track::new);
        let mut tracks = vec![h264, Track::audio(Codec::L16, 2).with_clock_rate(48_000)];
        tracks.extend(all);
        let layers = tracks.iter().enumerate().map(|(index, track)| {
            let names = (0..track.layer_count()).map(|layer| format!("{index}.{layer}"));
            names.collect()
        });
        UnitCatalog {
            provenance: Provenance {
                epoch: u64::MAX,
                node: node("origin"),
                incarnation: u64::MAX - 1,
                path: vec![node("origin"), node("relay_1")],
            },
            layers: layers.collect(),
            tracks,
            messages: 7,
            code: Some(DrawnCode {
                fps: 30,
                frames: 300,
                epoch_ns: u64::MAX,
            }),
        }
    }

    #[test]
    fn every_codec_and_layer_is_read_as_it_was_written() {
        let catalog = catalog();
        assert_eq!(UnitCatalog::parse(&catalog.write()), Ok(catalog));
    }

    #[test]
    fn contradictions_are_named() {
        let good: Value = serde_json::from_slice(&catalog().write()).expect("JSON");
        let broken = |change: &dyn Fn(&mut Value)| {
            let mut value = good.clone();
            change(&mut value["glassline"]);
            UnitCatalog::parse(value.to_string().as_bytes())
        };
        assert_eq!(
            broken(&|it| it["bursts"] = json!(2)),
            Err(UnitCatalogError::Version(2))
        );
        let older = broken(&|it| it["messages"] = Value::Null);
        assert_eq!(older.map(|it| it.messages), Ok(0), "the field is younger");
        for (key, value) in [
            ("epoch", json!(-1)),
            ("node", json!("a b")),
            ("path", json!(["a", "b", "c", "d", "e", "f"])),
            ("tracks", json!([])),
        ] {
            let found = broken(&|it| it[key] = value.clone());
            assert_eq!(found, Err(UnitCatalogError::Field(key)));
        }
        let found = broken(&|it| it["tracks"][0]["codec"] = json!("H999"));
        assert_eq!(found, Err(UnitCatalogError::Codec("H999".to_owned())));
        for key in ["clockRate", "channels"] {
            let found = broken(&|it| it["tracks"][1][key] = json!(0));
            assert_eq!(found, Err(UnitCatalogError::Field(key)));
        }
        let long = vec![b' '; BYTES_MAX + 1];
        assert!(matches!(
            UnitCatalog::parse(&long),
            Err(UnitCatalogError::Malformed(_))
        ));
    }

    proptest! {
        #[test]
        fn documents_of_strangers_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = UnitCatalog::parse(&bytes);
        }
    }
}
