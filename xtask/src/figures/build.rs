//! Builds what the chosen recipes run, once and before the first measurement.

use std::path::{Path, PathBuf};

use super::recipe::{BuiltPeer, Need, Recipe, Work};
use super::recipes::RECIPES;
use crate::executables::{self, Executable};
use crate::{install, process};

/// Programs that recipes run.
pub(super) struct Built {
    /// The product, in the profile of packages.
    pub(super) glassline: PathBuf,
    executables: Vec<Executable>,
    /// MediaMTX, for the recipe that compares with it.
    pub(super) mediamtx: Option<PathBuf>,
}

impl Built {
    /// Builds for `recipes`; with `binary`, that program is the product.
    ///
    /// # Errors Something does not compile; cargo has printed what.
    pub(super) fn of(
        recipes: &[&Recipe],
        is_quick: bool,
        binary: Option<&Path>,
    ) -> Result<Self, String> {
        install::build_tools()?;
        let works: Vec<&Work> = recipes.iter().map(|it| it.work(is_quick)).collect();
        let mut executables = Vec::new();
        let is_built = |work: &&Work| match work {
            Work::Lab(_) | Work::Bench { .. } => true,
            work => binary.is_none() && needs_product(work),
        };
        if works.iter().any(is_built) {
            let benches = benches(
                RECIPES
                    .iter()
                    .flat_map(|it| [it.work(false), it.work(true)]),
            );
            let mut arguments = vec!["bench", "--workspace", "--no-run"];
            for (_, target) in &benches {
                arguments.extend(["--bench", target]);
            }
            executables.extend(executables::build(&arguments)?);
        }
        if works.iter().any(|it| matches!(it, Work::Test { .. })) {
            let arguments = ["test", "--workspace", "--no-run", "--test", "tests"];
            executables.extend(executables::build(&arguments)?);
        }
        let built = process::target_directory().join("release/glassline");
        let is_compared = works.iter().any(|it| matches!(it, Work::Lab("publish")));
        Ok(Self {
            glassline: binary.map_or(built, Path::to_owned),
            executables,
            mediamtx: is_compared.then(|| install::mediamtx().ok()).flatten(),
        })
    }

    /// The target of a package.
    ///
    /// # Errors It was not built.
    pub(super) fn executable(&self, package: &str, target: &str) -> Result<&Executable, String> {
        let mut all = self.executables.iter();
        let missing = || format!("cargo built no target `{target}` of {package}");
        all.find(|it| !it.is_unit && it.package == package && it.target == target)
            .ok_or_else(missing)
    }
}

/// Package and target of the laboratory.
pub(super) const LAB: (&str, &str) = ("glassline", "lab");

/// Installs what a recipe needs and can be installed.
///
/// # Errors Something is missing; the text says how to get it.
pub(super) fn provide(recipe: &Recipe) -> Result<(), String> {
    for need in &recipe.needs {
        match need {
            Need::Peer(name) => install::peer(name)?,
            Need::BuiltPeer(BuiltPeer::Nats) => install::nats().map(drop)?,
            Need::BuiltPeer(BuiltPeer::Pion) => install::go_peers()?,
            Need::BuiltPeer(BuiltPeer::Live555) => install::live555().map(drop)?,
            Need::BuiltPeer(BuiltPeer::MediaMtx) => install::mediamtx().map(drop)?,
            Need::TwoCores if std::thread::available_parallelism().map_or(1, usize::from) < 2 => {
                return Err("server and generator need a core each".to_owned());
            }
            Need::TwoCores | Need::Quiet | Need::Network => {}
        }
    }
    Ok(())
}

fn needs_product(work: &Work) -> bool {
    matches!(work, Work::Program(_) | Work::Peers { .. } | Work::Scene(_))
}

/// Package and target of each bench of `works`, once, and of the laboratory, whose package has the
/// product.
///
/// Whatever is measured, all benches of the workspace are built: for other packages, and even for
/// other targets of the same packages, cargo compiles much of what they share again. A second part
/// of a night would then build nearly everything.
fn benches(works: impl Iterator<Item = &'static Work>) -> Vec<(&'static str, &'static str)> {
    let named = |work: &Work| match work {
        Work::Bench {
            package, target, ..
        } => Some((*package, *target)),
        _ => None,
    };
    let mut benches: Vec<_> = works.filter_map(named).chain([LAB]).collect();
    benches.sort_unstable();
    benches.dedup();
    benches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_is_built_once_whatever_is_measured() {
        let benches = benches(
            RECIPES
                .iter()
                .flat_map(|it| [it.work(false), it.work(true)]),
        );
        assert!(benches.contains(&LAB));
        assert!(benches.is_sorted());
        let of_memory = benches.iter().filter(|it| it.1 == "memory");
        assert_eq!(of_memory.count(), 1, "two recipes run it");
    }
}
