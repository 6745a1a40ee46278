//! The section `webrtc`: how media is sent to viewers.

use std::time::Duration;

use glassline_congestion::{Algorithm, UnknownAlgorithm};
use glassline_webrtc::{ControlPlan, ControlStart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data::Data;
use super::ice_server::IceServer;
use super::{ice_server, parts};

/// How media is sent to WebRTC viewers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebRtc {
    /// Congestion control of each viewer by its transport-wide feedback: `auto` paces by `glide`
    /// once a viewer twice reports the loss of a tenth of its packets, and from the beginning where
    /// the stream has layers; a controller's name (`glide`, `cubic`, `bbr`, `copa` and others)
    /// paces from the beginning; `none` never.
    pub pacing: Pacing,
    /// Time in ms that a viewer's frames may wait before a keyframe is requested with which the
    /// viewer skips those that wait. Null: 200, or 500 with a controller and up to 2500 where
    /// keyframes are rare.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub lag_ms: Option<u64>,
    /// Repairs ahead of the losses of far viewers: FEC packets of the video and copies in the audio.
    /// `auto` sends them where they help, `never` leaves them out.
    pub fec: Fec,
    /// Data channels next to the streams.
    pub data: Data,
    /// STUN and TURN servers for WHIP and WHEP clients (`Link` headers). Who may POST an offer
    /// reads their credentials.
    #[serde(deserialize_with = "ice_server::servers")]
    pub ice_servers: Vec<IceServer>,
}

impl WebRtc {
    /// Returns [`lag_ms`](Self::lag_ms) as a duration.
    pub fn lag(&self) -> Option<Duration> {
        self.lag_ms.map(Duration::from_millis)
    }
}

/// When far viewers get repairs ahead of their losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(with = "String")]
pub enum Fec {
    /// Repairs leave while a viewer's reports call for them.
    #[default]
    Auto,
    /// No repairs leave before a viewer asks.
    Never,
}

/// When viewers are paced, and by which controller.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    derive_more::Display,
)]
#[display("{}", self.as_str())]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Pacing {
    /// Glide paces a viewer from the first signs of congestion on.
    #[default]
    Auto,
    /// Frames are sent as they come.
    None,
    /// This controller paces each viewer from the beginning.
    By(Algorithm),
}

const AUTO: &str = "auto";
const NONE: &str = "none";

impl Pacing {
    /// Returns the congestion control of viewers; `None` if frames are sent as they come.
    pub const fn control(self) -> Option<ControlPlan> {
        let (algorithm, start) = match self {
            Self::Auto => (Algorithm::Glide, ControlStart::WhenCongested),
            Self::None => return None,
            Self::By(algorithm) => (algorithm, ControlStart::AtOnce),
        };
        Some(ControlPlan { algorithm, start })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::None => NONE,
            Self::By(algorithm) => algorithm.as_str(),
        }
    }
}

impl TryFrom<String> for Pacing {
    type Error = PacingError;

    fn try_from(text: String) -> Result<Self, PacingError> {
        match text.as_str() {
            AUTO => Ok(Self::Auto),
            NONE => Ok(Self::None),
            algorithm => Ok(Self::By(algorithm.parse()?)),
        }
    }
}

impl From<Pacing> for String {
    fn from(pacing: Pacing) -> Self {
        pacing.as_str().to_owned()
    }
}

/// A text is not a [`Pacing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or write '{AUTO}' or '{NONE}'")]
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
    fn repairs_ahead_of_losses_can_be_turned_off() {
        let read = |text: &str| serde_saphyr::from_str::<WebRtc>(text);
        let protects = |text: &str| read(text).expect("valid").fec == Fec::Auto;
        assert!(protects("pacing: auto") && protects("fec: auto") && !protects("fec: never"));
        let refused = read("fec: always").expect_err("no such value").to_string();
        assert!(
            refused.contains("auto") && refused.contains("never"),
            "{refused}"
        );
    }

    #[test]
    fn every_controller_can_be_named_and_so_can_auto_and_none() {
        let named = |text: &str| Pacing::try_from(text.to_owned());
        assert_eq!(named("auto"), Ok(Pacing::default()));
        assert_eq!(named("none"), Ok(Pacing::None));
        for algorithm in Algorithm::ALL {
            let pacing = named(algorithm.as_str()).expect("known");
            assert_eq!(pacing, Pacing::By(algorithm));
            assert_eq!(String::from(pacing), algorithm.as_str());
        }
        let refused = named("reno").expect_err("unknown").to_string();
        assert!(
            refused.contains("'reno'") && refused.contains("copa"),
            "{refused}"
        );
        assert!(refused.ends_with("or write 'auto' or 'none'"), "{refused}");
    }
}
