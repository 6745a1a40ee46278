//! `--fail-if` of benchmarks: a figure of the report, named by its path in the JSON, as in
//! `versus_cubic.glide.transport_rtt_ms.P75.ratio>0.6`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// A condition that must not be met by the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    path: String,
    is_above: bool,
    limit: f64,
}

/// Error for a text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no condition: give a path into the report's JSON, < or >, and a number, like \
     versus_cubic.glide.rtx_overhead.P75.ratio>0.3"
)]
pub struct NoCondition(String);

impl FromStr for Condition {
    type Err = NoCondition;

    fn from_str(text: &str) -> Result<Self, NoCondition> {
        let wrong = || NoCondition(text.to_owned());
        let place = text.find(['<', '>']).ok_or_else(wrong)?;
        let limit = text[place + 1..].trim().parse();
        let path = text[..place].trim().to_owned();
        if path.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            path,
            is_above: text[place..].starts_with('>'),
            limit: limit.map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_above { '>' } else { '<' };
        write!(f, "{}{sign}{}", self.path, self.limit)
    }
}

impl Condition {
    /// Text that says how `report` meets the condition, or that it has no such figure. `None` if
    /// the condition is not met.
    pub fn miss(&self, report: &impl Serialize) -> Option<String> {
        let json = serde_json::to_value(report).expect("plain data becomes JSON");
        let Some(value) = find(&json, &self.path).and_then(Value::as_f64) else {
            return Some(format!("{self}: the report has no such figure"));
        };
        let is_met = match self.is_above {
            true => value > self.limit,
            false => value < self.limit,
        };
        is_met.then(|| format!("{self}: it is {value:.4}"))
    }
}

/// Finds the figure at `path`. Names may contain dots, as `copa:0.1` does.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    if let Value::Array(items) = value {
        let (index, rest) = path.split_once('.').unwrap_or((path, ""));
        return find(items.get(index.parse::<usize>().ok()?)?, rest);
    }
    let entries = value.as_object()?.iter();
    let mut inside = entries.filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        match rest.strip_prefix('.') {
            Some(rest) => find(value, rest),
            None if rest.is_empty() => Some(value),
            None => None,
        }
    });
    inside.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_found_by_their_path() {
        let report =
            json!({"arms": {"copa": {"x": 1.0}, "copa:0.1": {"x": 2.0, "ci": [3.0, 4.0]}}});
        let at = |path: &str| find(&report, path).and_then(Value::as_f64);
        assert_eq!(at("arms.copa.x"), Some(1.0));
        assert_eq!(at("arms.copa:0.1.x"), Some(2.0));
        assert_eq!(at("arms.copa:0.1.ci.1"), Some(4.0));
        for missing in [
            "arms.copa.y",
            "arms.cop",
            "arms.copa:0.1.ci.2",
            "x",
            "arms.copa.x.y",
        ] {
            assert_eq!(at(missing), None, "{missing}");
        }
    }

    #[test]
    fn conditions_are_read_and_told() {
        let condition: Condition = "versus_cubic.glide.P75.ratio > 0.3".parse().expect("one");
        assert_eq!(condition.to_string(), "versus_cubic.glide.P75.ratio>0.3");
        for text in ["", "x", "x>", ">1", "x>y", "x=1"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
