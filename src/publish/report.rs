//! Figures of a published stream: a CSV row every second, and a JSON document at the end.

use std::time::Duration;

use glassline_client::publish::session::Figures;
use glassline_client::publish::uplink::{Destination, Feedback};
use glassline_client::publish::{Algorithm, Rule};
use serde_json::{Value, json};

use crate::bench::files::Output;
use crate::exit::Failure;

/// Time between two rows.
const PERIOD: Duration = Duration::from_secs(1);

/// Number of rows that are kept for the JSON document: a day. Later rows are in the CSV file
/// only.
const ROWS_MAX: usize = 86_400;

/// Collects and writes the figures of one stream.
pub(super) struct Report {
    algorithm: Algorithm,
    rule: Rule,
    csv: Option<Output>,
    rows: Vec<Row>,
    /// Figures at the time of the last row.
    last: Figures,
    /// First failure of a write. The stream goes on; the failure is reported at its end.
    failure: Option<Failure>,
}

/// Figures of one second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    time_s: f64,
    goodput_mbps: f64,
    target_mbps: f64,
    deliverable_mbps: Option<f64>,
    transport_rtt_ms: Option<f64>,
    app_rtt_ms: Option<f64>,
    backlog_bytes: u64,
    queue_delay_ms: f64,
    dropped_units: u64,
    raw_dropped: u64,
    skipped: u64,
    lost_bytes: u64,
}

const HEADER: &str = "time_s,goodput_mbps,target_mbps,deliverable_mbps,transport_rtt_ms,\
                      app_rtt_ms,backlog_bytes,queue_delay_ms,dropped_units,raw_dropped,\
                      encoder_skipped,lost_bytes\n";

impl Report {
    pub(super) fn new(algorithm: Algorithm, rule: Rule, csv: Option<Output>) -> Self {
        let mut report = Self {
            algorithm,
            rule,
            csv,
            rows: Vec::new(),
            last: Figures::default(),
            failure: None,
        };
        report.write(HEADER);
        report
    }

    /// Whether the rows go to stdout.
    pub(super) fn is_on_stdout(&self) -> bool {
        self.csv.as_ref().is_some_and(Output::is_stdout)
    }

    /// Takes the latest figures; writes a row when a second has passed since the last one.
    pub(super) fn take(&mut self, figures: &Figures) {
        if figures.elapsed < self.last.elapsed + PERIOD {
            return;
        }
        let row = Row::between(&self.last, figures);
        self.write(&row.line());
        if self.rows.len() < ROWS_MAX {
            self.rows.push(row);
        }
        self.last = figures.clone();
    }

    /// Writes the JSON document, and returns the first failure of a write.
    pub(super) fn finish(
        self,
        destination: &Destination,
        figures: &Figures,
        json: Option<Output>,
    ) -> Result<(), Failure> {
        if let Some(mut output) = json {
            let document = self.document(destination, figures);
            output.write(&format!("{document:#}\n"))?;
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn document(&self, destination: &Destination, figures: &Figures) -> Value {
        let dropped = figures.dropped;
        let path = figures.path;
        json!({
            "destination": destination.to_string(),
            "congestion": self.algorithm.as_str(),
            "adaptation": self.rule.as_str(),
            "feedback": path.feedback.map(Feedback::as_str),
            "duration_s": figures.elapsed.as_secs_f64(),
            "goodput_mbps": mbps(figures.handed_bytes, figures.elapsed),
            "made_units": figures.made_units,
            "made_bytes": figures.made_bytes,
            "sent_bytes": figures.handed_bytes,
            "wire_bytes": path.sent_bytes,
            "acknowledged_bytes": path.delivered_bytes,
            "lost_bytes": path.lost_bytes,
            "rtx_overhead": ratio(path.lost_bytes, path.delivered_bytes),
            "dropped": {
                "late_units": dropped.late_units,
                "full_units": dropped.full_units,
                "broken_units": dropped.broken_units,
                "bytes": dropped.bytes,
                "groups_reset": dropped.resets,
                "raw_pictures": figures.raw_dropped,
                "encoder_skipped": figures.skipped,
            },
            "rendition_switches": figures.switches,
            "reconnects": figures.reconnects,
            "intervals": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }

    fn write(&mut self, text: &str) {
        if let Some(csv) = &mut self.csv
            && let Err(failure) = csv.write(text)
        {
            // Later failures mostly have the same cause.
            self.failure.get_or_insert(failure);
        }
    }
}

fn mbps(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds / 1e6
    } else {
        0.0
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Row {
    fn between(before: &Figures, now: &Figures) -> Self {
        let elapsed = now.elapsed.saturating_sub(before.elapsed);
        let handed = now.handed_bytes.saturating_sub(before.handed_bytes);
        Self {
            time_s: now.elapsed.as_secs_f64(),
            goodput_mbps: mbps(handed, elapsed),
            target_mbps: now.target.mbps(),
            deliverable_mbps: now.deliverable.map(glassline_media::Bitrate::mbps),
            transport_rtt_ms: now.path.transport_rtt.map(millis),
            app_rtt_ms: now.path.app_rtt.map(millis),
            backlog_bytes: now.backlog_bytes,
            queue_delay_ms: millis(now.queue_delay),
            dropped_units: now.dropped.units(),
            raw_dropped: now.raw_dropped,
            skipped: now.skipped,
            lost_bytes: now.path.lost_bytes,
        }
    }

    /// The row as a CSV line. Unknown values are empty, not zero.
    fn line(&self) -> String {
        let known = |value: Option<f64>| value.map_or_else(String::new, |it| format!("{it:.3}"));
        format!(
            "{:.2},{:.3},{:.3},{},{},{},{},{:.1},{},{},{},{}\n",
            self.time_s,
            self.goodput_mbps,
            self.target_mbps,
            known(self.deliverable_mbps),
            known(self.transport_rtt_ms),
            known(self.app_rtt_ms),
            self.backlog_bytes,
            self.queue_delay_ms,
            self.dropped_units,
            self.raw_dropped,
            self.skipped,
            self.lost_bytes
        )
    }

    fn json(&self) -> Value {
        json!({
            "time_s": self.time_s,
            "goodput_mbps": self.goodput_mbps,
            "target_mbps": self.target_mbps,
            "deliverable_mbps": self.deliverable_mbps,
            "transport_rtt_ms": self.transport_rtt_ms,
            "app_rtt_ms": self.app_rtt_ms,
            "backlog_bytes": self.backlog_bytes,
            "queue_delay_ms": self.queue_delay_ms,
            "dropped_units": self.dropped_units,
            "raw_dropped": self.raw_dropped,
            "encoder_skipped": self.skipped,
            "lost_bytes": self.lost_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Bitrate;

    fn figures(seconds: u64, handed_bytes: u64) -> Figures {
        let mut figures = Figures::default();
        figures.elapsed = Duration::from_secs(seconds);
        figures.handed_bytes = handed_bytes;
        figures.target = Bitrate::from_bps(2_000_000);
        figures
    }

    #[test]
    fn rows_are_of_their_second_and_as_wide_as_the_header() {
        let row = Row::between(&figures(3, 1000), &figures(4, 251_000));
        assert!((row.goodput_mbps - 2.0).abs() < 1e-9);
        let line = row.line();
        assert_eq!(line.matches(',').count(), HEADER.matches(',').count());
        assert!(line.starts_with("4.00,2.000,2.000,,,,0,"), "{line}");
        assert_eq!(row.json()["app_rtt_ms"], Value::Null, "unknown is not zero");
    }

    #[test]
    fn a_row_a_second_and_all_at_the_end() {
        let mut report = Report::new(Algorithm::Cubic, Rule::Study, None);
        for quarter in 0..=12 {
            let mut now = figures(0, quarter * 1000);
            now.elapsed = Duration::from_millis(quarter * 250);
            report.take(&now);
        }
        assert_eq!(report.rows.len(), 3);
        let destination = Destination::parse("moq://h/cam?token=secret", Default::default());
        let document = report.document(&destination.expect("a URL"), &figures(3, 12_000));
        assert_eq!(document["congestion"], "cubic");
        assert_eq!(document["intervals"].as_array().map(Vec::len), Some(3));
        assert!(!document.to_string().contains("secret"));
    }
}
