//! Records in the store and the content of beats: JSON of at most 4 KiB, read with care,
//! since other versions of this software and other programs may have written them.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::engine::VALUE_BYTES_MAX;
use crate::name::{NodeId, Region};

/// Version of [`StreamRecord`] that this software writes, and the only one that it reads.
/// Fields may be added within a version: readers ignore those that they do not know.
pub const RECORD_VERSION: u32 = 1;

/// Most codec names in a record.
const TRACKS_MAX: usize = 32;

/// Longest text in a record, in bytes: a codec name, a URL, a digest.
const TEXT_BYTES_MAX: usize = 512;

/// Reasons why a value is no record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The value is larger than the store takes.
    #[error("the value has {0} bytes; at most {VALUE_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// The value is no JSON, or a field is missing or has another type.
    #[error("the value cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A newer version of this software wrote the value in a form that this one does not know.
    #[error("the record has version {0}; this node reads version {RECORD_VERSION}, update it")]
    Version(u32),
    /// A text or a list in the record is longer than any that this software writes.
    #[error("`{0}` of the record is too long")]
    TooLong(&'static str),
}

/// The holder of a stream: the value of `s.NAME`.
///
/// `(epoch, inc)` orders all records that ever stood under one name: the higher one holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Form of the record, [`RECORD_VERSION`].
    pub v: u32,
    /// Node that has the publisher, the camera or the room.
    pub node: NodeId,
    /// Region of that node, under which its own record is found.
    pub region: Region,
    /// Random number of that node's process.
    pub inc: u64,
    /// Fence: `max(previous + 1, Unix time in ms)` when the stream was claimed.
    pub epoch: u64,
    /// The kind of the claim.
    pub kind: Kind,
    /// Whether media arrives at the owner.
    pub state: StreamState,
    /// Codec of each track, as `h264`; for lists that people read.
    #[serde(default)]
    pub tracks: Vec<String>,
    /// Bits per second when the record was written; 0 if nobody measured.
    #[serde(default)]
    pub bps: u64,
}

/// The kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A publisher that connected to the node.
    Pushed,
    /// A camera or file that several nodes have in their configuration.
    Source,
    /// A room, whose participants all connect to one node.
    Room,
}

/// Whether media arrives at the owner of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamState {
    /// The owner receives media.
    Live,
    /// The owner waits for its camera or publisher.
    Down,
}

impl StreamRecord {
    /// Returns what orders records of one name: epoch, then incarnation.
    pub const fn fence(&self) -> Fence {
        Fence {
            epoch: self.epoch,
            inc: self.inc,
        }
    }

    /// Reads a value of the store.
    ///
    /// # Errors
    /// Returns [`RecordError`] for anything that is no record of this version.
    pub fn parse(value: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Form {
            v: u32,
        }
        let form: Form = read(value)?;
        if form.v != RECORD_VERSION {
            return Err(RecordError::Version(form.v));
        }
        let record: Self = read(value)?;
        let too_long = record.tracks.iter().any(|it| it.len() > TEXT_BYTES_MAX);
        if too_long || record.tracks.len() > TRACKS_MAX {
            return Err(RecordError::TooLong("tracks"));
        }
        Ok(record)
    }

    /// Writes the record as a value of the store. Tracks beyond the first 32 are left out.
    pub fn to_value(&self) -> Bytes {
        if self.tracks.len() <= TRACKS_MAX {
            return write(self);
        }
        let mut short = self.clone();
        short.tracks.truncate(TRACKS_MAX);
        write(&short)
    }
}

/// Order of all claims of one name: the epoch, and the incarnation between equal epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Epoch of the claim.
    pub epoch: u64,
    /// Incarnation of the claiming process.
    pub inc: u64,
}

/// Where a node is reached: the value of `n.REGION.NODE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Random number of the process.
    pub inc: u64,
    /// Address of the QUIC listener, `HOST:PORT`, from which other nodes pull.
    pub quic: String,
    /// SHA-256 of the certificate of that listener, in hexadecimal. Pullers accept no other.
    pub sha256: String,
    /// Base of the URLs to which viewers over HTTP are redirected; absent if none is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Base of the URLs to which viewers over RTSP are redirected; absent if none is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtsp: Option<String>,
    /// Region of the node.
    pub region: Region,
    /// Whether the node takes new streams and viewers.
    pub state: NodeState,
    /// Version of the software.
    pub version: String,
}

/// Whether a node takes new streams and viewers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// The node takes everything.
    #[default]
    Serving,
    /// The node hands over what it has and takes nothing new.
    Draining,
}

impl NodeRecord {
    /// Reads a value of the store.
    ///
    /// # Errors
    /// Returns [`RecordError`] for anything that is no record of a node.
    pub fn parse(value: &[u8]) -> Result<Self, RecordError> {
        let record: Self = read(value)?;
        let texts = [
            ("quic", Some(&record.quic)),
            ("sha256", Some(&record.sha256)),
            ("http", record.http.as_ref()),
            ("rtsp", record.rtsp.as_ref()),
            ("version", Some(&record.version)),
        ];
        let is_long = |text: &&String| text.len() > TEXT_BYTES_MAX;
        match texts
            .iter()
            .find(|(_, text)| text.is_some_and(|it| is_long(&it)))
        {
            Some((name, _)) => Err(RecordError::TooLong(name)),
            None => Ok(record),
        }
    }

    /// Writes the record as a value of the store.
    pub fn to_value(&self) -> Bytes {
        write(self)
    }
}

/// Content of a beat, which every node sends once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// Random number of the process.
    pub inc: u64,
    /// Number of the beat, one more each time.
    pub seq: u64,
    /// Whether the node takes new streams and viewers.
    #[serde(default)]
    pub state: NodeState,
    /// Unix time of the node in ms; 0 if it does not tell.
    #[serde(default)]
    pub unix_ms: u64,
    /// Mark of the secret of the cluster, which all its nodes share; 0 if the node does not tell.
    #[serde(default)]
    pub key: u64,
    /// The load of the node at the moment.
    #[serde(flatten)]
    pub load: Load,
}

/// The load of a node at the moment, as its server measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Processor time that is used, in percent of one core.
    #[serde(default)]
    pub cpu: f32,
    /// Media that is sent, in Mbit/s.
    #[serde(default)]
    pub mbps: f32,
    /// Number of viewers that the node serves at present.
    #[serde(default)]
    pub viewers: u32,
    /// Number of streams that are published here or pulled.
    #[serde(default)]
    pub streams: u32,
    /// How many more viewers the node would take.
    #[serde(default)]
    pub headroom: u32,
    /// How busy the node is, in percent of what it can do: its processors, or the media that it may
    /// send, whichever is nearer to its end.
    #[serde(default)]
    pub busy: u32,
}

impl Beat {
    /// Reads the payload of a beat.
    ///
    /// # Errors
    /// Returns [`RecordError`] for anything that is no beat.
    pub fn parse(payload: &[u8]) -> Result<Self, RecordError> {
        read(payload)
    }

    /// Writes the payload of a beat.
    pub fn to_payload(&self) -> Bytes {
        write(self)
    }
}

/// Reads JSON of at most [`VALUE_BYTES_MAX`] bytes.
pub(crate) fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T, RecordError> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(RecordError::TooLarge(value.len()));
    }
    Ok(serde_json::from_slice(value)?)
}

/// Writes JSON; no type of this crate can fail to be written.
pub(crate) fn write<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream() -> StreamRecord {
        StreamRecord {
            v: RECORD_VERSION,
            node: NodeId::new("a").expect("a name"),
            region: Region::new("eu").expect("a name"),
            inc: u64::MAX,
            epoch: 1_763_900_000_000,
            kind: Kind::Pushed,
            state: StreamState::Live,
            tracks: vec!["h264".to_owned(), "opus".to_owned()],
            bps: 3_000_000,
        }
    }

    #[test]
    fn a_stream_record_is_small_and_comes_back() {
        let value = stream().to_value();
        assert!(value.len() <= 180, "{} bytes", value.len());
        assert_eq!(StreamRecord::parse(&value).expect("a record"), stream());
    }

    #[test]
    fn an_unknown_field_is_ignored_and_an_unknown_version_refused() {
        let text = String::from_utf8(stream().to_value().to_vec()).expect("JSON");
        let more = text.replace("{\"v\":1", "{\"colour\":[1],\"v\":1");
        assert_eq!(
            StreamRecord::parse(more.as_bytes()).expect("read"),
            stream()
        );
        let newer = text.replace("\"v\":1", "\"v\":2");
        let error = StreamRecord::parse(newer.as_bytes()).expect_err("newer");
        assert!(matches!(error, RecordError::Version(2)), "{error}");
        let even_newer = br#"{"v":3,"owner":"a"}"#;
        let error = StreamRecord::parse(even_newer).expect_err("newer");
        assert!(matches!(error, RecordError::Version(3)), "{error}");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let mut record = stream();
        record.tracks = vec!["x".repeat(600)];
        assert!(StreamRecord::parse(&record.to_value()).is_err());
        record.tracks = vec!["x".repeat(5000)];
        let error = StreamRecord::parse(&record.to_value()).expect_err("large");
        assert!(matches!(error, RecordError::TooLarge(_)), "{error}");
    }

    #[test]
    fn the_higher_fence_holds() {
        let fence = |epoch, inc| Fence { epoch, inc };
        assert!(fence(2, 1) > fence(1, 9) && fence(2, 2) > fence(2, 1));
    }

    #[test]
    fn a_beat_has_its_load_beside_its_number() {
        let beat = Beat {
            inc: 7,
            seq: 3,
            load: Load {
                headroom: 12,
                ..Load::default()
            },
            ..Beat::default()
        };
        let text = String::from_utf8(beat.to_payload().to_vec()).expect("JSON");
        assert!(text.contains("\"headroom\":12"), "{text}");
        assert_eq!(Beat::parse(text.as_bytes()).expect("a beat"), beat);
    }

    proptest! {
        #[test]
        fn no_value_panics(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = StreamRecord::parse(&value);
            let _ = NodeRecord::parse(&value);
            let _ = Beat::parse(&value);
        }

        #[test]
        fn every_record_comes_back(inc: u64, epoch: u64, bps: u64, node in "\\PC{1,40}", tracks in proptest::collection::vec("[a-z0-9]{0,8}", 0..8)) {
            let mut record = stream();
            (record.inc, record.epoch, record.bps, record.tracks) = (inc, epoch, bps, tracks);
            record.node = NodeId::new(&node).expect("a name");
            prop_assert_eq!(StreamRecord::parse(&record.to_value()).expect("read"), record);
        }
    }
}
