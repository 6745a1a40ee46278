//! Values that are checked while the file is parsed, so that an error points at its line.

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

const SHARDS_MAX: usize = 256;
/// Largest configurable message in KiB. A message must be complete before it is passed on.
const MESSAGE_KIB_MAX: usize = 16 << 10;
const CHANNELS_MAX: usize = 256;

/// A web site that may embed the streams: `*`, or scheme and host (RFC 6454 §6.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Origin(String);

impl Origin {
    /// Returns the value `*`, for every site.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// Returns whether this is `*`.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Returns whether this includes a page of `origin`.
    pub fn allows(&self, origin: &str) -> bool {
        self.is_any() || self.0.eq_ignore_ascii_case(origin)
    }

    /// Returns the value as it appears in the file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self(text));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !matches!(scheme, "http" | "https") || rest.is_empty() {
            return Err(OriginError { origin: text });
        }
        // Browsers send neither path nor trailing slash, so such an entry never matches.
        if rest.contains(['/', '?', '#', '*', ' ']) {
            return Err(OriginError { origin: text });
        }
        Ok(Self(text))
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text is not an [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{origin}' is not an origin: write '*', or scheme and host without a path, like 'https://example.com'"
)]
pub struct OriginError {
    /// Text that is no origin.
    pub origin: String,
}

/// Parses a whole number of at least one.
pub(super) fn positive<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialEq + Default,
{
    let value = T::deserialize(deserializer)?;
    if value == T::default() {
        return Err(D::Error::custom("must be at least 1"));
    }
    Ok(value)
}

pub(super) fn positive_or_null<'de, D>(deserializer: D) -> Result<Option<u64>, D::Error>
where
    D: Deserializer<'de>,
{
    match Option::deserialize(deserializer)? {
        Some(0) => Err(D::Error::custom("must be at least 1, or null")),
        value => Ok(value),
    }
}

pub(super) fn message_kib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, MESSAGE_KIB_MAX)
}

pub(super) fn channels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, CHANNELS_MAX)
}

/// Parses a whole number from 1 to `max`.
fn within<'de, D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<usize, D::Error> {
    let value = usize::deserialize(deserializer)?;
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(D::Error::custom(format!("must be 1 to {max}")))
}

pub(super) fn shards<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    let shards = Option::<usize>::deserialize(deserializer)?;
    match shards {
        Some(count) if !(1..=SHARDS_MAX).contains(&count) => Err(D::Error::custom(format!(
            "must be 1 to {SHARDS_MAX}, or null for one per core"
        ))),
        shards => Ok(shards),
    }
}

pub(super) fn advertise<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<IpAddr>, D::Error> {
    let addresses = Vec::<IpAddr>::deserialize(deserializer)?;
    match addresses.iter().find(|ip| ip.is_unspecified()) {
        Some(ip) => Err(D::Error::custom(format!(
            "viewers cannot send to {ip}: name an address that reaches this machine"
        ))),
        None => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_scheme_and_host() {
        let origin = |text: &str| Origin::try_from(text.to_owned());
        let site = origin("https://example.com:8443").expect("a good origin");
        assert!(site.allows("https://EXAMPLE.com:8443"));
        assert!(!site.allows("https://example.com"));
        assert!(origin("*").expect("all").allows("null"));
        for bad in [
            "",
            "example.com",
            "https://",
            "https://a.b/",
            "ftp://a",
            "https://*.a",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }
}
