//! Cases of paths that change, lose, share and fade, for a browser's simulcast.

use std::time::Duration;

use glassline_sim::{Conditions, Loss, Policer};

use super::elements::{DELAY, MS, case, kbps, lane, limited, moment, secs, simulcast, usual};
use crate::adaptive::case::{Case, Flow};
use crate::adaptive::path::{LinkSchedule, Step};
use crate::adaptive::source::{Keyframes, PublishedVideo};
use crate::adaptive::target::{Figure, Target};

/// Cases whose path changes once or twice.
pub(super) fn changing() -> Vec<Case> {
    let (most, least) = (Target::at_most, Target::at_least);
    vec![
        Case {
            name: "drop",
            about: "the path falls from 2.5 to 0.8 Mbit/s for 30 s",
            duration: secs(80),
            forward: lane(&[(0, 2_500), (20, 800), (50, 2_500)], limited),
            moment: moment(20, 50),
            targets: vec![
                most(Figure::FitS, 1.0),
                most(Figure::StallMsMax, 1_000.0),
                most(Figure::QueueMsP95, 100.0),
                least(Figure::ShownRatio, 0.9),
            ],
            ..case()
        },
        Case {
            name: "rise",
            about: "the path rises from 0.5 to 3 Mbit/s",
            forward: lane(&[(0, 500), (20, 3_000)], limited),
            moment: moment(20, 60),
            targets: vec![
                most(Figure::RiseS, 5.0),
                most(Figure::PaddingRatio, 0.03),
                most(Figure::StallMsMax, 1_000.0),
            ],
            ..case()
        },
        Case {
            name: "tunnel",
            about: "the path nearly stands for 3 s",
            forward: lane(&[(0, 3_000), (20, 20), (23, 3_000)], limited),
            moment: moment(23, 60),
            targets: vec![
                most(Figure::StallMsMax, 7_000.0),
                most(Figure::RiseS, 6.0),
                least(Figure::ShownRatio, 0.9),
            ],
            ..case()
        },
        half(
            "half",
            "the path carries half of the only layer for 30 s, with keyframes each 2 s",
            false,
        ),
        half(
            "half-b",
            "the same, where no frame refers to every other frame",
            true,
        ),
        quarter(),
    ]
}

fn half(name: &'static str, about: &'static str, has_upper_frames: bool) -> Case {
    let (most, least) = (Target::at_most, Target::at_least);
    Case {
        name,
        about,
        duration: secs(80),
        flows: vec![Flow::viewer(PublishedVideo {
            keyframes: Keyframes {
                period: Some(Duration::from_secs(2)),
                on_request: false,
            },
            has_upper_frames,
            ..simulcast(&[2_000])
        })],
        forward: lane(&[(0, 5_000), (20, 1_000), (50, 5_000)], limited),
        moment: moment(20, 50),
        targets: vec![
            least(Figure::FpsMin, 5.0),
            most(Figure::WaitMsP99, 400.0),
            most(Figure::StallMsMax, 2_200.0),
        ],
        ..case()
    }
}

/// Returns the case of a path that carries a quarter of the only layer for a while, in a queue of so few
/// packets that the losses look like those of a policer.
fn quarter() -> Case {
    Case {
        name: "quarter",
        about: "the path carries a quarter of the only layer for 14 s",
        duration: secs(60),
        flows: vec![Flow::viewer(simulcast(&[830]))],
        forward: lane(&[(0, 5_000), (10, 207), (24, 5_000)], limited),
        moment: moment(24, 60),
        targets: vec![Target::at_most(Figure::RiseS, 10.0)],
        ..case()
    }
}

/// Cases whose path stays as it is.
pub(super) fn constant() -> Vec<Case> {
    let (most, least) = (Target::at_most, Target::at_least);
    let lossy = |share| Conditions::delayed(DELAY / 2).with_loss(Loss::Random(share));
    vec![
        Case {
            name: "steady",
            about: "the path carries 5 Mbit/s all the time",
            targets: vec![
                most(Figure::PaddingRatio, 0.03),
                most(Figure::Switches, 1.0),
                most(Figure::StallMsMax, 100.0),
                most(Figure::QueueMsP95, 50.0),
                least(Figure::UseRatio, 0.9),
            ],
            ..case()
        },
        Case {
            name: "narrow",
            about: "the path carries 0.8 Mbit/s all the time",
            forward: LinkSchedule::constant(limited(800)),
            targets: vec![
                most(Figure::Switches, 4.0),
                most(Figure::QueueMsP95, 100.0),
                least(Figure::ShownRatio, 0.95),
            ],
            ..case()
        },
        Case {
            name: "below",
            about: "the path carries 0.1 Mbit/s, less than the lowest layer",
            forward: LinkSchedule::constant(limited(100)),
            targets: vec![
                least(Figure::ShownRatio, 0.17),
                most(Figure::StallMsMax, 3_000.0),
            ],
            ..case()
        },
        Case {
            name: "feedback",
            about: "30 % of what the viewer sends is lost",
            backward: LinkSchedule::constant(lossy(0.3)),
            targets: vec![
                most(Figure::Switches, 0.0),
                least(Figure::UseRatio, 0.9),
                most(Figure::StallMsMax, 150.0),
            ],
            ..case()
        },
        Case {
            name: "loss",
            about: "2 % of the datagrams are lost at random",
            forward: LinkSchedule::constant(limited(5_000).with_loss(Loss::Random(0.02))),
            targets: vec![
                most(Figure::Switches, 0.0),
                least(Figure::UseRatio, 0.9),
                most(Figure::StallMsMax, 150.0),
            ],
            ..case()
        },
    ]
}

/// Cases whose path is not the viewer's alone, or is limited without a queue.
pub(super) fn shared() -> Vec<Case> {
    let (most, least) = (Target::at_most, Target::at_least);
    let bulk_queue = Conditions::limited(kbps(4_000), DELAY / 2, DELAY);
    let long_queue = Conditions::limited(kbps(4_000), DELAY / 2, DELAY * 4);
    vec![
        Case {
            name: "beside",
            about: "a CUBIC flow shares 4 Mbit/s, with 1 BDP of queue",
            forward: LinkSchedule::constant(bulk_queue),
            flows: vec![Flow::viewer(usual()), Flow::bulk().from(5)],
            targets: vec![
                least(Figure::UseRatio, 0.8),
                least(Figure::ShownRatio, 0.9),
                most(Figure::StallMsMax, 1_000.0),
            ],
            ..case()
        },
        Case {
            name: "deep",
            about: "a CUBIC flow shares 4 Mbit/s, with 4 BDP of queue",
            duration: secs(90),
            forward: LinkSchedule::constant(long_queue),
            flows: vec![Flow::viewer(usual()), Flow::bulk().from(5)],
            targets: vec![
                least(Figure::UseRatio, 0.7),
                least(Figure::ShownRatio, 0.9),
                most(Figure::StallMsMax, 1_000.0),
            ],
            ..case()
        },
        Case {
            name: "policed",
            about: "a policer drops what exceeds 2 Mbit/s, with layers of 2.5, 1 and 0.3",
            flows: vec![Flow::viewer(simulcast(&[2_500, 1_000, 300]))],
            forward: LinkSchedule::constant(Conditions {
                policer: Some(Policer {
                    rate: kbps(2_000),
                    burst_bytes: 30_000,
                }),
                ..Conditions::delayed(DELAY / 2)
            }),
            targets: vec![
                least(Figure::UseRatio, 0.5),
                most(Figure::LossRatio, 0.05),
                most(Figure::LossLateRatio, 0.01),
                most(Figure::StallMsMax, 1_000.0),
            ],
            ..case()
        },
    ]
}

/// Paths of radios.
pub(super) fn radio() -> Vec<Case> {
    let (most, least) = (Target::at_most, Target::at_least);
    let all = |use_ratio| {
        vec![
            least(Figure::UseRatio, use_ratio),
            least(Figure::ShownRatio, 0.9),
            most(Figure::StallMsMax, 1_000.0),
        ]
    };
    vec![
        Case {
            name: "wifi",
            about: "4 Mbit/s come in aggregates each 16 ms",
            forward: LinkSchedule::constant(Conditions {
                batch: MS * 16,
                jitter: MS * 10,
                ..limited(4_000)
            }),
            targets: all(0.9),
            ..case()
        },
        Case {
            name: "jitter",
            about: "4 Mbit/s with 0 to 60 ms of uniform jitter",
            forward: LinkSchedule::constant(Conditions {
                jitter: MS * 60,
                ..limited(4_000)
            }),
            targets: all(0.9),
            ..case()
        },
        Case {
            name: "radio",
            about: "the capacity fades between 0.4 and 4 Mbit/s",
            forward: LinkSchedule { steps: fading() },
            targets: all(0.7),
            ..case()
        },
        Case {
            name: "bursts",
            about: "1 % of the time, all datagrams of some 40 ms are lost",
            forward: LinkSchedule::constant(limited(4_000).with_loss(Loss::bursts(0.01, 40.0))),
            targets: all(0.9),
            ..case()
        },
    ]
}

/// Rates of a radio that fades, each for some seconds.
fn fading() -> Vec<Step> {
    let rates = [
        2_000, 3_000, 1_200, 600, 400, 900, 1_800, 4_000, 2_500, 1_000, 700, 1_500,
    ];
    let step = |(place, rate): (usize, &u64)| Step {
        at: Duration::from_secs(5) * u32::try_from(place).unwrap_or_default(),
        conditions: Conditions {
            jitter: MS * 10,
            batch: MS * 5,
            ..Conditions::limited(kbps(*rate), DELAY / 2, MS * 500)
        },
    };
    rates.iter().enumerate().map(step).collect()
}
