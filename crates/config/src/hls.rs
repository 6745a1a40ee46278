//! The section `hls` of the configuration: streams as files for players without WebRTC.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::parts;

/// HTTP Live Streaming with low latency, at `/NAME/hls/index.m3u8` on the ports for viewers. A stream
/// costs nothing until somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hls {
    /// Whether streams are offered.
    pub enabled: bool,
    /// Duration of a part in ms, rounded up to whole frames. Players stay three parts behind; on uneven
    /// paths 500 plays smoothly where 200 does not.
    #[serde(deserialize_with = "part")]
    #[schemars(range(min = 100, max = 2000))]
    pub part_ms: u64,
    /// Wanted duration of a segment in seconds. Where keyframes are rarer, segments are as long as their
    /// distance, up to 10 s.
    #[serde(deserialize_with = "segment")]
    #[schemars(range(min = 1, max = 10))]
    pub segment_s: u32,
    /// Seconds of a stream that players can go back; at least six segments are kept.
    #[serde(deserialize_with = "window")]
    #[schemars(range(min = 1, max = 240))]
    pub window_s: u64,
    /// Seconds of a recorded stream that `/NAME/hls/dvr.m3u8` has, for players that go back by hours.
    #[serde(deserialize_with = "dvr")]
    #[schemars(range(min = 60, max = 86400))]
    pub dvr_s: u64,
    /// MiB that the segments of one stream may take. Beyond, a stream keeps fewer.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub stream_mib: usize,
    /// MiB that the segments of all streams may take. Beyond, no further stream begins.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub total_mib: usize,
    /// Seconds without a request after which the segments of a stream are dropped.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub idle_s: u64,
}

impl Default for Hls {
    fn default() -> Self {
        Self {
            enabled: true,
            part_ms: 200,
            segment_s: 2,
            window_s: 20,
            dvr_s: 7200,
            stream_mib: 64,
            total_mib: 1024,
            idle_s: 30,
        }
    }
}

impl Hls {
    /// Returns the wanted duration of a part.
    pub const fn part(&self) -> Duration {
        Duration::from_millis(self.part_ms)
    }

    /// Returns the time that players can go back.
    pub const fn window(&self) -> Duration {
        Duration::from_secs(self.window_s)
    }

    /// Returns the duration of the playlist of the last hours.
    pub const fn dvr(&self) -> Duration {
        Duration::from_secs(self.dvr_s)
    }

    /// Returns the time without a request after which a stream's segments are dropped.
    pub const fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s)
    }
}

fn part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    match (100..=2000).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom("must be from 100 to 2000")),
    }
}

fn segment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = u32::deserialize(deserializer)?;
    match (1..=10).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom("must be from 1 to 10")),
    }
}

fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    match (1..=240).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom("must be from 1 to 240")),
    }
}

fn dvr<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    match (60..=86_400).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom("must be from 60 to 86400")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        let read = |text: &str| serde_saphyr::from_str::<Hls>(text);
        let slow = read("{part_ms: 500, segment_s: 6}").expect("good");
        assert_eq!(slow.part(), Duration::from_millis(500));
        for (text, told) in [
            ("part_ms: 20", "must be from 100 to 2000"),
            ("segment_s: 11", "must be from 1 to 10"),
            ("window_s: 0", "must be from 1 to 240"),
            ("dvr_s: 59", "must be from 60 to 86400"),
            ("idle_s: 0", "must be at least 1"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
