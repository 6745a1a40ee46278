//! `cargo xtask test`: all checks that must pass before a change is merged.

use std::path::Path;
use std::process::Command;

use crate::summary::{Outcome, Summary};
use crate::{Failure, check, install, process};

/// Runs peers, formatting, lints, licenses and advisories, and all tests; then prints the
/// summary.
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
    check::formatting(&mut summary);
    check::lints(&mut summary);
    let features = sound_devices(&mut summary);
    dependencies(&mut summary);
    summary.step("tests", |tests| {
        let all = [&["test", "--workspace", "--no-fail-fast"], features].concat();
        let mut cargo = process::cargo(&all);
        if !with_peers {
            cargo.env("GLASSLINE_TEST_NO_PEERS", "1");
        }
        process::run_watching(&mut cargo, |line| tests.read_line(line)).into()
    });
    Ok(summary.finish()?)
}

/// Arguments that enable microphones and loudspeakers.
const DEVICES: &[&str] = &["--features", "glassline/devices"];

/// Checks the code that is built only with a sound library, and returns the arguments to test
/// with: where the library is installed, all tests are built with sound devices, so that one
/// build serves all of them. The step before has checked the build without devices.
fn sound_devices(summary: &mut Summary) -> &'static [&'static str] {
    let library = install::audio();
    let features = if library.is_ok() { DEVICES } else { &[] };
    summary.step("sound devices", |_| match library {
        Ok(()) => check::clippy(DEVICES).into(),
        Err(reason) if process::on_build_server() => Outcome::Failed(reason),
        Err(reason) => Outcome::Skipped(reason),
    });
    features
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
