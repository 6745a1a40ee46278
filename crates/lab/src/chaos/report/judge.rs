//! Figures of each action and of the whole run, held to the demands.

use std::time::Duration;

use super::delivery::{edge_ms, least_ratio};
use super::outage::{interrupted, outages};
use super::{ActionReport, Answers, Footprint, Group};
use crate::chaos::account::{Account, GroupSamples, Span};
use crate::chaos::action::Kind;
use crate::chaos::clock::seconds;
use crate::chaos::plan::{Plan, Strength};
use crate::chaos::record::{Performed, Record};

/// Most by which the 99th percentile of the times between frames may grow in a flood, in ms.
const GAP_MORE_MAX_MS: f64 = 5.0;

/// Most by which memory may grow, in bytes.
const MEMORY_MORE_MAX: i64 = 20 << 20;

/// The bound at the end of the smoke, when the half-open sessions of its last actions still live.
const MEMORY_MORE_MAX_SHORT: i64 = 64 << 20;

/// Most by which the number of descriptors may grow.
const DESCRIPTORS_MORE_MAX: i64 = 20;

/// Longest answer to a good client while requests are half open, or connections are held.
const ANSWER_MAX: Duration = Duration::from_millis(100);

/// Time that the machine may keep the harness waiting before losses say nothing about the server:
/// a server's queue for a viewer holds 200 ms.
const STARVED_MAX_MS: u64 = 100;

/// Idle share of all cores below which the machine is full, in percent.
const IDLE_MIN_PERCENT: f64 = 5.0;

/// Share of a full machine that server and attacks use at least, if no other program has it.
const OWN_MIN_SHARE: f64 = 0.5;

/// Time after an action in which its effects still show, in ms.
const AFTERMATH_MS: u64 = 500;

/// Time around a planned interruption that is left out of other figures, in ms.
const MARGIN_MS: u64 = 1200;

/// Least time beside its interruptions for which a group is judged in an action, in seconds: half a
/// second says nothing.
const JUDGED_MIN_S: f64 = 5.0;

/// Time after a start of the server until its memory is compared, in ms: the streams' rings, which
/// hold 20 s, no longer grow.
const SETTLED_MS: u64 = 25_000;

/// The bound in the smoke, whose bound leaves room for the rings.
const SETTLED_SHORT_MS: u64 = 15_000;

/// Most by which memory may grow for each connection that an action holds, in bytes.
const MEMORY_PER_HELD: i64 = 16 << 10;

/// Judged figures of a run.
pub(super) struct Judged {
    pub(super) groups: Vec<Group>,
    pub(super) actions: Vec<ActionReport>,
    pub(super) before: Footprint,
    pub(super) after: Footprint,
    pub(super) misses: Vec<String>,
    pub(super) starved: Vec<String>,
}

pub(super) fn judge(plan: &Plan, record: &Record) -> Judged {
    let mut judged = Judged {
        groups: Vec::new(),
        actions: Vec::new(),
        before: Footprint::default(),
        after: Footprint::default(),
        misses: record.misses.clone(),
        starved: Vec::new(),
    };
    let quiet = Span {
        from_ms: record.warm_ms,
        to_ms: record.began_ms,
    };
    for performed in &record.performed {
        let judging = Judging {
            plan,
            record,
            performed,
            quiet,
        };
        let report = judging.report();
        let misses = judging.misses(&report);
        let starved = judging.starved(&report);
        let (own, by_machine): (Vec<String>, Vec<String>) = misses
            .into_iter()
            .map(|(is_timed, text)| (is_timed, format!("{}: {text}", report.name)))
            .fold((Vec::new(), Vec::new()), |mut all, (is_timed, text)| {
                match starved.as_ref().filter(|_| is_timed) {
                    Some(why) => all.1.push(format!("{text} ({why})")),
                    None => all.0.push(text),
                }
                all
            });
        judged.misses.extend(own);
        judged.starved.extend(by_machine);
        judged.actions.push(report);
    }
    judged.groups = record
        .groups
        .iter()
        .map(|it| group(plan, record, it, quiet))
        .collect();
    // A group that never recovers from an interruption loses nothing in any single action.
    for group in &judged.groups {
        let lost = group
            .delivered_ratio
            .filter(|ratio| *ratio < least_ratio(plan));
        let text =
            lost.map(|ratio| format!("{}: delivered {ratio:.4} in the whole run", group.name));
        match judged.starved.is_empty() {
            true => judged.misses.extend(text),
            false => judged.starved.extend(text),
        }
    }
    (judged.before, judged.after) = footprints(plan.strength, record);
    judged
        .misses
        .extend(growth(plan.strength, judged.before, judged.after));
    judged
}

/// One action, and all that is known of the run.
struct Judging<'a> {
    plan: &'a Plan,
    record: &'a Record,
    performed: &'a Performed,
    quiet: Span,
}

impl Judging<'_> {
    fn span(&self) -> Span {
        Span {
            from_ms: self.performed.from_ms,
            to_ms: self.performed.to_ms + AFTERMATH_MS,
        }
    }

    /// Groups with their accounts for the time in which they should not lose anything, and in quiet.
    fn accounts(&self) -> Vec<(&GroupSamples, Account, Account)> {
        let groups = self.record.groups.iter();
        groups
            .filter_map(|group| {
                let mut planned = self.performed.outcome.interruptions.iter();
                let is_concerned = planned.any(|it| group.is_concerned(it));
                let margin_ms = if is_concerned { MARGIN_MS } else { 0 };
                let planned = interrupted(self.record, group, margin_ms);
                let now = group.account(self.span(), &planned);
                let is_judged = !is_concerned || now.seconds() >= JUDGED_MIN_S;
                is_judged.then(|| (group, now, group.account(self.quiet, &[])))
            })
            .collect()
    }

    /// The group that received the least share of its frames and packets, and that share.
    fn least_delivered(&self) -> Option<(&str, f64)> {
        let accounts = self.accounts().into_iter();
        let ratios = accounts.filter_map(|(group, now, quiet)| {
            let edge_ms = edge_ms(self.plan, &quiet);
            Some((group.name.as_str(), now.delivered_ratio(edge_ms)?))
        });
        ratios.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn report(&self) -> ActionReport {
        let Performed {
            action,
            from_ms,
            to_ms,
            outcome,
        } = self.performed;
        let accounts = self.accounts();
        let more = accounts
            .iter()
            .filter_map(|(_, now, quiet)| Some(now.gap_ms(0.99)? - quiet.gap_ms(0.99)?));
        let observed = || {
            let seconds = self.record.observed.seconds.iter();
            seconds.filter(|it| {
                self.span()
                    .overlaps(it.at_ms.saturating_sub(1000), it.at_ms)
            })
        };
        let starved = accounts.iter().map(|(_, now, _)| now.starved_ms);
        let starved = starved.chain(observed().map(|it| it.starved_ms));
        let server_cpu: Vec<f64> = observed().filter_map(|it| it.server_cpu_percent).collect();
        let idle: Vec<f64> = observed().map(|it| it.idle_percent).collect();
        let harness_cpu: Vec<f64> = observed().map(|it| it.harness_cpu_percent).collect();
        ActionReport {
            name: action.kind.name().to_owned(),
            from_s: seconds(self.record.began_ms, *from_ms),
            to_s: seconds(self.record.began_ms, *to_ms),
            rate: action.rate,
            delivered_ratio: self.least_delivered().map(|(_, ratio)| ratio),
            gap_p99_more_ms: more.max_by(f64::total_cmp),
            freezes: accounts.iter().map(|(_, now, _)| now.freezes.len()).sum(),
            back_s: self.back_s(),
            memory_more_bytes: self.memory_more(),
            server_cpu_percent: mean(&server_cpu),
            harness_cpu_percent: mean(&harness_cpu),
            idle_percent: mean(&idle),
            starved_ms: starved.max().unwrap_or(0),
            answers: self.answers(),
            outcome: outcome.clone(),
        }
    }

    /// The reason why what viewers lost says nothing about the server: the machine stood still, or
    /// other programs had it.
    fn starved(&self, report: &ActionReport) -> Option<String> {
        if report.starved_ms > STARVED_MAX_MS {
            return Some(format!(
                "the machine stood still for {} ms",
                report.starved_ms
            ));
        }
        let own = report.server_cpu_percent.unwrap_or(0.0);
        let own = own + report.harness_cpu_percent.unwrap_or(0.0);
        let all = 100.0 * self.record.cores as f64;
        let idle = report.idle_percent?;
        (idle < IDLE_MIN_PERCENT && own < all * OWN_MIN_SHARE).then(|| {
            format!("the machine was {idle:.0} % idle, with {own:.0} of {all:.0} % used by server and harness")
        })
    }

    /// Longest time from the end of an interruption until the last viewer of all groups that were
    /// interrupted had video; `None` without interruptions, and if a viewer did not come back.
    fn back_s(&self) -> Option<f64> {
        let mut longest = None;
        for group in &self.record.groups {
            for outage in outages(self.performed, group) {
                longest = longest.max(Some(outage.back_after_ms?));
            }
        }
        longest.map(|ms| ms as f64 / 1e3)
    }

    /// Growth of memory, from before the action to the most during it; `None` if the server was
    /// started again.
    fn memory_more(&self) -> Option<i64> {
        let kind = self.performed.action.kind;
        if kind.starts_anew() {
            return None;
        }
        let seconds = &self.record.observed.seconds;
        let before = seconds
            .iter()
            .rfind(|it| it.at_ms <= self.performed.from_ms);
        let before = before?.server_rss_bytes?;
        let during = seconds
            .iter()
            .filter(|it| self.span().overlaps(it.at_ms.saturating_sub(1), it.at_ms))
            .filter_map(|it| it.server_rss_bytes);
        Some(during.max()?.cast_signed() - before.cast_signed())
    }

    fn answers(&self) -> Vec<Answers> {
        let mut all: Vec<Answers> = Vec::new();
        for answer in &self.record.observed.answers {
            let is_in = (self.performed.from_ms..self.performed.to_ms).contains(&answer.at_ms);
            if !is_in {
                continue;
            }
            let index = all.iter().position(|it| it.name == answer.name);
            let index = index.unwrap_or_else(|| {
                all.push(Answers {
                    name: answer.name.clone(),
                    asked: 0,
                    failed: 0,
                    longest_ms: None,
                    failure: None,
                });
                all.len() - 1
            });
            let of = &mut all[index];
            of.asked += 1;
            match answer.ms {
                Some(ms) => of.longest_ms = Some(of.longest_ms.map_or(ms, |it| it.max(ms))),
                None => {
                    of.failed += 1;
                    of.failure.clone_from(&answer.failure);
                }
            }
        }
        all
    }

    /// Demands that the action missed; true for those that a machine that stands still misses,
    /// too.
    fn misses(&self, report: &ActionReport) -> Vec<(bool, String)> {
        if report.outcome.skipped.is_some() {
            return Vec::new();
        }
        let mut misses: Vec<(bool, String)> = Vec::new();
        misses.extend(
            report
                .outcome
                .misses
                .iter()
                .map(|text| (false, text.clone())),
        );
        let late = report.outcome.late.iter();
        misses.extend(late.map(|text| (true, text.clone())));
        let least = least_ratio(self.plan);
        if let Some((group, ratio)) = self.least_delivered().filter(|(_, it)| *it < least) {
            let text = format!("delivered {ratio:.4} to viewers of {group}, not {least}");
            misses.push((true, text));
        }
        let kind = self.performed.action.kind;
        if let Some(within) = kind.back_within()
            && !report.outcome.interruptions.is_empty()
        {
            let within = self.plan.patience(within).as_secs_f64();
            match report.back_s {
                Some(back) if back <= within => {}
                Some(back) => {
                    misses.push((
                        true,
                        format!("video is back after {back:.1} s, not {within} s"),
                    ));
                }
                None => misses.push((true, "video did not come back".to_owned())),
            }
        }
        if self.plan.strength == Strength::Target {
            misses.extend(self.target_misses(report));
        }
        if !kind.interrupts_server() {
            misses.extend(self.unanswered(report));
        }
        misses
    }

    /// Demands of the table of targets.
    fn target_misses(&self, report: &ActionReport) -> Vec<(bool, String)> {
        let mut misses = Vec::new();
        let kind = self.performed.action.kind;
        let is_flood = kind.name().starts_with("flood-");
        if let Some(more) = report
            .gap_p99_more_ms
            .filter(|more| is_flood && *more > GAP_MORE_MAX_MS)
        {
            let text = format!("p99 of gaps is {more:.1} ms longer, not {GAP_MORE_MAX_MS} ms");
            misses.push((true, text));
        }
        let held = match kind {
            Kind::HoldConnections => self.performed.action.count as i64 * MEMORY_PER_HELD,
            _ => 0,
        };
        let most = MEMORY_MORE_MAX + held;
        if let Some(more) = report.memory_more_bytes.filter(|more| *more > most) {
            let (more, most) = (mib(more), mib(most));
            misses.push((
                false,
                format!("memory grew by {more:.0} MiB, not {most:.0} MiB"),
            ));
        }
        misses
    }

    /// Requests of a good client that were not answered, or too late.
    fn unanswered(&self, report: &ActionReport) -> Vec<(bool, String)> {
        let kind = self.performed.action.kind;
        // Without descriptors new connections may be refused; those that are open go on.
        if kind == Kind::FillDescriptors {
            return Vec::new();
        }
        let answer_max_ms = self.plan.patience(ANSWER_MAX).as_secs_f64() * 1e3;
        let mut misses = Vec::new();
        for answers in &report.answers {
            if answers.failed > 0 {
                let Answers {
                    name,
                    asked,
                    failed,
                    ..
                } = answers;
                let why = answers.failure.as_deref().unwrap_or("no answer");
                misses.push((
                    true,
                    format!("{failed} of {asked} requests at {name} failed: {why}"),
                ));
            }
            let is_held = matches!(kind, Kind::HalfOpen | Kind::HoldConnections | Kind::Logins);
            if let Some(ms) = answers
                .longest_ms
                .filter(|ms| is_held && *ms > answer_max_ms)
            {
                let text = format!(
                    "{} answered after {ms:.0} ms, not {answer_max_ms} ms",
                    answers.name
                );
                misses.push((true, text));
            }
        }
        misses
    }
}

fn group(plan: &Plan, record: &Record, of: &GroupSamples, quiet: Span) -> Group {
    let all = Span {
        from_ms: record.began_ms,
        to_ms: record.ended_ms,
    };
    let account = of.account(all, &interrupted(record, of, MARGIN_MS));
    let quiet = of.account(quiet, &[]);
    Group {
        name: of.name.clone(),
        viewers: of.viewers,
        delivered_ratio: account.delivered_ratio(edge_ms(plan, &quiet)),
        quiet_gap_p99_ms: quiet.gap_ms(0.99),
        gap_p99_ms: account.gap_ms(0.99),
        freezes: account.freezes.len(),
        longest_freeze_ms: account.longest_freeze_ms(),
    }
}

/// Memory and descriptors after the warm-up, or after the last restart, and at the end.
fn footprints(strength: Strength, record: &Record) -> (Footprint, Footprint) {
    let settled_ms = match strength {
        Strength::Smoke => SETTLED_SHORT_MS,
        Strength::Mixed | Strength::Target => SETTLED_MS,
    };
    let restarted = record.restarts_ms.last().map(|at_ms| at_ms + settled_ms);
    let from_ms = restarted.unwrap_or(record.began_ms);
    let footprint = |it: &crate::chaos::Observation| Footprint {
        memory_bytes: it.server_rss_bytes,
        descriptors: it.server_descriptors,
    };
    let seconds = &record.observed.seconds;
    let is_known = |it: &&crate::chaos::Observation| it.server_rss_bytes.is_some();
    let before = match restarted {
        Some(_) => seconds
            .iter()
            .filter(is_known)
            .find(|it| it.at_ms >= from_ms),
        None => seconds
            .iter()
            .filter(is_known)
            .rfind(|it| it.at_ms <= from_ms),
    };
    let after = seconds.iter().rfind(is_known);
    (
        before.map(footprint).unwrap_or_default(),
        after.map(footprint).unwrap_or_default(),
    )
}

fn growth(strength: Strength, before: Footprint, after: Footprint) -> Vec<String> {
    let most = match strength {
        Strength::Smoke => MEMORY_MORE_MAX_SHORT,
        Strength::Mixed | Strength::Target => MEMORY_MORE_MAX,
    };
    let mut misses = Vec::new();
    if let (Some(from), Some(to)) = (before.memory_bytes, after.memory_bytes) {
        let more = to.cast_signed() - from.cast_signed();
        if more > most {
            misses.push(format!("memory grew by {:.0} MiB in the run", mib(more)));
        }
    }
    if let (Some(from), Some(to)) = (before.descriptors, after.descriptors) {
        let more = to.cast_signed() as i64 - from.cast_signed() as i64;
        if more > DESCRIPTORS_MORE_MAX {
            misses.push(format!(
                "{more} more descriptors are open than at the begin"
            ));
        }
    }
    misses
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn mib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
