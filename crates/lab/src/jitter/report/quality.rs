//! Report of what jitter buffers do to speech: waits, concealment and scores; table, CSV, chart.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Figures;
use crate::plot::{self, Axis, COLORS, Frame, Plot, page, text};

/// Report that `glassline bench jitter --quality --json` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityReport {
    /// Name of the trace: its file, or family and seed.
    pub trace: String,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Number of packets that were sent.
    pub packets: u64,
    /// Time between two packets, in ms.
    pub interval_ms: f64,
    /// Scores that could not be given, with the reason.
    pub skipped: Vec<String>,
    /// Our buffer compared with the model of NetEq M98.
    pub beside_m98: Difference,
    /// Figures of every buffer; ours is the first and the model of NetEq M98 the second.
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
}

impl QualityReport {
    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: a head, then a line for each buffer. A score that was not given is
    /// empty.
    pub fn to_csv(&self) -> String {
        let mut out = "contender,wait_mean_ms,wait_p95_ms,concealed_ratio,stretched_ratio,\
                       pesq_wb,plcmos\n"
            .to_owned();
        let score = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.3}"));
        for Judged {
            name,
            figures,
            scores,
        } in &self.contenders
        {
            writeln!(
                out,
                "\"{name}\",{:.3},{:.3},{:.6},{:.6},{},{}",
                figures.wait_ms.mean,
                figures.wait_ms.p95,
                figures.concealed_ratio,
                figures.stretched_ratio,
                score(scores.pesq_wb),
                score(scores.plcmos)
            )
            .expect("a string takes everything");
        }
        out
    }

    /// The report as a table of fewer than a hundred columns. `color` adds ANSI colors.
    pub fn to_table(&self, color: bool) -> String {
        let (bold, dim, plain) = match color {
            true => ("\x1b[1m", "\x1b[2m", "\x1b[0m"),
            false => ("", "", ""),
        };
        let seconds = self.packets as f64 * self.interval_ms / 1e3;
        let mut out = format!(
            "{}: {} packets of {} ms, {seconds:.0} s of speech\n\n{dim}{:<22}{:>9}{:>8}{:>13}{:>13}{:>9}{:>8}{plain}\n",
            self.trace,
            self.packets,
            self.interval_ms,
            "wait, ms",
            "mean",
            "p95",
            "concealed %",
            "stretched %",
            "PESQ-WB",
            "PLCMOS"
        );
        let score = |it: Option<f64>| it.map_or("–".to_owned(), |it| format!("{it:.2}"));
        for (place, judged) in self.contenders.iter().enumerate() {
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
        for skipped in &self.skipped {
            writeln!(out, "skipped: {skipped}").expect("a string takes everything");
        }
        out
    }

    /// Draws PESQ-WB against the mean wait; higher and further left is better. Buffers without
    /// that score have no mark.
    pub fn to_svg(&self) -> String {
        let title = format!("Speech through jitter buffers on {}", self.trace);
        let about = format!(
            "{} packets of {} ms · {}",
            self.packets,
            self.interval_ms,
            self.started.get(..10).unwrap_or_default()
        );
        let mut out = page(1000.0, 470.0, &title);
        out += &plot::title(&title);
        out += &plot::subtitle(56.0, &about);
        let waits = self.contenders.iter().map(|it| it.figures.wait_ms.mean);
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
        for (judged, color) in self.contenders.iter().zip(COLORS) {
            out += &format!(
                r#"<circle cx="{:.1}" cy="77.5" r="5" fill="{color}"/>"#,
                left + 5.0
            );
            out += &text(left + 15.0, 82.0, &judged.name, "");
            left += 32.0 + 7.0 * judged.name.chars().count() as f64;
            let Some(score) = judged.scores.pesq_wb else {
                continue;
            };
            let at = (judged.figures.wait_ms.mean, score);
            let style = format!(r##"fill="{color}" stroke="#ffffff" stroke-width="1.5""##);
            plot.dot(at, 6.0, &style, &judged.name);
            plot.label(at, &format!("{score:.2}"), color);
        }
        out + &plot.finish() + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::Wait;
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

    fn report() -> QualityReport {
        let contenders = vec![judged("glassline", 30.0, 3.5), judged("<NetEq>", 60.0, 3.9)];
        QualityReport {
            trace: "ar98:7".to_owned(),
            started: "2026-11-24T10:00:00Z".to_owned(),
            version: "0.1.0".to_owned(),
            packets: 6_000,
            interval_ms: 20.0,
            skipped: vec!["PLCMOS: No module named 'speechmos'".to_owned()],
            beside_m98: Difference::of(&contenders[0], &contenders[1]),
            contenders,
        }
    }

    #[test]
    fn ours_is_compared_with_the_model_in_each_score_that_both_have() {
        let beside = report().beside_m98;
        assert!((beside.wait_ratio - 0.5).abs() < 1e-9);
        assert!((beside.pesq_wb_lacks.expect("both have it") - 0.4).abs() < 1e-9);
        assert_eq!(beside.plcmos_lacks, None);
        assert_eq!(beside.concealed_more, 0.0);
    }

    #[test]
    fn every_form_has_every_buffer_and_names_what_was_skipped() {
        let report = report();
        let again: QualityReport = serde_json::from_str(&report.to_json()).expect("its own names");
        assert_eq!(again, report);
        let csv = report.to_csv();
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.contains("\"glassline\",30.000,60.000,0.001000,0.000000,3.500,\n"));
        let table = report.to_table(false);
        assert!(
            table.contains("<NetEq>") && table.contains("skipped: PLCMOS"),
            "{table}"
        );
        assert!(table.lines().all(|line| line.chars().count() < 100));
        assert!(report.to_table(true).contains("\x1b[1mglassline"));
        let drawn = report.to_svg();
        assert_well_formed(&drawn);
        assert_eq!(drawn.matches(r#"r="6""#).count(), 2);
    }
}
