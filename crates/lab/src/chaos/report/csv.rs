//! The timeline as CSV: a row for each second, with the action that was in progress.

use std::fmt::Write as _;

use super::Report;

/// The timeline as CSV; a column for each group, then the server's and the machine's.
pub fn to_csv(report: &Report) -> String {
    let mut out = "at_s,action".to_owned();
    for group in &report.groups {
        let _ = write!(out, ",delivered_{}", group.name);
    }
    out += ",memory_bytes,descriptors,server_cpu_percent,harness_cpu_percent,idle_percent,starved_ms\n";
    for second in &report.timeline {
        let mut actions = report.actions.iter();
        let action = actions.find(|it| (it.from_s..=it.to_s).contains(&second.at_s));
        let name = action.map_or("", |action| &action.name);
        let _ = write!(out, "{:.1},{name}", second.at_s);
        for delivered in &second.delivered {
            let _ = write!(
                out,
                ",{}",
                delivered.map(|it| format!("{it:.4}")).unwrap_or_default()
            );
        }
        let _ = writeln!(
            out,
            ",{},{},{},{:.1},{:.1},{}",
            second
                .memory_bytes
                .map(|it| it.to_string())
                .unwrap_or_default(),
            second
                .descriptors
                .map(|it| it.to_string())
                .unwrap_or_default(),
            second
                .server_cpu_percent
                .map(|it| format!("{it:.1}"))
                .unwrap_or_default(),
            second.harness_cpu_percent,
            second.idle_percent,
            second.starved_ms
        );
    }
    out
}
