//! A running process of FFmpeg and its three pipes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mio::unix::pipe::{Receiver, Sender};
use mio::{Interest, Registry, Token};

/// Bytes that are read at once: what a pipe of Linux holds.
const READ_BYTES: usize = 64 << 10;

/// Most bytes that wait for the process. Frames beyond are left out.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Longest text of standard error that is kept.
const SAID_BYTES_MAX: usize = 600;

/// Time between two looks at the processor time of the process.
const CPU_INTERVAL: Duration = Duration::from_secs(1);

/// Ticks of a second in which Linux counts processor time for programs (`USER_HZ`).
const CPU_TICKS: u64 = 100;

/// The token of the pipes. Events only wake the thread, which looks at all of them.
const PIPES: Token = Token(1);

/// A running process. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Sender,
    output: Receiver,
    errors: Receiver,
    queue: VecDeque<u8>,
    /// Since when something waits for the process.
    waiting_since: Option<Instant>,
    /// The end of what the process wrote to standard error.
    said: Vec<u8>,
    /// Processor time that was told.
    cpu: Duration,
    cpu_at: Instant,
}

/// The finding of a look at a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The process runs.
    Runs,
    /// The process has closed its output: it ends or has ended.
    Ended,
}

impl Process {
    /// Starts `program` with `arguments`, whose pipes wake the thread of `registry`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(super) fn start(
        program: &Path,
        arguments: &[&str],
        registry: &Registry,
        now: Instant,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own, so that nothing that it starts outlives it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut process = Self {
            child,
            input: Sender::from(stdin),
            output: Receiver::from(stdout),
            errors: Receiver::from(stderr),
            queue: VecDeque::new(),
            waiting_since: None,
            said: Vec::new(),
            cpu: Duration::ZERO,
            cpu_at: now,
        };
        process.input.set_nonblocking(true)?;
        process.output.set_nonblocking(true)?;
        process.errors.set_nonblocking(true)?;
        registry.register(&mut process.input, PIPES, Interest::WRITABLE)?;
        registry.register(&mut process.output, PIPES, Interest::READABLE)?;
        registry.register(&mut process.errors, PIPES, Interest::READABLE)?;
        Ok(process)
    }

    /// Returns whether the process takes further frames: nothing has waited for more than `longest`, and
    /// not too much waits.
    pub(super) fn has_room(&self, longest: Duration, now: Instant) -> bool {
        self.queue.len() < QUEUE_BYTES_MAX && self.behind(now) <= longest
    }

    /// Returns for how long something has waited for the process.
    pub(super) fn behind(&self, now: Instant) -> Duration {
        self.waiting_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Queues bytes for the process.
    pub(super) fn write(&mut self, bytes: &[u8], now: Instant) {
        self.queue.extend(bytes);
        self.waiting_since.get_or_insert(now);
    }

    /// Writes what waits, reads what came, and gives it to `take`, until that returns false.
    pub(super) fn serve(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Look {
        self.flush();
        self.listen();
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => return Look::Ended,
                Ok(read) if take(&buffer[..read]) => self.flush(),
                Ok(_) => return Look::Ended,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Look::Runs,
                Err(_) => return Look::Ended,
            }
        }
    }

    fn flush(&mut self) {
        while !self.queue.is_empty() {
            let (bytes, _) = self.queue.as_slices();
            match self.input.write(bytes) {
                Ok(written) if written > 0 => {
                    self.queue.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An end is seen at the output.
                _ => return,
            }
        }
        self.waiting_since = None;
    }

    /// Reads standard error.
    fn listen(&mut self) {
        let mut buffer = [0; 1_024];
        while let Ok(read @ 1..) = self.errors.read(&mut buffer) {
            self.said.extend_from_slice(&buffer[..read]);
            let excess = self.said.len().saturating_sub(SAID_BYTES_MAX);
            self.said.drain(..excess);
        }
    }

    /// Returns the last line that the process wrote to standard error; `None` if there is none.
    pub(super) fn last_words(&mut self) -> Option<String> {
        self.listen();
        let said = String::from_utf8_lossy(&self.said);
        let line = said.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().chars().filter(|it| !it.is_control()).collect())
    }

    /// Returns the processor time since it was told last; nothing within a second of that.
    pub(super) fn cpu_since(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.cpu_at) < CPU_INTERVAL {
            return Duration::ZERO;
        }
        self.cpu_at = now;
        let Some(cpu) = cpu_of(self.child.id()) else {
            return Duration::ZERO;
        };
        cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors mean that it has just ended.
        let _ = glassline_net::kill_process_group(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processor time of a process, its threads included; `None` if the system does not tell.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_millis(ticks * 1_000 / CPU_TICKS))
}
