//! The comparison as a table, and its place in `docs/benchmarks/other-servers.md`.

use super::results::{COMPARABLE, Run};

/// Marks the begin of the generated part of the page; the rest is written by hand.
const BEGIN: &str = "<!-- written by `cargo xtask bench-peers`: begin -->";
const END: &str = "<!-- written by `cargo xtask bench-peers`: end -->";

/// Name of the server whose floor is shown.
const OURS: &str = "glassline";

const HEADS: [&str; 10] = [
    "server",
    "delivered",
    "CPU ms per viewer-second",
    "ratio to Glassline",
    "most viewers ≥ 0.99",
    "RSS per viewer",
    "join p50 / p95",
    "gap p99",
    "DESCRIBE p50 / p99",
    "first limit",
];

/// Columns of layouts behind the first one on the page: those in which layouts differ.
const BRIEF: [usize; 5] = [0, 1, 2, 3, 5];

/// Runs of one layout, in order.
pub(super) struct Comparison {
    pub(super) runs: Vec<Entry>,
    /// Number of viewers at which costs are compared.
    pub(super) at: u64,
}

/// Results of one server.
pub(super) struct Entry {
    pub(super) name: String,
    /// Name of the Glassline variant whose cost it is compared with.
    pub(super) ours: &'static str,
    /// Whether the server sent the same media as Glassline, so that costs are comparable.
    pub(super) has_whole_load: bool,
    /// Result of the run, or the reason why there is none.
    pub(super) run: Result<Run, String>,
}

impl Comparison {
    /// Names of the servers with a report.
    pub(super) fn measured(&self) -> impl Iterator<Item = &str> {
        let reported = self.runs.iter().filter(|entry| entry.run.is_ok());
        reported.map(|entry| entry.name.as_str())
    }

    /// Heads and rows, the same for a terminal and for a document.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let run_of = |name: &str| {
            let entry = self.runs.iter().find(|entry| entry.name == name);
            entry.and_then(|entry| entry.run.as_ref().ok())
        };
        let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
        for entry in &self.runs {
            let ours = run_of(entry.ours).filter(|_| entry.has_whole_load);
            rows.push(match &entry.run {
                Ok(run) => self.row(&entry.name, run, ours),
                Err(reason) => absent(&entry.name, reason),
            });
        }
        let ours = run_of(OURS);
        if let Some(floor) = ours.and_then(|run| run.floor_at(self.at)) {
            let mut row = vec!["–".to_owned(); HEADS.len()];
            row[0] = "this machine's floor".to_owned();
            row[1] = figure(floor.delivered, 4);
            row[2] = figure(floor.cpu_ms, 2);
            row[3] = self.ratio(floor.cpu_ms, ours);
            rows.push(row);
        }
        rows
    }

    fn row(&self, name: &str, run: &Run, ours: Option<&Run>) -> Vec<String> {
        let step = run.at(self.at);
        let compared = step.filter(|step| step.delivered >= COMPARABLE);
        let limit = match run.first_limit() {
            _ if run.has_crashed => "the server crashed".to_owned(),
            Some((side, viewers)) => format!("{side} at {viewers}"),
            None => "none".to_owned(),
        };
        vec![
            name.to_owned(),
            figure(step.map(|step| step.delivered), 4),
            figure(step.and_then(|step| step.cpu_ms), 2),
            self.ratio(compared.and_then(|step| step.cpu_ms), ours),
            run.most()
                .map_or_else(|| "none".to_owned(), |viewers| viewers.to_string()),
            bytes(step.and_then(|step| step.rss_bytes_per_viewer)),
            match step.map(|step| step.join_ms) {
                Some((Some(p50), Some(p95))) => format!("{p50:.0} / {p95:.0} ms"),
                _ => "–".to_owned(),
            },
            match step.and_then(|step| step.gap_ms_p99) {
                Some(ms) => format!("{ms:.0} ms"),
                None => "–".to_owned(),
            },
            match step.map(|step| step.describe_ms) {
                Some((Some(p50), Some(p99))) => format!("{p50:.1} / {p99:.1} ms"),
                _ => "–".to_owned(),
            },
            limit,
        ]
    }

    /// Ratio of `cost` to ours, if ours was measured while everything was delivered.
    fn ratio(&self, cost: Option<f64>, ours: Option<&Run>) -> String {
        let ours = ours
            .and_then(|run| run.at(self.at))
            .filter(|step| step.delivered >= COMPARABLE)
            .and_then(|step| step.cpu_ms)
            .filter(|cost| *cost > 0.0);
        figure(cost.zip(ours).map(|(cost, ours)| cost / ours), 2)
    }
}

fn absent(name: &str, reason: &str) -> Vec<String> {
    let mut row = vec![String::new(); HEADS.len()];
    name.clone_into(&mut row[0]);
    // Only the first line: the others are output of the program.
    row[1] = reason.lines().next().unwrap_or_default().to_owned();
    row
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn bytes(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(bytes) if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        Some(bytes) => format!("{:.1} MB", bytes / 1e6),
    }
}

/// The rows for a terminal, with aligned columns.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    // A reason extends to the end of its line and must not widen a column.
    let is_figure = |row: &&Vec<String>| row.get(2).is_some_and(|cell| !cell.is_empty());
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| column == 0 || is_figure(row));
        let widths = cells.filter_map(|row| Some(row.get(column)?.chars().count()));
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 || !is_figure(&row) {
                line += &format!("{cell:<width$}  ");
            } else {
                line += &format!("{cell:>width$}  ");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Returns of each row the cells in which layouts differ.
pub(super) fn brief(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let cells = |row: &Vec<String>| BRIEF.map(|column| row[column].clone()).to_vec();
    rows.iter().map(cells).collect()
}

/// The rows as a Markdown table.
pub(super) fn markdown(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if number == 0 {
            text += &format!("|{}\n", "---|".repeat(row.len()));
        }
    }
    text
}

/// Returns `document` with `section` in its place, which is at the end the first time.
///
/// # Errors One of the two markers is missing, or they are in the wrong order.
pub(super) fn replaced(document: &str, section: &str) -> Result<String, String> {
    replaced_between([BEGIN, END], document, section)
}

/// Returns `document` with `section` between another pair of markers.
///
/// # Errors As [`replaced`].
pub(super) fn replaced_between(
    markers: [&str; 2],
    document: &str,
    section: &str,
) -> Result<String, String> {
    let [opening, closing] = markers;
    let block = format!("{opening}\n\n{}\n\n{closing}\n", section.trim());
    match (document.find(opening), document.find(closing)) {
        (None, None) => Ok(format!("{}\n\n{block}", document.trim_end())),
        (Some(begin), Some(end)) if begin < end => {
            let rest = document[end + closing.len()..].trim_start_matches('\n');
            let gap = if rest.is_empty() { "" } else { "\n" };
            Ok(format!("{}{block}{gap}{rest}", &document[..begin]))
        }
        _ => Err(format!("needs both {opening} and {closing}, in this order")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::{Floor, Step};
    use super::*;

    fn run(viewers: u64, delivered: f64, ms: f64) -> Run {
        let step = Step {
            viewers,
            delivered,
            cpu_ms: Some(ms),
            rss_bytes_per_viewer: Some(85_000.0),
            join_ms: (Some(9.6), Some(21.2)),
            gap_ms_p99: Some(39.0),
            describe_ms: (Some(1.25), Some(9.0)),
            server_cpu_percent: Some(40.0),
            bottleneck: "none".to_owned(),
        };
        Run {
            steps: vec![step],
            floor: Vec::new(),
            has_crashed: false,
        }
    }

    fn comparison(runs: Vec<(&str, Result<Run, String>)>) -> Comparison {
        let runs = runs.into_iter();
        Comparison {
            runs: runs
                .map(|(name, run)| Entry {
                    name: name.to_owned(),
                    ours: if name == "by tcp" {
                        "ours by tcp"
                    } else {
                        OURS
                    },
                    has_whole_load: name != "half",
                    run,
                })
                .collect(),
            at: 100,
        }
    }

    #[test]
    fn costs_are_compared_where_both_delivered() {
        let rows = comparison(vec![
            ("fine", Ok(run(100, 0.995, 4.0))),
            ("behind", Ok(run(100, 0.9, 2.0))),
            ("half", Ok(run(100, 1.0, 2.0))),
            ("by tcp", Ok(run(100, 1.0, 3.0))),
            ("ours by tcp", Ok(run(100, 1.0, 0.3))),
            (OURS, Ok(run(100, 1.0, 0.8))),
        ])
        .rows();
        let ratios: Vec<&str> = rows[1..].iter().map(|row| row[3].as_str()).collect();
        assert_eq!(ratios, ["5.00", "–", "–", "10.00", "0.37", "1.00"]);
        assert_eq!(
            rows[1][4..],
            [
                "100",
                "85 kB",
                "10 / 21 ms",
                "39 ms",
                "1.2 / 9.0 ms",
                "none"
            ]
        );
    }

    #[test]
    fn nothing_is_compared_with_a_glassline_that_did_not_deliver() {
        let runs = vec![
            ("fine", Ok(run(100, 1.0, 4.0))),
            (OURS, Ok(run(100, 0.5, 0.8))),
        ];
        assert_eq!(comparison(runs).rows()[1][3], "–");
    }

    #[test]
    fn a_crash_is_told_whatever_the_figures_are() {
        let mut crashed = run(100, 1.0, 4.0);
        crashed.has_crashed = true;
        let rows = comparison(vec![("gone", Ok(crashed))]).rows();
        assert_eq!(
            rows[1].last().map(String::as_str),
            Some("the server crashed")
        );
    }

    #[test]
    fn another_height_of_the_ramp_is_no_substitute() {
        let rows = comparison(vec![("small", Ok(run(25, 1.0, 4.0)))]).rows();
        assert_eq!(rows[1][1..4], ["–", "–", "–"]);
        assert_eq!(rows[1][4], "25");
    }

    #[test]
    fn the_floor_stands_beside_us() {
        let mut ours = run(100, 1.0, 0.8);
        ours.floor = vec![Floor {
            viewers: 100,
            delivered: Some(0.9999),
            cpu_ms: Some(0.6),
        }];
        let rows = comparison(vec![(OURS, Ok(ours))]).rows();
        assert_eq!(rows[2][1..4], ["0.9999", "0.60", "0.75"]);
        assert_eq!(brief(&rows)[2][4], "–", "memory");
    }

    #[test]
    fn who_is_missing_is_named_and_every_row_is_as_wide() {
        let rows = comparison(vec![
            ("live555", Err("not on the PATH\nmore".to_owned())),
            (OURS, Ok(run(100, 1.0, 0.8))),
        ])
        .rows();
        assert_eq!(rows[1][..2], ["live555", "not on the PATH"]);
        let table = markdown(&rows);
        let bars = |line: &str| line.matches('|').count();
        assert!(table.lines().all(|line| bars(line) == HEADS.len() + 1));
        assert!(aligned(&rows).contains("live555    not on the PATH\n"));
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let first = replaced("# Benchmarks\n\ntext\n", "one").expect("a new section");
        assert!(first.starts_with("# Benchmarks\n\ntext\n\n<!--"));
        let with_more = format!("{first}\n## After\n");
        let second = replaced(&with_more, "two\n").expect("the section is there");
        assert!(!second.contains("one") && second.contains("\ntwo\n"));
        assert!(second.ends_with("-->\n\n## After\n"));
        assert_eq!(replaced(&second, "two").expect("again"), second);
    }

    #[test]
    fn a_lone_marker_is_no_place_to_write() {
        assert!(replaced(BEGIN, "x").is_err());
        assert!(replaced(&format!("{END}\n{BEGIN}"), "x").is_err());
    }
}
