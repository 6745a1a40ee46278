//! The report of a check: lines for people, or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use glassline_hls::judge::Severity;
use serde::Serialize;
use url::Url;

use super::presentation::{Placed, Presentation, has_errors};
use crate::output;

/// All findings about one URL.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    url: String,
    /// Revision of the text whose rules are judged by.
    text: &'static str,
    elapsed_ms: u64,
    playlists: Vec<Seen>,
    /// Media playlists that were not looked at, because there are too many.
    playlists_left_out: usize,
    findings: Vec<Shown>,
    #[serde(skip)]
    has_errors: bool,
}

/// A playlist that was looked at.
#[derive(Debug, Serialize)]
struct Seen {
    playlist: String,
    loads: u64,
    new_segments: u64,
    new_parts: u64,
    is_live: bool,
    has_low_latency: bool,
}

/// A finding as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    severity: &'static str,
    rule: &'static str,
    section: &'static str,
    /// The media playlist; absent for the presentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    playlist: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    what: String,
    times: u64,
    change: &'static str,
}

impl Report {
    pub(super) fn new(url: &Url, presentation: Presentation, elapsed: Duration) -> Self {
        let playlists = presentation.members().iter().map(|member| {
            let counts = *member.counts.lock();
            Seen {
                playlist: member.name.clone(),
                loads: counts.loads,
                new_segments: counts.segments,
                new_parts: counts.parts,
                is_live: !member.first.is_ended,
                has_low_latency: member.first.part_target.is_some(),
            }
        });
        let playlists: Vec<Seen> = playlists.collect();
        let left_out = presentation.left_out();
        let is_single = !presentation.is_multivariant();
        let findings = presentation.into_findings();
        Self {
            url: glassline_client::hls::shown(url),
            text: "draft-pantos-hls-rfc8216bis-22",
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            playlists,
            playlists_left_out: left_out,
            has_errors: has_errors(&findings),
            findings: findings
                .into_iter()
                .map(|it| shown(it, is_single))
                .collect(),
        }
    }

    /// Whether a MUST of the text is broken.
    pub(super) const fn has_errors(&self) -> bool {
        self.has_errors
    }

    pub(super) fn json(&self) -> String {
        output::json(self)
    }

    /// Lines for people. `quiet` leaves out whatever is in order.
    pub(super) fn text(&self, color: bool, quiet: bool) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a string takes everything");
        };
        if !quiet {
            line(format_args!("glassline hls check: {}\n\n", self.url));
            for seen in &self.playlists {
                let Seen {
                    playlist,
                    loads,
                    new_segments,
                    new_parts,
                    ..
                } = seen;
                let kind = match (seen.is_live, seen.has_low_latency) {
                    (true, true) => "live, low latency",
                    (true, false) => "live",
                    (false, _) => "ended",
                };
                line(format_args!(
                    "  {playlist}: {kind}; {loads} loads, {new_segments} new segments, {new_parts} new parts\n"
                ));
            }
            if self.playlists_left_out > 0 {
                line(format_args!(
                    "  {} more playlists were not looked at\n",
                    self.playlists_left_out
                ));
            }
            line(format_args!("\n"));
        }
        for finding in &self.findings {
            let Shown {
                rule,
                section,
                what,
                times,
                change,
                ..
            } = finding;
            let sign = sign(finding.severity, color);
            let place = match (&finding.playlist, finding.line) {
                (Some(playlist), Some(line)) => format!("{playlist}, line {line}: "),
                (Some(playlist), None) => format!("{playlist}: "),
                (None, Some(line)) => format!("line {line}: "),
                (None, None) => String::new(),
            };
            let more = match times {
                1 => String::new(),
                times => format!(" ({times} times)"),
            };
            line(format_args!(
                "{sign} {rule} (§{section})  {place}{what}{more}\n"
            ));
            line(format_args!("  change  {change}\n"));
        }
        if !quiet {
            line(format_args!("{}\n", self.summary()));
        }
        out
    }

    /// The last line: how many findings there are of each kind.
    fn summary(&self) -> String {
        let count = |severity| {
            self.findings
                .iter()
                .filter(|it| it.severity == severity)
                .count()
        };
        let of = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        let seconds = Duration::from_millis(self.elapsed_ms).as_secs_f64();
        let (errors, warnings) = (count(ERROR), count(WARNING));
        let empty = if self.findings.is_empty() { "" } else { "\n" };
        format!(
            "{empty}{}, {}; {seconds:.1} s",
            of(errors, "error"),
            of(warnings, "warning")
        )
    }
}

const ERROR: &str = "error";
const WARNING: &str = "warning";

fn shown(placed: Placed, is_single: bool) -> Shown {
    let Placed { playlist, finding } = placed;
    Shown {
        severity: match finding.rule.severity {
            Severity::Error => ERROR,
            Severity::Warning => WARNING,
        },
        rule: finding.rule.name,
        section: finding.section,
        // The user named the only playlist.
        playlist: playlist.filter(|_| !is_single),
        line: (finding.line > 0).then_some(finding.line),
        what: finding.what,
        times: finding.times,
        change: finding.rule.change,
    }
}

/// Sign in front of a line: ✗ for an error, ! for a warning.
fn sign(severity: &str, color: bool) -> String {
    let (sign, code) = match severity {
        ERROR => ("✗", "31;1"),
        _ => ("!", "33"),
    };
    match color {
        true => format!("\x1b[{code}m{sign}\x1b[0m"),
        false => sign.to_owned(),
    }
}
