//! Findings: the broken rule, its place, and the advice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::reader::Fault;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The text says SHOULD, or players have trouble.
    Warning,
    /// The text says MUST.
    Error,
}

/// A rule of the text.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule, for tools.
    pub name: &'static str,
    /// How much it weighs to break the rule.
    pub severity: Severity,
    /// Section of draft-pantos-hls-rfc8216bis-22.
    pub section: &'static str,
    /// Advice for the operator of the server.
    pub change: &'static str,
}

impl Rule {
    pub(super) const fn must(
        name: &'static str,
        section: &'static str,
        change: &'static str,
    ) -> Self {
        Self {
            name,
            severity: Severity::Error,
            section,
            change,
        }
    }

    pub(super) const fn should(
        name: &'static str,
        section: &'static str,
        change: &'static str,
    ) -> Self {
        Self {
            name,
            severity: Severity::Warning,
            section,
            change,
        }
    }
}

/// The rule that stands for all faults of a reading.
const SYNTAX: Rule = Rule::must(
    "syntax",
    "4",
    "write the line as the section says; players refuse the playlist",
);

/// A rule that a playlist or its server breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken rule.
    pub rule: &'static Rule,
    /// Section of the text; for a fault of the syntax, that of the tag.
    pub section: &'static str,
    /// Number of the line in the playlist where it was found first; 0 for none.
    pub line: usize,
    /// Sentence about the first finding of this rule.
    pub what: String,
    /// How often it was found.
    pub times: u64,
}

/// The findings of one playlist. Each rule is kept once, with its first case and the number of cases, so
/// that their number is bounded however long the playlist is followed.
#[derive(Clone, Debug, Default)]
pub struct Findings(BTreeMap<(&'static str, &'static str), Finding>);

impl Findings {
    /// Notes a broken rule.
    pub fn add(&mut self, rule: &'static Rule, line: usize, what: impl Into<String>) {
        self.note(rule, rule.section, line, what);
    }

    /// Notes the faults of a reading.
    pub fn add_faults(&mut self, faults: &[Fault]) {
        for fault in faults {
            self.note(&SYNTAX, fault.section, fault.line, fault.what.as_str());
        }
    }

    /// Takes the findings of another collection.
    pub fn merge(&mut self, other: Self) {
        for (key, finding) in other.0 {
            match self.0.entry(key) {
                Entry::Occupied(mut known) => known.get_mut().times += finding.times,
                Entry::Vacant(place) => _ = place.insert(finding),
            }
        }
    }

    /// All findings; errors come first.
    pub fn into_sorted(self) -> Vec<Finding> {
        let mut all: Vec<_> = self.0.into_values().collect();
        all.sort_by_key(|it| (std::cmp::Reverse(it.rule.severity), it.line));
        all
    }

    fn note(
        &mut self,
        rule: &'static Rule,
        section: &'static str,
        line: usize,
        what: impl Into<String>,
    ) {
        let found = self
            .0
            .entry((rule.name, section))
            .or_insert_with(|| Finding {
                rule,
                section,
                line,
                what: what.into(),
                times: 0,
            });
        found.times += 1;
    }
}
