//! Processes of servers and generators: started on their cores, read, and ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::place::Cores;
use crate::process;

/// Time that a server has to end by itself.
const FAREWELL: Duration = Duration::from_secs(3);

/// Most lines that wait to be read; later lines are in the log only.
const LINES_WAITING: usize = 1_000;

/// A server process or one of its helpers. Dropping it ends the process.
pub(super) struct Running {
    name: String,
    child: Child,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Running {
    /// Starts `command` on `cores`; its output goes to `log`.
    pub(super) fn start(command: &Command, cores: &Cores, log: &Path) -> Result<Running, String> {
        let name = process::line(command)
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned();
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let mut child = on(command, cores)
            // Sources that somebody made over the API of another server here are no part of the load.
            .env("XDG_STATE_HOME", log.with_extension("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let file = Arc::new(Mutex::new(File::create(log).map_err(failed)?));
        let (sender, lines) = sync_channel(LINES_WAITING);
        if let Some(stream) = child.stdout.take() {
            listen(stream, Arc::clone(&file), sender.clone());
        }
        if let Some(stream) = child.stderr.take() {
            listen(stream, file, sender);
        }
        Ok(Running {
            name,
            child,
            lines,
            log: log.to_owned(),
        })
    }

    /// Waits for a line that begins with `word`; returns the rest of the line.
    pub(super) fn wait_for(&self, word: &str, patience: Duration) -> Result<String, String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.complain(&format!("did not say `{word}`")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.complain("ended")),
            }
        }
    }

    /// Polls `is_ready` until it returns true, the program ends, or `patience` is over.
    pub(super) fn wait_until(
        &mut self,
        patience: Duration,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        while !is_ready() {
            if self.has_ended().is_some() {
                return Err(self.complain("ended"));
            }
            if Instant::now() > deadline {
                return Err(self.complain("does not serve"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Exit status, if the program has ended.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Id of the program's own process: the shell that started it has become the program.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns `what` the program did, with the last lines of its log.
    pub(super) fn complain(&self, what: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(5)..].join("\n    ");
        format!(
            "{} {what}; see {}\n    {end}",
            self.name,
            self.log.display()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended by itself, so that there is nothing to signal.
        let _ = signal(self.id(), "-TERM");
        let deadline = Instant::now() + FAREWELL;
        while self.has_ended().is_none() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs `command` on `cores` to its end, on this terminal; ends it after `patience`.
pub(super) fn run_in_view(
    command: &Command,
    cores: &Cores,
    patience: Duration,
) -> Result<(), String> {
    println!("$ {}", process::line(command));
    let mut child = on(command, cores)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", process::line(command)))?;
    let deadline = Instant::now() + patience;
    loop {
        let status = child.try_wait().map_err(|error| error.to_string())?;
        match status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("the generator ended with {status}")),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the generator did not end within {patience:?}"));
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Wraps `command` so that it is bound to `cores` and may open as many files as the system allows
/// (a viewer needs up to five). Shell and `taskset` become the program, so that the process id is
/// the program's. The program gets a signal when this process ends in any way, so that no server
/// remains that would disturb the next comparison.
pub(super) fn on(command: &Command, cores: &Cores) -> Command {
    let mut bound = Command::new("sh");
    bound.args(["-c", "ulimit -n \"$(ulimit -H -n)\"; exec \"$@\"", "sh"]);
    if process::find("setpriv").is_some() {
        bound.args(["setpriv", "--pdeathsig", "TERM"]);
    }
    if let Some(list) = cores.list() {
        bound.args(["taskset", "-c", list]);
    }
    bound.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

fn signal(process: u32, name: &str) -> Result<(), String> {
    Command::new("kill")
        .args([name, &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .map(drop)
        .map_err(|error| format!("cannot run kill: {error}"))
}

fn listen(stream: impl Read + Send + 'static, log: Arc<Mutex<File>>, lines: SyncSender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            // A full disk affects the log, not the measurement.
            let _ = writeln!(log, "{line}");
            let _ = lines.try_send(line);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> PathBuf {
        let folder = process::target_directory().join("test-output");
        fs::create_dir_all(&folder).expect("the target directory is writable");
        folder.join(name)
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_word_is_waited_for_and_the_program_ended() {
        let script = "echo first; echo ready here; exec sleep 60";
        let running = Running::start(&shell(script), &Cores::any(), &log("peer-ready.log"))
            .expect("there is a shell");
        let said = running.wait_for("ready ", Duration::from_secs(20));
        assert_eq!(said.as_deref(), Ok("here"));
        let begun = Instant::now();
        drop(running);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_ends_says_why() {
        let script = "echo no such port >&2; exit 1";
        let running = Running::start(&shell(script), &Cores::any(), &log("peer-ended.log"))
            .expect("there is a shell");
        let error = running
            .wait_for("ready ", Duration::from_secs(20))
            .expect_err("it never was ready");
        assert!(error.contains("no such port"), "{error}");
    }

    #[test]
    fn a_program_does_not_outlive_who_started_it() {
        if process::find("setpriv").is_none() {
            // Without util-linux the signal cannot be set up.
            return;
        }
        let bound = on(&shell("exec sleep 60"), &Cores::any());
        let mut starter = Command::new("sh");
        starter.args(["-c", "\"$@\" & echo $!; wait", "sh"]);
        starter.arg(bound.get_program()).args(bound.get_args());
        let mut starter = starter
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut line = String::new();
        let output = starter.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says its number");
        // A process that has ended and was not waited for has no command line.
        let commands = format!("/proc/{}/cmdline", line.trim());
        let sleeps = || fs::read(&commands).is_ok_and(|text| text.starts_with(b"sleep"));
        let wait_until = |is_so: &dyn Fn() -> bool| {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !is_so() {
                assert!(Instant::now() < deadline, "{commands}");
                thread::sleep(Duration::from_millis(20));
            }
        };
        wait_until(&sleeps);
        // A kill leaves no time to clean up.
        starter.kill().expect("it waits");
        starter.wait().expect("it is ours");
        wait_until(&|| !sleeps());
    }

    #[test]
    fn a_generator_that_hangs_is_ended() {
        let result = run_in_view(
            &shell("exec sleep 60"),
            &Cores::any(),
            Duration::from_millis(200),
        );
        assert!(result.is_err());
    }
}
