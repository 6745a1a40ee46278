//! Report of a run for tools ([`Report`] as JSON, [`csv`]) and for people ([`table`], [`svg`]).

use serde::{Deserialize, Serialize};

use crate::machine;
use crate::viewers::floor::Floor;
use crate::viewers::step::Step;

pub mod csv;
pub mod svg;
pub mod table;

/// Report of a run of `glassline bench viewers`, which `--json` writes and `--overlay` reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the run in charts and tables.
    pub label: String,
    /// URL of the stream, without its password.
    pub url: String,
    /// Protocol: `whep`, `doSignaling`, `rtsp/tcp` or `rtsp/udp`.
    pub protocol: String,
    /// Begin of the run in UTC (RFC 3339).
    #[serde(default)]
    pub started: String,
    /// Version of Glassline, which was the load generator.
    #[serde(default)]
    pub version: String,
    /// Machine that the run was made on.
    pub machine: machine::Description,
    /// Figures of the server before the first viewer, if its process was measured.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// Steps of the ramp, ascending.
    pub steps: Vec<Step>,
    /// Cost of the same traffic without a server, if it was measured.
    pub floor: Option<Floor>,
    /// Reason why the ramp ended early.
    #[serde(default)]
    pub stopped: Option<String>,
    /// Summary in a sentence or two.
    pub verdict: String,
}

/// Figures of a server without viewers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Processor time of all threads of the process tree, in percent of one core.
    pub server_cpu_percent: f64,
    /// Resident memory of the process tree.
    pub server_rss_bytes: u64,
}

/// Error for a file that is no report.
#[derive(Debug, thiserror::Error)]
#[error("the file is no report of `glassline bench viewers --json`: {0}")]
pub struct NoReport(#[from] serde_json::Error);

impl Report {
    /// Reads a report that [`Self::to_json`] or a tool with the same names wrote.
    pub fn from_json(text: &str) -> Result<Self, NoReport> {
        Ok(serde_json::from_str(text)?)
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }
}

#[cfg(test)]
pub(crate) fn example(label: &str, steps: Vec<Step>) -> Report {
    Report {
        label: label.to_owned(),
        url: "http://127.0.0.1:8889/demo/whep".to_owned(),
        protocol: "whep".to_owned(),
        started: "2026-11-21T03:00:00Z".to_owned(),
        version: "0.1.0".to_owned(),
        machine: machine::Description {
            cpu: Some("A processor".to_owned()),
            cores: 2,
            kernel: Some("Linux 6.18".to_owned()),
            memory_bytes: Some(8 << 30),
            load_1m: Some(0.2),
        },
        baseline: None,
        steps,
        floor: None,
        stopped: None,
        verdict: "fine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewers::{step, timing};
    use serde_json::Value;

    fn names(value: &Value) -> Vec<&str> {
        let object = value.as_object().expect("an object");
        object.keys().map(String::as_str).collect()
    }

    /// Tools read these names: a change here is a change for users.
    #[test]
    fn the_names_that_tools_read_stay() {
        let mut report = example("a", vec![step::example(25)]);
        report.steps[0].hol = Some(crate::viewers::trouble::Hol::default());
        report.steps[0].describe_ms = Some(timing::Describe::default());
        report.steps[0].delay_ms = Some(timing::Delay {
            p50: 1.0,
            p95: 2.0,
            p99: 3.0,
        });
        report.baseline = Some(Baseline {
            server_cpu_percent: 1.0,
            server_rss_bytes: 1,
        });
        report.floor = Some(crate::viewers::floor::example());
        let json: Value = serde_json::from_str(&report.to_json()).expect("our own JSON");
        for name in [
            "label", "url", "protocol", "machine", "steps", "floor", "verdict", "baseline",
            "started", "stopped", "version",
        ] {
            assert!(names(&json).contains(&name), "{name}");
        }
        assert_eq!(
            names(&json["machine"]),
            ["cores", "cpu", "kernel", "load_1m", "memory_bytes"]
        );
        let mut step = names(&json["steps"][0]);
        step.sort_unstable();
        assert_eq!(
            step,
            [
                "bad_clients",
                "bottleneck",
                "connected",
                "delay_ms",
                "delivered_ratio",
                "describe_ms",
                "duration_s",
                "failed",
                "first_failure",
                "frames_damaged",
                "frames_verified",
                "gap_ms",
                "generator_busiest_thread_percent",
                "generator_cpu_percent",
                "hls",
                "hol",
                "join_ms",
                "loss_ratio",
                "machine_busiest_core_percent",
                "machine_cpu_percent",
                "machine_stolen_percent",
                "packets_expected",
                "packets_nacked",
                "packets_received",
                "packets_recovered",
                "reason",
                "received_mbps",
                "rtp_clock_ratio",
                "server_busiest_thread_percent",
                "server_cpu_ms_per_viewer_second",
                "server_cpu_percent",
                "server_cpu_to_floor_ratio",
                "server_cpu_us_per_packet",
                "server_rss_bytes",
                "server_rss_bytes_per_viewer",
                "slowest_viewer_ratio",
                "stages",
                "viewers",
            ]
        );
        let step = &json["steps"][0];
        assert_eq!(names(&step["join_ms"]), ["all", "max", "p50", "p95"]);
        assert_eq!(names(&step["gap_ms"]), ["max", "p99"]);
        assert_eq!(names(&step["delay_ms"]), ["p50", "p95", "p99"]);
        assert_eq!(
            names(&step["describe_ms"]),
            ["answered", "failed", "max", "p50", "p99"]
        );
        assert_eq!(
            names(&step["hol"]),
            [
                "baseline_gap_ms",
                "delivered_ratio",
                "duration_s",
                "extra_gap_ms",
                "failed",
                "gap_ms",
                "loss_ratio",
                "slow",
                "slow_bytes_per_second",
                "stalled",
                "stalled_over_tcp",
                "tiny_window",
                "trouble_ended",
            ]
        );
        assert_eq!(names(&step["hol"]["extra_gap_ms"]), ["max", "p99"]);
        assert_eq!(step["bottleneck"], "none");
        assert_eq!(
            names(&json["floor"]),
            [
                "datagram_bytes_mean",
                "packets_per_viewer_second",
                "segmentation",
                "source",
                "steps"
            ]
        );
        assert_eq!(
            names(&json["floor"]["steps"][0]),
            [
                "cpu_ms_per_viewer_second",
                "cpu_us_per_packet",
                "delivered_ratio",
                "duration_s",
                "packets",
                "viewers"
            ]
        );
    }

    #[test]
    fn a_report_reads_itself_and_says_what_is_none() {
        let report = example("a", vec![step::example(25), step::example(50)]);
        let again = Report::from_json(&report.to_json()).expect("our own JSON");
        assert_eq!(again, report);
        let older = r#"{"label": "x", "url": "y", "protocol": "whep", "machine": {"cores": 2},
            "steps": [{"viewers": 5, "delivered_ratio": 0.5}], "floor": null, "verdict": ""}"#;
        let older = Report::from_json(older).expect("the names that never change");
        assert!((older.steps[0].delivered_of_clock() - 0.5).abs() < 1e-9);
        for text in ["", "[]", "{\"steps\": 1}", "{\"label\": \"x\"}"] {
            let error = Report::from_json(text).expect_err(text).to_string();
            assert!(error.contains("bench viewers --json"), "{error}");
        }
    }
}
