//! The report: lines for people, or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::finding::{Finding, Severity};
use crate::output;

/// Letters of the longest label, `change`.
const LABEL: usize = 6;

/// All findings about one target.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The target of the examination.
    pub(super) target: String,
    /// The worst severity of all findings.
    verdict: Severity,
    elapsed_ms: u64,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(target: String, findings: Vec<Finding>, elapsed: Duration) -> Self {
        let worst = findings.iter().map(|finding| finding.severity).max();
        Self {
            target,
            verdict: worst.unwrap_or(Severity::Ok),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            findings,
        }
    }

    /// Whether something does not work.
    pub(super) fn has_failed(&self) -> bool {
        self.verdict == Severity::Failure
    }

    pub(super) fn json(&self) -> String {
        output::json(self)
    }

    /// Lines for people. `quiet` leaves out whatever is in order.
    pub(super) fn text(&self, color: bool, quiet: bool) -> String {
        let shown = self.findings.iter();
        let shown = shown.filter(|it| !quiet || it.severity >= Severity::Warning);
        let shown: Vec<&Finding> = shown.collect();
        let width = |column: fn(&Finding) -> &str, max| {
            let widths = shown.iter().map(|it| column(it).chars().count());
            widths.filter(|width| *width <= max).max().unwrap_or(0)
        };
        // No narrower than the labels of the lines below.
        let checks = width(|it| it.check, 14).max(LABEL);
        let subjects = width(|it| &it.subject, 26);
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a string takes everything");
        };
        if !quiet {
            line(format_args!("glassline doctor: {}\n\n", self.target));
        }
        for finding in &shown {
            let sign = sign(finding.severity, color);
            let Finding {
                check,
                subject,
                what,
                ..
            } = finding;
            line(format_args!(
                "{sign} {check:<checks$}  {subject:<subjects$}  {what}\n"
            ));
            for (label, text) in [("why", &finding.why), ("change", &finding.change)] {
                if !text.is_empty() {
                    line(format_args!("  {label:>checks$}  {text}\n"));
                }
            }
        }
        if !quiet {
            line(format_args!("\n{}\n", self.summary()));
        }
        out
    }

    /// The last line: how many findings there are of each kind.
    fn summary(&self) -> String {
        let count = |severity| {
            let same = self.findings.iter().filter(|it| it.severity == severity);
            same.count()
        };
        let of = |severity, one: &str| match count(severity) {
            0 => None,
            1 => Some(format!("1 {one}")),
            more => Some(format!("{more} {one}s")),
        };
        let parts = [
            of(Severity::Failure, "failure"),
            of(Severity::Warning, "warning"),
            of(Severity::Notice, "notice"),
        ];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.push(format!("{} in order", count(Severity::Ok)));
        let seconds = Duration::from_millis(self.elapsed_ms).as_secs_f64();
        format!("{}; {seconds:.1} s", parts.join(", "))
    }
}

/// Sign in front of a line: ✓, · for a notice, ! and ✗.
fn sign(severity: Severity, color: bool) -> String {
    let (sign, code) = match severity {
        Severity::Ok => ("✓", "32"),
        Severity::Notice => ("·", "36"),
        Severity::Warning => ("!", "33"),
        Severity::Failure => ("✗", "31;1"),
    };
    match color {
        true => format!("\x1b[{code}m{sign}\x1b[0m"),
        false => sign.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let findings = vec![
            Finding::ok("clock", "here", "kept by a time service"),
            Finding::failure("ports", "http.address", "TCP 8889 is in use")
                .why("the server cannot start")
                .change("stop nginx (process 12)"),
        ];
        Report::new("a.yml".to_owned(), findings, Duration::from_millis(1234))
    }

    #[test]
    fn people_see_what_is_wrong_why_and_what_to_change() {
        let expected = "\
glassline doctor: a.yml

✓ clock   here          kept by a time service
✗ ports   http.address  TCP 8889 is in use
     why  the server cannot start
  change  stop nginx (process 12)

1 failure, 1 in order; 1.2 s
";
        assert_eq!(report().text(false, false), expected);
        let quiet = report().text(true, true);
        assert!(quiet.starts_with("\x1b[31;1m✗\x1b[0m ports"), "{quiet}");
        assert!(!quiet.contains("clock") && !quiet.contains("in order"));
    }

    #[test]
    fn programs_see_the_same() {
        assert!(report().has_failed());
        let json: serde_json::Value = serde_json::from_str(&report().json()).expect("JSON");
        assert_eq!(json["verdict"], "failure");
        assert_eq!(json["findings"][1]["change"], "stop nginx (process 12)");
        assert_eq!(json["findings"][0].get("why"), None);
    }
}
