//! Reports of `glassline bench viewers --json`, as far as a comparison needs them.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Delivered share from which on a server keeps up and its cost is comparable.
pub(super) const COMPARABLE: f64 = 0.99;

fn report(path: &Path) -> Result<Value, String> {
    let failed = |what: String| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// A run against one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) steps: Vec<Step>,
    /// Floor: the least that the same packets cost on this machine.
    pub(super) floor: Vec<Floor>,
    /// Whether the server process ended under the load.
    pub(super) has_crashed: bool,
}

/// One step of the ramp. `None` for figures that could not be measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Number of viewers of the step.
    pub(super) viewers: u64,
    /// Advance of RTP time less losses, over wall time; viewers that never connected count as 0.
    pub(super) delivered: f64,
    /// Processor time of the server in ms per viewer and second.
    pub(super) cpu_ms: Option<f64>,
    pub(super) rss_bytes_per_viewer: Option<f64>,
    pub(super) join_ms: (Option<f64>, Option<f64>),
    pub(super) gap_ms_p99: Option<f64>,
    /// Times of answers to DESCRIBE, p50 and p99.
    pub(super) describe_ms: (Option<f64>, Option<f64>),
    pub(super) server_cpu_percent: Option<f64>,
    pub(super) bottleneck: String,
}

/// The floor at this number of viewers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Floor {
    pub(super) viewers: u64,
    pub(super) delivered: Option<f64>,
    /// Processor time in ms per viewer and second.
    pub(super) cpu_ms: Option<f64>,
}

impl Run {
    /// Reads the report of one run, in JSON.
    pub(super) fn read(path: &Path) -> Result<Run, String> {
        let report = report(path)?;
        Run::from_json(&report).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn from_json(report: &Value) -> Result<Run, String> {
        let steps = report["steps"].as_array().ok_or("there are no `steps`")?;
        let steps = steps.iter().map(Step::from_json);
        let floor = report["floor"]["steps"].as_array();
        let floor = floor.into_iter().flatten().filter_map(|step| {
            Some(Floor {
                viewers: step["viewers"].as_u64()?,
                delivered: step["delivered_ratio"].as_f64(),
                cpu_ms: step["cpu_ms_per_viewer_second"].as_f64(),
            })
        });
        Ok(Run {
            steps: steps.collect::<Result<_, _>>()?,
            floor: floor.collect(),
            has_crashed: false,
        })
    }

    /// The step with this number of viewers.
    pub(super) fn at(&self, viewers: u64) -> Option<&Step> {
        self.steps.iter().find(|step| step.viewers == viewers)
    }

    /// Largest number of viewers that received at least [`COMPARABLE`] of the stream.
    pub(super) fn most(&self) -> Option<u64> {
        self.steps
            .iter()
            .filter(|step| step.viewers > 0 && step.delivered >= COMPARABLE)
            .map(|step| step.viewers)
            .max()
    }

    /// The first step with a bottleneck, and its name.
    pub(super) fn first_limit(&self) -> Option<(&str, u64)> {
        self.steps.iter().find_map(|step| match &*step.bottleneck {
            "none" if step.delivered >= COMPARABLE => None,
            "none" => Some(("fell behind", step.viewers)),
            side => Some((side, step.viewers)),
        })
    }

    /// The floor at this number of viewers.
    pub(super) fn floor_at(&self, viewers: u64) -> Option<Floor> {
        self.floor
            .iter()
            .find(|floor| floor.viewers == viewers)
            .copied()
    }
}

impl Step {
    fn from_json(step: &Value) -> Result<Step, String> {
        let viewers = step["viewers"].as_u64().ok_or("a step without `viewers`")?;
        // Some servers' RTP clocks run much too fast; the report says by how much.
        let clock = step["rtp_clock_ratio"].as_f64();
        let clock = clock.filter(|ratio| *ratio > 0.0).unwrap_or(1.0);
        let ratio = step["delivered_ratio"].as_f64().unwrap_or(0.0) / clock;
        let connected = step["connected"].as_u64().unwrap_or(viewers).min(viewers);
        let share = if viewers == 0 {
            1.0
        } else {
            connected as f64 / viewers as f64
        };
        let bottleneck = step["bottleneck"].as_str().unwrap_or("none");
        Ok(Step {
            viewers,
            delivered: ratio * share,
            cpu_ms: step["server_cpu_ms_per_viewer_second"].as_f64(),
            rss_bytes_per_viewer: step["server_rss_bytes_per_viewer"].as_f64(),
            join_ms: (
                step["join_ms"]["p50"].as_f64(),
                step["join_ms"]["p95"].as_f64(),
            ),
            gap_ms_p99: step["gap_ms"]["p99"].as_f64(),
            describe_ms: (
                step["describe_ms"]["p50"].as_f64(),
                step["describe_ms"]["p99"].as_f64(),
            ),
            server_cpu_percent: step["server_cpu_percent"].as_f64(),
            bottleneck: bottleneck.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(viewers: u64, connected: u64, delivered: f64, bottleneck: &str) -> Value {
        json!({
            "viewers": viewers, "connected": connected, "delivered_ratio": delivered,
            "join_ms": {"p50": 10.5, "p95": 20.0}, "gap_ms": {"p99": 40.0, "max": 90.0},
            "server_cpu_percent": 44.0,
            "server_cpu_ms_per_viewer_second": 4.4, "server_rss_bytes": 3_000_000,
            "server_rss_bytes_per_viewer": 2_600_000, "bottleneck": bottleneck,
            "describe_ms": {"answered": 50, "failed": 0, "p50": 1.5, "p99": 9.0, "max": 9.5},
        })
    }

    fn run(steps: &[Value]) -> Run {
        let report = json!({"label": "x", "steps": steps, "floor": null, "verdict": ""});
        Run::from_json(&report).expect("a report")
    }

    #[test]
    fn a_step_is_read() {
        let run = run(&[step(100, 100, 0.998, "none")]);
        let step = run.at(100).expect("the step");
        assert_eq!(step.cpu_ms, Some(4.4));
        assert_eq!(step.rss_bytes_per_viewer, Some(2.6e6));
        assert_eq!(step.join_ms, (Some(10.5), Some(20.0)));
        assert_eq!(step.gap_ms_p99, Some(40.0));
        assert_eq!(step.describe_ms, (Some(1.5), Some(9.0)));
        assert!(run.at(50).is_none());
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let bare = json!({"viewers": 5, "delivered_ratio": 1.0, "server_cpu_percent": null});
        let run = run(&[bare]);
        let step = run.at(5).expect("the step");
        assert_eq!(step.cpu_ms, None);
        assert_eq!(step.bottleneck, "none");
        assert!(run.first_limit().is_none());
    }

    #[test]
    fn the_most_viewers_are_those_that_really_were_served() {
        let run = run(&[
            step(0, 0, 1.0, "none"),
            step(25, 25, 0.9995, "none"),
            step(50, 50, 0.995, "none"),
            step(75, 30, 1.0, "server"),
            step(100, 100, 0.4, "machine"),
        ]);
        assert_eq!(run.most(), Some(50));
        assert_eq!(run.first_limit(), Some(("server", 75)));
    }

    #[test]
    fn a_clock_that_runs_fast_does_not_count_as_delivery() {
        let mut steps = [step(25, 25, 30.3, "none"), step(50, 50, 15.0, "none")];
        for step in &mut steps {
            step["rtp_clock_ratio"] = 30.3.into();
        }
        let run = run(&steps);
        assert_eq!(run.most(), Some(25));
        assert_eq!(run.first_limit(), Some(("fell behind", 50)));
    }

    #[test]
    fn the_floor_is_read_where_there_is_one() {
        let report = json!({"steps": [], "floor": {"steps": [
            {"viewers": 100, "cpu_ms_per_viewer_second": 0.6},
        ]}});
        let run = Run::from_json(&report).expect("a report");
        let floor = run.floor_at(100).expect("a floor");
        assert_eq!(floor.cpu_ms, Some(0.6));
        assert_eq!(run.floor_at(99), None);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        assert!(Run::from_json(&json!({})).is_err());
        assert!(Run::from_json(&json!({"steps": [{}]})).is_err());
    }
}
