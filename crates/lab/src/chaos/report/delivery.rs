//! Share of frames and packets that good viewers must receive.

use crate::chaos::account::Account;
use crate::chaos::plan::{Plan, Strength};
use crate::chaos::watch::FREEZE_MIN;

/// Least share of frames and packets outside of planned interruptions.
const LEAST: f64 = 0.999;

/// The least part for the short actions of the smoke, of which one frame of one viewer is a larger
/// part.
const LEAST_SHORT: f64 = 0.99;

/// Least share of frames and packets that a group must receive.
pub(super) fn least_ratio(plan: &Plan) -> f64 {
    match plan.strength {
        Strength::Smoke => LEAST_SHORT,
        Strength::Mixed | Strength::Target => LEAST,
    }
}

/// Time of frames that are due in a span and may arrive after its end, in ms; `quiet` is the
/// group's account without an action.
pub(super) fn edge_ms(plan: &Plan, quiet: &Account) -> Option<f64> {
    let usual = quiet.gap_ms(0.99)?;
    Some(match plan.strength {
        // The source of a short action may be late for once; a longer gap than this is a freeze.
        Strength::Smoke => usual.max(FREEZE_MIN.as_secs_f64() * 1e3),
        Strength::Mixed | Strength::Target => usual,
    })
}
