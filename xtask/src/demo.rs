//! `cargo xtask demo`: the built-in stream in a browser, from a fresh clone.

use crate::{Failure, install, process};

/// Builds the binary in the profile `demo`, which compiles quickly, and replaces this process by
/// `glassline demo` with `arguments`.
///
/// On Unix the server replaces the process, so that Ctrl-C and SIGTERM reach it directly and the
/// shell waits for its orderly end.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    install::build_tools()?;
    let mut cargo = process::cargo(&["run", "--profile", "demo", "--package", "glassline"]);
    cargo.args(["--", "demo"]).args(arguments);
    become_process(cargo)
}

#[cfg(unix)]
fn become_process(mut command: std::process::Command) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(format!("cannot start {}: {error}", process::line(&command)).into())
}

#[cfg(not(unix))]
fn become_process(mut command: std::process::Command) -> Result<(), Failure> {
    Ok(process::run(&mut command)?)
}
