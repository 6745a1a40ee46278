//! `cargo xtask test`: all checks that must pass before a change is merged.

use std::path::Path;
use std::process::Command;

use crate::summary::{Outcome, Summary};
use crate::{Failure, chaos, check, install, process};

/// Runs peers, formatting, lints, licenses and advisories, all tests, and a minute of chaos; then
/// prints the summary.
///
/// A missing peer is skipped by name on a laptop, and a failure where `CI=true`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut with_peers = true;
    for argument in arguments {
        match argument.as_str() {
            "--no-peers" => with_peers = false,
            other => return Err(Failure::usage(format!("test takes no `{other}`"))),
        }
    }
    let mut summary = Summary::start();
    summary.step("build tools", |_| install::fuzz_tools().into());
    summary.step("peers", |_| {
        if !with_peers {
            return Outcome::Skipped("--no-peers".to_owned());
        }
        match install::peers() {
            Err(reason) if !process::on_build_server() => Outcome::Skipped(reason),
            result => result.into(),
        }
    });
    let devices = sound_library(&mut summary);
    check::formatting(&mut summary);
    check::lints(&mut summary, devices);
    dependencies(&mut summary);
    summary.step("tests", |tests| {
        let mut cargo = process::cargo(&["test", "--workspace", "--no-fail-fast"]);
        cargo.args(devices);
        if !with_peers {
            cargo.env("GLASSLINE_TEST_NO_PEERS", "1");
        }
        process::run_watching(&mut cargo, |line| tests.read_line(line)).into()
    });
    // Alone: the smoke watches delivery, which other tests would disturb.
    summary.step("chaos", |_| chaos::smoke().into());
    Ok(summary.finish()?)
}

/// Arguments that enable microphones and loudspeakers.
const DEVICES: &[&str] = &["--features", "glassline/devices"];

/// Installs the sound library, which code of a feature of its own needs. Returns the arguments for
/// builds, so that one build has all tests; those of sound devices use the null sinks of a
/// PulseAudio of their own.
fn sound_library(summary: &mut Summary) -> &'static [&'static str] {
    let mut arguments = DEVICES;
    summary.step("sound library", |_| match install::audio() {
        Ok(()) => Outcome::Passed,
        Err(reason) => {
            arguments = &[];
            match process::on_build_server() {
                true => Outcome::Failed(reason),
                false => Outcome::Skipped(reason),
            }
        }
    });
    arguments
}

/// Licenses, bans and sources of all packages in the lock file; security advisories where their
/// database can be fetched.
fn dependencies(summary: &mut Summary) {
    let deny = install::cargo_deny();
    summary.step("dependencies", |_| match &deny {
        Ok(program) => {
            process::run(&mut cargo_deny(program, &["bans", "licenses", "sources"])).into()
        }
        Err(reason) if process::on_build_server() => Outcome::Failed(reason.clone()),
        Err(reason) => Outcome::Skipped(reason.clone()),
    });
    summary.step("advisories", |_| {
        let Ok(program) = &deny else {
            return Outcome::Skipped("there is no cargo-deny".to_owned());
        };
        match process::run_quietly(&mut cargo_deny(program, &["advisories"])) {
            Err(reason) if reason.contains("failed to fetch advisory database") => {
                let unchecked = "the database of advisories cannot be reached: none was checked";
                Outcome::Skipped(unchecked.to_owned())
            }
            result => result.into(),
        }
    });
}

/// A run of cargo-deny for `what` of the checkout's `deny.toml`. Crates in two versions are
/// allowed and not printed.
fn cargo_deny(program: &Path, what: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    command.args(["--log-level", "error", "--locked", "check"]);
    command.arg("--hide-inclusion-graph").args(what);
    command
}
