//! Peers that no registry has compiled: built from source under `target/peers/`, at the revision in
//! `peers/versions.toml`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{go, modules};
use crate::{process, versions};

/// live555's media server: the one on the PATH, else the one that is built here.
///
/// # Errors It could not be built; the text names the step.
pub(crate) fn live555() -> Result<PathBuf, String> {
    program("live555", "live555MediaServer", |folder| {
        super::build_tools()?;
        super::compiler("c++", "CXX")?;
        let revision = versions::of("live555", "commit")?;
        check_out("live555", &revision, folder)?;
        let in_folder = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            process::run_quietly(command.current_dir(folder).args(arguments))
        };
        in_folder("sh", &["genMakefiles", "linux-no-openssl"])?;
        let parts = [
            "groupsock",
            "UsageEnvironment",
            "BasicUsageEnvironment",
            "liveMedia",
            "mediaServer",
        ];
        for part in parts {
            in_folder("make", &["-C", part])?;
        }
        Ok(folder.join("mediaServer/live555MediaServer"))
    })
}

/// cargo-mutants: the one on the PATH, else the pinned one, compiled from the registry.
///
/// # Errors It could not be built; the text has what cargo printed.
pub(crate) fn cargo_mutants() -> Result<PathBuf, String> {
    if let Some(own) = process::find("cargo-mutants") {
        return Ok(own);
    }
    let version = versions::of("cargo-mutants", "version")?;
    let folder = process::target_directory().join("tools/cargo-mutants");
    let program = folder.join("bin/cargo-mutants");
    let printed = process::output_of(Command::new(&program).args(["mutants", "--version"]));
    if printed.is_some_and(|line| line.trim().ends_with(&version)) {
        return Ok(program);
    }
    let package = format!("cargo-mutants@{version}");
    let mut install = process::cargo(&["install", "--quiet", &package, "--root"]);
    install.arg(&folder);
    if !process::on_build_server() {
        // On a build server every call of cargo is locked.
        install.arg("--locked");
    }
    process::run_quietly(&mut install)?;
    Ok(program)
}

/// MediaMTX: the one on the PATH, else the one that is built here of Go's module.
///
/// # Errors As [`live555`].
pub(crate) fn mediamtx() -> Result<PathBuf, String> {
    program("mediamtx", "mediamtx", |folder| {
        let go = go()?;
        let version = versions::of("mediamtx", "version")?;
        modules::source("mediamtx", folder)?;
        // Files that `go generate` would make: its version, and a player for browsers that no
        // comparison serves.
        for (path, text) in [
            ("internal/core/VERSION", version.as_str()),
            ("internal/servers/hls/hls.min.js", "// left out\n"),
        ] {
            let path = folder.join(path);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let mut build = Command::new(go);
        build.current_dir(folder).env("CGO_ENABLED", "0");
        build.args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-o",
            "mediamtx",
            ".",
        ]);
        process::run_quietly(&mut build)?;
        Ok(folder.join("mediamtx"))
    })
}

/// The publisher and reader of the MoQ project (`moq`) and its relay: those on the PATH, else
/// built from the registry, which takes a quarter of an hour on two cores.
///
/// # Errors As [`live555`].
pub(crate) fn moq() -> Result<(PathBuf, PathBuf), String> {
    let build = |package: &'static str, binary: &'static str| {
        program(package, binary, |folder| {
            super::build_tools()?;
            let version = versions::of(package, "version")?;
            let mut install = process::cargo(&["install", "--no-default-features"]);
            install.args(["--features", "noq", "--version", &version, "--root"]);
            // Their own profile links for minutes longer, and is hardly faster.
            install.env("CARGO_PROFILE_RELEASE_LTO", "off");
            process::run(install.arg(folder).arg(package))?;
            Ok(folder.join("bin").join(binary))
        })
    };
    Ok((build("moq-cli", "moq")?, build("moq-relay", "moq-relay")?))
}

/// Finds `program` of `peer`: on the PATH, built earlier, or built now in a folder.
fn program(
    peer: &str,
    program: &str,
    build: impl Fn(&Path) -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    if let Some(path) = process::find(program) {
        return Ok(path);
    }
    let folder = process::target_directory().join("peers").join(peer);
    // The folder's name contains the revision, so that another revision is built anew.
    let revision = versions::of(peer, "commit").or_else(|_| versions::of(peer, "version"))?;
    let built = folder.join(format!("{program}-{revision}"));
    if built.is_file() {
        return Ok(built);
    }
    let path = build(&folder.join("source")).map_err(|error| {
        format!("`{program}` is not on the PATH and could not be built\n{error}")
    })?;
    fs::copy(&path, &built).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(built)
}

/// Checks `revision` of the peer's repository out into `folder`, which is emptied before.
fn check_out(peer: &str, revision: &str, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let source = versions::of(peer, "source")?;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        // Nobody can answer a question for a password.
        command.env("GIT_TERMINAL_PROMPT", "0").current_dir(folder);
        process::run_quietly(command.args(arguments))
    };
    git(&["init", "--quiet"])?;
    git(&["fetch", "--quiet", "--depth", "1", &source, revision])?;
    git(&["checkout", "--quiet", "FETCH_HEAD"])
}
