//! Checks the lines that all manifests have, and that no program for users fails on request.

use std::fs;

use serde_json::Value;

use super::crates::packages;
use crate::process;

/// Profiles of programs that fail on request, because their server has debug assertions.
const WITH_FAULTS: [&str; 2] = ["profile.faults", "profile.fuzz"];

/// Manifests that lack one of these lines.
pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let root = fs::read_to_string(process::root().join("Cargo.toml")).unwrap_or_default();
    for section in sections_with_faults(&root) {
        problems.push(format!(
            "[{section}] turns debug assertions on, with which the server fails on request"
        ));
    }
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
    }
    problems
}

/// Sections of a manifest that turn debug assertions on and belong to none of [`WITH_FAULTS`].
fn sections_with_faults(manifest: &str) -> Vec<&str> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            section = name;
        }
        let line = line.replace(' ', "");
        let may = WITH_FAULTS.iter().any(|it| section.starts_with(it));
        if line.contains("debug-assertions=true") && !may {
            found.push(section);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_turns_faults_on_is_reported() {
        let manifest = "[profile.release]\nlto = true\n[profile.demo]\ndebug-assertions = true\n\
             [profile.fuzz]\ndebug-assertions = true\n[profile.faults.package]\n\
             server = { debug-assertions = true }\n[profile.release.package]\n\
             server = { debug-assertions=true }\n";
        assert_eq!(
            sections_with_faults(manifest),
            ["profile.demo", "profile.release.package"]
        );
    }

    #[test]
    fn manifests_keep_the_house_rules() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(problems(&metadata), Vec::<String>::new());
    }
}
