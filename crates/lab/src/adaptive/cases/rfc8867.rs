//! RFC 8867 §5.1 to §5.8, with the numbers of its ns-3 implementation where the text leaves them open.

use std::time::Duration;

use glassline_sim::Conditions;

use super::elements::{DELAY, MS, case, kbps, lane, moment, secs, simulcast};
use crate::adaptive::case::{Case, Flow, Traffic, Viewing};
use crate::adaptive::path::LinkSchedule;
use crate::adaptive::source::{Content, PublishedVideo};
use crate::adaptive::target::{Figure, Target};

/// Length of the queue of RFC 8867 §4.
const QUEUE: Duration = Duration::from_millis(300);
/// Largest jitter of RFC 8867 §4.
const JITTER: Duration = Duration::from_millis(30);

/// Capacities of RFC 8867 §5.1, in seconds and kbit/s.
const VARIABLE: [(u64, u64); 4] = [(0, 1_000), (40, 2_500), (60, 600), (80, 1_000)];

/// The layers of RFC 8867's cases, whose media has 0.15 to 1.5 Mbit/s.
fn of_rfc() -> PublishedVideo {
    simulcast(&[1_500, 500, 150])
}

fn of_rfc_path(rate: u64) -> Conditions {
    Conditions {
        jitter: JITTER,
        ..Conditions::limited(kbps(rate), DELAY, QUEUE)
    }
}

fn rfc_case(name: &'static str, about: &'static str, seconds: u64, flows: Vec<Flow>) -> Case {
    Case {
        name,
        about,
        duration: secs(seconds),
        forward: LinkSchedule::constant(of_rfc_path(3_500)),
        backward: LinkSchedule::constant(Conditions {
            jitter: JITTER,
            ..Conditions::delayed(DELAY)
        }),
        flows,
        targets: vec![
            Target::at_least(Figure::UseRatio, 0.7),
            Target::at_most(Figure::QueueMsP95, 150.0),
            Target::at_least(Figure::ShownRatio, 0.9),
        ],
        ..case()
    }
}

/// Returns the cases in the order of the RFC.
pub(super) fn all() -> Vec<Case> {
    let mut cases = alone();
    cases.extend(shared());
    cases.sort_by_key(|case| case.name);
    cases
}

/// A viewer of RFC 8867's media.
fn viewer() -> Flow {
    Flow::viewer(of_rfc())
}

/// A viewer with another description.
fn viewer_that(change: impl FnOnce(&mut Viewing)) -> Flow {
    let mut flow = viewer();
    if let Traffic::Viewer(viewing) = &mut flow.traffic {
        change(viewing);
    }
    flow
}

/// RFC 8867 §5.1 to §5.5 and §5.8: flows of our own.
fn alone() -> Vec<Case> {
    let reversed = viewer_that(|it| it.is_reversed = true);
    let paused = viewer_that(|it| it.pause = moment(40, 60));
    let far = [0, 15, 40, 90, 140].iter().zip([0, 10, 20, 30, 40]);
    let steps = |steps: &[(u64, u64)]| lane(steps, of_rfc_path);
    vec![
        Case {
            forward: steps(&VARIABLE),
            moment: moment(40, 60),
            targets: vec![
                Target::at_least(Figure::FittingRatio, 0.9),
                Target::at_most(Figure::QueueMsP95, 60.0),
                Target::at_least(Figure::ShownRatio, 0.9),
            ],
            ..rfc_case("5.1", "variable capacity, one flow", 100, vec![viewer()])
        },
        Case {
            forward: steps(&VARIABLE),
            moment: moment(40, 60),
            targets: vec![
                Target::at_least(Figure::UseRatio, 0.85),
                Target::at_most(Figure::QueueMsP95, 150.0),
                Target::at_least(Figure::ShownRatio, 0.9),
            ],
            ..rfc_case(
                "5.1-live",
                "variable capacity, one flow, whose encoder follows the estimate",
                100,
                vec![Flow::viewer(PublishedVideo {
                    content: Content::Following(kbps(150)),
                    ..simulcast(&[1_500])
                })],
            )
        },
        Case {
            forward: steps(&[
                (0, 4_000),
                (25, 2_000),
                (50, 3_500),
                (75, 1_000),
                (100, 2_000),
            ]),
            ..rfc_case(
                "5.2",
                "variable capacity, two flows",
                125,
                vec![viewer(), viewer()],
            )
        },
        Case {
            forward: steps(&[(0, 2_000), (20, 1_000), (40, 500), (60, 2_000)]),
            backward: steps(&[(0, 2_000), (35, 800), (70, 2_000)]),
            ..rfc_case(
                "5.3",
                "a flow each way, both ways congested",
                100,
                vec![viewer(), reversed],
            )
        },
        rfc_case(
            "5.4",
            "three flows, which begin at 0, 20 and 40 s",
            120,
            vec![viewer(), viewer().from(20), viewer().from(40)],
        ),
        Case {
            forward: LinkSchedule::constant(Conditions {
                delay: MS * 10,
                ..of_rfc_path(4_000)
            }),
            backward: LinkSchedule::constant(Conditions::delayed(MS * 10)),
            ..rfc_case(
                "5.5",
                "five flows of 10 to 150 ms of delay, which begin each 10 s",
                300,
                far.map(|(ms, at)| viewer().farther(*ms).from(at)).collect(),
            )
        },
        rfc_case(
            "5.8",
            "three flows, one of which pauses from 40 to 60 s",
            120,
            vec![viewer(), viewer(), paused],
        ),
    ]
}

/// RFC 8867 §5.6 and §5.7: TCP beside our flows.
fn shared() -> Vec<Case> {
    let web = Flow {
        traffic: Traffic::Web {
            pause: Duration::from_secs(10),
        },
        ..Flow::bulk()
    };
    let webs = (0..10).map(|place| web.clone().from(2 * place));
    let with_web = [viewer(), viewer()].into_iter().chain(webs);
    vec![
        Case {
            forward: LinkSchedule::constant(of_rfc_path(2_000)),
            // The other flow fills the queue.
            targets: vec![
                Target::at_least(Figure::FittingRatio, 0.7),
                Target::at_least(Figure::ShownRatio, 0.9),
            ],
            ..rfc_case(
                "5.6",
                "a long CUBIC flow shares 2 Mbit/s",
                120,
                vec![viewer().from(5), Flow::bulk()],
            )
        },
        Case {
            forward: LinkSchedule::constant(of_rfc_path(2_000)),
            ..rfc_case(
                "5.7",
                "ten CUBIC flows of 0.1 to 1 MB share 2 Mbit/s with two viewers",
                300,
                with_web.collect(),
            )
        },
    ]
}
