//! The run as it happens: a row every three seconds, whose first columns are
//! those of rtsp-bench, so that its plots and scripts take the file.

use std::time::Duration;

/// The first line.
pub const HEADER: &str = "timestamp, peerConnectionCount, cpuUsage, viewers_asked, \
server_cpu_percent, server_rss_bytes, generator_cpu_percent, packets_per_second, received_mbps, \
delivered_ratio, loss_ratio, gap_p99_ms, gap_max_ms\n";

/// Between two rows, as there.
pub const INTERVAL: Duration = Duration::from_secs(3);

/// What happened since the row before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Seconds since 1970, UTC.
    pub unix_s: u64,
    /// Viewers that have media at this moment.
    pub connected: usize,
    /// Of the whole machine, 0–100.
    pub machine_cpu_percent: f64,
    /// Viewers asked for.
    pub viewers: usize,
    /// Of one core; `None` without a process to watch.
    pub server_cpu_percent: Option<f64>,
    /// Memory of the server at this moment.
    pub server_rss_bytes: Option<u64>,
    /// Of one core.
    pub generator_cpu_percent: f64,
    /// Received by all viewers together.
    pub packets_per_second: f64,
    /// Received by all viewers together.
    pub received_mbps: f64,
    /// Of those connected all the while; `None` if there are none.
    pub delivered_ratio: Option<f64>,
    /// Of those connected all the while.
    pub loss_ratio: Option<f64>,
    /// Between frames; `None` if none came.
    pub gap_p99_ms: Option<f64>,
    /// Between frames.
    pub gap_max_ms: Option<f64>,
}

impl Row {
    /// One line. Figures that are missing are empty.
    pub fn line(&self) -> String {
        let fixed = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let cells = [
            timestamp(self.unix_s),
            self.connected.to_string(),
            // Six digits, as rtsp-bench prints it.
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

/// RFC 3339 in UTC, like `2026-11-21T03:04:05Z`.
pub fn timestamp(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day in the Gregorian calendar, `days` after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day at the end, so that months
    // have a regular pattern of 153 days in five. Eras are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
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

    #[test]
    fn dates_know_leap_years() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(unix_s), text);
        }
    }
}
