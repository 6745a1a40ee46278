//! Report of what jitter buffers do to speech: waits, concealment and scores; table, CSV, chart.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Figures, Wait};
use crate::plot::{self, Axis, COLORS, Frame, Plot, Point, page, text};

/// Report that `glassline bench jitter --quality --json` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityReport {
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Time between two packets, in ms.
    pub interval_ms: f64,
    /// How the speech was encoded.
    pub coding: String,
    /// Scores that could not be given, with the reason.
    pub skipped: Vec<String>,
    /// Our buffer compared with the model of NetEq M98: each figure is that of the trace on which
    /// ours does worst.
    pub beside_m98: Difference,
    /// Means of every buffer over the traces; ours is the first and the model of NetEq M98 the
    /// second.
    pub contenders: Vec<Judged>,
    /// Figures of each trace.
    pub traces: Vec<JudgedTrace>,
}

/// Figures of every buffer on one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedTrace {
    /// Name of the trace: its file, or family and seed.
    pub trace: String,
    /// Number of packets that were sent.
    pub packets: u64,
    /// Our buffer compared with the model of NetEq M98.
    pub beside_m98: Difference,
    /// Figures of every buffer, in the order of [`QualityReport::contenders`].
    pub contenders: Vec<Judged>,
}

/// Figures of a buffer with its name and scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Name of the row in tables.
    pub name: String,
    /// Figures of the buffer.
    #[serde(flatten)]
    pub figures: Figures,
    /// Scores of what it played.
    #[serde(flatten)]
    pub scores: Scores,
}

/// Scores of speech, means over stretches of 8 s or more from pause to pause. A score that was not
/// given is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// PESQ of wide-band speech (ITU-T P.862.2), 1 to 4.64.
    pub pesq_wb: Option<f64>,
    /// PLCMOS, 1 to 5: a network's estimate of how listeners judge concealment.
    pub plcmos: Option<f64>,
}

/// Our buffer compared with the model of NetEq M98.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Our mean wait divided by the model's.
    pub wait_ratio: f64,
    /// Our concealed share minus the model's; positive if ours conceals more.
    pub concealed_more: f64,
    /// The model's PESQ-WB minus ours; positive if ours is worse.
    pub pesq_wb_lacks: Option<f64>,
    /// The model's PLCMOS minus ours; positive if ours is worse.
    pub plcmos_lacks: Option<f64>,
}

impl Difference {
    /// Compares `ours` with `model`.
    pub fn of(ours: &Judged, model: &Judged) -> Self {
        let lacks = |ours: Option<f64>, model: Option<f64>| Some(model? - ours?);
        Self {
            wait_ratio: ours.figures.wait_ms.mean / model.figures.wait_ms.mean.max(1e-9),
            concealed_more: ours.figures.concealed_ratio - model.figures.concealed_ratio,
            pesq_wb_lacks: lacks(ours.scores.pesq_wb, model.scores.pesq_wb),
            plcmos_lacks: lacks(ours.scores.plcmos, model.scores.plcmos),
        }
    }

    /// Each figure of the comparison in which ours does worse. A score that one of them lacks is
    /// absent.
    fn worse(self, other: Self) -> Self {
        let lacks = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
        Self {
            wait_ratio: self.wait_ratio.max(other.wait_ratio),
            concealed_more: self.concealed_more.max(other.concealed_more),
            pesq_wb_lacks: lacks(self.pesq_wb_lacks, other.pesq_wb_lacks),
            plcmos_lacks: lacks(self.plcmos_lacks, other.plcmos_lacks),
        }
    }
}

impl Judged {
    /// Means of one buffer over several traces; percentiles are averaged, and the longest wait and
    /// the packets are those of all. `None` without traces.
    fn mean(all: &[&Self]) -> Option<Self> {
        let count = all.len() as f64;
        let mean = |of: &dyn Fn(&Figures) -> f64| {
            all.iter().map(|it| of(&it.figures)).sum::<f64>() / count
        };
        // A mean over other traces than those of the next row would mislead.
        let score = |of: fn(&Scores) -> Option<f64>| {
            let sum: Option<f64> = all.iter().map(|it| of(&it.scores)).sum();
            Some(sum? / count)
        };
        Some(Self {
            name: all.first()?.name.clone(),
            figures: Figures {
                wait_ms: Wait {
                    mean: mean(&|it| it.wait_ms.mean),
                    p50: mean(&|it| it.wait_ms.p50),
                    p95: mean(&|it| it.wait_ms.p95),
                    p99: mean(&|it| it.wait_ms.p99),
                    max: all
                        .iter()
                        .map(|it| it.figures.wait_ms.max)
                        .fold(0.0, f64::max),
                },
                concealed_ratio: mean(&|it| it.concealed_ratio),
                stretched_ratio: mean(&|it| it.stretched_ratio),
                late: all.iter().map(|it| it.figures.late).sum(),
                lost: all.iter().map(|it| it.figures.lost).sum(),
            },
            scores: Scores {
                pesq_wb: score(|it| it.pesq_wb),
                plcmos: score(|it| it.plcmos),
            },
        })
    }
}

impl JudgedTrace {
    /// Figures of `contenders`, ours the first and the model of NetEq M98 the second.
    pub fn new(trace: &str, packets: u64, contenders: Vec<Judged>) -> Self {
        let beside_m98 = match contenders.as_slice() {
            [ours, model, ..] => Difference::of(ours, model),
            _ => Difference::default(),
        };
        Self {
            trace: trace.to_owned(),
            packets,
            beside_m98,
            contenders,
        }
    }
}

impl QualityReport {
    /// Report of `traces`, which have the same buffers in the same order.
    pub fn new(
        started: String,
        interval_ms: f64,
        coding: String,
        skipped: Vec<String>,
        traces: Vec<JudgedTrace>,
    ) -> Self {
        let buffers = traces.first().map_or(0, |it| it.contenders.len());
        let contenders = (0..buffers).filter_map(|place| {
            let all = traces.iter().filter_map(|it| it.contenders.get(place));
            Judged::mean(&all.collect::<Vec<_>>())
        });
        let contenders = contenders.collect();
        let differences = traces.iter().map(|it| it.beside_m98);
        Self {
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval_ms,
            coding,
            skipped,
            beside_m98: differences.reduce(Difference::worse).unwrap_or_default(),
            contenders,
            traces,
        }
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: a head, then a line for each trace and buffer. A score that was not
    /// given is empty.
    pub fn to_csv(&self) -> String {
        let mut out = "trace,contender,wait_mean_ms,wait_p95_ms,concealed_ratio,stretched_ratio,\
                       pesq_wb,plcmos\n"
            .to_owned();
        let score = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.3}"));
        let rows = self.traces.iter();
        let rows = rows.flat_map(|it| it.contenders.iter().map(|judged| (&it.trace, judged)));
        for (trace, judged) in rows {
            let figures = judged.figures;
            writeln!(
                out,
                "\"{}\",\"{}\",{:.3},{:.3},{:.6},{:.6},{},{}",
                trace.replace('"', "\"\""),
                judged.name,
                figures.wait_ms.mean,
                figures.wait_ms.p95,
                figures.concealed_ratio,
                figures.stretched_ratio,
                score(judged.scores.pesq_wb),
                score(judged.scores.plcmos)
            )
            .expect("a string takes everything");
        }
        out
    }

    /// The report as tables of fewer than a hundred columns: one for each trace, then the means.
    /// `color` adds ANSI colors.
    pub fn to_table(&self, color: bool) -> String {
        let mut out = format!("{}\n", self.coding);
        for traced in &self.traces {
            let seconds = traced.packets as f64 * self.interval_ms / 1e3;
            let head = format!(
                "{}: {} packets of {} ms, {seconds:.0} s of speech",
                traced.trace, traced.packets, self.interval_ms
            );
            out += &table(&head, &traced.contenders, color);
        }
        if self.traces.len() > 1 {
            let head = format!("mean of {} traces", self.traces.len());
            out += &table(&head, &self.contenders, color);
        }
        for skipped in &self.skipped {
            writeln!(out, "skipped: {skipped}").expect("a string takes everything");
        }
        out
    }

    /// Draws PESQ-WB against the mean wait; higher and further left is better. Buffers without
    /// that score have no mark. Small dots are single traces, where there are several.
    pub fn to_svg(&self) -> String {
        let names: Vec<&str> = self.traces.iter().map(|it| it.trace.as_str()).collect();
        let title = format!("Speech through jitter buffers on {}", names.join(", "));
        let packets: u64 = self.traces.iter().map(|it| it.packets).sum();
        let about = format!(
            "{packets} packets of {} ms · {} · {}",
            self.interval_ms,
            self.coding,
            self.started.get(..10).unwrap_or_default()
        );
        let mut out = page(1000.0, 470.0, &title);
        out += &plot::title(&title);
        out += &plot::subtitle(56.0, &about);
        let every = self.traces.iter().flat_map(|it| &it.contenders);
        let waits = every.map(|it| it.figures.wait_ms.mean);
        let most = waits.fold(10.0, f64::max);
        let frame = Frame {
            left: 62.0,
            top: 124.0,
            width: 914.0,
            height: 290.0,
        };
        let words = "PESQ-WB against mean wait: higher and further left is better";
        let axes = (Axis::linear(0.0, most), Axis::linear(1.0, 4.7));
        let mut plot = Plot::new(frame, words, axes.0, axes.1);
        plot.below("mean wait, ms");
        let mut left = 24.0;
        for (place, (judged, color)) in self.contenders.iter().zip(COLORS).enumerate() {
            out += &format!(
                r#"<circle cx="{:.1}" cy="77.5" r="5" fill="{color}"/>"#,
                left + 5.0
            );
            out += &text(left + 15.0, 82.0, &judged.name, "");
            left += 32.0 + 7.0 * judged.name.chars().count() as f64;
            let single = self.traces.iter().filter(|_| self.traces.len() > 1);
            for traced in single {
                let on_trace = &traced.contenders[place];
                if let Some(score) = on_trace.scores.pesq_wb {
                    let words = format!("{} on {}", judged.name, traced.trace);
                    let at = Point::new(on_trace.figures.wait_ms.mean, score);
                    plot.dot(at, 3.0, &format!(r#"fill="{color}""#), &words);
                }
            }
            let Some(score) = judged.scores.pesq_wb else {
                continue;
            };
            let at = Point::new(judged.figures.wait_ms.mean, score);
            let style = format!(r##"fill="{color}" stroke="#ffffff" stroke-width="1.5""##);
            plot.dot(at, 6.0, &style, &judged.name);
            plot.label(at, &format!("{score:.2}"), color);
        }
        out + &plot.finish() + "</svg>\n"
    }
}

/// A table of buffers below a line of text; the first buffer is bold in `color`.
fn table(head: &str, contenders: &[Judged], color: bool) -> String {
    let (bold, dim, plain) = match color {
        true => ("\x1b[1m", "\x1b[2m", "\x1b[0m"),
        false => ("", "", ""),
    };
    let mut out = format!(
        "\n{head}\n\n{dim}{:<22}{:>9}{:>8}{:>13}{:>13}{:>9}{:>8}{plain}\n",
        "wait, ms", "mean", "p95", "concealed %", "stretched %", "PESQ-WB", "PLCMOS"
    );
    let score = |it: Option<f64>| it.map_or("–".to_owned(), |it| format!("{it:.2}"));
    for (place, judged) in contenders.iter().enumerate() {
        let figures = judged.figures;
        let begin = if place == 0 { bold } else { "" };
        writeln!(
            out,
            "{begin}{:<22}{:>9.1}{:>8.1}{:>13.3}{:>13.2}{:>9}{:>8}{plain}",
            judged.name,
            figures.wait_ms.mean,
            figures.wait_ms.p95,
            figures.concealed_ratio * 100.0,
            figures.stretched_ratio * 100.0,
            score(judged.scores.pesq_wb),
            score(judged.scores.plcmos)
        )
        .expect("a string takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::assert_well_formed;

    fn judged(name: &str, wait: f64, pesq_wb: f64) -> Judged {
        Judged {
            name: name.to_owned(),
            figures: Figures {
                wait_ms: Wait {
                    mean: wait,
                    p95: 2.0 * wait,
                    ..Wait::default()
                },
                concealed_ratio: 0.001,
                ..Figures::default()
            },
            scores: Scores {
                pesq_wb: Some(pesq_wb),
                plcmos: None,
            },
        }
    }

    fn report(traces: &[(&str, f64, f64)]) -> QualityReport {
        let traces = traces.iter().map(|(trace, wait, pesq_wb)| {
            let ours = judged("glassline", *wait, *pesq_wb);
            JudgedTrace::new(trace, 6_000, vec![ours, judged("<NetEq>", 60.0, 3.9)])
        });
        QualityReport::new(
            "2026-11-24T10:00:00Z".to_owned(),
            20.0,
            "Opus".to_owned(),
            vec!["PLCMOS: No module named 'speechmos'".to_owned()],
            traces.collect(),
        )
    }

    #[test]
    fn ours_is_compared_with_the_model_in_each_score_that_both_have() {
        let beside = report(&[("ar98:7", 30.0, 3.5)]).beside_m98;
        assert!((beside.wait_ratio - 0.5).abs() < 1e-9);
        assert!((beside.pesq_wb_lacks.expect("both have it") - 0.4).abs() < 1e-9);
        assert_eq!(beside.plcmos_lacks, None);
        assert_eq!(beside.concealed_more, 0.0);
    }

    #[test]
    fn several_traces_are_averaged_and_compared_by_the_worst_of_them() {
        let report = report(&[("ar98:7", 30.0, 3.5), ("mixed:7", 42.0, 3.7)]);
        let ours = &report.contenders[0];
        assert_eq!(ours.figures.wait_ms.mean, 36.0);
        assert!((ours.scores.pesq_wb.expect("both have it") - 3.6).abs() < 1e-9);
        assert_eq!(ours.scores.plcmos, None);
        // The wait of the second, the score of the first.
        assert!((report.beside_m98.wait_ratio - 0.7).abs() < 1e-9);
        assert!((report.beside_m98.pesq_wb_lacks.expect("both") - 0.4).abs() < 1e-9);
        let table = report.to_table(false);
        assert!(table.contains("mean of 2 traces"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() < 100));
        let drawn = report.to_svg();
        assert_well_formed(&drawn);
        assert_eq!(drawn.matches(r#"r="6""#).count(), 2);
        assert_eq!(drawn.matches(r#"r="3""#).count(), 4);
        assert_eq!(report.to_csv().lines().count(), 5);
    }

    #[test]
    fn every_form_has_every_buffer_and_names_what_was_skipped() {
        let report = report(&[("ar98:7", 30.0, 3.5)]);
        let again: QualityReport = serde_json::from_str(&report.to_json()).expect("its own names");
        assert_eq!(again, report);
        let csv = report.to_csv();
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.contains("\"ar98:7\",\"glassline\",30.000,60.000,0.001000,0.000000,3.500,\n"));
        let table = report.to_table(false);
        assert!(
            table.contains("<NetEq>") && table.contains("skipped: PLCMOS"),
            "{table}"
        );
        assert!(!table.contains("mean of"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() < 100));
        assert!(report.to_table(true).contains("\x1b[1mglassline"));
        let drawn = report.to_svg();
        assert_well_formed(&drawn);
        assert_eq!(drawn.matches(r#"r="6""#).count(), 2);
    }
}
