//! Bounds that a server should keep in a case.

use serde::Serialize;

use super::figures::Figures;

/// A bound on a figure of the arm `ours`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Figure that the target bounds.
    pub figure: Figure,
    /// Side of the bound on which the figure should be.
    pub bound: Bound,
}

/// A side of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The figure may not be larger in any run.
    AtMost(f64),
    /// The figure may not be smaller in any run.
    AtLeast(f64),
}

/// A figure that may have a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Bound on the use of the capacity: [`Figures::use_ratio`].
    UseRatio,
    /// Bound on the use of the best encodings that fit: [`Figures::fitting_ratio`].
    FittingRatio,
    /// Bound on the share of frames shown: [`Figures::shown_ratio`].
    ShownRatio,
    /// Bound on the time at the bottleneck: [`Figures::queue_ms_p95`].
    QueueMsP95,
    /// Bound on the share of datagrams lost: [`Figures::loss_ratio`].
    LossRatio,
    /// Bound on that share later: [`Figures::loss_late_ratio`].
    LossLateRatio,
    /// Bound on the time to sending: [`Figures::wait_ms_p99`].
    WaitMsP99,
    /// Bound on the fewest frames: [`Figures::fps_min`].
    FpsMin,
    /// Bound on the longest stall: [`Figures::stall_ms_max`].
    StallMsMax,
    /// Bound on the number of torn frames: [`Figures::torn`].
    Torn,
    /// Bound on the number of frames given up: [`Figures::abandoned`].
    Abandoned,
    /// Bound on the number of changes of the layer: [`Figures::switches`].
    Switches,
    /// Bound on the share of padding: [`Figures::padding_ratio`].
    PaddingRatio,
    /// Bound on the time until the rate fits: [`Figures::fit_s`].
    FitS,
    /// Bound on the time until the best layer is back: [`Figures::rise_s`].
    RiseS,
    /// Bound on the delay of frames: [`Figures::delay_ms_p95`].
    DelayMsP95,
    /// Bound on the time to the first frame: [`Figures::first_frame_ms`].
    FirstFrameMs,
}

/// Value of a figure that never came to pass, for comparisons.
const NEVER: f64 = f64::INFINITY;

impl Figure {
    /// Returns the figure's name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UseRatio => "use",
            Self::FittingRatio => "use of the layers that fit",
            Self::ShownRatio => "frames shown",
            Self::QueueMsP95 => "queue P95, ms",
            Self::LossRatio => "loss",
            Self::LossLateRatio => "loss after 3 s",
            Self::WaitMsP99 => "capture to sending P99, ms",
            Self::FpsMin => "fewest frames a second",
            Self::StallMsMax => "longest stall, ms",
            Self::Torn => "torn frames",
            Self::Abandoned => "abandoned frames",
            Self::Switches => "switches",
            Self::PaddingRatio => "padding",
            Self::FitS => "time to fit, s",
            Self::RiseS => "time to the best layer, s",
            Self::DelayMsP95 => "delay P95, ms",
            Self::FirstFrameMs => "first frame, ms",
        }
    }

    /// Returns the figure of a run.
    pub fn of(self, figures: &Figures) -> f64 {
        let or_never = |value: Option<f64>| value.unwrap_or(NEVER);
        match self {
            Self::UseRatio => figures.use_ratio,
            Self::FittingRatio => figures.fitting_ratio,
            Self::ShownRatio => figures.shown_ratio,
            Self::QueueMsP95 => figures.queue_ms_p95,
            Self::LossRatio => figures.loss_ratio,
            Self::LossLateRatio => figures.loss_late_ratio,
            Self::WaitMsP99 => figures.wait_ms_p99,
            Self::FpsMin => figures.fps_min,
            Self::StallMsMax => figures.stall_ms_max,
            Self::Torn => figures.torn,
            Self::Abandoned => figures.abandoned,
            Self::Switches => figures.switches,
            Self::PaddingRatio => figures.padding_ratio,
            Self::FitS => or_never(figures.fit_s),
            Self::RiseS => or_never(figures.rise_s),
            Self::DelayMsP95 => figures.delay_ms_p95,
            Self::FirstFrameMs => or_never(figures.first_frame_ms),
        }
    }
}

impl Target {
    /// Returns the figure's target that it is at most this.
    pub(super) const fn at_most(figure: Figure, bound: f64) -> Self {
        let bound = Bound::AtMost(bound);
        Self { figure, bound }
    }

    /// Returns the figure's target that it is at least this.
    pub(super) const fn at_least(figure: Figure, bound: f64) -> Self {
        let bound = Bound::AtLeast(bound);
        Self { figure, bound }
    }

    /// Returns the worst value among runs, and whether it keeps the bound.
    pub fn judge<'a>(&self, runs: impl IntoIterator<Item = &'a Figures>) -> (f64, bool) {
        let values = runs.into_iter().map(|run| self.figure.of(run));
        match self.bound {
            Bound::AtMost(most) => {
                let worst = values.fold(f64::NEG_INFINITY, f64::max);
                (worst, worst <= most)
            }
            Bound::AtLeast(least) => {
                let worst = values.fold(f64::INFINITY, f64::min);
                (worst, worst >= least)
            }
        }
    }
}
