//! `cargo xtask test`: all checks that must pass before a change is merged.

mod peers;
mod suite;

use std::path::Path;
use std::process::Command;

use self::peers::Installing;
use crate::summary::{Outcome, Summary};
use crate::{Failure, chaos, check, install, process};

/// Installs peers, beside formatting and lints; then runs licenses and advisories, all tests, and a
/// minute of chaos, and prints the summary.
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
    let with_sound = sound_library(&mut summary);
    let installing = with_peers.then(Installing::begin);
    check::formatting(&mut summary);
    check::lints(&mut summary, if with_sound { DEVICES } else { &[] });
    summary.step("peers", |_| {
        let Some(installing) = installing else {
            return Outcome::Skipped("--no-peers".to_owned());
        };
        match installing.and_then(Installing::end) {
            Err(reason) if !process::on_build_server() => Outcome::Skipped(reason),
            result => result.into(),
        }
    });
    dependencies(&mut summary);
    summary.step("tests", |tests| suite::run(with_peers, tests).into());
    if with_sound && with_peers {
        sound_devices(&mut summary);
    }
    // Alone: the smoke watches delivery, which other tests would disturb.
    summary.step("chaos", |_| chaos::smoke().into());
    Ok(summary.finish()?)
}

/// Arguments that enable microphones and loudspeakers.
const DEVICES: &[&str] = &["--features", "glassline/devices"];

/// Installs the sound library, which code of a feature of its own needs. Returns whether it is there.
fn sound_library(summary: &mut Summary) -> bool {
    let mut is_there = true;
    summary.step("sound library", |_| match install::audio() {
        Ok(()) => Outcome::Passed,
        Err(reason) => {
            is_there = false;
            match process::on_build_server() {
                true => Outcome::Failed(reason),
                false => Outcome::Skipped(reason),
            }
        }
    });
    is_there
}

/// Tests sound devices on the null sinks of a PulseAudio of the tests' own. Such a build calls with
/// the system's devices unless files are named, so that the other tests are those of users' builds.
fn sound_devices(summary: &mut Summary) {
    summary.step("sound devices", |tests| {
        // All crates but those whose tests have the same name and use no sound device: without
        // them nothing is built again, and features of shared crates stay the same.
        let all_but = [
            "--exclude",
            "glassline-server",
            "--exclude",
            "glassline-sctp",
        ];
        let named = ["--test", "tests", "sound_cards"];
        let test = [&["test", "--workspace"][..], &all_but, DEVICES, &named].concat();
        process::run_watching(&mut process::cargo(&test), |line| tests.read_line(line)).into()
    });
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
