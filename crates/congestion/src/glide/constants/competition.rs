//! Constants of the competition with other flows.

use std::time::Duration;

use super::{ConstantRef, Visit};

group! {
    /// Constants of the competition with other flows.
    Competition {
        /// Round trips with a queue before a probe (Copa §2.2).
        full_rounds: u32 = 5,
        /// Queue targets by which a queue of our own makes these round trips longer.
        own_targets: u32 = 2,
        /// Probes in a row that must find the queue foreign before competition begins.
        foreign_min: u32 = 2,
        /// Queue targets above which one probe is enough if the queue does not respond: the
        /// window's bound makes no queue of our own that long.
        evident_targets: f64 = 2.5,
        /// Round trips with such a queue before a probe, where the path's rate was steady.
        evident_rounds: u32 = 2,
        /// Change of the path's rate from one measurement to the next below which the rate
        /// is steady, as a share of it. Fixed lines have 0.02 to 0.1, fading ones 0.2 to 0.4.
        steady: f64 = 0.11,
        /// Such change above which nothing is known yet: it begins with 1.
        unknown: f64 = 0.9,
        /// Largest factor by which the window grows at once to give the fair rate, at the
        /// beginning of the competition and until the first loss.
        lift_max: f64 = 4.0,
        /// Least share of what was given back after such a probe by which a queue of our own
        /// grows.
        grown: f64 = 0.5,
        /// Probes in a row that must find the queue ours before competition ends.
        ours_min: u32 = 3,
        /// Time after competition during which the smallest round trip may include the
        /// others' queue.
        recent: Duration = Duration::from_secs(20),
        /// Least share of what was held back by which a queue of our own shrinks.
        ours: f64 = 0.7,
        /// Fair share of the queue beside one other flow; more flows correct it by their
        /// losses.
        fair: f64 = 0.5,
        /// Share of the queue below which the window is raised: CUBIC flows take minutes to
        /// become equal, but the probe shows the distance.
        small: f64 = 0.42,
        /// Share above which a fade of a radio link responds to a probe.
        unnoticed: f64 = 0.2,
        /// Share of the window before the others came with which competition begins.
        kept: f64 = 1.0,
        /// Largest ratio of a window's aim to the window, because a probe is not exact.
        aim_max: f64 = 4.0,
        /// Largest share of the window that a probe holds back.
        cut_max: f64 = 0.5,
        /// Share of the queue that a probe drains where the path's rate changes all the time:
        /// the rest keeps the link busy if the rate rises meanwhile.
        drained: f64 = 0.5,
        /// Factor of the time until the next probe for each one in a row that found the
        /// queue ours, where the path's rate changes all the time.
        patience: f64 = 2.0,
        /// Largest factor of that time, however many probes found the queue ours.
        patience_max: f64 = 16.0,
        /// Smallest change of the queue that can be told from noise.
        change_min: Duration = Duration::from_millis(4),
        /// Smallest such change as a share of the round trip.
        change_share: f64 = 0.05,
        /// Time between probes while competing.
        probe_interval: Duration = Duration::from_secs(4),
        /// Round trips between probes while competing.
        probe_interval_rounds: u32 = 20,
        /// Time between probes that find the queue ours, so that they do not all fall within
        /// one loss of another flow.
        confirm_interval: Duration = Duration::from_secs(1),
        /// Time without a queue after which competition ends.
        empty: Duration = Duration::from_secs(3),
    }
}
