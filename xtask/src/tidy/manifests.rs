//! Checks the lines that all manifests have, and that none turns faults on.

use std::fs;

use serde_json::Value;

use super::crates::packages;
use crate::process;

/// Feature with which threads of the server fail on request. Only tests turn it on.
const FAULTS: &str = "fault-injection";

/// Manifests that lack one of these lines.
pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let root = fs::read_to_string(process::root().join("Cargo.toml")).unwrap_or_default();
    let (_, own_profiles) = root.split_once("[profile.dev.package]").unwrap_or_default();
    for package in packages(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        if package["publish"] != Value::Array(Vec::new()) {
            problems.push(format!("{name}: `publish.workspace = true` is missing"));
        }
        if has_faults(package) {
            problems.push(format!("{name}: `{FAULTS}` is on in a default build"));
        }
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let text = fs::read_to_string(manifest).unwrap_or_default();
        if !text.contains("[lints]\nworkspace = true") {
            problems.push(format!("{name}: `[lints] workspace = true` is missing"));
        }
        if !own_profiles.contains(&format!("\n{name} = {{ opt-level")) {
            problems.push(format!("{name}: not in the root's `[profile.dev.package]`"));
        }
    }
    problems
}

/// Whether a default build of `package` has [`FAULTS`]: by its default features, or by those that it
/// asks a dependency for.
fn has_faults(package: &Value) -> bool {
    let has = |features: &Value| {
        let mut features = features.as_array().into_iter().flatten();
        features.any(|it| it.as_str().is_some_and(|it| it.ends_with(FAULTS)))
    };
    let mut dependencies = package["dependencies"].as_array().into_iter().flatten();
    has(&package["features"]["default"])
        || dependencies.any(|it| it["kind"] != "dev" && has(&it["features"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_that_turns_faults_on_is_reported() {
        let by_default = json!({"features": {"default": ["server/fault-injection"]}});
        let of_server = |kind: Value| json!({"dependencies": [{"kind": kind, "features": ["fault-injection"]}]});
        assert!(has_faults(&by_default));
        assert!(has_faults(&of_server(Value::Null)));
        assert!(!has_faults(&of_server(json!("dev"))));
        let on_request = json!({"features": {"fault-injection": ["server/fault-injection"]}});
        assert!(!has_faults(&on_request));
    }

    #[test]
    fn manifests_keep_the_house_rules() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(problems(&metadata), Vec::<String>::new());
    }
}
