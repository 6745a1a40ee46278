use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Bitrate, Kind, Track};
use serde_json::{Map, Value, json};

use crate::moq::codec;

/// Origin of a catalog's clock, 2020-01-01, in milliseconds since 1970.
pub(super) const EPOCH_UNIX_MS: u64 = 1_577_836_800_000;

/// Key of our own fields in the document, which other implementations ignore.
pub(super) const OWN_KEY: &str = "glassline";

/// A rendition to be written to a catalog.
#[derive(Clone, Debug)]
pub(in crate::moq) struct OfferedRendition<'a> {
    pub(in crate::moq) name: &'a str,
    pub(in crate::moq) track: &'a Track,
    pub(in crate::moq) codec: &'a str,
    pub(in crate::moq) bitrate: Option<Bitrate>,
}

/// Returns the document of `renditions`. `clock`: wall-clock time at media time zero, since
/// 1970.
pub(in crate::moq) fn write(
    renditions: &[OfferedRendition<'_>],
    clock: Option<Duration>,
    echoes: bool,
) -> Bytes {
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
    if echoes {
        root[OWN_KEY] = json!({"answers": 1});
    }
    Bytes::from(root.to_string())
}
