//! What cases are made of: sources, links and moments.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_sim::Conditions;

use crate::adaptive::case::{Case, Flow};
use crate::adaptive::moment::Moment;
use crate::adaptive::path::{LinkSchedule, Step};
use crate::adaptive::source::{Content, Keyframes, PublishedVideo};

/// One millisecond, of which cases are made.
pub(super) const MS: Duration = Duration::from_millis(1);
/// One-way delay of RFC 8867 §4, and the round trip of all other cases.
pub(super) const DELAY: Duration = Duration::from_millis(50);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn kbps(rate: u64) -> Bitrate {
    Bitrate::from_bps(rate * 1_000)
}

/// Layers like those of a browser: 720, 360 and 180 lines.
pub(super) fn layers(rates: &[u64]) -> Vec<Bitrate> {
    rates.iter().copied().map(kbps).collect()
}

/// A browser's simulcast.
pub(super) fn simulcast(rates: &[u64]) -> PublishedVideo {
    PublishedVideo {
        layers: layers(rates),
        fps: 30,
        keyframes: Keyframes {
            period: None,
            on_request: true,
        },
        has_upper_frames: false,
        content: Content::Camera,
    }
}

/// The layers of most cases.
pub(super) fn usual() -> PublishedVideo {
    simulcast(&[1_250, 500, 150])
}

pub(super) fn limited(rate: u64) -> Conditions {
    Conditions::limited(kbps(rate), DELAY / 2, Duration::from_millis(200))
}

/// A direction whose rate changes: seconds and kbit/s.
pub(super) fn lane(steps: &[(u64, u64)], conditions: impl Fn(u64) -> Conditions) -> LinkSchedule {
    let step = |(seconds, rate): &(u64, u64)| Step {
        at: secs(*seconds),
        conditions: conditions(*rate),
    };
    LinkSchedule {
        steps: steps.iter().map(step).collect(),
    }
}

pub(super) fn back() -> LinkSchedule {
    LinkSchedule::constant(Conditions::delayed(DELAY / 2))
}

/// A minute of the usual layers over 5 Mbit/s, from which other cases differ.
pub(super) fn case() -> Case {
    Case {
        name: "",
        about: "",
        duration: secs(60),
        forward: LinkSchedule::constant(limited(5_000)),
        backward: back(),
        flows: vec![Flow::viewer(usual())],
        moment: None,
        targets: Vec::new(),
    }
}

pub(super) fn moment(at: u64, until: u64) -> Option<Moment> {
    let [at, until] = [at, until].map(secs);
    Some(Moment { at, until })
}
