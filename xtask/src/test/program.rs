//! Runs of one test program.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::report::Report;
use crate::executables::Executable;
use crate::process;

/// Time without a line after which a program counts as hanging. The longest tests take two minutes, and
/// computing programs get what others leave of the processor.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Conditions that all programs of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) with_peers: bool,
    /// Seed of property tests, which makes them draw the same cases again.
    pub(super) seed: u64,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) line: String,
    pub(super) printed: String,
    pub(super) report: Report,
    /// The reason why the program did not end with success, if no test of it failed: a signal, a hang.
    pub(super) problem: Option<String>,
    pub(super) took: Duration,
}

/// Name of a program for people: `glassline-rtp`, or with its target, `glassline-server tests`.
pub(super) fn name(program: &Executable) -> String {
    match program.is_unit {
        true => program.package.clone(),
        false => format!("{} {}", program.package, program.target),
    }
}

/// Command that runs a test program as cargo does.
pub(super) fn command(program: &Executable, arguments: &[&str], conditions: Conditions) -> Command {
    let mut command = Command::new(&program.path);
    command.args(arguments).current_dir(&program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("PROPTEST_RNG_SEED", conditions.seed.to_string());
    if !conditions.with_peers {
        command.env("GLASSLINE_TEST_NO_PEERS", "1");
    }
    command
}

/// Names of the tests of a program that `arguments` select.
///
/// # Errors The program cannot list them.
pub(super) fn list(program: &Executable, arguments: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder);
    command
        .args(["--list", "--format", "terse"])
        .args(arguments);
    let listed = process::output_of(&mut command);
    let listed = listed.ok_or_else(|| format!("{} lists no tests", name(program)))?;
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// Runs a command to its end, or until it hangs. Passes each line to `each_line` as soon as it is
/// printed.
pub(super) fn run(mut command: Command, mut each_line: impl FnMut(&str)) -> Ran {
    let began = Instant::now();
    let line = process::line(&command);
    let mut printed = String::new();
    let problem = watch(&mut command, |text| {
        each_line(text);
        printed.push_str(text);
        printed.push('\n');
    });
    let report = Report::read(&printed);
    let has_failed_tests = report.has_ended && report.failed().next().is_some();
    Ran {
        problem: problem.err().filter(|_| !has_failed_tests),
        took: began.elapsed(),
        line,
        printed,
        report,
    }
}

fn watch(command: &mut Command, mut each_line: impl FnMut(&str)) -> Result<(), String> {
    let log = process::target_directory().join("test-output");
    let log = log.join(format!("{}.stderr", file_name(command)));
    let cannot = |error: std::io::Error| format!("cannot start: {error}");
    let errors = log.parent().map(std::fs::create_dir_all);
    errors.transpose().map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(File::create(&log).map_err(cannot)?);
    let mut child = command.spawn().map_err(cannot)?;
    let output = child.stdout.take().expect("standard output is piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text).into_owned();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(text) => each_line(&text),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "printed nothing for {SILENCE_MAX:?}, and was ended"
                ));
            }
        }
    }
    let status = child.wait().map_err(|error| format!("waiting: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("ended with {status}; {}", log.display())),
    }
}

fn file_name(command: &Command) -> String {
    // A command at idle priority has the program among its arguments.
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let paths = words
        .map(std::path::Path::new)
        .filter(|it| it.is_absolute());
    let name = paths.last().and_then(|it| it.file_name());
    name.map_or("cargo".into(), |it| it.to_string_lossy().into_owned())
}

/// Returns the command, which gets the part of the processor that others leave. Where the system
/// refuses that priority, which a container may, the command has the lowest usual one.
pub(super) fn at_idle_priority(command: &Command) -> Command {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_at_idle_priority_keeps_its_folder_and_environment() {
        let mut command = Command::new("sh");
        let asked = "cut -d ' ' -f 19,41 /proc/self/stat; pwd; echo $WORD; exit 3";
        command.args(["-c", asked]);
        command.current_dir("/").env("WORD", "kept");
        let ran = run(at_idle_priority(&command), |_| ());
        let lines: Vec<&str> = ran.printed.lines().collect();
        // Nice value and policy, of which 5 is SCHED_IDLE.
        let is_idle = lines[0].ends_with(" 5") || lines[0].starts_with("19 ");
        assert!(is_idle, "{lines:?}");
        assert_eq!(lines[1..], ["/", "kept"]);
        assert!(ran.problem.is_some_and(|it| it.contains("exit status: 3")));
    }

    #[test]
    fn a_program_that_fails_without_a_failed_test_has_a_problem() {
        let ran = run(Command::new("/no/such/program"), |_| ());
        assert!(ran.problem.is_some_and(|it| it.contains("cannot start")));
        let mut command = Command::new("sh");
        command.args(["-c", "echo test a ... ok; kill -9 $$"]);
        let ran = run(command, |_| ());
        assert_eq!(ran.report.passed(), 1);
        assert!(ran.problem.is_some_and(|it| it.contains("signal: 9")));
        let mut command = Command::new("sh");
        let script = "echo test a ... FAILED; echo test result: FAILED.; exit 101";
        let ran = run(
            {
                command.args(["-c", script]);
                command
            },
            |_| (),
        );
        assert_eq!((ran.problem, ran.report.failed().count()), (None, 1));
    }
}
