//! Charts of a report: messages and pulls of a node against the number of nodes.

use super::{Report, Row, Spread};
use crate::plot::{self, Axis, COLORS, Frame, Plot, Point, page};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 400.0;

/// One figure of a row: of the median node and of the busiest.
type Figure = fn(&Row) -> Spread;

/// Draws `report`. Lines are flat where a node's work does not grow with the cluster.
pub fn draw(report: &Report) -> String {
    let title = "What one node does as the cluster grows";
    let mut out = page(WIDTH, HEIGHT, title);
    out += &plot::title(title);
    let about = "simulated; blue: median node; orange: busiest node";
    out += &plot::subtitle(57.0, about);
    let messages: Figure = |row| row.messages;
    let pulls: Figure = |row| row.pulls_from;
    for (words, left, figure) in [
        ("messages to and from the engine, a second", 60.0, messages),
        ("pulls from a node", 500.0, pulls),
    ] {
        out += &panel(report, words, left, figure);
    }
    out += "</svg>\n";
    out
}

fn panel(report: &Report, words: &str, left: f64, figure: Figure) -> String {
    let frame = Frame {
        left,
        top: 105.0,
        width: 330.0,
        height: 230.0,
    };
    let nodes = |row: &Row| row.nodes.max(1) as f64;
    let largest = report
        .sizes
        .iter()
        .map(|row| figure(row).max)
        .fold(1.0, f64::max);
    let most = report.sizes.iter().map(nodes).fold(10.0, f64::max);
    let least = report.sizes.iter().map(nodes).fold(most, f64::min);
    let x = Axis::logarithmic(least.min(most / 2.0), most);
    let mut plot = Plot::new(frame, words, x, Axis::linear(0.0, largest * 1.1));
    plot.below("nodes");
    for (index, of) in [(0, median as fn(Spread) -> f64), (1, busiest)] {
        let points: Vec<(f64, f64)> = report
            .sizes
            .iter()
            .map(|row| (nodes(row), of(figure(row))))
            .collect();
        let color = COLORS[index];
        plot.line(&points, color, if index == 0 { 2.0 } else { 1.0 });
        for (nodes, figure) in points {
            let style = format!(r#"fill="{color}""#);
            let words = format!("{nodes} nodes: {figure:.1}");
            plot.dot(Point::new(nodes, figure), 3.0, &style, &words);
        }
    }
    plot.finish()
}

const fn median(spread: Spread) -> f64 {
    spread.p50
}

const fn busiest(spread: Spread) -> f64 {
    spread.max
}
