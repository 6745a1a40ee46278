//! What a path carries for one of its flows.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_sim::Conditions;

use super::case::{Case, Flow, Traffic, Viewing};

/// Returns the rate of a link; `None` if nothing limits the link. A policer counts as a limit.
pub(super) fn capacity(conditions: &Conditions) -> Option<Bitrate> {
    let policer = conditions.policer.map(|policer| policer.rate);
    [conditions.capacity.mean(), policer]
        .into_iter()
        .flatten()
        .min_by_key(|rate| rate.bps())
}

/// Returns what the path of `case` carries at `time` for the flow at `place`, where all flows that share
/// its direction get the same.
pub(super) fn share(case: &Case, place: usize, time: Duration) -> Option<Bitrate> {
    let is_reversed = |flow: &Flow| {
        matches!(
            &flow.traffic,
            Traffic::Viewer(Viewing {
                is_reversed: true,
                ..
            })
        )
    };
    let way = is_reversed(&case.flows[place]);
    let active = case.flows.iter().filter(|flow| {
        let is_greedy = match &flow.traffic {
            Traffic::Viewer(viewing) => {
                let paused = viewing.pause.map(|it| it.at..it.until);
                !paused.is_some_and(|it| it.contains(&time))
            }
            Traffic::Bulk => true,
            Traffic::Web { .. } => false,
        };
        is_greedy && flow.start <= time && is_reversed(flow) == way
    });
    let lane = if way { &case.backward } else { &case.forward };
    let capacity = capacity(lane.conditions(time))?;
    Some(Bitrate::from_bps(
        capacity.bps() / active.count().max(1) as u64,
    ))
}
