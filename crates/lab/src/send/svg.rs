//! Chart of an experiment: a bar for the cost of each method, and beside it the gaps of its
//! frames.

use super::Report;
use crate::plot::{self, GRID, SOFT, escape, page, text};

const WIDTH: f64 = 880.0;
const TOP: f64 = 110.0;
const ROW: f64 = 26.0;
/// Layout: where names end, and where the bars of costs and of gaps begin and end.
const NAMES: f64 = 178.0;
const COST: Column = Column {
    begin: 188.0,
    end: 560.0,
};
const GAPS: Column = Column {
    begin: 640.0,
    end: 800.0,
};
const BAR: f64 = 15.0;
const COST_COLOR: &str = "#1d5fd1";
const GAP_COLOR: &str = "#d9680b";
/// Color of the bars of methods that did not deliver all frames.
const BEHIND_COLOR: &str = "#c9252d";

/// Places from left to right that bars stand between.
#[derive(Clone, Copy)]
struct Column {
    begin: f64,
    end: f64,
}

/// Draws `report`. Bars have a linear scale, so that lengths are proportional to costs.
pub fn draw(report: &Report) -> String {
    let rows = report.methods.len();
    let height = TOP + ROW * rows as f64 + 44.0;
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(1e-9, f64::max);
    let cost_max = largest(&mut report.methods.iter().filter_map(|it| it.cpu_ns_per_packet));
    let gap_max = largest(&mut report.methods.iter().filter_map(|it| Some(it.gap_ms?.p99)));
    let title = "Ways to send the same frames to many TCP connections";
    let mut out = page(WIDTH, height, title);
    let mut put = |text: String| {
        out += &text;
        out.push('\n');
    };
    put(head(report));
    for (index, figures) in report.methods.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let middle = y + BAR - 3.0;
        let end = r#"text-anchor="end""#;
        put(text(NAMES, middle, &figures.method, end));
        let Some(cost) = figures.cpu_ns_per_packet else {
            let reason = figures.skipped.as_deref().unwrap_or_default();
            let style = format!(r#"font-size="12" fill="{SOFT}""#);
            put(text(
                COST.begin,
                middle,
                &format!("not measured: {reason}"),
                &style,
            ));
            continue;
        };
        let is_behind = figures.delivered_ratio.is_some_and(|ratio| ratio < 0.99);
        let color = if is_behind { BEHIND_COLOR } else { COST_COLOR };
        put(bar(COST, y, cost / cost_max, color, &format!("{cost:.0}")));
        if let Some(gap) = figures.gap_ms {
            let label = format!("{:.1}", gap.p99);
            put(bar(GAPS, y, gap.p99 / gap_max, GAP_COLOR, &label));
        }
    }
    let style = format!(r#"text-anchor="middle" font-size="12" fill="{SOFT}""#);
    let note = "red: fewer than 99 % of the frames arrived in time";
    put(text(WIDTH / 2.0, height - 16.0, note, &style));
    put("</svg>".to_owned());
    out
}

fn head(report: &Report) -> String {
    let machine = &report.machine;
    let mut about = vec![
        format!("{} connections", report.clients),
        format!("{} frames/s", report.fps),
        format!(
            "{} × {} bytes",
            report.packets_per_frame, report.packet_bytes
        ),
    ];
    about.extend(machine.cpu.clone());
    about.extend(machine.kernel.clone());
    about.extend(report.started.get(..10).map(str::to_owned));
    let bold = r#"font-weight="600""#;
    let mut out = plot::title("Ways to send the same frames to many TCP connections");
    out += &plot::subtitle(57.0, &about.join(" · "));
    out += &text(COST.begin, 92.0, "processor time, ns per packet", bold);
    out += &text(GAPS.begin, 92.0, "frames late at p99, ms", bold);
    out
}

/// A bar over `share` of its column, with its figure behind it.
fn bar(column: Column, y: f64, share: f64, color: &str, label: &str) -> String {
    let width = (column.end - column.begin) * share.clamp(0.0, 1.0);
    format!(
        r#"<line x1="{0:.1}" x2="{0:.1}" y1="{1:.1}" y2="{2:.1}" stroke="{GRID}"/><rect x="{0:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" fill="{color}"/><text x="{3:.1}" y="{4:.1}" font-size="12">{5}</text>"#,
        column.begin,
        y - 5.0,
        y + BAR + 5.0,
        column.begin + width + 6.0,
        y + BAR - 3.0,
        escape(label)
    )
}
