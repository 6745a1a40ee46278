//! Tuning of a data channel, one step at a time from the defaults of common stacks, with the gain
//! of each step.

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::report::Report;
use super::report::bound::{bytes, mbps};
use super::sweep::{RUN_HEADER, run_row};

/// Results of a staircase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Staircase {
    /// Steps in the order in which they ran.
    pub steps: Vec<Step>,
}

/// One step of a staircase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Name of the setting that changed.
    pub name: String,
    /// Gain over the best step before, in percent; `None` for the first step.
    pub gained: Option<f64>,
    /// Whether the change is part of the later steps.
    pub is_kept: bool,
    /// Report of the step's run.
    pub report: Report,
}

/// Receive window of common stacks: usrsctp's default receive buffer, in bytes.
const WINDOW_USUAL: u32 = 256 << 10;
const LARGE: u32 = 4 << 20;

type Edit = fn(&mut Plan);
type Change = (String, Edit);

/// Changes of the first steps, which combine both ciphers with the same four settings.
fn settings() -> Vec<Change> {
    vec![
        (
            "defaults: SCTP window 256 KiB, UDP buffers of the system".to_owned(),
            |plan| {
                plan.window = Some(WINDOW_USUAL);
                plan.udp_buffer = None;
            },
        ),
        ("SCTP window 4 MiB".to_owned(), |plan| {
            plan.window = Some(LARGE);
            plan.udp_buffer = None;
        }),
        ("UDP buffers 4 MiB".to_owned(), |plan| {
            plan.window = Some(WINDOW_USUAL);
            plan.udp_buffer = Some(LARGE as usize);
        }),
        ("both 4 MiB".to_owned(), |plan| {
            plan.window = Some(LARGE);
            plan.udp_buffer = Some(LARGE as usize);
        }),
    ]
}

/// Changes that are tried on the best of those steps, and kept if they are faster.
fn refinements(plan: &Plan) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let sizes: [(usize, Edit); 3] = [
        (16 << 10, |plan| plan.message_size = 16 << 10),
        (64 << 10, |plan| plan.message_size = 64 << 10),
        (256 << 10, |plan| plan.message_size = 256 << 10),
    ];
    for (size, change) in sizes {
        if size != plan.message_size {
            changes.push((format!("messages of {}", bytes(size as u64)), change));
        }
    }
    changes.push(("water marks 4 MiB / 1 MiB".to_owned(), |plan| {
        plan.high_water = 4 << 20;
        plan.low_water = 1 << 20;
    }));
    changes.push(("water marks 16 MiB / 4 MiB".to_owned(), |plan| {
        plan.high_water = 16 << 20;
        plan.low_water = 4 << 20;
    }));
    changes.push(("windows that grow with the path".to_owned(), |plan| {
        plan.window = None;
    }));
    changes
}

/// Number of runs for `plan`.
pub fn runs(plan: &Plan) -> usize {
    2 * settings().len() + refinements(plan).len()
}

/// Runs all steps from `plan`, until one fails or `run` returns `None`.
///
/// # Errors The error of `run`.
pub fn run_steps<E>(
    plan: &Plan,
    mut run: impl FnMut(&Plan, &str) -> Result<Option<Report>, E>,
) -> Result<Staircase, E> {
    let mut staircase = Staircase { steps: Vec::new() };
    let mut best: Option<(Plan, f64)> = None;
    let mut steps: Vec<(Change, Option<Plan>)> = Vec::new();
    for (cipher, of) in [
        ("aes-128-gcm", "AES-GCM"),
        ("chacha20-poly1305", "ChaCha20"),
    ] {
        for (name, change) in settings() {
            let base = Plan {
                cipher: Some(cipher.to_owned()),
                ..plan.clone()
            };
            steps.push(((format!("{of}, {name}"), change), Some(base)));
        }
    }
    let refined = refinements(plan).into_iter();
    steps.extend(refined.map(|(name, change)| ((format!("+ {name}"), change), None)));
    for ((name, change), base) in steps {
        let from = base.or_else(|| best.as_ref().map(|(plan, _)| plan.clone()));
        let mut tried = from.unwrap_or_else(|| plan.clone());
        change(&mut tried);
        let Some(report) = run(&tried, &name)? else {
            break;
        };
        let goodput = report.goodput_mbps;
        let before = best.as_ref().map(|(_, goodput)| *goodput);
        let is_kept = before.is_none_or(|before| goodput > before);
        staircase.steps.push(Step {
            name,
            gained: before
                .filter(|before| *before > 0.0)
                .map(|before| (goodput / before - 1.0) * 100.0),
            is_kept,
            report,
        });
        if is_kept {
            best = Some((tried, goodput));
        }
    }
    Ok(staircase)
}

impl Staircase {
    /// The staircase as CSV: a row for each step.
    pub fn to_csv(&self) -> String {
        let mut out = format!("step,kept,gained_percent,{RUN_HEADER}");
        for step in &self.steps {
            let name = step.name.replace('"', "'");
            let gained = step.gained.map(|it| format!("{it:.2}")).unwrap_or_default();
            let row = run_row(&step.report);
            out += &format!("\"{name}\",{},{gained},{row}", step.is_kept);
        }
        out
    }

    /// The staircase as text: a line for each step.
    pub fn draw(&self) -> String {
        let mut out = String::new();
        for step in &self.steps {
            out += &step.line();
            out.push('\n');
        }
        out
    }
}

impl Step {
    /// The step as a line.
    pub fn line(&self) -> String {
        let gained = self
            .gained
            .map_or_else(String::new, |it| format!("{it:+.0} %"));
        let cost =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| format!("{it:.3}"));
        format!(
            "{:68} {:>12} {gained:>7} {} {}/{} s/Gbit  {}",
            self.name,
            mbps(self.report.goodput_mbps),
            if self.is_kept { "kept" } else { "    " },
            cost(self.report.cpu_s_per_gbit.sender),
            cost(self.report.cpu_s_per_gbit.receiver),
            self.report.bound.words(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::plan::Direction;
    use crate::data::report::tests::report;

    #[test]
    fn what_gains_is_kept_and_what_loses_is_not() {
        let plan = Plan::default();
        let mut tried = Vec::new();
        let staircase = run_steps::<()>(&plan, |plan, _| {
            tried.push(plan.clone());
            let mut found = report(Direction::Up);
            let is_large = plan.window.is_none_or(|it| it > WINDOW_USUAL);
            let is_aes = plan.cipher.as_deref() == Some("aes-128-gcm");
            let messages = plan.message_size as f64 / f64::from(1 << 20);
            found.goodput_mbps = if is_large { 700.0 } else { 500.0 };
            found.goodput_mbps += if is_aes { 100.0 } else { 0.0 } + messages;
            Ok(Some(found))
        });
        let staircase = staircase.expect("all run");
        assert_eq!(staircase.steps.len(), runs(&plan));
        let kept: Vec<&str> = staircase
            .steps
            .iter()
            .filter(|step| step.is_kept)
            .map(|step| step.name.as_str())
            .collect();
        assert_eq!(
            kept,
            [
                "AES-GCM, defaults: SCTP window 256 KiB, UDP buffers of the system",
                "AES-GCM, SCTP window 4 MiB",
                "+ messages of 256 KiB",
            ]
        );
        let last = tried.last().expect("many");
        assert_eq!((last.message_size, last.window), (256 << 10, None));
        assert_eq!(last.cipher.as_deref(), Some("aes-128-gcm"));
        let chart = crate::data::report::svg::draw_staircase(&staircase);
        assert!(chart.contains("ChaCha20, both 4 MiB") && !chart.contains("NaN"));
    }
}
