//! Results of the study of live uploads in 2019 (Garg, "COPA congestion control for video
//! performance", Facebook Engineering), as ratios to its CUBIC.

use crate::congestion::outcome::Metric;

/// The study's ratio of an arm's percentile to CUBIC's; `None` where it reports none. For
/// overheads the study says "about": a quarter, a half, four to five times.
pub(super) fn ratio(arm: &str, metric: Metric, percentile: u32) -> Option<f64> {
    let (copa, bbr) = match (metric, percentile) {
        (Metric::AppRtt, 50) => (Some(479.0 / 499.0), Some(462.0 / 499.0)),
        (Metric::AppRtt, 90) => (Some(3.9 / 5.4), None),
        (Metric::Goodput, 10) => (Some(1.062), Some(1.048)),
        (Metric::Goodput, 50) => (Some(1.163), Some(1.055)),
        (Metric::TransportRtt, 75) => (Some(0.65), Some(0.90)),
        (Metric::TransportRtt, 95) => (Some(0.55), Some(0.84)),
        (Metric::RtxOverhead, 75) => (Some(0.25), Some(0.5)),
        (Metric::RtxOverhead, 90) => (None, Some(0.5)),
        (Metric::RtxOverhead, 95 | 99) => (Some(4.5), None),
        _ => (None, None),
    };
    match arm {
        "copa" => copa,
        "bbr" | "bbr-study" => bbr,
        _ => None,
    }
}
