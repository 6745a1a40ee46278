//! What moved: a value beside that of an earlier run of the same kind of processor.

use super::recipe::Better;
use super::record::{Measurement, Run};

/// A value beside an earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    /// The value of now divided by the earlier one; `None` where that was 0.
    pub(super) ratio: Option<f64>,
    pub(super) change: Change,
}

/// Whether a value moved beyond the noise, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Same,
    Improved,
    Worsened,
    /// It moved, and no direction is better.
    Moved,
}

impl Change {
    /// Sign behind a value in tables.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::Improved => "▲",
            Self::Worsened => "▼",
            Self::Moved => "◆",
        }
    }
}

impl Comparison {
    /// Compares two values of one name.
    ///
    /// A value has moved where both medians are further apart than the tolerance, and the ranges of
    /// both runs' turns do not overlap.
    pub(super) fn of(now: &Measurement, earlier: &Measurement) -> Self {
        let difference = now.value - earlier.value;
        let tolerance = now.tolerance;
        let noise = f64::max(tolerance.relative * earlier.value.abs(), tolerance.absolute);
        let is_apart = now.range.0 > earlier.range.1 || now.range.1 < earlier.range.0;
        let change = match now.better {
            _ if difference.abs() <= noise || !is_apart => Change::Same,
            Better::Neither => Change::Moved,
            Better::Less if difference < 0.0 => Change::Improved,
            Better::More if difference > 0.0 => Change::Improved,
            Better::Less | Better::More => Change::Worsened,
        };
        Self {
            ratio: (earlier.value != 0.0).then(|| now.value / earlier.value),
            change,
        }
    }
}

/// Results of one kind of processor: of each recipe the last measurement and the one before.
pub(super) struct Column<'a> {
    /// Runs of one kind, ascending by time.
    pub(super) runs: Vec<&'a Run>,
}

/// Latest measurement of a value, the run that it is of, and how it compares.
pub(super) struct Latest<'a> {
    pub(super) run: &'a Run,
    pub(super) value: &'a Measurement,
    /// With the last run before that measured the same by the same command.
    pub(super) comparison: Option<Comparison>,
}

impl<'a> Column<'a> {
    /// Divides runs by their kind, in order of the kinds.
    pub(super) fn all(runs: &'a [Run]) -> Vec<Self> {
        let mut columns: Vec<Self> = Vec::new();
        for run in runs {
            match columns.iter_mut().find(|it| it.runs[0].kind == run.kind) {
                Some(column) => column.runs.push(run),
                None => columns.push(Self { runs: vec![run] }),
            }
        }
        columns.sort_by(|a, b| a.runs[0].kind.cmp(&b.runs[0].kind));
        for column in &mut columns {
            column.runs.sort_by_key(|it| it.started_s);
        }
        columns
    }

    /// The run that measured `recipe` last.
    pub(super) fn latest_run(&self, recipe: &str) -> Option<&'a Run> {
        let measured = self.runs.iter().rev().copied();
        measured
            .into_iter()
            .find(|it| it.measured(recipe).is_some())
    }

    /// The last measurement of a value; `None` where the last run of its recipe lacks it.
    pub(super) fn latest(&self, recipe: &str, name: &str) -> Option<Latest<'a>> {
        let run = self.latest_run(recipe)?;
        let value = run.value(recipe, name)?;
        let command = &run.measured(recipe)?.command;
        let before = self.runs.iter().rev().find_map(|earlier| {
            let is_before = earlier.started_s < run.started_s && earlier.has(recipe, command);
            is_before.then(|| earlier.value(recipe, name))?
        });
        Some(Latest {
            run,
            value,
            comparison: before.map(|it| Comparison::of(value, it)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::recipe::Tolerance;
    use crate::figures::record::made_up::{measurement, run};

    fn changed(better: Better, earlier: f64, now: f64) -> Change {
        let value = |value| Measurement {
            better,
            ..measurement("a", value)
        };
        Comparison::of(&value(now), &value(earlier)).change
    }

    #[test]
    fn a_value_moves_beyond_its_tolerance_only() {
        assert_eq!(changed(Better::Less, 100.0, 109.0), Change::Same);
        assert_eq!(changed(Better::Less, 100.0, 111.0), Change::Worsened);
        assert_eq!(changed(Better::Less, 100.0, 89.0), Change::Improved);
        assert_eq!(changed(Better::More, 100.0, 111.0), Change::Improved);
        assert_eq!(changed(Better::More, 100.0, 89.0), Change::Worsened);
        assert_eq!(changed(Better::Neither, 100.0, 89.0), Change::Moved);
    }

    #[test]
    fn turns_that_differ_as_much_are_noise() {
        let noisy = |value: f64, range| Measurement {
            range,
            ..measurement("a", value)
        };
        let earlier = noisy(100.0, (80.0, 130.0));
        let compare = |now| Comparison::of(&now, &earlier).change;
        assert_eq!(compare(noisy(125.0, (120.0, 140.0))), Change::Same);
        assert_eq!(compare(noisy(150.0, (140.0, 160.0))), Change::Worsened);
        assert_eq!(compare(noisy(70.0, (60.0, 79.0))), Change::Improved);
    }

    #[test]
    fn small_values_have_a_tolerance_in_their_unit() {
        let gap = |value| Measurement {
            tolerance: Tolerance {
                relative: 0.1,
                absolute: 2.0,
            },
            ..measurement("gap", value)
        };
        let compare = |now, earlier| Comparison::of(&gap(now), &gap(earlier));
        assert_eq!(compare(2.0, 0.0).change, Change::Same);
        assert_eq!(compare(2.0, 0.0).ratio, None);
        assert_eq!(compare(3.0, 0.0).change, Change::Worsened);
        assert_eq!(compare(44.0, 41.0).change, Change::Same);
        assert_eq!(compare(46.0, 41.0).change, Change::Worsened);
    }

    #[test]
    fn runs_are_compared_within_their_kind_only() {
        let runs = [
            run("B", 3, vec![measurement("seal", 150.0)]),
            run("A", 2, vec![measurement("seal", 300.0)]),
            run("A", 1, vec![measurement("seal", 200.0)]),
        ];
        let columns = Column::all(&runs);
        assert_eq!(columns.len(), 2);
        let a = columns[0].latest("seal", "seal").expect("measured");
        assert_eq!(
            (a.run.started.as_str(), a.value.value),
            ("2026-11-27 02:00", 300.0)
        );
        assert_eq!(a.comparison.map(|it| it.change), Some(Change::Worsened));
        let b = columns[1].latest("seal", "seal").expect("measured");
        assert_eq!(b.comparison, None, "nothing to compare with");
        assert!(columns[0].latest("join", "join").is_none());
    }

    #[test]
    fn a_recipe_that_changed_is_not_compared() {
        let mut runs = [
            run("A", 1, vec![measurement("seal", 100.0)]),
            run("A", 2, vec![measurement("seal", 300.0)]),
        ];
        let outcome = runs[0].recipes.get_mut("seal").expect("there");
        outcome.command = "another command".to_owned();
        let columns = Column::all(&runs);
        let latest = columns[0].latest("seal", "seal").expect("measured");
        assert_eq!(latest.comparison, None);
    }

    #[test]
    fn a_recipe_that_was_not_run_again_keeps_its_last_value() {
        let mut second = run("A", 2, vec![measurement("seal", 1.0)]);
        second.recipes.clear();
        let runs = [run("A", 1, vec![measurement("seal", 2.0)]), second];
        let columns = Column::all(&runs);
        let latest = columns[0].latest("seal", "seal").expect("of the first run");
        assert_eq!(latest.value.value, 2.0);
    }
}
