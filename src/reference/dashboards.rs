//! The dashboard and the alert rules of `contrib/`: what they ask for is what the server exports.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::metrics::scrape_until;

/// Labels that Prometheus adds itself.
const ADDED: [&str; 2] = ["instance", "job"];

/// Ends of the names of a histogram's rows.
const OF_HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Labels of metrics that have rows only with a viewer who is connected, or once one was lost.
const LATER: [(&str, &str, &[&str]); 2] = [
    ("glassline_webrtc_paths", "path", &["direct", "relayed"]),
    (
        "glassline_connection_failures_total",
        "stage",
        &["connected"],
    ),
];

/// Values of each label, by metric and label.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_the_server_exports() {
    // A stream has stages once it was published for a moment.
    let mut exported = exported(&scrape_until("glassline_stage_latency_seconds_count"));
    for (metric, label, values) in LATER {
        let labels = exported.get_mut(metric).expect("a metric");
        let known = labels.entry(label.to_owned()).or_default();
        for value in values {
            assert!(known.insert((*value).to_owned()), "{metric} has {value}");
        }
    }
    let mut problems = Vec::new();
    let asked = asked();
    assert!(asked.len() > 40, "{} queries", asked.len());
    for query in &asked {
        let found = query.problems(&exported);
        problems.extend(found.into_iter().map(|it| format!("{}: {it}", query.place)));
    }
    assert_eq!(problems, Vec::<String>::new());
}

/// A query with the labels that are shown of its answer.
struct Query {
    place: String,
    expression: String,
    shown: Vec<String>,
}

/// The queries of the dashboard and of the rules.
fn asked() -> Vec<Query> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib");
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let dashboard: Value = serde_json::from_str(&read("grafana/glassline.json")).expect("JSON");
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            asked.push(Query {
                place: format!("panel {}", panel["title"]),
                expression: text(&target["expr"]),
                shown: braced(&text(&target["legendFormat"]), ""),
            });
        }
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
    {
        let Some(query) = variable["query"]["query"].as_str() else {
            continue;
        };
        let inner = query.strip_prefix("label_values(").expect("label_values");
        let (metric, label) = inner
            .trim_end_matches(')')
            .split_once(", ")
            .expect("a label");
        asked.push(Query {
            place: format!("variable {}", variable["name"]),
            expression: metric.to_owned(),
            shown: vec![label.to_owned()],
        });
    }
    let rules = read("prometheus/alerts.yml");
    for rule in rules.split("- alert: ").skip(1) {
        let line = |key: &str| {
            let mut lines = rule.lines().map(str::trim);
            let found = lines.find_map(|line| line.strip_prefix(key));
            found
                .unwrap_or_else(|| panic!("no {key} in {rule}"))
                .to_owned()
        };
        asked.push(Query {
            place: format!("alert {}", rule.lines().next().unwrap_or_default()),
            expression: line("expr: "),
            shown: braced(&(line("summary: ") + &line("description: ")), "$labels."),
        });
    }
    asked
}

impl Query {
    /// The names that the query asks for and the server does not export.
    fn problems(&self, exported: &Exported) -> Vec<String> {
        let mut problems = Vec::new();
        let mut labels = BTreeSet::from(ADDED.map(str::to_owned));
        for (before, name, rest) in metrics(&self.expression) {
            let base = OF_HISTOGRAM.iter().find_map(|end| name.strip_suffix(end));
            let base = base
                .filter(|base| exported.contains_key(*base))
                .unwrap_or(name);
            let Some(of_metric) = exported.get(base) else {
                problems.push(format!("there is no metric {name}"));
                continue;
            };
            let is_rate = before.ends_with("rate(") || before.ends_with("increase(");
            let is_counter = name != base || name.ends_with("_total");
            // Rows are counted, or listed, whatever their values are.
            let is_listed = before.contains("count by (") || self.expression == name;
            if is_rate != is_counter && !is_listed {
                problems.push(format!("{name} is no counter, or asked for without a rate"));
            }
            labels.extend(of_metric.keys().cloned());
            problems.extend(selected(rest).into_iter().filter_map(|(label, value)| {
                let values = of_metric.get(&label);
                match values {
                    None if ADDED.contains(&label.as_str()) => None,
                    None => Some(format!("{name} has no label {label}")),
                    Some(_) if value.contains('$') => None,
                    Some(values) => {
                        let mut alternatives = value.split('|');
                        let unknown = alternatives.find(|it| !values.contains(*it));
                        unknown.map(|it| format!("{name} has no {label}=\"{it}\""))
                    }
                }
            }));
        }
        let mut used = self.shown.clone();
        for group in self.expression.split("by (").skip(1) {
            let (group, _) = group.split_once(')').expect("a group ends");
            used.extend(group.split(", ").map(str::to_owned));
        }
        let unknown = used.into_iter().filter(|label| !labels.contains(label));
        problems.extend(unknown.map(|label| format!("nothing has a label {label}")));
        problems
    }
}

/// The metrics of an expression, each with the text before and after its name.
fn metrics(expression: &str) -> Vec<(&str, &str, &str)> {
    let starts = expression
        .match_indices("glassline_")
        .map(|(start, _)| start);
    starts
        .map(|start| {
            let (before, rest) = expression.split_at(start);
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            (before, name, after)
        })
        .collect()
}

/// Labels and values of the selector with which `text` begins; empty without one.
fn selected(text: &str) -> Vec<(String, String)> {
    let Some(inner) = text.strip_prefix('{') else {
        return Vec::new();
    };
    let (inner, _) = inner.split_once('}').expect("a selector ends");
    let matchers = inner.split("\",").map(|it| it.trim_end_matches('"'));
    matchers
        .map(|matcher| {
            let (left, value) = matcher.split_once('"').expect("a value");
            let label = left.trim_end_matches(['=', '~', '!']);
            (label.to_owned(), value.to_owned())
        })
        .collect()
}

/// Names in double braces behind `prefix`: `{{stream}}`, `{{ $labels.stream }}`.
fn braced(text: &str, prefix: &str) -> Vec<String> {
    let pieces = text.split("{{").skip(1);
    pieces
        .filter_map(|piece| {
            let (inner, _) = piece.split_once("}}")?;
            Some(inner.trim().strip_prefix(prefix)?.to_owned())
        })
        .collect()
}

/// Reads the text of `/metrics`: families, and the labels of their rows.
fn exported(text: &str) -> Exported {
    let mut exported = Exported::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, _) = rest.split_once(' ').expect("a type");
            exported.entry(name.to_owned()).or_default();
            continue;
        }
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let base = OF_HISTOGRAM.iter().find_map(|end| name.strip_suffix(end));
        let base = base
            .filter(|base| exported.contains_key(*base))
            .unwrap_or(name);
        let Some(labels) = exported.get_mut(base) else {
            continue;
        };
        for (label, value) in selected(&format!("{{{rest}")) {
            labels.entry(label).or_default().insert(value);
        }
    }
    exported
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_query_for_what_is_not_exported_is_found() {
    let exported = exported(
        "# TYPE glassline_a_total counter\nglassline_a_total{reason=\"x\",shard=\"0\"} 1\n\
         # TYPE glassline_b gauge\nglassline_b 1\n",
    );
    let problems = |expression: &str, shown: &str| {
        let query = Query {
            place: String::new(),
            expression: expression.to_owned(),
            shown: braced(shown, ""),
        };
        query.problems(&exported).len()
    };
    let good = "sum by (reason) (rate(glassline_a_total{reason=~\"x\",instance=~\"$i\"}[5m]))";
    assert_eq!(problems(good, "{{reason}}"), 0);
    assert_eq!(problems("rate(glassline_c_total[5m])", ""), 1);
    assert_eq!(problems("rate(glassline_a_total{reason=\"y\"}[5m])", ""), 1);
    assert_eq!(problems("rate(glassline_a_total{cause=\"x\"}[5m])", ""), 1);
    assert_eq!(problems("rate(glassline_b[5m])", ""), 1);
    assert_eq!(problems("sum by (stream) (glassline_b)", ""), 1);
    assert_eq!(problems("glassline_b", "{{stream}}"), 1);
}
