//! Cases of viewers whose feedback comes seldom or late, on a path that falls and rises again.

use std::time::Duration;

use glassline_sim::Conditions;

use super::elements::{DELAY, MS, case, lane, limited, moment, secs, usual};
use crate::adaptive::case::{Case, Flow, Traffic};
use crate::adaptive::path::LinkSchedule;
use crate::adaptive::target::{Figure, Target};

/// Interval of feedback that is seldom: a receiver of little media takes up to 250 ms.
const SELDOM: Duration = Duration::from_millis(200);
/// Delay of feedback that is late, beyond half of the round trip: by satellite.
const LATE: Duration = Duration::from_millis(250);

/// Returns the cases whose feedback is seldom, held or late.
pub(super) fn all() -> Vec<Case> {
    let late = Conditions::delayed(DELAY / 2 + LATE);
    // An uplink that is granted now and then holds requests for packets, too.
    let held = Conditions {
        batch: MS * 200,
        ..Conditions::delayed(DELAY / 2)
    };
    vec![
        Case {
            flows: vec![seldom()],
            ..falling("seldom", "feedback comes each 200 ms; the path as in drop")
        },
        Case {
            backward: LinkSchedule::constant(held),
            ..falling(
                "held",
                "all that the viewer sends waits for a grant each 200 ms; the path as in drop",
            )
        },
        Case {
            backward: LinkSchedule::constant(late),
            ..falling(
                "late",
                "all that the viewer sends takes 250 ms more; the path as in drop",
            )
        },
    ]
}

fn seldom() -> Flow {
    let mut flow = Flow::viewer(usual());
    if let Traffic::Viewer(viewing) = &mut flow.traffic {
        viewing.feedback = Some(SELDOM);
    }
    flow
}

fn falling(name: &'static str, about: &'static str) -> Case {
    let (most, least) = (Target::at_most, Target::at_least);
    Case {
        name,
        about,
        duration: secs(80),
        forward: lane(&[(0, 2_500), (20, 800), (50, 2_500)], limited),
        moment: moment(20, 50),
        targets: vec![
            most(Figure::FitS, 1.5),
            most(Figure::StallMsMax, 1_500.0),
            most(Figure::Switches, 4.0),
            least(Figure::ShownRatio, 0.9),
        ],
        ..case()
    }
}
