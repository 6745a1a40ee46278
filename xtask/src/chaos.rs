//! `cargo xtask chaos`: a server under attack, and what its good viewers lose.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, install, process};

/// Exit code of a run in which a demand was missed, as of `glassline bench chaos`.
const MISSED: i32 = 3;

/// Builds the optimized binary with injected faults, and runs `glassline bench chaos` with `arguments`.
///
/// With `--smoke` the binary that tests use is built.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    install::build_tools()?;
    let is_smoke = arguments.iter().any(|argument| argument == "--smoke");
    let program = if is_smoke {
        process::run(&mut process::cargo(&["build", "--package", "glassline"]))?;
        debug()
    } else {
        release()?
    };
    perform(&program, arguments)
}

/// Runs the smoke with the binary that the tests have built, whatever its features.
pub(crate) fn smoke() -> Result<(), String> {
    perform(&debug(), &["--smoke".to_owned()]).map_err(|failure| failure.text)
}

fn debug() -> PathBuf {
    process::target_directory().join("debug/glassline")
}

fn release() -> Result<PathBuf, Failure> {
    // With this feature the server panics and steps its clock when the harness asks for it.
    let faults = ["--features", "fault-injection"];
    let build = ["build", "--release", "--package", "glassline"];
    process::run(process::cargo(&build).args(faults))?;
    Ok(process::target_directory().join("release/glassline"))
}

fn perform(program: &Path, arguments: &[String]) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    command.args(["bench", "chaos", "--media-folder", "assets"]);
    command.args(arguments);
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
