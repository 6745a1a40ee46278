//! The report as text: a line for each action, then the groups, then what was missed.

use std::fmt::Write as _;

use super::{ActionReport, Report};

/// The report as a table for people.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>6} {:<18} {:>9} {:>9} {:>9} {:>7} {:>6} {:>8} {:>7} {:>8} {:>7}",
        "s",
        "action",
        "sent",
        "delivered",
        "gap +ms",
        "freezes",
        "back s",
        "mem MiB",
        "server%",
        "harness%",
        "ask ms"
    );
    for action in &report.actions {
        out += &line(action);
    }
    out += "\n";
    for group in &report.groups {
        let _ = writeln!(
            out,
            "{} ({} viewers): delivered {}, gap p99 {} ms (quiet {} ms), {} freezes, longest {} ms",
            group.name,
            group.viewers,
            figure(group.delivered_ratio, 5),
            figure(group.gap_p99_ms, 1),
            figure(group.quiet_gap_p99_ms, 1),
            group.freezes,
            group.longest_freeze_ms
        );
    }
    let mib = |bytes: Option<u64>| figure(bytes.map(|bytes| bytes as f64 / 1048576.0), 1);
    let count = |count: Option<usize>| count.map_or("–".to_owned(), |count| count.to_string());
    let _ = writeln!(
        out,
        "server: {} MiB and {} descriptors before, {} MiB and {} after",
        mib(report.before.memory_bytes),
        count(report.before.descriptors),
        mib(report.after.memory_bytes),
        count(report.after.descriptors)
    );
    for starved in &report.starved {
        let _ = writeln!(out, "not judged: {starved}");
    }
    for miss in &report.misses {
        let _ = writeln!(out, "missed: {miss}");
    }
    if report.misses.is_empty() {
        out += "nothing was missed\n";
    }
    out
}

fn line(action: &ActionReport) -> String {
    let asked = action.answers.iter().filter_map(|it| it.longest_ms);
    let sent = match action.outcome.skipped {
        Some(_) => "skipped".to_owned(),
        None => action.outcome.sent.to_string(),
    };
    format!(
        "{:>6.1} {:<18} {:>9} {:>9} {:>9} {:>7} {:>6} {:>8} {:>7} {:>8} {:>7}\n",
        action.from_s,
        action.name,
        sent,
        figure(action.delivered_ratio, 4),
        figure(action.gap_p99_more_ms, 1),
        action.freezes,
        figure(action.back_s, 1),
        figure(
            action
                .memory_more_bytes
                .map(|bytes| bytes as f64 / 1048576.0),
            1
        ),
        figure(action.server_cpu_percent, 0),
        figure(action.harness_cpu_percent, 0),
        figure(asked.max_by(f64::total_cmp), 0)
    )
}

fn figure(value: Option<f64>, digits: usize) -> String {
    match value {
        // Rounded up, a loss would look like none.
        Some(value) if digits >= 4 && value < 1.0 => {
            let scale = 10f64.powi(i32::try_from(digits).unwrap_or(4));
            format!("{:.digits$}", (value * scale).floor() / scale)
        }
        Some(value) => format!("{value:.digits$}"),
        None => "–".to_owned(),
    }
}
