//! Programs from Go's module proxy, at the versions in `peers/versions.toml`.

use std::fs;
use std::path::{Path, PathBuf};
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

/// Builds versitygw, a server of S3.
///
/// # Errors As [`pebble`].
pub(super) fn versitygw() -> Result<(), String> {
    build("versitygw", &["cmd/versitygw"])
}

/// Puts the source of the module of `peer` into `folder`, which is emptied before.
///
/// # Errors As [`pebble`], or the folder cannot be written.
pub(super) fn source(peer: &str, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let mut download = Command::new(go()?);
    let module = versions::of(peer, "module")?;
    let named = format!("{module}@{}", versions::of(peer, "version")?);
    download.args(["mod", "download", "-json", &named]);
    // Outside of any module, whose own versions would count.
    let printed = process::output_of(download.current_dir(folder));
    let downloaded = printed.as_deref().and_then(downloaded_to);
    let kept =
        downloaded.ok_or_else(|| format!("Go's module proxy does not answer with {named}"))?;
    // Go keeps its copy read-only.
    let mut copy = Command::new("cp");
    copy.args(["-R", "--no-preserve=mode"]).arg(kept.join("."));
    process::run_quietly(copy.arg(folder))
}

/// Returns the folder that `go mod download -json` names.
fn downloaded_to(printed: &str) -> Option<PathBuf> {
    let module: serde_json::Value = serde_json::from_str(printed).ok()?;
    module["Dir"].as_str().map(PathBuf::from)
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
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = std::path::absolute(&folder).map_err(|error| error.to_string())?;
    twice(|| {
        let mut install = Command::new(&go);
        install.env("GOBIN", &folder).args(["install", "-trimpath"]);
        let packages = folders.iter().map(|it| format!("{module}/{it}"));
        install.args(packages.map(|it| format!("{}@{version}", it.trim_end_matches('/'))));
        process::run(&mut install)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_module_is_read_from_what_go_prints() {
        let printed = r#"{"Path": "example.org/m", "Dir": "/go/pkg/mod/example.org/m@v1.0.0"}"#;
        let folder = downloaded_to(printed).expect("named");
        assert_eq!(folder, Path::new("/go/pkg/mod/example.org/m@v1.0.0"));
        let refused = r#"{"Path": "example.org/m", "Error": "not found"}"#;
        assert_eq!(downloaded_to(refused), None);
        assert_eq!(downloaded_to("go: no network"), None);
    }
}
