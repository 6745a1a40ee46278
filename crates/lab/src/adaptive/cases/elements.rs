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
        at: Duration::from_secs(*seconds),
        conditions: conditions(*rate),
    };
    LinkSchedule {
        steps: steps.iter().map(step).collect(),
    }
}

pub(super) fn back() -> LinkSchedule {
    LinkSchedule::constant(Conditions::delayed(DELAY / 2))
}

pub(super) fn case(
    name: &'static str,
    about: &'static str,
    seconds: u64,
    source: PublishedVideo,
) -> Case {
    Case {
        name,
        about,
        duration: Duration::from_secs(seconds),
        forward: LinkSchedule::constant(limited(5_000)),
        backward: back(),
        flows: vec![Flow::viewer(source)],
        moment: None,
        targets: Vec::new(),
    }
}

pub(super) fn moment(at: u64, until: u64) -> Option<Moment> {
    Some(Moment {
        at: Duration::from_secs(at),
        until: Duration::from_secs(until),
    })
}
