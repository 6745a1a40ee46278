//! CSV file of a run: a row every three seconds. The first columns are those of rtsp-bench, so
//! that its plots and scripts can read the file.

use std::time::Duration;

use crate::timestamp;

/// First line of the file.
pub const HEADER: &str = "timestamp, peerConnectionCount, cpuUsage, viewers_asked, \
server_cpu_percent, server_rss_bytes, generator_cpu_percent, packets_per_second, received_mbps, \
delivered_ratio, loss_ratio, gap_p99_ms, gap_max_ms\n";

/// Time between two rows, as in rtsp-bench.
pub const INTERVAL: Duration = Duration::from_secs(3);

/// Figures since the row before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Seconds since 1970 in UTC.
    pub unix_s: u64,
    /// Viewers that receive media at this time.
    pub connected: usize,
    /// Processor time of the whole machine, 0–100.
    pub machine_cpu_percent: f64,
    /// Number of viewers in the step.
    pub viewers: usize,
    /// Processor time of the server in percent of one core; `None` if the process is not
    /// measured.
    pub server_cpu_percent: Option<f64>,
    /// Resident memory of the server at this time.
    pub server_rss_bytes: Option<u64>,
    /// Processor time of the load generator in percent of one core.
    pub generator_cpu_percent: f64,
    /// Packets per second received by all viewers together.
    pub packets_per_second: f64,
    /// Bitrate received by all viewers together.
    pub received_mbps: f64,
    /// Mean delivered ratio of viewers connected all the time; `None` if there are none.
    pub delivered_ratio: Option<f64>,
    /// Loss of viewers connected all the time.
    pub loss_ratio: Option<f64>,
    /// 99th percentile of the intervals between frames; `None` if no frame arrived.
    pub gap_p99_ms: Option<f64>,
    /// Longest interval between frames.
    pub gap_max_ms: Option<f64>,
}

impl Row {
    /// The row as one line. Unknown figures are empty.
    pub fn line(&self) -> String {
        let fixed = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let cells = [
            timestamp::rfc3339(self.unix_s),
            self.connected.to_string(),
            // Six digits, as rtsp-bench prints.
            format!("{:.6}", self.machine_cpu_percent),
            self.viewers.to_string(),
            fixed(self.server_cpu_percent, 2),
            self.server_rss_bytes
                .map_or_else(String::new, |bytes| bytes.to_string()),
            format!("{:.2}", self.generator_cpu_percent),
            format!("{:.1}", self.packets_per_second),
            format!("{:.3}", self.received_mbps),
            fixed(self.delivered_ratio, 4),
            fixed(self.loss_ratio, 6),
            fixed(self.gap_p99_ms, 2),
            fixed(self.gap_max_ms, 2),
        ];
        cells.join(", ") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_as_rtsp_bench_writes_them() {
        assert!(HEADER.starts_with("timestamp, peerConnectionCount, cpuUsage"));
        let row = Row {
            unix_s: 1_795_230_245,
            connected: 25,
            machine_cpu_percent: 12.5,
            viewers: 25,
            packets_per_second: 10_275.0,
            gap_p99_ms: Some(40.123),
            ..Row::default()
        };
        let line = row.line();
        assert!(line.starts_with("2026-11-21T"), "{line}");
        assert!(
            line.contains(", 25, 12.500000, 25, , , 0.00, 10275.0, "),
            "{line}"
        );
        let columns = |line: &str| line.matches(", ").count();
        assert_eq!(columns(&line), columns(HEADER));
        assert!(line.ends_with('\n') && HEADER.ends_with('\n'));
    }
}
