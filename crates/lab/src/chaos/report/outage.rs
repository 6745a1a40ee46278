//! Planned interruptions, as each group of viewers saw them.

use crate::chaos::account::{GroupSamples, Span};
use crate::chaos::attack::Interruption;
use crate::chaos::record::{Performed, Record};

/// Time after the end of an action in which viewers may still come back, in ms.
const BACK_AFTER_MS: u64 = 1500;

/// One planned interruption, as a group of viewers saw it.
pub(super) struct Outage {
    pub(super) span: Span,
    /// Time from the end of the cause until the last viewer had video, in ms; `None` if one did
    /// not until the next interruption, or the end of the action.
    pub(super) back_after_ms: Option<u64>,
}

/// Interruptions of an action that concern a group, in their order. Each lasts until the viewers
/// are back, and at the longest until the next one begins or the action ends.
pub(super) fn outages(performed: &Performed, of: &GroupSamples) -> Vec<Outage> {
    let planned = performed.outcome.interruptions.iter();
    let planned: Vec<&Interruption> = planned.filter(|it| of.is_concerned(it)).collect();
    let outage = |(index, interruption): (usize, &&Interruption)| {
        let next = planned.get(index + 1);
        let looked_until_ms = next.map_or(performed.to_ms + BACK_AFTER_MS, |it| it.from_ms);
        let ends_ms = next.map_or(performed.to_ms, |it| it.from_ms);
        let back_after_ms = of.back_after(interruption, looked_until_ms);
        let back_ms = back_after_ms.map_or(ends_ms, |ms| interruption.until_ms + ms);
        Outage {
            span: Span {
                from_ms: interruption.from_ms,
                to_ms: back_ms,
            },
            back_after_ms,
        }
    };
    planned.iter().enumerate().map(outage).collect()
}

/// Spans that are left out of a group's figures: planned interruptions until its viewers are back.
pub(super) fn interrupted(record: &Record, of: &GroupSamples, margin_ms: u64) -> Vec<Span> {
    let performed = record.performed.iter();
    performed
        .flat_map(|it| outages(it, of))
        .map(|outage| Span {
            from_ms: outage.span.from_ms.saturating_sub(margin_ms),
            to_ms: outage.span.to_ms + margin_ms,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::action::{Action, Kind};
    use crate::chaos::attack::{Concerns, Outcome};
    use crate::chaos::group::Origin;
    use crate::chaos::watch::{Freeze, Sample};

    /// One viewer for 60 s, who sees nothing from 10 s to 13 s, and from 30 s to the end.
    fn viewer() -> GroupSamples {
        let sample = |second: u64| {
            let is_dark = (10..13).contains(&second) || second >= 30;
            let freezes = (second == 13).then_some(Freeze {
                viewer: 0,
                from_ms: 10_000,
                to_ms: 13_000,
            });
            Sample {
                from_ms: second * 1000,
                to_ms: second * 1000 + 1000,
                frames: vec![if is_dark { 0 } else { 30 }],
                freezes: Vec::from_iter(freezes),
                ..Sample::default()
            }
        };
        GroupSamples {
            name: "quic".to_owned(),
            origin: Origin::Quic,
            frame_rate: 30.0,
            viewers: 1,
            samples: (0..60).map(sample).collect(),
        }
    }

    fn soak(restarts: &[(u64, Origin)]) -> Performed {
        let interruption = |(at_s, origin): &(u64, Origin)| Interruption {
            from_ms: at_s * 1000,
            until_ms: at_s * 1000 + 500,
            concerns: Concerns::Origin(*origin),
        };
        Performed {
            action: Action {
                kind: Kind::Soak,
                rate: 0,
                count: 0,
                time: std::time::Duration::from_secs(50),
                seed: 1,
            },
            from_ms: 0,
            to_ms: 50_000,
            outcome: Outcome {
                interruptions: restarts.iter().map(interruption).collect(),
                ..Outcome::default()
            },
        }
    }

    fn spans(restarts: &[(u64, Origin)]) -> Vec<(u64, u64, Option<u64>)> {
        let outages = outages(&soak(restarts), &viewer());
        let outages = outages.iter();
        outages
            .map(|it| (it.span.from_ms, it.span.to_ms, it.back_after_ms))
            .collect()
    }

    #[test]
    fn an_outage_ends_when_its_viewers_are_back() {
        let seen = spans(&[(10, Origin::Quic), (20, Origin::Rtsp), (25, Origin::Quic)]);
        assert_eq!(
            seen,
            [(10_000, 13_000, Some(2500)), (25_000, 25_500, Some(0))]
        );
    }

    #[test]
    fn viewers_that_do_not_come_back_are_out_until_the_next_interruption_or_the_end() {
        let seen = spans(&[(30, Origin::Quic), (40, Origin::Quic)]);
        assert_eq!(seen, [(30_000, 40_000, None), (40_000, 50_000, None)]);
    }
}
