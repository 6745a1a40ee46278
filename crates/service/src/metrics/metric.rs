//! One metric in the text of Prometheus: its head, then a line for each value.

use std::fmt::{Arguments, Display, Write};

use glassline_runtime::Counter;

/// A metric whose values are being appended to a text.
#[derive(Debug)]
pub struct Metric<'a> {
    text: &'a mut String,
    /// Name without the common prefix.
    name: &'a str,
}

impl<'a> Metric<'a> {
    /// Appends the head of a metric that only grows.
    pub fn counter(text: &'a mut String, name: &'a str, help: &str) -> Self {
        Self::begin(text, name, "counter", help)
    }

    /// Appends the head of a metric that rises and falls.
    pub fn gauge(text: &'a mut String, name: &'a str, help: &str) -> Self {
        Self::begin(text, name, "gauge", help)
    }

    /// Appends the head of a histogram.
    pub fn histogram(text: &'a mut String, name: &'a str, help: &str) -> Self {
        Self::begin(text, name, "histogram", help)
    }

    fn begin(text: &'a mut String, name: &'a str, kind: &str, help: &str) -> Self {
        let _ = writeln!(
            text,
            "# HELP glassline_{name} {help}\n# TYPE glassline_{name} {kind}"
        );
        Self { text, name }
    }

    /// Appends the value of a metric without labels.
    pub fn value(&mut self, value: impl Display) {
        self.line("", &[], format_args!("{value}"));
    }

    /// Appends the value for `labels`, each the name of a label and its value, which is escaped.
    pub fn of<const N: usize>(&mut self, labels: [(&str, &str); N], value: impl Display) {
        self.line("", &labels, format_args!("{value}"));
    }

    /// Appends the count for each value of the label `label`.
    pub fn counts<const N: usize>(&mut self, label: &str, counts: [(&str, &Counter); N]) {
        for (of, count) in counts {
            self.of([(label, of)], count.get());
        }
    }

    /// Appends the buckets of a histogram, each the upper bound in seconds and the count up to it, then
    /// all `count` values and their sum in seconds.
    pub fn buckets(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let bounds = buckets.map(|(bound, count)| (bound.to_string(), count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), count)]) {
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.line("_bucket", &labels, format_args!("{count}"));
        }
        self.line("_sum", labels, format_args!("{sum}"));
        self.line("_count", labels, format_args!("{count}"));
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: Arguments<'_>) {
        let _ = write!(self.text, "glassline_{}{suffix}", self.name);
        for (index, (label, of)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let of = of.replace('\\', "\\\\").replace('"', "\\\"");
            let of = of.replace('\n', "\\n");
            let _ = write!(self.text, "{before}{label}=\"{of}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = String::new();
        let mut metric = Metric::gauge(&mut text, "folders", "Folders by name.");
        metric.of([("folder", "a\\b"), ("name", "\"c\"\n")], 2);
        metric.value(1.5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "# HELP glassline_folders Folders by name.",
                "# TYPE glassline_folders gauge",
                r#"glassline_folders{folder="a\\b",name="\"c\"\n"} 2"#,
                "glassline_folders 1.5",
            ]
        );
    }

    #[test]
    fn a_histogram_ends_with_its_count_and_sum() {
        let mut text = String::new();
        let mut metric = Metric::histogram(&mut text, "waits_seconds", "Waits.");
        metric.buckets(&[], [(0.5, 1)].into_iter(), 3, 2.5);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "glassline_waits_seconds_bucket{le=\"0.5\"} 1",
                "glassline_waits_seconds_bucket{le=\"+Inf\"} 3",
                "glassline_waits_seconds_sum 2.5",
                "glassline_waits_seconds_count 3",
            ]
        );
    }
}
