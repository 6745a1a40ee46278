//! The metrics of `/metrics` as data points of OTLP.
//!
//! One text feeds both, so that every family which Prometheus gets is there, with the same names and
//! labels. Counters become cumulative sums, gauges stay gauges, histograms stay histograms.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::resource::text;

/// Temporality of OTLP: sums count from the start of the process.
const CUMULATIVE: u8 = 2;

/// The metrics, and the number of their data points.
pub(super) struct DataPoints {
    pub(super) metrics: Vec<Value>,
    pub(super) count: usize,
}

/// Times of data points: the start of the process, and now; nanoseconds since 1970 as texts.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) start: String,
    pub(super) now: String,
}

/// Reads a text in Prometheus' format 0.0.4, as `/metrics` writes it.
pub(super) fn data_points(exposition: &str, times: &Times) -> DataPoints {
    let mut metrics = Vec::new();
    let mut count = 0;
    let mut family: Option<Family<'_>> = None;
    let mut close = |family: Option<Family<'_>>| {
        if let Some(family) = family.filter(|it| !it.rows.is_empty()) {
            let (metric, points) = family.written(times);
            metrics.push(metric);
            count += points;
        }
    };
    let mut help = "";
    for line in exposition.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            help = head.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            close(family.take());
            let (name, kind) = head.split_once(' ').unwrap_or((head, "gauge"));
            let rows = Vec::new();
            family = Some(Family {
                name,
                kind,
                help,
                rows,
            });
            help = "";
        } else if let (Some(family), Some(row)) = (&mut family, Row::parse(line)) {
            family.rows.push(row);
        }
    }
    close(family);
    DataPoints { metrics, count }
}

/// One metric with its rows.
struct Family<'a> {
    name: &'a str,
    kind: &'a str,
    help: &'a str,
    rows: Vec<Row<'a>>,
}

/// One line: `name{labels} value`.
struct Row<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

impl<'a> Row<'a> {
    /// Reads a line; `None` if it is empty or a comment.
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, labels, value) = match line.split_once('{') {
            None => {
                let (name, value) = line.split_once(' ')?;
                (name, Vec::new(), value)
            }
            Some((name, rest)) => {
                let (labels, value) = read_labels(rest)?;
                (name, labels, value)
            }
        };
        let value = value.trim();
        Some(Self {
            name,
            labels,
            value,
        })
    }

    fn attributes(&self) -> Vec<Value> {
        let labels = self.labels.iter().filter(|(name, _)| *name != "le");
        labels.map(|(name, value)| text(name, value)).collect()
    }
}

/// Reads labels behind the opening brace, and returns what follows the closing one.
fn read_labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            return Some((labels, value));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name, value));
        rest = &quoted[end..];
    }
}

impl Family<'_> {
    /// Returns the metric and the number of its data points.
    fn written(&self, times: &Times) -> (Value, usize) {
        let mut metric = json!({"name": self.name, "description": self.help});
        let points = match self.kind {
            "histogram" => self.histogram_points(times),
            _ => self
                .rows
                .iter()
                .filter_map(|it| self.point(it, times))
                .collect(),
        };
        let count = points.len();
        match self.kind {
            "histogram" => {
                metric["histogram"] =
                    json!({"aggregationTemporality": CUMULATIVE, "dataPoints": points});
            }
            "counter" => {
                metric["sum"] = json!({
                    "aggregationTemporality": CUMULATIVE,
                    "isMonotonic": true,
                    "dataPoints": points,
                });
            }
            _ => metric["gauge"] = json!({"dataPoints": points}),
        }
        (metric, count)
    }

    /// Returns the point of one row; `None` if its value is no number that JSON has.
    fn point(&self, row: &Row<'_>, times: &Times) -> Option<Value> {
        let mut point = Map::new();
        if let Ok(whole) = row.value.parse::<i64>() {
            point.insert("asInt".to_owned(), whole.to_string().into());
        } else {
            let value: f64 = row.value.parse().ok()?;
            let number = serde_json::Number::from_f64(value)?;
            point.insert("asDouble".to_owned(), number.into());
        }
        point.insert("attributes".to_owned(), row.attributes().into());
        point.insert("timeUnixNano".to_owned(), times.now.clone().into());
        if self.kind == "counter" {
            point.insert("startTimeUnixNano".to_owned(), times.start.clone().into());
        }
        Some(point.into())
    }

    /// Returns one point for each set of labels, from the rows of its buckets, sum and count.
    fn histogram_points(&self, times: &Times) -> Vec<Value> {
        let mut histograms = BTreeMap::<String, Histogram>::new();
        for row in &self.rows {
            let attributes = row.attributes();
            let key = Value::from(attributes.clone()).to_string();
            let histogram = histograms.entry(key).or_insert_with(|| Histogram {
                attributes,
                ..Histogram::default()
            });
            histogram.add(row, row.name.strip_prefix(self.name).unwrap_or_default());
        }
        let histograms = histograms.into_values();
        histograms.map(|it| it.written(times)).collect()
    }
}

/// The rows of one histogram.
#[derive(Default)]
struct Histogram {
    attributes: Vec<Value>,
    /// Upper bounds, without the infinite one.
    bounds: Vec<f64>,
    /// Numbers of values up to each bound, and of all.
    cumulative: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn add(&mut self, row: &Row<'_>, suffix: &str) {
        match suffix {
            "_sum" => self.sum = row.value.parse().unwrap_or_default(),
            "_count" => self.count = row.value.parse().unwrap_or_default(),
            _ => {
                let bound = row.labels.iter().find(|(name, _)| *name == "le");
                let bound = bound.and_then(|(_, value)| value.parse::<f64>().ok());
                self.bounds.extend(bound.filter(|it| it.is_finite()));
                self.cumulative.push(row.value.parse().unwrap_or_default());
            }
        }
    }

    fn written(self, times: &Times) -> Value {
        let before = std::iter::once(0).chain(self.cumulative.iter().copied());
        let pairs = self.cumulative.iter().zip(before);
        let buckets: Vec<String> = pairs
            .map(|(upper, lower)| upper.saturating_sub(lower).to_string())
            .collect();
        json!({
            "attributes": self.attributes,
            "startTimeUnixNano": times.start,
            "timeUnixNano": times.now,
            "count": self.count.to_string(),
            "sum": self.sum,
            "bucketCounts": buckets,
            "explicitBounds": self.bounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(exposition: &str) -> DataPoints {
        let times = Times {
            start: "1".to_owned(),
            now: "2".to_owned(),
        };
        data_points(exposition, &times)
    }

    #[test]
    fn counters_and_gauges_keep_names_labels_and_values() {
        let read = read(
            "# HELP g_viewers Viewers.\n# TYPE g_viewers gauge\n\
             g_viewers{stream=\"a \\\"b\\\" \\\\ {x},y\",protocol=\"whep\"} 3\ng_viewers 1.5\n\
             # HELP g_cpu_seconds_total Time.\n# TYPE g_cpu_seconds_total counter\n\
             g_cpu_seconds_total 9007199254740993\n\
             # HELP g_none Nothing.\n# TYPE g_none gauge\n",
        );
        let label = r#"a "b" \ {x},y"#;
        let expected = json!([
            {"name": "g_viewers", "description": "Viewers.", "gauge": {"dataPoints": [
                {"asInt": "3", "timeUnixNano": "2", "attributes": [
                    {"key": "stream", "value": {"stringValue": label}},
                    {"key": "protocol", "value": {"stringValue": "whep"}}]},
                {"asDouble": 1.5, "timeUnixNano": "2", "attributes": []}]}},
            {"name": "g_cpu_seconds_total", "description": "Time.", "sum": {
                "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
                {"asInt": "9007199254740993", "startTimeUnixNano": "1", "timeUnixNano": "2",
                 "attributes": []}]}},
        ]);
        assert_eq!(Value::from(read.metrics), expected);
        assert_eq!(read.count, 3);
    }

    #[test]
    fn the_buckets_of_a_histogram_are_counted_each_for_itself() {
        let read = read(
            "# HELP g_s Delay.\n# TYPE g_s histogram\n\
             g_s_bucket{stage=\"hub\",le=\"0.001\"} 2\ng_s_bucket{stage=\"hub\",le=\"0.01\"} 5\n\
             g_s_bucket{stage=\"hub\",le=\"+Inf\"} 6\ng_s_sum{stage=\"hub\"} 0.25\n\
             g_s_count{stage=\"hub\"} 6\n",
        );
        let point = &read.metrics[0]["histogram"]["dataPoints"][0];
        assert_eq!(point["bucketCounts"], json!(["2", "3", "1"]));
        assert_eq!(point["explicitBounds"], json!([0.001, 0.01]));
        assert_eq!(
            (&point["count"], &point["sum"]),
            (&json!("6"), &json!(0.25))
        );
        assert_eq!(
            point["attributes"].as_array().map(Vec::len),
            Some(1),
            "no `le`"
        );
        assert_eq!(read.count, 1);
    }

    #[test]
    fn what_is_no_metric_is_left_out_without_a_panic() {
        for text in [
            "",
            "a",
            "a{",
            "a{b",
            "a{b=\"",
            "a{b=\"\\",
            "# TYPE",
            "# TYPE a\na{} x\na NaN",
        ] {
            assert_eq!(read(text).count, 0, "{text}");
        }
    }
}
