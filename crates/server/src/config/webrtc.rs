//! The section `webrtc`: how media is sent to viewers.

use std::fmt;
use std::time::Duration;

use glassline_congestion::{Algorithm, UnknownAlgorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data::Data;
use super::ice_server::IceServer;
use super::{ice_server, parts};

/// How media is sent to WebRTC viewers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebRtc {
    /// Congestion control of each viewer by its transport-wide feedback: `none` sends frames as
    /// they come; the name of a controller (`cubic`, `bbr`, `copa` and others) paces them, and
    /// skips to the next keyframe rather than queue.
    pub pacing: Pacing,
    /// Time in ms that a viewer's frames may wait in the server before the viewer skips to the next
    /// keyframe. Null: 200, or 500 if a controller paces, since a keyframe then takes the time that
    /// the path needs for it.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub lag_ms: Option<u64>,
    /// Data channels next to the streams.
    pub data: Data,
    /// STUN and TURN servers that WHIP and WHEP clients are told of, as `Link` headers. Who may POST
    /// an offer reads their credentials.
    #[serde(deserialize_with = "ice_server::servers")]
    pub ice_servers: Vec<IceServer>,
}

impl WebRtc {
    /// Returns [`lag_ms`](Self::lag_ms) as a duration.
    pub(crate) fn lag(&self) -> Option<Duration> {
        self.lag_ms.map(Duration::from_millis)
    }
}

/// The controller that paces viewers; none sends frames as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Pacing(Option<Algorithm>);

const NONE: &str = "none";

impl Pacing {
    /// Returns pacing with `algorithm`.
    pub const fn by(algorithm: Algorithm) -> Self {
        Self(Some(algorithm))
    }

    /// Returns the controller; `None` if frames are sent as they come.
    pub const fn algorithm(self) -> Option<Algorithm> {
        self.0
    }
}

impl TryFrom<String> for Pacing {
    type Error = PacingError;

    fn try_from(text: String) -> Result<Self, PacingError> {
        if text == NONE {
            return Ok(Self(None));
        }
        Ok(Self(Some(text.parse()?)))
    }
}

impl From<Pacing> for String {
    fn from(pacing: Pacing) -> Self {
        pacing.to_string()
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or(NONE, Algorithm::as_str))
    }
}

/// A text is not a [`Pacing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or write '{NONE}'")]
pub struct PacingError(#[from] UnknownAlgorithm);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_positive_or_left_to_the_server() {
        let read = |text: &str| serde_saphyr::from_str::<WebRtc>(text);
        let lag = |text: &str| read(text).expect("valid").lag();
        assert_eq!(lag("pacing: none"), None);
        assert_eq!(lag("lag_ms: null"), None);
        assert_eq!(lag("lag_ms: 750"), Some(Duration::from_millis(750)));
        let refused = read("lag_ms: 0").expect_err("none at all").to_string();
        assert!(refused.contains("at least 1, or null"), "{refused}");
    }

    #[test]
    fn every_controller_and_none_can_be_named() {
        let named = |text: &str| Pacing::try_from(text.to_owned());
        assert_eq!(named("none"), Ok(Pacing::default()));
        for algorithm in Algorithm::ALL {
            let pacing = named(algorithm.as_str()).expect("known");
            assert_eq!(pacing.algorithm(), Some(algorithm));
            assert_eq!(String::from(pacing), algorithm.as_str());
        }
        let refused = named("reno").expect_err("unknown").to_string();
        assert!(
            refused.contains("'reno'") && refused.contains("copa"),
            "{refused}"
        );
        assert!(refused.ends_with("or write 'none'"), "{refused}");
    }
}
