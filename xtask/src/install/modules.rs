//! Programs from Go's module proxy, at the versions in `peers/versions.toml`.

use std::process::Command;

use super::{go, go_folder, go_peer, twice};
use crate::{process, versions};

/// Builds Pebble and its DNS server.
///
/// # Errors There is no Go, or its module proxy does not answer.
pub(super) fn pebble() -> Result<(), String> {
    build("pebble", &["cmd/pebble", "cmd/pebble-challtestsrv"])
}

/// Builds nats-server.
///
/// # Errors As [`pebble`].
pub(super) fn nats_server() -> Result<(), String> {
    // The program is the module itself, and has the name of the element before its version.
    build("nats-server", &[""])
}

/// Builds programs of the module of `peer`, each named by its folder in the module.
fn build(peer: &str, folders: &[&str]) -> Result<(), String> {
    let go = go()?;
    let module = versions::of(peer, "module")?;
    let version = versions::of(peer, "version")?;
    let is_there = |folder: &&str| {
        let mut command = Command::new(&go);
        let name = folder.rsplit('/').next().filter(|name| !name.is_empty());
        command
            .args(["version", "-m"])
            .arg(go_peer(name.unwrap_or(peer)));
        let printed = process::output_of(&mut command);
        printed.is_some_and(|text| text.contains(&format!("{module}\t{version}\t")))
    };
    if folders.iter().all(is_there) {
        return Ok(());
    }
    let folder = go_folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = std::path::absolute(&folder).map_err(|error| error.to_string())?;
    twice(|| {
        let mut install = Command::new(&go);
        install.env("GOBIN", &folder).args(["install", "-trimpath"]);
        let packages = folders.iter().map(|it| format!("{module}/{it}"));
        install.args(packages.map(|it| format!("{}@{version}", it.trim_end_matches('/'))));
        process::run(&mut install)
    })
}
