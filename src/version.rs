//! What `glassline --version` says: version, commit and features of this build.

use std::sync::LazyLock;

/// Optional features of the build, by their names in `Cargo.toml`.
const FEATURES: &[(&str, bool)] = &[("devices", cfg!(feature = "devices"))];

/// Returns version, commit and features, such as `0.1.0 (commit 65aeffc61b2c, features: none)`.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(written);
    &TEXT
}

fn written() -> String {
    let features = FEATURES.iter().filter(|(_, is_on)| *is_on);
    let features: Vec<&str> = features.map(|(name, _)| *name).collect();
    let features = match features.as_slice() {
        [] => "none".to_owned(),
        some => some.join(", "),
    };
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("GLASSLINE_COMMIT"));
    format!("{version} (commit {commit}, features: {features})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_a_commit_and_every_feature_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        let (_, features) = manifest.split_once("\n[features]\n").expect("features");
        let (features, _) = features.split_once("\n[").expect("a section after them");
        let names = features.lines().filter_map(|line| {
            let (name, _) = line.split_once(" = [")?;
            (!name.starts_with('#')).then_some(name)
        });
        let known: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.collect::<Vec<_>>(), known);
        let text = text();
        let (_, commit) = text.split_once("(commit ").expect("a commit");
        let (commit, rest) = commit.split_once(", features: ").expect("features");
        assert!(!commit.is_empty(), "{text}");
        assert_eq!(
            rest.contains("devices"),
            cfg!(feature = "devices"),
            "{text}"
        );
    }
}
