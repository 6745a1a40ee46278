//! Chart of runs: three panels over the number of viewers, one color for each run.
//!
//! The chart is written as text. It has a background of its own, so that it looks the same on
//! dark and light pages, and uses the reader's sans-serif font.

use std::fmt::Write as _;

use super::Report;
use crate::plot::{self, COLORS, GRID, SOFT, Scale, number, page, text};
use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::step::Step;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 856.0;
const PANEL: f64 = 176.0;
const BETWEEN: f64 = 50.0;
const LEGEND_ROW: f64 = 21.0;

/// Most runs of a chart.
pub const RUNS_MAX: usize = COLORS.len();

/// Draws `runs`, at most [`RUNS_MAX`]; the first one is the first of the legend.
pub fn draw(runs: &[&Report]) -> String {
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    let steps = || runs.iter().flat_map(|run| &run.steps);
    let viewers_max = steps().map(|step| step.viewers).max().unwrap_or(1);
    let x = Scale::wide(viewers_max as f64, LEFT, RIGHT);
    let top = 102.0 + LEGEND_ROW * runs.len() as f64;
    let height = top + 3.0 * PANEL + 2.0 * BETWEEN + 62.0;
    let mut out = page(WIDTH, height, &title(runs));
    let mut put = |text: &str| {
        out += text;
        out.push('\n');
    };
    put(&head(runs));
    let panels = [processor(runs), delivered(runs), gaps(runs)];
    for (index, panel) in panels.iter().enumerate() {
        let from = top + index as f64 * (PANEL + BETWEEN);
        put(&panel.draw(&x, from));
    }
    put(&text(
        (LEFT + RIGHT) / 2.0,
        height - 20.0,
        "viewers",
        &format!(r#"text-anchor="middle" fill="{SOFT}""#),
    ));
    put("</svg>");
    out
}

fn title(runs: &[&Report]) -> String {
    let labels: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
    format!(
        "Viewers against processor time, delivery and gaps: {}",
        labels.join(", ")
    )
}

/// Title, machine and legend.
fn head(runs: &[&Report]) -> String {
    let mut out = plot::title("Cost of the viewers, and what they received");
    if let Some(run) = runs.first() {
        let machine = &run.machine;
        let mut about = vec![format!("{} cores", machine.cores)];
        about.extend(machine.cpu.clone());
        about.extend(machine.kernel.clone());
        about.extend(run.started.get(..10).map(str::to_owned));
        let about = about.join(" · ");
        out += &plot::subtitle(57.0, &about);
    }
    for (index, (run, color)) in runs.iter().zip(COLORS).enumerate() {
        let y = 80.0 + LEGEND_ROW * index as f64;
        write!(
            out,
            r##"<line x1="24" x2="46" y1="{0:.1}" y2="{0:.1}" stroke="{color}" stroke-width="2.5"/><circle cx="35" cy="{0:.1}" r="3.6" fill="{color}"/>"##,
            y - 4.5
        )
        .expect("a string takes everything");
        let label = format!("{} ({})", run.label, run.protocol);
        out += &text(54.0, y, &shortened(&label, 70), "");
    }
    let key = format!(
        r##"<g font-size="12" fill="{SOFT}" stroke-width="2"><line x1="560" x2="584" y1="75.5" y2="75.5" stroke="{SOFT}" stroke-dasharray="2 4"/><text x="590" y="80">all of the machine</text><circle cx="724" cy="75.5" r="4" fill="#fff" stroke="{SOFT}"/><text x="736" y="80">not the server’s limit</text></g>"##
    );
    out + &key
}

/// One panel: a quantity over the number of viewers.
struct Panel {
    title: &'static str,
    scale: fn(f64, f64, f64, f64) -> Scale,
    /// Values that the axis must include.
    shows: Vec<f64>,
    guide: Option<(f64, &'static str)>,
    lines: Vec<Curve>,
}

struct Curve {
    color: &'static str,
    is_dashed: bool,
    points: Vec<Point>,
}

struct Point {
    viewers: f64,
    value: f64,
    is_hollow: bool,
}

/// The curve of each run: the steps for which `value` returns a figure.
fn lines(
    runs: &[&Report],
    is_dashed: bool,
    value: impl Fn(&Report, &Step) -> Option<f64>,
) -> Vec<Curve> {
    let line = |(run, color): (&&Report, &'static str)| {
        let points = run.steps.iter().filter_map(|step| {
            Some(Point {
                viewers: step.viewers as f64,
                value: value(run, step).filter(|value| value.is_finite())?,
                is_hollow: matches!(step.bottleneck, Bottleneck::Generator | Bottleneck::Machine),
            })
        });
        Curve {
            color,
            is_dashed,
            points: points.collect(),
        }
    };
    runs.iter().zip(COLORS).map(line).collect()
}

fn processor(runs: &[&Report]) -> Panel {
    let mut all = lines(runs, false, |_, step| step.server_cpu_percent);
    all.extend(lines(runs, true, |run, step| {
        Some(step.machine_cpu_percent * run.machine.cores as f64)
    }));
    Panel {
        title: "Server’s processor time, % of one core",
        scale: Scale::linear,
        shows: vec![0.0, 10.0],
        guide: None,
        lines: all,
    }
}

fn delivered(runs: &[&Report]) -> Panel {
    Panel {
        title: "Delivered ratio: media time ÷ wall time × (1 − loss)",
        scale: Scale::linear,
        shows: vec![0.98, 1.0],
        guide: Some((Step::DELIVERED_MIN, "0.99")),
        lines: lines(runs, false, |_, step| Some(step.delivered_of_clock())),
    }
}

fn gaps(runs: &[&Report]) -> Panel {
    let lines = lines(runs, false, |_, step| step.gap_ms.p99);
    let values = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.value)
    };
    let (min, max) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    // A collapsing server's gaps would flatten the curves of the others.
    let is_wide = max > 12.0 * min && min > 0.0;
    Panel {
        title: if is_wide {
            "p99 gap between frames, ms (logarithmic)"
        } else {
            "p99 gap between frames, ms"
        },
        scale: if is_wide {
            Scale::logarithmic
        } else {
            Scale::linear
        },
        shows: if is_wide { vec![min] } else { vec![0.0, 50.0] },
        guide: None,
        lines,
    }
}

impl Panel {
    fn draw(&self, x: &Scale, top: f64) -> String {
        let bottom = top + PANEL;
        let values = || {
            let points = self.lines.iter().flat_map(|line| &line.points);
            points
                .map(|point| point.value)
                .chain(self.shows.iter().copied())
        };
        let (min, max) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        );
        let y = (self.scale)(min, max, bottom, top + 6.0);
        let mut out = text(LEFT, top - 9.0, self.title, r#"font-weight="600""#);
        let mut put = |text: String| {
            out += &text;
            out.push('\n');
        };
        for (value, label) in y.ticks() {
            let at = y.place(value);
            put(format!(
                r#"<line x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}" stroke="{GRID}"/>"#
            ));
            let style = format!(r#"text-anchor="end" font-size="12" fill="{SOFT}""#);
            put(text(LEFT - 8.0, at + 4.0, &label, &style));
        }
        for (value, label) in x.ticks() {
            let at = x.place(value);
            put(format!(
                r#"<line x1="{at:.1}" x2="{at:.1}" y1="{bottom:.1}" y2="{:.1}" stroke="{SOFT}"/>"#,
                bottom + 4.0
            ));
            let style = format!(r#"text-anchor="middle" font-size="12" fill="{SOFT}""#);
            put(text(at, bottom + 18.0, &label, &style));
        }
        if let Some((value, label)) = self.guide {
            let at = y.place(value);
            put(format!(
                r##"<line x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}" stroke="#c9252d" stroke-width="1" stroke-dasharray="5 4" opacity="0.75"/>"##
            ));
            let style = r##"text-anchor="end" font-size="11" fill="#c9252d""##;
            put(text(RIGHT, at + 13.0, label, style));
        }
        put(format!(
            r#"<path d="M{LEFT} {:.1}V{bottom:.1}H{RIGHT}" fill="none" stroke="{SOFT}"/>"#,
            top + 6.0
        ));
        // The first run is drawn last, on top.
        for line in self.lines.iter().rev() {
            put(line.draw(x, &y));
        }
        out
    }
}

impl Curve {
    fn draw(&self, x: &Scale, y: &Scale) -> String {
        let color = self.color;
        let places = || {
            let points = self.points.iter();
            points.map(|point| (x.place(point.viewers), y.place(point.value), point))
        };
        let path: Vec<String> = places().map(|(x, y, _)| format!("{x:.1} {y:.1}")).collect();
        if path.is_empty() {
            return String::new();
        }
        let path = path.join("L");
        if self.is_dashed {
            return format!(
                r#"<path d="M{path}" fill="none" stroke="{color}" stroke-width="1.6" stroke-dasharray="2 4" stroke-linecap="round" opacity="0.8"/>"#
            );
        }
        let mut out = format!(
            r#"<path d="M{path}" fill="none" stroke="{color}" stroke-width="2.4" stroke-linejoin="round"/>"#
        );
        for (x, y, point) in places() {
            let fill = if point.is_hollow { "#ffffff" } else { color };
            write!(
                out,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.8" fill="{fill}" stroke="{color}" stroke-width="1.8"><title>{:.0} viewers: {}</title></circle>"#,
                point.viewers,
                number(point.value)
            )
            .expect("a string takes everything");
        }
        out
    }
}

/// The text, shortened to at most `chars` characters.
fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{assert_well_formed, escape};
    use crate::viewers::report;
    use crate::viewers::step::example;

    fn run(label: &str, steps: &[usize]) -> Report {
        report::example(
            label,
            steps.iter().map(|viewers| example(*viewers)).collect(),
        )
    }

    #[test]
    fn a_run_has_three_panels_a_background_and_a_point_per_step() {
        let svg = draw(&[&run("Glassline", &[25, 50, 75])]);
        assert_well_formed(&svg);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for word in [
            "processor time",
            "Delivered ratio",
            "p99 gap",
            "Glassline (whep)",
        ] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(
            svg.contains(r##"fill="#ffffff"/>"##),
            "a background of its own"
        );
        assert!(
            !svg.contains("href") && !svg.contains("@import"),
            "nothing from elsewhere"
        );
        assert_eq!(svg.matches("r=\"3.8\"").count(), 9);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn overlays_have_colors_and_legends_of_their_own() {
        let (one, mut two) = (run("one", &[25, 50]), run("two <&> \"3\"", &[100]));
        two.steps[0].bottleneck = Bottleneck::Generator;
        two.steps[0].gap_ms.p99 = Some(4_000.0);
        let svg = draw(&[&one, &two]);
        assert_well_formed(&svg);
        assert!(svg.contains("two &lt;&amp;&gt; &quot;3&quot;"));
        assert!(svg.contains(COLORS[0]) && svg.contains(COLORS[1]));
        assert!(svg.contains("logarithmic"));
        let hollow = format!(r##"fill="#ffffff" stroke="{}""##, COLORS[1]);
        assert_eq!(svg.matches(&hollow).count(), 3);
    }

    #[test]
    fn figures_that_are_missing_leave_no_mark() {
        let mut bare = run("bare", &[10]);
        bare.steps[0].server_cpu_percent = None;
        bare.steps[0].gap_ms.p99 = None;
        bare.steps[0].delivered_ratio = f64::NAN;
        for runs in [vec![&bare], vec![]] {
            let svg = draw(&runs);
            assert_well_formed(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("r=\"3.8\"").count(), 0);
        }
    }

    #[test]
    fn labels_are_cut_and_runs_are_bounded() {
        let long = run(&"x".repeat(300), &[1]);
        let svg = draw(&[&long; 20]);
        assert_well_formed(&svg);
        assert!(svg.contains('…'));
        assert_eq!(shortened("äöü", 2), "ä…");
        assert_eq!(escape("a\u{0}b"), "a\u{fffd}b");
    }
}
