//! Constants of the window, and of what is measured of the path.

use std::time::Duration;

use super::{ConstantRef, Visit};

group! {
    /// Constants of window and pacing.
    Window {
        /// Initial window, in datagrams (RFC 9002 §7.2).
        initial_segments: f64 = 10.0,
        /// Smallest window, in datagrams: two for the peer's delayed acknowledgement, two so
        /// that one loss is detected without a timeout.
        least_segments: f64 = 4.0,
        /// Rate for which the queue target holds, in bytes/s. Faster flows aim at less and
        /// slower ones at more, by the square root, so that of two flows in one queue the
        /// slower one grows (Swift, SIGCOMM 2020, §3.5, flow-based scaling).
        target_rate: f64 = 250_000.0,
        /// Smallest factor of the queue target.
        target_scale_min: f64 = 0.5,
        /// Largest factor of the queue target.
        target_scale_max: f64 = 2.0,
        /// Time for which data has waited in the application, without a break, from which the
        /// queue target is larger: the data is late in any case, and a longer queue loses
        /// less of a path that varies.
        backlogged: Duration = Duration::from_secs(1),
        /// Factor of the queue target then.
        backlog_targets: f64 = 1.5,
        /// Queue targets that the window's bound has room for: the swing of Copa's queue is
        /// 2.5 of them (§2.1).
        bound_targets: f64 = 2.5,
        /// Queue targets that the window behind a policer has room for.
        policed_targets: f64 = 0.5,
        /// Pacing gain while the path was not the limit, as in Copa.
        pacing_unproven: f64 = 2.0,
        /// Pacing gain once the path was the limit: BBR's where it probes.
        pacing_proven: f64 = 1.25,
        /// Factor of the window after a congestion mark (RFC 8511 §3.1).
        beta_marked: f64 = 0.85,
        /// Share of the window in flight from which the window may grow. A window that is
        /// not used must not: on a live stream it would grow without bound.
        used: f64 = 0.5,
        /// Share of the window in flight from which the window counts as full: packets are
        /// whole.
        filled: f64 = 0.8,
        /// Divisor of the queue target below which the queue does not limit the flow.
        unfilled_divisor: u32 = 4,
        /// Round trips in one direction before the velocity doubles (§2.1; mvfst).
        steady_rounds: u32 = 3,
        /// Largest velocity. The paper has no bound, and its steps are 1/delta = 2 packets.
        /// Steps here are a whole target queue: with two more doublings, the window would
        /// move by half of itself.
        velocity_max: f64 = 4.0,
        /// Largest step, as a share of what was acknowledged: 1.5 times per round trip.
        step_max: f64 = 0.5,
    }
}

group! {
    /// Constants of the queue's measurement.
    Queue {
        /// Window of the standing round trip before the smoothed one is known.
        standing_first: Duration = Duration::from_millis(100),
        /// Divisor of the smoothed round trip for the window of the standing one: half a
        /// round trip is enough for aggregated acknowledgements (Copa §2.1).
        standing_divisor: u32 = 2,
        /// Time for which the smallest round trip counts (Copa §2.1).
        least_window: Duration = Duration::from_secs(10),
        /// Time for which the smallest round trip counts while others keep the queue full,
        /// so that their queue does not pass for an empty path. CUBIC may not empty a long
        /// queue for minutes.
        least_window_contested: Duration = Duration::from_secs(120),
        /// Round trips over which the swing of the queue is measured (Copa §2.2).
        swing_rounds: u32 = 4,
        /// Share of its swing below which the queue counts as nearly empty (Copa §2.2).
        nearly_empty: f64 = 0.1,
        /// Divisor of the target queue below which the queue counts as nearly empty in any
        /// case.
        untouched_divisor: u32 = 4,
    }
}

group! {
    /// Constants of the measurement of rates.
    Delivery {
        /// Round trips over which the best rate counts (BBR §4.1.1.3: ten). With fewer, a
        /// fade is followed sooner.
        best_rounds: u32 = 6,
        /// Shortest time over which the best rate counts, so that the frames between two
        /// bursts of a live source do not look like the path's rate.
        best_window_min: Duration = Duration::from_millis(500),
        /// Time constant of the sustained rate: an encoder learns of a fall within a second.
        sustained: Duration = Duration::from_millis(200),
        /// Shortest interval over which a rate is taken; over less it would be a burst's.
        interval_min: Duration = Duration::from_millis(60),
        /// Intervals in a row without application limit from which a rate counts as the
        /// path's.
        saturated_min: u32 = 3,
        /// Round trips for which aggregated acknowledgements are remembered (BBRv3: ten).
        aggregation_rounds: u32 = 10,
    }
}
