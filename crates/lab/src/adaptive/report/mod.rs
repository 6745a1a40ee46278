//! The report: figures of each case and arm, and which targets were missed.

use serde::Serialize;

use super::arm::Arm;
use super::case::Case;
use super::experiment::{Plan, Played};
use super::figures::Figures;
use super::target::{Bound, Target};

mod table;

/// Figures of all cases.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When the run began, in UTC.
    pub started: String,
    /// Seed of the first run; the others follow.
    pub seed: u64,
    /// Number of seeds of each case and arm.
    pub seeds: u64,
    /// Cases in the order of the plan.
    pub cases: Vec<CaseReport>,
}

/// Figures of one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Name of the case.
    pub name: &'static str,
    /// One sentence that says what happens.
    pub about: &'static str,
    /// Length of a run in s.
    pub duration_s: u64,
    /// Figures of each arm, in the order of the plan.
    pub arms: Vec<ArmReport>,
    /// Bounds on the figures of our server.
    pub targets: Vec<Verdict>,
}

/// Figures of one case with one arm.
#[derive(Clone, Debug, Serialize)]
pub struct ArmReport {
    /// Name of the arm.
    pub arm: &'static str,
    /// Means over viewers and seeds.
    pub mean: Figures,
    /// Longest stall of any viewer with any seed, in ms.
    pub stall_ms_max: f64,
    /// Jain's index of the viewers' rates, mean over seeds; `None` for a single viewer.
    pub fairness: Option<f64>,
    /// Every viewer with every seed.
    pub runs: Vec<RunReport>,
}

/// Figures of one viewer in one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Seed of the run.
    pub seed: u64,
    /// Position of the viewer among the case's viewers.
    pub viewer: usize,
    /// Figures that the viewer's evidence gives.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A target, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Name of the figure.
    pub figure: &'static str,
    /// Whether the bound is the most or the least.
    pub is_most: bool,
    /// Bound that the worst run has to keep.
    pub bound: f64,
    /// The worst value of any run.
    pub worst: f64,
    /// Whether the worst value keeps the bound.
    pub is_kept: bool,
}

impl Report {
    /// Makes the report of what was played of `plan`.
    pub fn new(started: String, plan: &Plan, played: &[Played]) -> Self {
        let cases = plan.cases.iter().enumerate();
        let report = |(place, case): (usize, &Case)| {
            let of_case: Vec<&Played> = played.iter().filter(|it| it.case == place).collect();
            CaseReport {
                name: case.name,
                about: case.about,
                duration_s: case.duration.as_secs(),
                targets: verdicts(&case.targets, &of_case),
                arms: plan
                    .arms
                    .iter()
                    .filter_map(|arm| ArmReport::new(*arm, &of_case))
                    .collect(),
            }
        };
        Self {
            started,
            seed: plan.seeds.start,
            seeds: plan.seeds.end - plan.seeds.start,
            cases: cases.map(report).collect(),
        }
    }

    /// Returns the report as JSON.
    ///
    /// # Panics
    /// Never: all of the report can be written.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON") + "\n"
    }
}

fn verdicts(targets: &[Target], played: &[&Played]) -> Vec<Verdict> {
    let ours = played.iter().filter(|it| it.arm == Arm::Ours);
    let figures: Vec<&Figures> = ours
        .flat_map(|it| &it.run.viewers)
        .map(|it| &it.figures)
        .collect();
    if figures.is_empty() {
        return Vec::new();
    }
    let verdict = |target: &Target| {
        let (worst, is_kept) = target.judge(figures.iter().copied());
        let (is_most, bound) = match target.bound {
            Bound::AtMost(bound) => (true, bound),
            Bound::AtLeast(bound) => (false, bound),
        };
        Verdict {
            figure: target.figure.as_str(),
            is_most,
            bound,
            worst,
            is_kept,
        }
    };
    targets.iter().map(verdict).collect()
}

impl ArmReport {
    fn new(arm: Arm, played: &[&Played]) -> Option<Self> {
        let of_arm: Vec<&&Played> = played.iter().filter(|it| it.arm == arm).collect();
        let mut runs = Vec::new();
        let mut fairness = Vec::new();
        for played in &of_arm {
            let viewers = &played.run.viewers;
            let rates: Vec<f64> = viewers.iter().map(|it| it.figures.use_ratio).collect();
            if rates.len() > 1 {
                fairness.push(jain(&rates));
            }
            runs.extend(viewers.iter().enumerate().map(|(viewer, it)| RunReport {
                seed: played.seed,
                viewer,
                figures: it.figures.clone(),
            }));
        }
        let figures: Vec<&Figures> = runs.iter().map(|run| &run.figures).collect();
        let count = fairness.len() as f64;
        Some(Self {
            arm: arm.as_str(),
            mean: Figures::mean(&figures)?,
            stall_ms_max: figures.iter().map(|it| it.stall_ms_max).fold(0.0, f64::max),
            fairness: (count > 0.0).then(|| fairness.iter().sum::<f64>() / count),
            runs,
        })
    }
}

/// Jain's index of fairness: 1 if all have the same, 1 ÷ n if one has all.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), rate| {
        (sum + rate, squares + rate * rate)
    });
    sum * sum / (rates.len() as f64 * f64::max(squares, 1e-12))
}
