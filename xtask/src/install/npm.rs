//! Packages from the registry of Node.js.

use std::path::PathBuf;
use std::process::Command;

use super::twice;
use crate::{process, versions};

/// Installs libdatachannel from its package for Node.js; returns the folder for `NODE_PATH`.
///
/// # Errors
/// There is no npm, or its registry does not answer.
pub(crate) fn libdatachannel() -> Result<PathBuf, String> {
    install("libdatachannel")
}

/// Installs axe-core, which checks pages for what people without a mouse or a screen need.
///
/// # Errors
/// There is no npm, or its registry does not answer.
pub(super) fn axe() -> Result<PathBuf, String> {
    install("axe-core")
}

/// Installs the package of the peer `name` unless it is there; returns the folder for `NODE_PATH`.
fn install(name: &str) -> Result<PathBuf, String> {
    let (package, version) = (
        versions::of(name, "package")?,
        versions::of(name, "version")?,
    );
    let folder = process::target_directory().join("peers/node");
    let modules = folder.join("node_modules");
    let manifest = modules.join(&package).join("package.json");
    let installed = std::fs::read_to_string(&manifest).unwrap_or_default();
    if installed.contains(&format!("\"version\": \"{version}\"")) {
        return Ok(modules);
    }
    if process::find("npm").is_none() {
        return Err("npm is not on the PATH: install Node.js 20 or later".to_owned());
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    twice(|| {
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        install.arg(&folder).arg(format!("{package}@{version}"));
        process::run(&mut install)
    })?;
    Ok(modules)
}
