//! Stored results: a run of one kind of processor, its recipes, and their values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::{Kind, Machine};
use super::recipe::{Better, Tolerance};

/// Version of the form of stored results. Files of another version are refused.
pub(super) const FORMAT: u32 = 1;

/// Results of one night on one kind of processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) format: u32,
    pub(super) kind: Kind,
    pub(super) machine: Machine,
    /// Begin in UTC, as in `2026-11-27 16:20`.
    pub(super) started: String,
    /// Begin in seconds since 1970.
    pub(super) started_s: u64,
    /// Last commit that changed something that is measured.
    pub(super) commit: String,
    /// Whether such files differed from the commit.
    pub(super) is_modified: bool,
    /// Versions of programs by name.
    pub(super) versions: BTreeMap<String, String>,
    /// Results by recipe.
    pub(super) recipes: BTreeMap<String, Outcome>,
}

/// Result of one recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Command as a person would type it.
    pub(super) command: String,
    pub(super) state: State,
    /// The reason why it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Begin in UTC.
    pub(super) started: String,
    /// Time that all turns took, in seconds.
    pub(super) seconds: f64,
    pub(super) load: Load,
    pub(super) values: Vec<Measurement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Measured,
    /// Some values are missing; the reason names them.
    Partial,
    Failed,
    Skipped,
}

/// Other work on the machine; the largest of all turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    /// Load average of the last minute before the first turn.
    pub(super) average_before: f64,
    /// The average after the last turn, with the recipe's own processes.
    pub(super) average_after: f64,
    /// Cores in use by others, over some seconds before a turn.
    pub(super) cores_before: f64,
    /// Cores in use by others during a turn.
    pub(super) cores_beside: f64,
    /// Cores that the hypervisor took during a turn.
    pub(super) cores_stolen: f64,
    /// Whether one of these is above what a quiet machine has.
    pub(super) is_disturbed: bool,
}

/// One value of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measurement {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) better: Better,
    /// Median over the turns.
    pub(super) value: f64,
    /// Least and most of the turns.
    pub(super) range: (f64, f64),
    /// The least that cipher, kernel or processor need for the same, or a peer's value, in the
    /// same turns; `None` where the recipe has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) beside: Option<Reference>,
    pub(super) tolerance: Tolerance,
}

/// The reference of a value in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) name: String,
    /// Median over the turns, in the unit of the value.
    pub(super) value: f64,
    /// Median of the turns' ratios: the value divided by this one.
    pub(super) ratio: f64,
}

impl Run {
    /// Value of a recipe by name.
    pub(super) fn value(&self, recipe: &str, name: &str) -> Option<&Measurement> {
        let outcome = self.measured(recipe)?;
        outcome.values.iter().find(|it| it.name == name)
    }

    /// Result of a recipe, if it was measured, at least in part.
    pub(super) fn measured(&self, recipe: &str) -> Option<&Outcome> {
        let outcome = self.recipes.get(recipe);
        outcome.filter(|it| matches!(it.state, State::Measured | State::Partial))
    }

    /// Whether a recipe was measured by this command, at least in part.
    pub(super) fn has(&self, recipe: &str, command: &str) -> bool {
        self.measured(recipe)
            .is_some_and(|it| it.command == command)
    }

    /// Whether a recipe with this command needs no other measurement.
    pub(super) fn is_done(&self, recipe: &str, command: &str) -> bool {
        let outcome = self.measured(recipe);
        outcome.is_some_and(|it| it.command == command && it.state == State::Measured)
    }
}

/// Merges the values of several turns: medians, ranges, and medians of ratios. Values that one of
/// the turns lacks are left out.
pub(super) fn merged(turns: &[Vec<Measurement>]) -> Vec<Measurement> {
    let Some(first) = turns.first() else {
        return Vec::new();
    };
    let of_name = |name: &str| -> Option<Vec<&Measurement>> {
        let found = turns
            .iter()
            .map(|turn| turn.iter().find(|it| it.name == name));
        found.collect()
    };
    let merge = |measurement: &Measurement| {
        let all = of_name(&measurement.name)?;
        let values: Vec<f64> = all.iter().map(|it| it.value).collect();
        let besides: Option<Vec<&Reference>> = all.iter().map(|it| it.beside.as_ref()).collect();
        let beside = besides.map(|all| Reference {
            name: all[0].name.clone(),
            value: median(all.iter().map(|it| it.value)),
            ratio: median(all.iter().map(|it| it.ratio)),
        });
        Some(Measurement {
            value: median(values.iter().copied()),
            range: (
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
            beside,
            ..measurement.clone()
        })
    };
    first.iter().filter_map(merge).collect()
}

/// Middle of the values, or the mean of both middle ones.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

#[cfg(test)]
pub(super) mod made_up {
    use super::*;
    use crate::figures::machine::Aes;
    use crate::figures::recipe::TENTH;

    pub(in crate::figures) fn kind(model: &str) -> Kind {
        Kind {
            model: model.to_owned(),
            family: None,
            cores: 2,
            aes: Aes::Narrow,
            is_masked: false,
        }
    }

    pub(in crate::figures) fn measurement(name: &str, value: f64) -> Measurement {
        Measurement {
            name: name.to_owned(),
            unit: "ns".to_owned(),
            better: Better::Less,
            value,
            range: (value, value),
            beside: None,
            tolerance: TENTH,
        }
    }

    pub(in crate::figures) fn outcome(values: Vec<Measurement>) -> Outcome {
        Outcome {
            command: "a command".to_owned(),
            state: State::Measured,
            reason: None,
            started: "2026-11-27 16:20".to_owned(),
            seconds: 60.0,
            load: Load::default(),
            values,
        }
    }

    /// A run that began `hours` after another one.
    pub(in crate::figures) fn run(model: &str, hours: u64, values: Vec<Measurement>) -> Run {
        Run {
            format: FORMAT,
            kind: kind(model),
            machine: Machine {
                kernel: "Linux".to_owned(),
                memory_bytes: 0,
                flags: Vec::new(),
            },
            started: format!("2026-11-27 {hours:02}:00"),
            started_s: 1_795_000_000 + hours * 3600,
            commit: "0123abcd".to_owned(),
            is_modified: false,
            versions: BTreeMap::new(),
            recipes: [("seal".to_owned(), outcome(values))].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::measurement;
    use super::*;

    #[test]
    fn turns_become_medians_with_their_range() {
        let beside = |value, floor| Measurement {
            beside: Some(Reference {
                name: "floor".to_owned(),
                value: floor,
                ratio: value / floor,
            }),
            ..measurement("a", value)
        };
        let turns = [
            vec![beside(12.0, 10.0), measurement("b", 1.0)],
            vec![beside(10.0, 5.0), measurement("b", 3.0)],
            vec![beside(30.0, 10.0)],
        ];
        let merged = merged(&turns);
        assert_eq!(merged.len(), 1, "a turn lacks b");
        let a = &merged[0];
        assert_eq!((a.value, a.range), (12.0, (10.0, 30.0)));
        let floor = a.beside.as_ref().expect("each turn has one");
        // Not 12 ÷ 10: each turn is divided by its own floor.
        assert_eq!((floor.value, floor.ratio), (10.0, 2.0));
    }

    #[test]
    fn an_even_number_of_turns_has_a_median_too() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(merged(&[]).is_empty());
    }
}
