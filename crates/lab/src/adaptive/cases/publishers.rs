//! Cases of publishers that are no camera behind a browser.

use std::time::Duration;

use super::elements::{case, kbps, lane, limited, moment, secs, simulcast, usual};
use crate::adaptive::case::{Case, Flow};
use crate::adaptive::path::LinkSchedule;
use crate::adaptive::source::{Content, Keyframes, PublishedVideo};
use crate::adaptive::target::{Figure, Target};

/// Cases with other publishers.
pub(super) fn all() -> Vec<Case> {
    let (most, least) = (Target::at_most, Target::at_least);
    let periodic = |period, rates: &[u64]| PublishedVideo {
        keyframes: Keyframes {
            period: Some(Duration::from_secs(period)),
            on_request: false,
        },
        ..simulcast(rates)
    };
    vec![
        Case {
            name: "screen",
            about: "a screen at rest changes as a whole every 8 to 14 s",
            duration: secs(90),
            flows: vec![Flow::viewer(PublishedVideo {
                content: Content::Screen,
                fps: 15,
                ..usual()
            })],
            targets: vec![
                most(Figure::Switches, 0.0),
                most(Figure::PaddingRatio, 0.1),
                most(Figure::StallMsMax, 300.0),
            ],
            forward: LinkSchedule::constant(limited(3_000)),
            ..case()
        },
        Case {
            name: "obs",
            about: "the path falls to 0.8 Mbit/s; keyframes come each 4 s, whoever asks",
            duration: secs(80),
            flows: vec![Flow::viewer(periodic(4, &[1_250, 500, 150]))],
            forward: lane(&[(0, 2_500), (20, 800), (50, 2_500)], limited),
            moment: moment(20, 50),
            targets: vec![
                most(Figure::FitS, 5.0),
                most(Figure::StallMsMax, 4_500.0),
                least(Figure::ShownRatio, 0.85),
            ],
            ..case()
        },
        Case {
            name: "follow",
            about: "the path falls to 0.8 Mbit/s; the encoder follows the estimate",
            duration: secs(80),
            flows: vec![Flow::viewer(PublishedVideo {
                content: Content::Following(kbps(150)),
                ..simulcast(&[1_250])
            })],
            forward: lane(&[(0, 2_500), (20, 800), (50, 2_500)], limited),
            moment: moment(20, 50),
            targets: vec![
                most(Figure::FitS, 1.5),
                most(Figure::QueueMsP95, 150.0),
                least(Figure::ShownRatio, 0.95),
            ],
            ..case()
        },
    ]
}
