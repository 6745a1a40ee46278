//! Programs that run during a test: started, read, and ended with it.

use std::borrow::BorrowMut;
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers;

/// A running program. Dropping it kills the program and keeps its output.
pub(crate) struct Running {
    name: String,
    child: Child,
    output: Arc<Output>,
}

/// Lines that the program has printed on either stream.
#[derive(Default)]
struct Output {
    state: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    streams_ended: u32,
}

thread_local! {
    /// Programs that this thread has started for its trial, by name.
    static STARTED: RefCell<Vec<(String, Arc<Output>)>> = const { RefCell::new(Vec::new()) };
}

/// Longest wait of a test for what takes a moment, unless it says otherwise: long, for debug builds on a
/// busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Most lines of a program that stand behind the reason of a failure; its file has all.
const LINES_SHOWN: usize = 200;

/// Returns what the programs have printed that this thread started since the last call.
pub(crate) fn take_printed() -> String {
    let printed = |(name, output): (String, Arc<Output>)| {
        let lines = &output.lock().lines;
        let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        format!("\n--- {name} ---\n{}", last.join("\n"))
    };
    STARTED.take().into_iter().map(printed).collect()
}

impl Running {
    /// Starts `command`; `name` is its name in failures.
    pub(crate) fn start(
        name: &str,
        mut command: impl BorrowMut<Command>,
    ) -> Result<Running, String> {
        let mut child = command
            .borrow_mut()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let output = Arc::new(Output::default());
        if let Some(stream) = child.stdout.take() {
            listen(stream, Arc::clone(&output));
        }
        if let Some(stream) = child.stderr.take() {
            listen(stream, Arc::clone(&output));
        }
        let name = name.to_owned();
        STARTED.with_borrow_mut(|it| it.push((name.clone(), Arc::clone(&output))));
        Ok(Running {
            name,
            child,
            output,
        })
    }

    /// Waits for a line for which `pick` returns a value.
    pub(crate) fn wait_for_line<T>(
        &self,
        timeout: Duration,
        pick: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + timeout;
        let mut state = self.output.lock();
        loop {
            if let Some(found) = state.lines.iter().find_map(|line| pick(line)) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.streams_ended == 2 {
                let so_far = state.lines.join("\n");
                return Err(format!(
                    "{} did not say what was waited for, but:\n{so_far}",
                    self.name
                ));
            }
            state = self.output.wait(state, left);
        }
    }

    /// All output so far.
    pub(crate) fn printed(&self) -> String {
        self.output.lock().lines.join("\n")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, as a service manager does.
    pub(crate) fn terminate(&self) -> Result<(), String> {
        self.signal("-TERM")
    }

    /// Sends a signal by its name for `kill`.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), String> {
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .map_err(|error| format!("cannot run kill: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} is not running", self.name))
        }
    }

    /// Kills the program, like a crash.
    pub(crate) fn kill(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the program has ended by itself and all its output is read.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.child.try_wait();
            let status = status.map_err(|error| format!("waiting for {}: {error}", self.name))?;
            if let Some(status) = status
                && self.output.lock().streams_ended == 2
            {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                let printed = self.printed();
                return Err(format!(
                    "{} still runs after {timeout:?}:\n{printed}",
                    self.name
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let folder = output_folder();
        let path = folder.join(format!("{}-{}.log", self.name, self.id()));
        // A failure to store the log must not hide the test's own failure.
        let _ = fs::create_dir_all(folder).and_then(|()| fs::write(path, self.printed()));
    }
}

/// Folder of the output of all programs that tests start.
pub(crate) fn output_folder() -> PathBuf {
    peers::target_directory().join("test-output")
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.state.lock().expect("no listener panics")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Lines>, timeout: Duration) -> MutexGuard<'a, Lines> {
        let woken = self.grown.wait_timeout(state, timeout);
        woken.expect("no listener panics").0
    }
}

fn listen(stream: impl Read + Send + 'static, output: Arc<Output>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            output.lock().lines.push(line);
            output.grown.notify_all();
        }
        output.lock().streams_ended += 1;
        output.grown.notify_all();
    });
}

/// Calls `look` repeatedly until it succeeds; after the time-out, fails with its last error.
pub(crate) fn eventually<T>(
    timeout: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let deadline = Instant::now() + timeout;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() >= deadline => {
                return Err(format!("after {timeout:?}: {reason}"));
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
