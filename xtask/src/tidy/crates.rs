//! Checks the dependencies between crates and those of cores, from the manifests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::arrows::{Arrows, Table};
use super::table::{self, Row};

/// All differences between the manifests and the table of crates.
pub(super) fn problems(metadata: &Value) -> Vec<String> {
    problems_against(table::CRATES, metadata)
}

/// Rows of the table as the manifests are.
pub(super) fn as_table(metadata: &Value) -> Vec<String> {
    let (present, found) = arrows(metadata);
    super::arrows::as_table(&present, &found).0
}

fn problems_against(rows: &[Row], metadata: &Value) -> Vec<String> {
    let (present, found) = arrows(metadata);
    let table = Table {
        of: "the crates".to_owned(),
        rows,
        against_the_order: Vec::new(),
    };
    let mut problems = table.problems(&present, &found);
    problems.extend(cores(metadata));
    problems
}

/// The crates of a table, and their arrows. Dependencies of tests are not counted.
fn arrows(metadata: &Value) -> (BTreeSet<String>, Arrows) {
    let mut present = BTreeSet::new();
    let mut found = Arrows::new();
    for package in packages(metadata) {
        let name = short_name(package);
        if table::NOBODY_KNOWS.contains(&name) {
            continue;
        }
        present.insert(name.to_owned());
        for (dependency, kind) in dependencies(package) {
            if let Some(ours) = dependency.strip_prefix("glassline-")
                && kind != "dev"
            {
                let manifest = format!("manifest of `{name}`");
                found.insert((name.to_owned(), ours.to_owned()), manifest);
            }
        }
    }
    (present, found)
}

/// Dependencies of cores that would give them a clock, randomness or a socket.
fn cores(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages(metadata) {
        let name = short_name(package);
        for (dependency, kind) in dependencies(package) {
            if kind == "normal"
                && table::CORES.contains(&name)
                && table::NOT_IN_A_CORE.contains(&dependency)
            {
                problems.push(format!(
                    "`{name}` is a core and must not use `{dependency}`"
                ));
            }
        }
    }
    problems
}

pub(super) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The package's name without our prefix.
fn short_name(package: &Value) -> &str {
    package["name"]
        .as_str()
        .unwrap_or_default()
        .trim_start_matches("glassline-")
}

/// Name and kind (`normal`, `dev` or `build`) of each dependency.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, &str)> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    dependencies.map(|dependency| {
        let name = dependency["name"].as_str().unwrap_or_default();
        (name, dependency["kind"].as_str().unwrap_or("normal"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::process;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({"packages": [{"name": name, "dependencies": dependencies}]})
    }

    #[test]
    fn crate_arrows_go_down_only() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(problems(&metadata), Vec::<String>::new());
    }

    #[test]
    fn every_core_has_a_row() {
        for core in table::CORES {
            assert!(table::CRATES.iter().any(|row| row.0 == core), "{core}");
        }
    }

    #[test]
    fn an_arrow_upwards_is_refused() {
        const HUB: [Row; 1] = [("hub", &[])];
        let kind = |kind| json!([{"name": "glassline-rtp", "kind": kind}]);
        let upwards = package("glassline-hub", &kind(Value::Null));
        assert_eq!(
            problems_against(&HUB, &upwards),
            ["manifest of `hub`: `hub` must not know `rtp` (table of the crates)"]
        );
        let in_tests = package("glassline-hub", &kind(json!("dev")));
        assert_eq!(problems_against(&HUB, &in_tests), Vec::<String>::new());
    }

    #[test]
    fn a_core_with_a_runtime_is_refused() {
        let dependency = |kind| json!([{"name": "tokio", "kind": kind}]);
        assert_eq!(
            cores(&package("glassline-rtp", &dependency(Value::Null))),
            ["`rtp` is a core and must not use `tokio`"]
        );
        let in_tests = package("glassline-rtp", &dependency(json!("dev")));
        assert_eq!(cores(&in_tests), Vec::<String>::new());
    }
}
