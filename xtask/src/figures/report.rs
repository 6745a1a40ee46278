//! Values from what programs write: JSON reports, and lines of figures.
//!
//! A line of a figure is `figure: ` and an object with `name`, `value`, `unit`, `better` (`less`,
//! `more` or `neither`), and perhaps `beside` (an object with `name` and `value`) and `tolerance`.
//! `benches/figure.rs` writes such lines.

use serde::Deserialize;
use serde_json::Value as Json;

use super::recipe::{Better, DELIVERED_MIN, Tolerance, Value};
use super::record::{Measurement, Reference};

/// Begin of a line that has a figure.
const MARK: &str = "figure: ";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureLine {
    name: String,
    value: f64,
    unit: String,
    better: Better,
    #[serde(default)]
    beside: Option<LineBeside>,
    /// Largest difference that is noise, as a part of the value.
    #[serde(default)]
    tolerance: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineBeside {
    name: String,
    value: f64,
}

/// Parses the lines of figures in what a program printed; `noise` is the tolerance of those that
/// name none.
///
/// # Errors A line is not as it should be, two have one name, or there is none.
pub(super) fn from_lines(text: &str, noise: Tolerance) -> Result<Vec<Measurement>, String> {
    let mut found: Vec<Measurement> = Vec::new();
    for line in text.lines() {
        // A test harness may print the name of the test on the same line before.
        let Some((_, object)) = line.split_once(MARK) else {
            continue;
        };
        let line: FigureLine =
            serde_json::from_str(object).map_err(|error| format!("{error}: {MARK}{object}"))?;
        if found.iter().any(|it| it.name == line.name) {
            return Err(format!("two figures are called `{}`", line.name));
        }
        let tolerance = line.tolerance.map_or(noise, |relative| Tolerance {
            relative,
            absolute: 0.0,
        });
        let beside = line.beside.map(|it| (it.name, it.value));
        let FigureLine {
            name,
            unit,
            better,
            value,
            ..
        } = line;
        found.push(measurement(name, unit, better, value, beside, tolerance)?);
    }
    match found.is_empty() {
        true => Err(format!(
            "the program printed no line that begins with `{MARK}`"
        )),
        false => Ok(found),
    }
}

/// Reads `values` from a JSON report. Returns those that are there, and what is wrong with the others.
///
/// # Errors None of the values is there.
pub(super) fn from_json(
    report: &Json,
    values: &[Value],
) -> Result<(Vec<Measurement>, Vec<String>), String> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for value in values {
        match read(report, value) {
            Ok(measurement) => found.push(measurement),
            Err(reason) => missing.push(reason),
        }
    }
    match found.is_empty() {
        true => Err(missing.join("; ")),
        false => Ok((found, missing)),
    }
}

/// Reads one value.
///
/// # Errors Names the value, and the path that the report lacks or the share that did not arrive.
fn read(report: &Json, value: &Value) -> Result<Measurement, String> {
    let name = value.name;
    let at = |path: &str| {
        let number = select(report, path).and_then(Json::as_f64);
        number.ok_or_else(|| format!("`{name}`: the report has no number at {path}"))
    };
    let ours = at(value.path)? * value.scale;
    for path in &value.delivered {
        let delivered = at(path)?;
        if delivered < DELIVERED_MIN {
            return Err(format!(
                "`{name}`: {delivered:.3} of the stream arrived ({path})"
            ));
        }
    }
    let beside = match value.beside {
        Some((of, path)) => match at(path) {
            Err(_) if value.may_stand_alone => None,
            found => Some((of.to_owned(), found? * value.scale)),
        },
        None => None,
    };
    let (name, unit) = (name.to_owned(), value.unit.to_owned());
    measurement(name, unit, value.better, ours, beside, value.tolerance)
}

/// A value of one turn.
///
/// # Errors It is not finite, or what it is divided by is not above 0.
fn measurement(
    name: String,
    unit: String,
    better: Better,
    value: f64,
    beside: Option<(String, f64)>,
    tolerance: Tolerance,
) -> Result<Measurement, String> {
    if !value.is_finite() {
        return Err(format!("`{name}` is {value}"));
    }
    let beside = match beside {
        Some((of, floor)) if floor.is_finite() && floor > 0.0 => Some(Reference {
            name: of,
            value: floor,
            ratio: value / floor,
        }),
        Some((of, floor)) => return Err(format!("`{name}`: its {of} is {floor}")),
        None => None,
    };
    Ok(Measurement {
        range: (value, value),
        name,
        unit,
        better,
        value,
        beside,
        tolerance,
    })
}

/// The element of `report` at `path`: names of fields, each after a slash. `viewers=100` takes the
/// element of a list whose field `viewers` is `100`; a number takes that element, `-1` the last.
pub(super) fn select<'a>(report: &'a Json, path: &str) -> Option<&'a Json> {
    let mut at = report;
    for step in path.split('/').skip(1) {
        at = match at {
            Json::Array(list) => element(list, step)?,
            other => other.get(step)?,
        };
    }
    Some(at)
}

fn element<'a>(list: &'a [Json], step: &str) -> Option<&'a Json> {
    if step == "-1" {
        return list.last();
    }
    let Some((field, wanted)) = step.split_once('=') else {
        return list.get(step.parse::<usize>().ok()?);
    };
    list.iter().find(|it| match &it[field] {
        Json::String(text) => text == wanted,
        Json::Number(number) => wanted
            .parse()
            .is_ok_and(|it: f64| number.as_f64() == Some(it)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::recipe::TENTH;
    use serde_json::json;

    #[test]
    fn elements_of_lists_are_found_by_their_fields() {
        let report = json!({"steps": [
            {"viewers": 100, "cpu": 1.5, "gap_ms": {"p99": 40}},
            {"viewers": 1000, "cpu": 2.5},
        ], "ways": [{"way": "Pion"}, {"way": "Glassline → Chromium", "mbps": 225}]});
        let at = |path: &str| select(&report, path).and_then(Json::as_f64);
        assert_eq!(at("/steps/viewers=100/gap_ms/p99"), Some(40.0));
        assert_eq!(at("/steps/viewers=1000/cpu"), Some(2.5));
        assert_eq!(at("/steps/0/cpu"), Some(1.5));
        assert_eq!(at("/steps/-1/cpu"), Some(2.5));
        assert_eq!(at("/ways/way=Glassline → Chromium/mbps"), Some(225.0));
        for missing in ["/steps/viewers=10/cpu", "/steps/2/cpu", "/none", "/steps/x"] {
            assert_eq!(at(missing), None, "{missing}");
        }
    }

    const SEAL: &str =
        r#"{"name": "seal", "unit": "ns", "path": "/ours", "beside": ["floor", "/floor"]}"#;

    fn value(text: &'static str) -> Value {
        serde_json::from_str(text).expect("a value")
    }

    #[test]
    fn a_value_comes_with_its_own_floor() {
        let report = json!({"ours": 0.9, "floor": 0.6});
        let value = Value {
            scale: 1e3,
            ..value(SEAL)
        };
        let (read, missing) = from_json(&report, &[value]).expect("both are there");
        assert!(missing.is_empty());
        assert_eq!((read[0].value, read[0].range), (900.0, (900.0, 900.0)));
        let floor = read[0].beside.as_ref().expect("it has one");
        assert!((floor.value - 600.0).abs() < 1e-9 && (floor.ratio - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_a_report_lacks_is_named() {
        for (report, word) in [
            (json!({}), "/ours"),
            (json!({"ours": 1}), "/floor"),
            (json!({"ours": null, "floor": 1}), "/ours"),
            (json!({"ours": 1, "floor": 0}), "its floor is 0"),
        ] {
            let error = from_json(&report, &[value(SEAL)]).expect_err("not whole");
            assert!(error.contains("seal") && error.contains(word), "{error}");
        }
    }

    #[test]
    fn what_was_measured_is_kept_where_others_are_missing() {
        let report = json!({"steps": [
            {"viewers": 200, "cpu": 1.0, "delivered": 0.999},
            {"viewers": 400, "cpu": 0.5, "delivered": 0.56},
        ]});
        let step = |name, path, delivered| Value {
            path,
            delivered: vec![delivered],
            beside: None,
            name,
            ..value(SEAL)
        };
        let values = [
            step(
                "200",
                "/steps/viewers=200/cpu",
                "/steps/viewers=200/delivered",
            ),
            step(
                "400",
                "/steps/viewers=400/cpu",
                "/steps/viewers=400/delivered",
            ),
            step(
                "600",
                "/steps/viewers=600/cpu",
                "/steps/viewers=600/delivered",
            ),
        ];
        let (found, missing) = from_json(&report, &values).expect("one is there");
        assert_eq!(found.len(), 1, "a server that falls behind costs less");
        assert!(
            missing[0].contains("`400`: 0.560 of the stream"),
            "{missing:?}"
        );
        assert!(missing[1].contains("/steps/viewers=600/cpu"), "{missing:?}");
        assert!(from_json(&report, &values[1..]).is_err());
    }

    #[test]
    fn a_peer_that_is_not_installed_leaves_the_value_alone() {
        let values = [Value {
            may_stand_alone: true,
            ..value(SEAL)
        }];
        let with = from_json(&json!({"ours": 1.0, "floor": 2.0}), &values);
        assert!(with.expect("both").0[0].beside.is_some());
        let without = from_json(&json!({"ours": 1.0, "floor": null}), &values);
        assert!(without.expect("ours").0[0].beside.is_none());
    }

    #[test]
    fn lines_of_figures_stand_between_others() {
        let text = "cipher   seal\naes  870\n\
            figure: {\"name\":\"aes\",\"value\":870,\"unit\":\"ns\",\"better\":\"less\",\
            \"beside\":{\"name\":\"cipher alone\",\"value\":435}}\n\
            test a ... figure: {\"name\":\"b\",\"value\":1.5,\"unit\":\"s\",\"better\":\"more\",\
            \"tolerance\":0.3}\nok\n";
        let found = from_lines(text, TENTH).expect("two lines");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].beside.as_ref().map(|it| it.ratio), Some(2.0));
        assert_eq!(found[1].tolerance.relative, 0.3);
        assert_eq!(found[1].better, Better::More);
    }

    #[test]
    fn bad_lines_are_errors_and_not_left_out() {
        for text in [
            "nothing\n",
            "figure: {\"name\":\"a\"}\n",
            "figure: {\"name\":\"a\",\"value\":1,\"unit\":\"\",\"better\":\"loud\"}\n",
            "figure: {\"name\":\"a\",\"value\":1,\"unit\":\"\",\"better\":\"less\",\"odd\":1}\n",
        ] {
            assert!(from_lines(text, TENTH).is_err(), "{text}");
        }
        let line = "figure: {\"name\":\"a\",\"value\":1,\"unit\":\"\",\"better\":\"less\"}\n";
        assert!(from_lines(line, TENTH).is_ok());
        assert!(
            from_lines(&line.repeat(2), TENTH).is_err(),
            "the name is taken"
        );
    }
}
