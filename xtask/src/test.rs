//! `cargo xtask test`: everything that must hold before a change lands.

use std::path::Path;
use std::process::Command;

use crate::summary::{Outcome, Summary};
use crate::{Failure, check, install, process};

/// Peers, formatting, lints, licences and advisories, all tests; then the summary.
///
/// A missing peer is a skip with its name on a laptop, a failure where `CI=true`.
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
    sound_devices(&mut summary, with_peers);
    dependencies(&mut summary);
    summary.step("tests", |tests| {
        let mut cargo = process::cargo(&["test", "--workspace", "--no-fail-fast"]);
        if !with_peers {
            cargo.env("GLASSLINE_TEST_NO_PEERS", "1");
        }
        process::run_watching(&mut cargo, |line| tests.read_line(line)).into()
    });
    Ok(summary.finish()?)
}

/// With microphones and loudspeakers.
const DEVICES: [&str; 2] = ["--features", "glassline/devices"];

/// What is only built where a machine has a sound library: no other step sees it. It is
/// heard on the null sinks of a PulseAudio of its own.
fn sound_devices(summary: &mut Summary, with_peers: bool) {
    summary.step("sound devices", |_| {
        if let Err(reason) = install::audio() {
            return match process::on_build_server() {
                true => Outcome::Failed(reason),
                false => Outcome::Skipped(reason),
            };
        }
        if let Err(reason) = check::clippy(&DEVICES) {
            return Outcome::Failed(reason);
        }
        if !with_peers {
            return Outcome::Passed;
        }
        // All but those whose tests have the same name and know no sound device: left out,
        // they need not be built again, and what crates need of others stays as it is.
        let all_but = [
            "--exclude",
            "glassline-server",
            "--exclude",
            "glassline-sctp",
        ];
        let named = ["--test", "tests", "sound_cards"];
        let test = [&["test", "--workspace"][..], &all_but, &DEVICES, &named].concat();
        process::run(&mut process::cargo(&test)).into()
    });
}

/// Licences, bans and sources of everything in the lock file; security advisories where
/// their database can be had.
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

/// `what` of the checkout's `deny.toml`. Crates in two versions are seen, and not told.
fn cargo_deny(program: &Path, what: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    command.args(["--log-level", "error", "--locked", "check"]);
    command.arg("--hide-inclusion-graph").args(what);
    command
}
