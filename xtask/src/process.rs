//! Runs other programs: cargo, apt, peers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the checkout; every recipe runs there.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the checkout")
}

/// A command for the cargo that runs us, with `arguments`, in the root of the checkout.
///
/// On a build server the lock file must not change.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let (subcommand, rest) = arguments
        .split_first()
        .expect("a cargo call names its subcommand");
    command.arg(subcommand).current_dir(root());
    let reads_lock_file = *subcommand != "fmt";
    if on_build_server() {
        // A build server builds once, so that incremental data would not be used.
        command.env("CARGO_INCREMENTAL", "0");
        if reads_lock_file {
            command.arg("--locked");
        }
    }
    command.args(rest);
    command
}

/// Whether `CI=true`: a missing peer then is a failure, not a skip.
pub(crate) fn on_build_server() -> bool {
    std::env::var("CI").is_ok_and(|value| matches!(value.as_str(), "true" | "1"))
}

/// The target directory of the checkout, as cargo sees it.
pub(crate) fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Runs `command` to its end, and prints its command line.
///
/// # Errors The program could not be started, or did not end with success.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    announce(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start {}: {error}", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", line(command)))
    }
}

/// Runs `command` to its end without printing.
///
/// # Errors The program could not be started, or did not end with success; the text then has
/// everything that it printed on standard error.
pub(crate) fn run_quietly(command: &mut Command) -> Result<(), String> {
    announce(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", line(command)))?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{said}{} ended with {}",
            line(command),
            output.status
        ))
    }
}

/// Runs `command` without printing; returns its standard output if it ended with success.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Cargo's metadata of the workspace's own packages.
///
/// # Errors A manifest is broken; cargo has printed which one.
pub(crate) fn workspace_metadata() -> Result<serde_json::Value, String> {
    let mut command = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", line(&command)))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{} gave no JSON: {error}", line(&command)))
}

/// Path of `program` on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    // Servers lie where a user's PATH may not lead.
    std::env::split_paths(&std::env::var_os("PATH")?)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// `command` as a person would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn announce(command: &Command) {
    println!("$ {}", line(command));
}
