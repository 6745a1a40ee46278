//! Constants of what the spacing of packets tells of other flows.

use std::time::Duration;

use super::{ConstantRef, Visit};

group! {
    /// Constants of what the spacing of packets tells of other flows.
    CrossTraffic {
        /// Time over which the spacing is compared with its own mean, so that the changes of
        /// a fading link do not count.
        span: Duration = Duration::from_millis(150),
        /// Time for which the spacing counts.
        memory: Duration = Duration::from_millis(800),
        /// Acknowledgements from which the spacing tells a share.
        samples_min: f64 = 20.0,
        /// Least deviation of an acknowledgement from what the regression says, so that a
        /// smooth flow's accidental curves do not count as exact.
        noise_min: Duration = Duration::from_millis(3),
        /// Standard errors by which the others' share must exceed `others_min`.
        errors: f64 = 4.0,
        /// Factor of these errors where the path's rate changes all the time.
        errors_fading: f64 = 2.0,
        /// Share of the others from which competition begins without a probe.
        others_min: f64 = 0.2,
    }
}
