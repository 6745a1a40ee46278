//! Runs the tests of all crates.
//!
//! ```text
//!  cargo test --no-run ─► programs ─┬─ of crates with clocks and sockets ─► one after the other
//!                                   └─ of the others, documentation ──────► beside them, at idle
//!                                                                            priority
//! ```
//!
//! Tests with clocks and sockets leave the cores idle for much of their time, because they wait for
//! peers and timers. The others only compute, and no clock tells them how long that takes.

use std::process::{Command, Stdio};

use crate::executables::{self, Executable};
use crate::process;
use crate::summary::Tests;

/// Crates whose tests read no clock and open no socket, as the crates themselves.
const COMPUTING: [&str; 12] = [
    "glassline-cluster",
    "glassline-congestion",
    "glassline-demux",
    "glassline-hub",
    "glassline-media",
    "glassline-rtp",
    "glassline-rtsp",
    "glassline-sctp",
    "glassline-sim",
    "glassline-transcode",
    "glassline-voice",
    "glassline-webrtc",
];

/// Builds and runs all tests, counts them in `tests`, and goes on after a failure.
///
/// # Errors Something does not compile, or a program failed; the text names all of them.
pub(super) fn run(with_peers: bool, tests: &mut Tests) -> Result<(), String> {
    let mut programs = executables::build(&["test", "--workspace", "--no-run"])?;
    programs.sort_by(|a, b| {
        let order = |it: &Executable| (it.package.clone(), !it.is_unit, it.target.clone());
        order(a).cmp(&order(b))
    });
    let (computing, waiting): (Vec<_>, Vec<_>) = programs
        .iter()
        .partition(|it| COMPUTING.contains(&it.package.as_str()));
    let mut beside: Vec<Command> = computing
        .into_iter()
        .map(|it| command(it, with_peers))
        .collect();
    // With the features of the build before: another one would put another program in the place of
    // the one under test.
    beside.push(process::cargo(&[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--doc",
    ]));
    let mut failures = Vec::new();
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            beside
                .iter()
                .map(at_idle_priority)
                .map(run_through)
                .collect()
        });
        for program in waiting {
            let mut command = command(program, with_peers);
            let result = process::run_watching(&mut command, |line| tests.read_line(line));
            failures.extend(result.err());
        }
        let result = beside.join();
        result.map_err(|_| "a thread that runs tests panicked")
    })?;
    for ran in ran {
        ran.output.lines().for_each(|line| tests.read_line(line));
        failures.extend(ran.result.err());
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n    ")),
    }
}

/// Runs a test program as cargo does.
fn command(program: &Executable, with_peers: bool) -> Command {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    if !with_peers {
        command.env("GLASSLINE_TEST_NO_PEERS", "1");
    }
    command
}

/// The same command, which gets what others leave of the processor. Where the system refuses that,
/// which a container may, it has the lowest usual priority.
fn at_idle_priority(command: &Command) -> Command {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]);
    if process::output_of(Command::new("chrt").args(["--idle", "0", "true"])).is_none() {
        idle = Command::new("nice");
        idle.args(["-n", "19"]);
    }
    idle.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    idle
}

/// A program that has ended.
struct Ran {
    /// What it printed on standard output.
    output: String,
    result: Result<(), String>,
}

/// Runs a command to its end, and prints what it printed in one piece, so that lines of two
/// programs do not mix.
fn run_through(mut command: Command) -> Ran {
    let line = process::line(&command);
    let ended = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    match ended {
        Ok(ended) => {
            let output = String::from_utf8_lossy(&ended.stdout).into_owned();
            println!("$ {line}\n{output}");
            let failure = || format!("{line} ended with {}", ended.status);
            let result = ended.status.success().then_some(()).ok_or_else(failure);
            Ran { output, result }
        }
        Err(error) => Ran {
            output: String::new(),
            result: Err(format!("cannot start {line}: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_at_idle_priority_keeps_its_folder_and_environment() {
        let mut command = Command::new("sh");
        let asked = "cut -d ' ' -f 19,41 /proc/self/stat; pwd; echo $WORD; exit 3";
        command.args(["-c", asked]);
        command.current_dir("/").env("WORD", "kept");
        let ran = run_through(at_idle_priority(&command));
        let lines: Vec<&str> = ran.output.lines().collect();
        // Nice value and policy, of which 5 is SCHED_IDLE.
        let is_idle = lines[0].ends_with(" 5") || lines[0].starts_with("19 ");
        assert!(is_idle, "{lines:?}");
        assert_eq!(lines[1..], ["/", "kept"]);
        assert!(ran.result.is_err_and(|it| it.contains("exit status: 3")));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let ran = run_through(Command::new("/no/such/program"));
        assert!(ran.result.is_err_and(|it| it.contains("program")));
    }
}
