//! `cargo xtask chaos`: a server under attack, and what its good viewers lose.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, install, process};

/// Exit code of a run in which a demand was missed, as of `glassline bench chaos`.
const MISSED: i32 = 3;

/// Builds the binary in the profile `faults`, and runs `glassline bench chaos` with `arguments`.
///
/// With `--smoke` the binary that tests use is built.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    install::build_tools()?;
    let is_smoke = arguments.iter().any(|argument| argument == "--smoke");
    let program = if is_smoke {
        process::run(&mut process::cargo(&["build", "--package", "glassline"]))?;
        debug()
    } else {
        with_faults()?
    };
    perform(&program, arguments)
}

/// Actions of each kind: a flood, connections that are held, bytes of an authentic peer, a death, and a
/// change of the configuration. `cargo xtask soak` performs all actions.
const SHORT: [&str; 5] = [
    "flood-quic",
    "half-open",
    "garbage-sealed",
    "kill-server",
    "reload",
];

/// Performs a part of the smoke with the binary that the tests have built.
pub(crate) fn short() -> Result<(), String> {
    let only = SHORT.iter().flat_map(|action| ["--only", action]);
    let arguments = std::iter::once("--smoke").chain(only);
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    perform(&debug(), &arguments).map_err(|failure| failure.text)
}

fn debug() -> PathBuf {
    process::target_directory().join("debug/glassline")
}

/// Builds the optimized server that panics and steps its clock when the harness asks for it.
fn with_faults() -> Result<PathBuf, Failure> {
    let build = ["build", "--profile", "faults", "--package", "glassline"];
    process::run(&mut process::cargo(&build))?;
    Ok(process::target_directory().join("faults/glassline"))
}

fn perform(program: &Path, arguments: &[String]) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    command.args(["bench", "chaos", "--media-folder", "assets"]);
    command.args(arguments);
    // Actions on a cluster need NATS, and are skipped without.
    let nats = install::go_peer("nats-server");
    if let Some(folder) = nats.parent().filter(|_| nats.is_file()) {
        let known = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&known));
        let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
        command.env("PATH", path);
    }
    let line = process::line(&command);
    println!("$ {line}");
    let status = command.status();
    let status = status.map_err(|error| format!("cannot start {line}: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(MISSED) => Err(Failure {
            text: "the server missed a demand; the lines above say which".to_owned(),
            exit_code: 3,
        }),
        _ => Err(format!("{line} ended with {status}").into()),
    }
}
