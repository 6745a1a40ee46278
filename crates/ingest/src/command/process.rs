//! One process of a program, from its start to the end of all that it started.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::pipe::Receiver;
use parking_lot::Mutex;

use super::last_words::LastWords;
use super::output::Output;
use crate::file::{Failure, Stop};
use crate::{CommandSource, Device};

/// Folders in which programs are looked for. The server's own environment, which may hold tokens, is
/// not passed on.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Time that a program has to end after the end of its output, and after SIGTERM.
const FAREWELL: Duration = Duration::from_millis(500);
const TERMINATION: Duration = Duration::from_secs(2);

/// Interval at which an ending program is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A program that runs.
pub(super) struct Process {
    name: String,
    child: Child,
    output: Option<Receiver>,
    words: Arc<Mutex<LastWords>>,
}

/// The reason why a program does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartFailure {
    #[error("the program '{name}' is not installed{remedy}")]
    Absent { name: String, remedy: &'static str },
    #[error("the program '{name}' may not be run: {error}")]
    Forbidden { name: String, error: io::Error },
    #[error("the program '{name}' does not start: {error}")]
    System { name: String, error: io::Error },
    #[error(
        "there is no {}: connect the device, or load its driver (`ls /dev/video*` lists those that are there)",
        .0.display()
    )]
    NoDevice(PathBuf),
    #[error(
        "{} may not be read: add the server's user to the group 'video' (usermod -aG video USER)",
        .0.display()
    )]
    NoRight(PathBuf),
}

impl Process {
    /// Starts the program of `source` in a group of its own. The thread that calls this must outlive the
    /// process, which is killed when the thread ends.
    ///
    /// # Errors
    /// Returns [`StartFailure`] with what to do.
    pub(super) fn start(source: &CommandSource) -> Result<Self, StartFailure> {
        if let Some(device) = source.device() {
            check(device)?;
        }
        let line = source.command_line();
        let name = line[0].clone();
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .env_clear()
            .env("PATH", PATH)
            .envs(&source.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own, so that nothing that it starts outlives it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        glassline_net::isolate(&mut command);
        let started = command.spawn();
        let mut child = started.map_err(|error| StartFailure::of(&name, source, error))?;
        match pipes(&mut child) {
            Ok((output, words)) => Ok(Self {
                name,
                child,
                output: Some(output),
                words: Arc::new(Mutex::new(LastWords::new(words))),
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(StartFailure::System { name, error })
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the program writes; once.
    pub(super) fn output(&mut self, stop: &Arc<Stop>) -> io::Result<Box<dyn Read + Send>> {
        let output = self.output.take().ok_or(io::ErrorKind::NotFound)?;
        let words = Arc::clone(&self.words);
        Ok(Box::new(Output::new(output, words, Arc::clone(stop))?))
    }

    /// Ends the program and all that it started, and returns why the source ended. `failure`: why its
    /// output could not be played on.
    pub(super) fn end(mut self, failure: Option<Failure>, stop: &Stop) -> String {
        let patience = match stop.is_given() {
            true => Duration::ZERO,
            false => FAREWELL,
        };
        let ended = self.ended_within(patience);
        if ended.is_none() {
            let _ = glassline_net::terminate_process_group(self.child.id());
            let _ = self.ended_within(TERMINATION);
        }
        // What the program started may live on.
        let _ = glassline_net::kill_process_group(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = {
            let mut words = self.words.lock();
            words.read();
            words.lines()
        };
        let said = said.map_or(String::new(), |said| format!(": {said}"));
        let name = &self.name;
        let ended = ended.map(|status| format!("{name} ended with {}{said}", code_of(status)));
        match (failure, ended) {
            // A program without output says why there is none.
            (Some(failure), Some(ended)) if failure.is_of_nothing() => ended,
            // What its output lacks ended the program, which nobody read from then on.
            (Some(failure), _) => failure.to_string(),
            (None, Some(ended)) => ended,
            (None, None) => format!("{name} closed its output{said}"),
        }
    }

    /// Waits for the end of the program, and reads what it says meanwhile.
    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            self.words.lock().read();
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns the ends of the program's output and errors from which nothing is waited for.
fn pipes(child: &mut Child) -> io::Result<(Receiver, Receiver)> {
    let absent = || io::Error::from(io::ErrorKind::NotFound);
    let output = Receiver::from(child.stdout.take().ok_or_else(absent)?);
    let words = Receiver::from(child.stderr.take().ok_or_else(absent)?);
    output.set_nonblocking(true)?;
    words.set_nonblocking(true)?;
    Ok((output, words))
}

fn code_of(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("code {code}"),
        None => status.to_string(),
    }
}

/// Checks that a device is there and may be read.
fn check(device: &Device) -> Result<(), StartFailure> {
    match std::fs::File::open(&device.path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(StartFailure::NoRight(device.path.clone()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StartFailure::NoDevice(device.path.clone()))
        }
        // FFmpeg says what else is wrong.
        _ => Ok(()),
    }
}

impl StartFailure {
    fn of(name: &str, source: &CommandSource, error: io::Error) -> Self {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent {
                name,
                remedy: match source.is_ffmpeg() {
                    true => ": install the package ffmpeg",
                    false => ": write its whole path, or install its package",
                },
            },
            io::ErrorKind::PermissionDenied => Self::Forbidden { name, error },
            _ => Self::System { name, error },
        }
    }
}
