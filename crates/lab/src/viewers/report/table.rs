//! Steps as lines of a table, for terminals of a hundred columns.

use std::fmt::Write as _;

use crate::viewers::bottleneck::Bottleneck;
use crate::viewers::floor::Floor;
use crate::viewers::step::Step;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Heads and widths of the columns.
const COLUMNS: [(&str, usize); 11] = [
    ("viewers", 7),
    ("joined", 7),
    ("delivered", 9),
    ("loss %", 7),
    ("p99 gap ms", 10),
    ("join p95 ms", 11),
    ("server CPU %", 12),
    ("us/packet", 9),
    ("MB", 6),
    ("generator %", 11),
    ("bottleneck", 10),
];

/// Style of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Whether to use ANSI colors.
    pub color: bool,
}

/// Figures of a step during its measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Running {
    /// Number of viewers in the step.
    pub viewers: usize,
    /// Viewers that receive media.
    pub connected: usize,
    /// Delivered ratio of the step so far.
    pub delivered_ratio: Option<f64>,
    /// Loss of the step so far.
    pub loss_ratio: Option<f64>,
    /// 99th percentile of the intervals between frames of the step so far.
    pub gap_p99_ms: Option<f64>,
    /// 95th percentile of the join times of viewers that joined in this step.
    pub join_p95_ms: Option<f64>,
    /// Processor time of the server in the last second, in percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// Resident memory of the server at this time.
    pub server_rss_bytes: Option<u64>,
    /// Processor time of the load generator in the last second, in percent of one core.
    pub generator_cpu_percent: Option<f64>,
    /// Current phase of the step.
    pub doing: &'static str,
}

impl Style {
    /// The heads of the columns, without a newline.
    pub fn head(self) -> String {
        let heads = COLUMNS.map(|(head, _)| (head.to_owned(), ""));
        let line = self.line(&heads);
        self.paint(BOLD, line.trim_end())
    }

    /// The figures of a finished step.
    pub fn step(self, step: &Step) -> String {
        let delivered = if step.is_delivered() { GREEN } else { RED };
        let bottleneck = match step.bottleneck {
            Bottleneck::None => "",
            Bottleneck::Server => RED,
            Bottleneck::Generator | Bottleneck::Machine => YELLOW,
        };
        self.line(&[
            (step.viewers.to_string(), ""),
            (step.connected.to_string(), ""),
            (ratio(Some(step.delivered_of_clock())), delivered),
            (percent(Some(step.loss_ratio)), ""),
            (figure(step.gap_ms.p99, 1), ""),
            (figure(step.join_ms.p95, 1), ""),
            (figure(step.server_cpu_percent, 1), ""),
            (figure(step.server_cpu_us_per_packet, 2), ""),
            (megabytes(step.server_rss_bytes), ""),
            (figure(Some(step.generator_cpu_percent), 1), ""),
            (step.bottleneck.name().to_owned(), bottleneck),
        ])
    }

    /// Effect of hindering clients on the step's viewers, times of DESCRIBE, and figures of HLS; `None`
    /// if none of them was measured.
    pub fn hindrance(self, step: &Step) -> Option<String> {
        let gap = |gap: Option<f64>| figure(gap, 1);
        let hol = step.hol.as_ref().map(|hol| {
            format!(
                "with {}: p99 gap {} -> {} ms, longest {} -> {} ms, {} ms more; delivered {}",
                hol.trouble.named(),
                gap(hol.baseline_gap_ms.p99),
                gap(hol.gap_ms.p99),
                gap(hol.baseline_gap_ms.max),
                gap(hol.gap_ms.max),
                gap(hol.extra_gap_ms.max),
                ratio(Some(hol.delivered_ratio)),
            )
        });
        let describe = step.describe_ms.map(|describe| {
            format!(
                "DESCRIBE: {} answered, {} not; p50 {} ms, p99 {} ms, longest {} ms",
                describe.answered,
                describe.failed,
                figure(describe.p50, 2),
                figure(describe.p99, 2),
                figure(describe.max, 2),
            )
        });
        let hls = step.hls.map(|hls| {
            format!(
                "HLS: {:.1} requests/s a viewer; {} stalls, {} % of the time; latency p50 {} ms, p95 {} ms",
                hls.requests_per_viewer_second,
                hls.stalls,
                figure(Some(hls.stalled_ratio * 100.0), 2),
                figure(hls.latency_p50_ms, 0),
                figure(hls.latency_p95_ms, 0),
            )
        });
        let indent = " ".repeat(COLUMNS[0].1 + 2);
        let lines: Vec<String> = [hol, describe, hls]
            .into_iter()
            .flatten()
            .map(|line| format!("{indent}{line}"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The figures of the step that is being measured.
    pub fn running(self, now: &Running) -> String {
        let line = self.line(&[
            (now.viewers.to_string(), ""),
            (now.connected.to_string(), ""),
            (ratio(now.delivered_ratio), ""),
            (percent(now.loss_ratio), ""),
            (figure(now.gap_p99_ms, 1), ""),
            (figure(now.join_p95_ms, 1), ""),
            (figure(now.server_cpu_percent, 1), ""),
            (String::new(), ""),
            (megabytes(now.server_rss_bytes), ""),
            (figure(now.generator_cpu_percent, 1), ""),
            (now.doing.to_owned(), ""),
        ]);
        self.paint(DIM, &line)
    }

    /// The floor beside the steps that it was measured for.
    pub fn floor(self, floor: &Floor, steps: &[Step]) -> String {
        let mut out = self.paint(
            BOLD,
            "viewers  floor ms/viewer-s  us/packet  delivered  server ms/viewer-s  server ÷ floor",
        );
        for cost in &floor.steps {
            let step = steps.iter().find(|step| step.viewers == cost.viewers);
            let server = step.and_then(|step| step.server_cpu_ms_per_viewer_second);
            let ratio_to_floor = step.and_then(|step| step.server_cpu_to_floor_ratio);
            write!(
                out,
                "\n{:>7}  {:>17.3}  {:>9.2}  {:>9}  {:>18}  {:>14}",
                cost.viewers,
                cost.cpu_ms_per_viewer_second,
                cost.cpu_us_per_packet,
                ratio(Some(cost.delivered_ratio)),
                figure(server, 3),
                figure(ratio_to_floor, 2),
            )
            .expect("a string takes everything");
        }
        out
    }

    /// The verdict, in lines no longer than the table's.
    pub fn verdict(self, text: &str) -> String {
        let width = COLUMNS.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let last = lines.last_mut().expect("there is one from the start");
            let needed = last.chars().count() + 1 + word.chars().count();
            if last.is_empty() {
                *last += word;
            } else if needed > width {
                lines.push(word.to_owned());
            } else {
                *last += " ";
                *last += word;
            }
        }
        self.paint(BOLD, &lines.join("\n"))
    }

    fn line(self, cells: &[(String, &'static str)]) -> String {
        let mut out = String::new();
        for ((_, width), (text, color)) in COLUMNS.iter().zip(cells) {
            if !out.is_empty() {
                out += "  ";
            }
            // Padded before colors are added, which have no width.
            let padded = format!("{text:>width$}");
            out += &self.paint(color, &padded);
        }
        out
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !code.is_empty() {
            format!("{code}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

/// A figure with `digits` behind the point, or a dash.
fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn ratio(value: Option<f64>) -> String {
    figure(value, 4)
}

fn percent(ratio: Option<f64>) -> String {
    figure(ratio.map(|ratio| ratio * 100.0), 3)
}

fn megabytes(bytes: Option<u64>) -> String {
    figure(bytes.map(|bytes| bytes as f64 / 1e6), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewers::step::example;

    fn width(line: &str) -> usize {
        line.chars().count()
    }

    #[test]
    fn figures_of_hls_are_a_line_below_the_step() {
        let mut step = example(10);
        assert_eq!(Style::default().hindrance(&step), None);
        step.hls = Some(crate::viewers::timing::Hls {
            requests_per_viewer_second: 10.04,
            stalls: 3,
            stalled_ratio: 0.0125,
            latency_p50_ms: Some(801.4),
            latency_p95_ms: None,
        });
        let line = Style::default().hindrance(&step).expect("a line");
        let wanted = "HLS: 10.0 requests/s a viewer; 3 stalls, 1.25 % of the time; latency p50 801 ms, p95 – ms";
        assert_eq!(line.trim_start(), wanted);
    }

    #[test]
    fn heads_and_figures_line_up_whatever_they_are() {
        let style = Style::default();
        let head = style.head();
        let mut large = example(10_000);
        large.gap_ms.p99 = Some(12_345.6);
        large.loss_ratio = 0.5;
        large.bottleneck = Bottleneck::Generator;
        for line in [
            style.step(&example(25)),
            style.step(&large),
            style.running(&Running::default()),
        ] {
            assert_eq!(width(&line), width(&head), "{head}\n{line}");
        }
        assert!(width(&head) <= 120);
    }

    #[test]
    fn colors_only_if_wanted_and_without_width() {
        let step = Step {
            bottleneck: Bottleneck::Server,
            delivered_ratio: 0.5,
            ..example(25)
        };
        let plain = Style::default().step(&step);
        assert!(!plain.contains('\x1b'));
        let mut colored = Style { color: true }.step(&step);
        assert!(colored.contains(RED));
        for code in [RED, GREEN, YELLOW, BOLD, DIM, PLAIN] {
            colored = colored.replace(code, "");
        }
        assert_eq!(colored, plain);
    }

    #[test]
    fn the_last_words_are_no_wider_than_the_table() {
        let style = Style::default();
        let words = format!("{} {}", "word ".repeat(60).trim(), "x".repeat(300));
        let text = style.verdict(&words);
        let (long, short): (Vec<&str>, Vec<&str>) = text
            .lines()
            .partition(|line| width(line) > width(&style.head()));
        assert_eq!((long, short.len()), (vec!["x".repeat(300).as_str()], 3));
        assert_eq!(text.replace('\n', " "), words);
    }

    #[test]
    fn hindered_viewers_have_a_line_of_their_own() {
        let style = Style::default();
        let mut step = example(20);
        assert_eq!(style.hindrance(&step), None);
        step.describe_ms = Some(crate::viewers::timing::Describe::default());
        step.hol = Some(crate::viewers::trouble::Hol {
            trouble: crate::viewers::trouble::Trouble {
                stalled: 1,
                ..crate::viewers::trouble::Trouble::default()
            },
            extra_gap_ms: crate::viewers::timing::Gap {
                p99: None,
                max: Some(480.04),
            },
            ..crate::viewers::trouble::Hol::default()
        });
        let text = style.hindrance(&step).expect("two lines");
        assert!(
            text.contains("with 1 stalled") && text.contains("480.0 ms more"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| width(line) <= 120));
    }

    #[test]
    fn the_floor_stands_beside_its_step() {
        let mut step = example(100);
        step.server_cpu_to_floor_ratio = Some(1.33);
        let text = Style::default().floor(&crate::viewers::floor::example(), &[step]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(width(lines[0]), width(lines[1]), "{text}");
        assert!(lines[1].ends_with("1.33"), "{text}");
    }
}
