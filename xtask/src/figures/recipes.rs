//! All recipes, in one list and in the order in which they run.

use std::sync::LazyLock;

use super::recipe::Recipe;

/// Every measurement of `docs/benchmarks` that runs by itself. Cheap ones are first, so that an
/// interrupted night has many values.
pub(super) static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("recipes.json")).expect("a test has read the file")
});

/// Pages, or parts of them, that have another way of being measured, and why.
pub(super) const ELSEWHERE: [(&str, &str); 11] = [
    ("adaptive", "`glassline bench adaptive`, in virtual time"),
    (
        "congestion-constants",
        "`glassline bench congestion --sensitivity glide`, in virtual time",
    ),
    ("fuzzing", "`cargo xtask fuzz --long`"),
    ("mutants", "`cargo xtask mutants`"),
    ("moq", "`cargo xtask bench-peers --moq`"),
    ("other-servers", "`cargo xtask bench-peers`"),
    ("recording", "`cargo xtask bench-peers --record`"),
    ("cluster-pull", "by hand"),
    ("dashboard", "by hand"),
    (
        "speech",
        "`glassline bench jitter --quality`, which needs PESQ and PLCMOS",
    ),
    (
        "hardening",
        "soak, churn and mixed attacks by `cargo xtask chaos`",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::figures::recipe::{Need, Work};
    use crate::process;

    #[test]
    fn names_are_distinct_and_pages_exist() {
        let names: BTreeSet<&str> = RECIPES.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), RECIPES.len());
        let elsewhere = ELSEWHERE.iter().map(|it| it.0);
        for page in RECIPES.iter().map(|it| it.page).chain(elsewhere) {
            let path = process::root().join(format!("docs/benchmarks/{page}.md"));
            assert!(path.is_file(), "{}", path.display());
        }
    }

    /// A page without a recipe would silently keep the figures of another processor.
    #[test]
    fn every_page_of_benchmarks_is_measured_or_says_how() {
        let folder = process::root().join("docs/benchmarks");
        // Pages that describe tools, the index, and the page that is written from the results.
        let about = ["README", "load-testing", "populations", "machines"];
        for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
            let path = entry.path();
            let stem = path
                .file_stem()
                .and_then(|it| it.to_str())
                .unwrap_or_default();
            if path.extension().is_some_and(|it| it == "md") && !about.contains(&stem) {
                let is_measured = RECIPES.iter().any(|it| it.page == stem);
                let is_elsewhere = ELSEWHERE.iter().any(|it| it.0 == stem);
                assert!(is_measured || is_elsewhere, "{stem}.md has no recipe");
            }
        }
    }

    #[test]
    fn values_come_from_reports_or_from_lines() {
        for recipe in RECIPES.iter() {
            let name = recipe.name;
            let has_lines = matches!(recipe.work, Work::Bench { .. } | Work::Test { .. });
            assert_eq!(recipe.values.is_empty(), has_lines, "{name}");
            let names: BTreeSet<&str> = recipe.values.iter().map(|it| it.name).collect();
            assert_eq!(names.len(), recipe.values.len(), "{name}: names of values");
            assert!(recipe.turns > 0 && recipe.minutes.0 > 0.0, "{name}");
            let is_timed = recipe.page != "jitter-buffer" && recipe.page != "cluster";
            let is_quiet = recipe.needs.contains(&Need::Quiet);
            assert!(
                is_quiet || !is_timed || recipe.name.ends_with("paths"),
                "{name}"
            );
        }
    }
}
