//! The overview: every ratio to a floor or a peer, a dot for each kind of processor.

use std::fmt::Write as _;

use super::comparison::Column;
use super::page::{letter, names};
use super::recipes::RECIPES;
use super::record::Run;

/// Sizes in pixels.
const ROW: f64 = 17.0;
const LABELS: f64 = 450.0;
const WIDTH: f64 = 1010.0;
const TOP: f64 = 30.0;
const MARGIN: f64 = 24.0;

/// Colors of the columns, again from the first one after the last.
const COLORS: [&str; 6] = [
    "#2f6fde", "#d9662b", "#2a9d6f", "#a04bc4", "#b58a00", "#c43d5e",
];

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#222}.faint{fill:#777}line{stroke:#ccc}.one{stroke:#777}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.faint{fill:#999}line{stroke:#444}.one{stroke:#999}}";

/// A value with its ratios by column.
struct Row {
    label: String,
    ratios: Vec<Option<f64>>,
}

/// Draws the ratios of all columns of `runs`.
pub(super) fn draw(runs: &[Run]) -> String {
    let columns = Column::all(runs);
    let rows = rows(&columns);
    let scale = Scale::of(&rows);
    let legend = TOP + ROW * columns.len() as f64;
    let bottom = legend + MARGIN + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" \
         aria-label=\"Ratios to floors and peers by processor\">\n<style>{STYLE}</style>\n\
         <text x=\"8\" y=\"18\">Value ÷ what was measured beside it</text>\n",
        bottom + MARGIN
    );
    for (index, column) in columns.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.7);
        let words = escaped(&column.runs[0].kind.words());
        let color = color(index);
        let _ = writeln!(
            svg,
            "<circle cx=\"16\" cy=\"{:.1}\" r=\"4.5\" fill=\"{color}\"/><text x=\"28\" \
             y=\"{y:.1}\">{} {words}</text>",
            y - 4.0,
            letter(index)
        );
    }
    for tick in scale.ticks() {
        let x = scale.x(tick);
        let class = if tick == 1.0 { " class=\"one\"" } else { "" };
        let _ = writeln!(
            svg,
            "<line{class} x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/><text \
             class=\"faint\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            legend + MARGIN - 6.0,
            bottom + 16.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let y = legend + MARGIN + ROW * (index as f64 + 0.5);
        let label = escaped(&row.label);
        let _ = writeln!(svg, "<text x=\"8\" y=\"{:.1}\">{label}</text>", y + 4.0);
        let known = row.ratios.iter().enumerate();
        for (column, ratio) in known.filter_map(|(column, it)| Some((column, (*it)?))) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{}\"><title>{} {ratio:.3}\
                 </title></circle>",
                scale.x(ratio),
                color(column),
                letter(column)
            );
        }
    }
    svg + "</svg>\n"
}

/// Values that have a ratio on some processor.
fn rows(columns: &[Column<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for recipe in RECIPES.iter() {
        for name in names(recipe, columns) {
            let latest = columns.iter().map(|it| it.latest(recipe.name, &name));
            let besides: Vec<_> = latest.map(|it| it?.value.beside.as_ref()).collect();
            if let Some(beside) = besides.iter().flatten().next() {
                // Values that are compared twice have the second one in their name.
                let compared = format!(", and {}", beside.name);
                let value = name.strip_suffix(&compared).unwrap_or(&name);
                rows.push(Row {
                    label: format!("{}: {value} ÷ {}", recipe.name, beside.name),
                    ratios: besides.iter().map(|it| it.map(|it| it.ratio)).collect(),
                });
            }
        }
    }
    rows
}

/// The horizontal axis, logarithmic in the ratio.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Covers all ratios above 0, and 1.
    fn of(rows: &[Row]) -> Self {
        let all = rows.iter().flat_map(|row| row.ratios.iter().flatten());
        let all: Vec<f64> = all.copied().filter(|it| *it > 0.0).collect();
        let low = all.iter().copied().fold(0.8, f64::min) * 0.95;
        let high = all.iter().copied().fold(1.25, f64::max) * 1.05;
        Self { low, high }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        LABELS + share * (WIDTH - LABELS - MARGIN)
    }

    fn ticks(&self) -> Vec<f64> {
        let all = [
            0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0,
        ];
        let is_within = |it: &f64| (self.low..=self.high).contains(it);
        all.into_iter().filter(is_within).collect()
    }
}

fn color(column: usize) -> &'static str {
    COLORS[column % COLORS.len()]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::record::made_up::{measurement, run};
    use crate::figures::record::{Measurement, Reference};

    #[test]
    fn each_processor_has_a_dot_where_it_has_a_ratio() {
        let with = |ratio: f64| Measurement {
            beside: Some(Reference {
                name: "floor <of all>".to_owned(),
                value: 1.0,
                ratio,
            }),
            ..measurement("seal", ratio)
        };
        let runs = [
            run("A & B", 1, vec![with(1.1), measurement("alone", 3.0)]),
            run("C", 1, vec![with(20.0)]),
        ];
        let svg = draw(&runs);
        assert_eq!(svg.matches("<title>").count(), 2, "{svg}");
        assert!(svg.contains("seal: seal ÷ floor &lt;of all&gt;"), "{svg}");
        assert!(svg.contains("A A &amp; B, 2 cores"), "{svg}");
        assert!(!svg.contains("alone"), "no ratio");
        let x = |title: &str| {
            let (before, _) = svg.split_once(title).expect("drawn");
            let (_, at) = before.rsplit_once("cx=\"").expect("a dot");
            at.split('"').next().and_then(|it| it.parse::<f64>().ok())
        };
        assert!(x("<title>A 1.100") < x("<title>B 20.000"));
    }

    #[test]
    fn the_axis_reaches_every_ratio() {
        let row = Row {
            label: String::new(),
            ratios: vec![Some(0.03), None, Some(41.0), Some(0.0)],
        };
        let scale = Scale::of(&[row]);
        for ratio in [0.03, 41.0, 0.0] {
            let x = scale.x(ratio);
            assert!((LABELS..=WIDTH).contains(&x), "{ratio} at {x}");
        }
        assert!(scale.ticks().contains(&1.0) && scale.ticks().contains(&20.0));
    }
}
