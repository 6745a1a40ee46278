//! Programs that the harness starts, stops, continues and kills.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::Error;

/// A running program. Dropping it kills the program.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    child: Child,
    /// Kept open: some programs end when their standard input is closed.
    _input: Option<ChildStdin>,
    log: LogSwitch,
}

/// Stops and continues the reading of a program's log.
#[derive(Clone, Debug, Default)]
pub(super) struct LogSwitch(Arc<AtomicBool>);

impl LogSwitch {
    /// Nobody reads the log from now on.
    pub(super) fn pause(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The log is read again.
    pub(super) fn resume(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn wait(&self) {
        while self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where standard error of a program goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Log<'a> {
    /// Through a pipe to the end of this file.
    File(&'a Path),
    /// To a device on which every write fails with `ENOSPC`, as on a full disk.
    FullDisk,
}

impl Program {
    /// Starts `command`. Each line of its standard output is passed to `each_line`.
    pub(super) fn start(
        name: &str,
        mut command: Command,
        log: Log<'_>,
        each_line: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Start {
            name: name.to_owned(),
            source,
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match log {
            Log::File(_) => command.stderr(Stdio::piped()),
            Log::FullDisk => {
                let full = File::options().write(true).open("/dev/full");
                command.stderr(full.map_err(failed)?)
            }
        };
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        if let Some(output) = child.stdout.take() {
            on_a_thread("output", move || read_lines(output, each_line)).map_err(failed)?;
        }
        let switch = LogSwitch::default();
        if let (Some(errors), Log::File(path)) = (child.stderr.take(), log) {
            let file = File::options().create(true).append(true).open(path);
            let mut file = file.map_err(failed)?;
            let switch = switch.clone();
            on_a_thread("log", move || {
                read_lines(errors, |line| {
                    switch.wait();
                    // A log that cannot be kept must not change the run.
                    let _ = writeln!(file, "{line}");
                });
            })
            .map_err(failed)?;
        }
        Ok(Self {
            name: name.to_owned(),
            child,
            _input: input,
            log: switch,
        })
    }

    /// Id of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The switch for the reading of this program's log.
    pub(super) fn log(&self) -> LogSwitch {
        self.log.clone()
    }

    /// Sends a signal by its name for `kill`, like `-STOP`.
    pub(super) fn signal(&self, signal: &str) -> Result<(), Error> {
        let failed = |source| Error::Start {
            name: format!("kill {signal} {}", self.name),
            source,
        };
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .stderr(Stdio::null())
            .status()
            .map_err(failed)?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(std::io::Error::other("the process has ended")))
        }
    }

    /// Kills the program, as a crash or the kernel's out-of-memory killer does.
    pub(super) fn kill(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended by itself: {status}", self.name))
    }

    /// Ends the program by SIGTERM; returns false if it had to be killed after `patience`.
    pub(super) fn terminate(&mut self, patience: Duration) -> bool {
        if self.signal("-TERM").is_err() {
            return self.ended().is_some();
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        false
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.log.resume();
        self.kill();
    }
}

fn on_a_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

fn read_lines(stream: impl std::io::Read, mut each_line: impl FnMut(&str)) {
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        each_line(&String::from_utf8_lossy(&line));
    }
}
