//! Builds what the chosen recipes run, once and before the first measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::recipe::{BuiltPeer, Need, Recipe, Work};
use crate::{install, process};

/// Programs that recipes run.
pub(super) struct Built {
    /// The product, in the profile of packages.
    pub(super) glassline: PathBuf,
    /// Bench and test targets by package and target.
    executables: BTreeMap<(String, String), Executable>,
    /// MediaMTX, for the recipe that compares with it.
    pub(super) mediamtx: Option<PathBuf>,
}

/// A bench or test target.
pub(super) struct Executable {
    pub(super) path: PathBuf,
    /// Folder of its package, in which cargo runs it.
    pub(super) folder: PathBuf,
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
        let works: Vec<Work> = recipes.iter().map(|it| it.work(is_quick)).collect();
        let mut executables = BTreeMap::new();
        let benches = benches(&works, binary.is_none());
        if !benches.is_empty() {
            // Of the whole workspace: with some of its packages only, cargo would choose other
            // features of what they share, and other recipes would build nearly everything again.
            let mut arguments = vec!["bench", "--workspace", "--no-run"];
            for (_, target) in &benches {
                arguments.extend(["--bench", target]);
            }
            executables.extend(compile(&arguments)?);
        }
        if works.iter().any(|it| matches!(it, Work::Test { .. })) {
            let arguments = ["test", "--workspace", "--no-run", "--test", "tests"];
            executables.extend(compile(&arguments)?);
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
        let key = (package.to_owned(), target.to_owned());
        let missing = || format!("cargo built no target `{target}` of {package}");
        self.executables.get(&key).ok_or_else(missing)
    }
}

/// Package and target of the laboratory.
pub(super) const LAB: (&str, &str) = ("glassline", "lab");

/// Installs what a recipe needs and can be installed.
///
/// # Errors Something is missing; the text says how to get it.
pub(super) fn provide(recipe: &Recipe) -> Result<(), String> {
    for need in recipe.needs {
        match need {
            Need::Peer(name) => install::peer(name)?,
            Need::BuiltPeer(BuiltPeer::Nats) => install::nats().map(drop)?,
            Need::BuiltPeer(BuiltPeer::Pion) => install::go_peers()?,
            Need::BuiltPeer(BuiltPeer::Live555) => install::live555().map(drop)?,
            Need::BuiltPeer(BuiltPeer::MediaMtx) => install::mediamtx().map(drop)?,
            Need::Tool(name) if process::find(name).is_none() => {
                return Err(format!("`{name}` is not on the PATH"));
            }
            Need::TwoCores if std::thread::available_parallelism().map_or(1, usize::from) < 2 => {
                return Err("server and generator need a core each".to_owned());
            }
            Need::Tool(_) | Need::TwoCores | Need::Quiet | Need::Network => {}
        }
    }
    Ok(())
}

fn needs_product(work: &Work) -> bool {
    matches!(work, Work::Program(_) | Work::Peers { .. } | Work::Scene(_))
}

/// Package and target of each bench, once. With `is_product_built`, the laboratory stands for the
/// product: cargo builds the program of a package together with its benches.
fn benches(works: &[Work], is_product_built: bool) -> Vec<(&'static str, &'static str)> {
    let mut benches: Vec<_> = works
        .iter()
        .filter_map(|work| match work {
            Work::Lab(_) => Some(LAB),
            Work::Bench {
                package, target, ..
            } => Some((*package, *target)),
            _ => (is_product_built && needs_product(work)).then_some(LAB),
        })
        .collect();
    benches.sort_unstable();
    benches.dedup();
    benches
}

type Executables = BTreeMap<(String, String), Executable>;

/// Runs cargo; returns the bench and test targets that it built.
fn compile(arguments: &[&str]) -> Result<Executables, String> {
    let mut cargo = process::cargo(arguments);
    cargo.arg("--message-format=json-render-diagnostics");
    println!("$ {}", process::line(&cargo));
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{} ended with {}",
            process::line(&cargo),
            output.status
        ));
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses cargo's messages, a JSON object a line.
fn executables(messages: &str) -> Executables {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = &message["target"];
        let is_wanted = ["bench", "test"].iter().any(|it| target["kind"][0] == *it);
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let folder = manifest.parent()?.to_owned();
        let executable = Executable {
            path: message["executable"].as_str().map(PathBuf::from)?,
            folder,
        };
        let key = (
            package(message["package_id"].as_str()?),
            target["name"].as_str()?.to_owned(),
        );
        is_wanted.then_some((key, executable))
    };
    messages.lines().filter_map(read).collect()
}

/// Name of a package in an id such as `path+file:///checkout/crates/webrtc#glassline-webrtc@0.1.0`;
/// the name is left out where the folder has it.
fn package(id: &str) -> String {
    let (address, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => address.rsplit('/').next().unwrap_or(address).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_known_by_their_ids() {
        let id = "path+file:///a/crates/webrtc#glassline-webrtc@0.1.0";
        assert_eq!(package(id), "glassline-webrtc");
        assert_eq!(package("path+file:///a/glassline#0.1.0"), "glassline");
    }

    #[test]
    fn executables_are_found_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\
            \"package_id\":\"path+file:///a#glassline@0.1.0\",\"manifest_path\":\"/a/Cargo.toml\",\
            \"target\":{\"kind\":[\"bench\"],\"name\":\"lab\"},\"executable\":\"/t/lab-1\"}\n\
            {\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///a#glassline@0.1.0\",\
            \"manifest_path\":\"/a/Cargo.toml\",\"target\":{\"kind\":[\"bin\"],\
            \"name\":\"glassline\"},\"executable\":\"/t/glassline\"}\nno JSON\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        let found = executables(messages);
        assert_eq!(found.len(), 1, "no binaries");
        let lab = &found[&(LAB.0.to_owned(), LAB.1.to_owned())];
        assert_eq!(
            (lab.path.to_str(), lab.folder.to_str()),
            (Some("/t/lab-1"), Some("/a"))
        );
    }
}
