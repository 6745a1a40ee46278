//! A chart of the delays of a stream: one row for each stage, each bar beginning where the one before
//! ends.

use crate::plot::{COLORS, GRID, SOFT, page, subtitle, text, title};

const WIDTH: f64 = 900.0;

/// Layout: where names end, where bars begin and end, and the height of a row.
const NAMES: f64 = 150.0;
const BARS: f64 = 162.0;
const BARS_END: f64 = 690.0;
const ROW: f64 = 26.0;
const TOP: f64 = 92.0;

/// Thinnest bar that can be seen.
const HAIR: f64 = 1.5;

/// Delays of one stage.
#[derive(Clone, Debug)]
pub struct StageDelay {
    /// Name of the stage, as the API has it.
    pub name: String,
    /// Median in ms.
    pub p50_ms: f64,
    /// Delay that 95 % of the frames stay below, in ms.
    pub p95_ms: f64,
}

/// Chart of a stream's delays.
#[derive(Clone, Debug)]
pub struct Waterfall {
    /// Name of the stream, and of when.
    pub title: String,
    /// Delays of the stages, in their order.
    pub stages: Vec<StageDelay>,
    /// Delays of the whole path, whose medians need not be the sum of those of the stages.
    pub wholes: Vec<StageDelay>,
}

impl Waterfall {
    /// Draws the chart as SVG. Bars are medians, and whiskers reach p95.
    pub fn draw(&self) -> String {
        let rows = (self.stages.len() + self.wholes.len()) as f64;
        let height = TOP + rows * ROW + 34.0;
        let mut out = page(WIDTH, height, &self.title);
        out += &title(&self.title);
        let hint = "bars are medians, lines reach p95; milliseconds";
        out += &subtitle(58.0, hint);
        let head = format!(r#"font-size="12" fill="{SOFT}" text-anchor="end""#);
        out += &text(760.0, TOP - 12.0, "p50", &head);
        out += &text(850.0, TOP - 12.0, "p95", &head);
        let scale = (BARS_END - BARS) / self.span_ms();
        let (mut top, mut begin) = (TOP, 0.0);
        for (index, stage) in self.stages.iter().enumerate() {
            out += &row(
                stage,
                top,
                BARS + begin * scale,
                scale,
                COLORS[index % COLORS.len()],
            );
            begin += stage.p50_ms.max(0.0);
            top += ROW;
        }
        for whole in &self.wholes {
            out += &row(whole, top, BARS, scale, SOFT);
            top += ROW;
        }
        out + "</svg>\n"
    }

    /// Returns the time that the width of the chart stands for.
    fn span_ms(&self) -> f64 {
        let mut begin = 0.0;
        let mut span = f64::MIN_POSITIVE;
        for stage in &self.stages {
            span = f64::max(span, begin + stage.p95_ms.max(stage.p50_ms));
            begin += stage.p50_ms.max(0.0);
        }
        let wholes = self.wholes.iter().map(|it| it.p95_ms.max(it.p50_ms));
        wholes.fold(span, f64::max)
    }
}

fn row(delay: &StageDelay, top: f64, left: f64, scale: f64, color: &str) -> String {
    let middle = top + ROW / 2.0;
    let number = r#"text-anchor="end""#;
    let mut out = format!(
        r#"<line x1="{BARS}" y1="{0:.1}" x2="{BARS_END}" y2="{0:.1}" stroke="{GRID}"/>"#,
        top + ROW
    );
    out += &text(NAMES, middle + 4.0, &delay.name, number);
    let width = (delay.p50_ms.max(0.0) * scale).max(HAIR);
    out += &format!(
        r#"<rect x="{left:.1}" y="{:.1}" width="{width:.1}" height="14" rx="2" fill="{color}"/>"#,
        middle - 7.0
    );
    let whisker = left + delay.p95_ms.max(delay.p50_ms).max(0.0) * scale;
    out += &format!(
        r#"<line x1="{:.1}" y1="{middle:.1}" x2="{whisker:.1}" y2="{middle:.1}" stroke="{color}" stroke-width="2"/>"#,
        left + width
    );
    out += &text(760.0, middle + 4.0, &format!("{:.2}", delay.p50_ms), number);
    out += &text(850.0, middle + 4.0, &format!("{:.2}", delay.p95_ms), number);
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::assert_well_formed;

    fn delay(name: &str, p50_ms: f64, p95_ms: f64) -> StageDelay {
        StageDelay {
            name: name.to_owned(),
            p50_ms,
            p95_ms,
        }
    }

    #[test]
    fn each_bar_begins_where_the_one_before_ends() {
        let chart = Waterfall {
            title: "demo <1>".to_owned(),
            stages: vec![delay("ingest", 1.0, 2.0), delay("network", 3.0, 4.0)],
            wholes: vec![delay("end to end", 4.0, 8.0)],
        };
        let svg = chart.draw();
        assert_well_formed(&svg);
        // 528 units stand for 8 ms.
        assert!(
            svg.contains(r#"<rect x="162.0" y="98.0" width="66.0""#),
            "{svg}"
        );
        assert!(
            svg.contains(r#"<rect x="228.0" y="124.0" width="198.0""#),
            "{svg}"
        );
        assert!(
            svg.contains(r#"<rect x="162.0" y="150.0" width="264.0""#),
            "{svg}"
        );
        assert!(svg.contains("end to end") && svg.contains("demo &lt;1&gt;"));
        let empty = Waterfall {
            stages: Vec::new(),
            wholes: Vec::new(),
            ..chart
        };
        assert_well_formed(&empty.draw());
    }
}
