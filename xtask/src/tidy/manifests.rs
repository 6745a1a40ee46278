//! Checks the lines that all manifests have.

use std::fs;

use serde_json::Value;

use super::crates::packages;
use crate::process;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_keep_the_house_rules() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(problems(&metadata), Vec::<String>::new());
    }
}
