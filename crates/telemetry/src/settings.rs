//! The section `telemetry` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use glassline_access::auth::{HIDDEN, SecretText, serialize_hidden};
use glassline_access::outbound::WebUrl;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

/// Longest header, in bytes.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Most headers, and most attributes.
const ENTRIES_MAX: usize = 32;

/// Longest interval between two exports of metrics, in seconds.
const INTERVAL_S_MAX: u64 = 3_600;

/// Longest time for one request, in seconds.
const TIMEOUT_S_MAX: u64 = 60;

/// Traces and metrics for a collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Collector of OpenTelemetry, or null.
    #[serde(deserialize_with = "checked")]
    pub otlp: Option<Otlp>,
}

/// Traces of joins, and metrics, as OTLP in JSON over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// URL of the collector, like `http://127.0.0.1:4318`. `/v1/traces` and `/v1/metrics` are
    /// appended.
    pub endpoint: WebUrl,
    /// Headers of each request, such as `authorization`. They are never printed.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderText>,
    /// PEM file with the root certificates of `endpoint`. Null takes Mozilla's.
    #[serde(default)]
    pub roots: Option<PathBuf>,
    /// Seconds between two exports of metrics, 1 to 3600.
    #[serde(default = "fifteen")]
    pub interval_s: u64,
    /// Seconds that one request may take, 1 to 60.
    #[serde(default = "ten")]
    pub timeout_s: u64,
    /// Whether joins are traced.
    #[serde(default = "yes")]
    pub traces: bool,
    /// Whether metrics are sent.
    #[serde(default = "yes")]
    pub metrics: bool,
    /// Share of successful joins that are sent, 0 to 1; failed joins always are.
    #[serde(default = "all")]
    pub sample: f64,
    /// Name of this server in OpenTelemetry, `service.name`.
    #[serde(default = "glassline")]
    pub service_name: String,
    /// Further attributes of this server, like `deployment.environment.name: production`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

const fn ten() -> u64 {
    10
}

const fn fifteen() -> u64 {
    15
}

const fn yes() -> bool {
    true
}

const fn all() -> f64 {
    1.0
}

fn glassline() -> String {
    "glassline".to_owned()
}

impl Otlp {
    fn check(&self) -> Result<(), OtlpError> {
        if self.endpoint.as_str().contains('?') {
            return Err(OtlpError::Query);
        }
        if !(1..=INTERVAL_S_MAX).contains(&self.interval_s) {
            return Err(OtlpError::Interval);
        }
        if !(1..=TIMEOUT_S_MAX).contains(&self.timeout_s) {
            return Err(OtlpError::Timeout);
        }
        if !(0.0..=1.0).contains(&self.sample) {
            return Err(OtlpError::Sample);
        }
        if self.headers.len() > ENTRIES_MAX || self.attributes.len() > ENTRIES_MAX {
            return Err(OtlpError::Entries);
        }
        let is_name = |name: &&String| name.parse::<axum::http::HeaderName>().is_ok();
        if let Some(bad) = self.headers.keys().find(|name| !is_name(name)) {
            return Err(OtlpError::HeaderName(bad.clone()));
        }
        let ours = ["content-length", "content-type", "host"];
        let is_ours = |name: &&String| ours.contains(&name.to_ascii_lowercase().as_str());
        match self.headers.keys().find(is_ours) {
            Some(bad) => Err(OtlpError::OurHeader(bad.clone())),
            None => Ok(()),
        }
    }
}

/// Reads the section, and refuses keys that do not work.
fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Otlp>, D::Error> {
    let otlp = Option::<Otlp>::deserialize(from)?;
    if let Some(otlp) = &otlp {
        otlp.check().map_err(D::Error::custom)?;
    }
    Ok(otlp)
}

/// Keys of `telemetry.otlp` do not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum OtlpError {
    #[error("`endpoint` has no query: write it like http://127.0.0.1:4318")]
    Query,
    #[error("`interval_s` is 1 to {INTERVAL_S_MAX}")]
    Interval,
    #[error("`timeout_s` is 1 to {TIMEOUT_S_MAX}")]
    Timeout,
    #[error("`sample` is 0 to 1")]
    Sample,
    #[error("`headers` and `attributes` have at most {ENTRIES_MAX} entries each")]
    Entries,
    #[error("'{0}' is no name of a header")]
    HeaderName(String),
    #[error("the header '{0}' is written by the server itself")]
    OurHeader(String),
}

/// The value of a header, which may be a secret and is never printed. It has visible ASCII characters
/// and single spaces between them.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema, derive_more::Debug)]
#[debug("{HIDDEN}")]
#[serde(try_from = "String")]
#[schemars(with = "SecretText")]
pub struct HeaderText(String);

/// The reason why a text is not the value of a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderTextError {
    /// The text is empty or too long.
    #[error("a header has 1 to {HEADER_BYTES_MAX} bytes, this one has {bytes}")]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// A character is not visible ASCII.
    #[error("character {place} of the header is neither visible ASCII nor a space inside")]
    Character {
        /// Place of the character, counted from 1.
        place: usize,
    },
}

impl HeaderText {
    /// Returns the text, for the request that has to contain it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for HeaderText {
    type Error = HeaderTextError;

    fn try_from(text: String) -> Result<Self, HeaderTextError> {
        let bytes = text.len();
        if !(1..=HEADER_BYTES_MAX).contains(&bytes) {
            return Err(HeaderTextError::Length { bytes });
        }
        let is_good = |(place, byte): (usize, u8)| {
            byte.is_ascii_graphic() || byte == b' ' && place > 0 && place + 1 < bytes
        };
        match text.bytes().enumerate().position(|it| !is_good(it)) {
            Some(place) => Err(HeaderTextError::Character { place: place + 1 }),
            None => Ok(Self(text)),
        }
    }
}

impl Serialize for HeaderText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hidden(&self.0, serializer)
    }
}
