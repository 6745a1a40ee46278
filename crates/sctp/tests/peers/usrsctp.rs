//! usrsctp, run by a small program in C that is compiled when it is first needed. Packets
//! and time are passed over pipes, so that it runs in virtual time like the others, and its
//! random numbers come from a seed.

use std::collections::VecDeque;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sctp::{Reliability, SendOptions};

use super::{Figures, Happened, Peer, Setup};

/// Resolution of its timers.
const TICK: Duration = Duration::from_millis(10);

/// The SCTP that Firefox uses, and Chromium used, in C.
pub(crate) struct Usrsctp {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    begun: bool,
    ticked: Instant,
    packets: VecDeque<Vec<u8>>,
    happened: VecDeque<Happened>,
    taken: bool,
}

impl Usrsctp {
    /// Returns why usrsctp is not available; `None` if it is.
    pub(crate) fn absence() -> Option<String> {
        program().as_ref().err().cloned()
    }

    pub(crate) fn new(setup: Setup, seed: u8, now: Instant) -> Self {
        let program = program().as_ref().expect("asked for before");
        let mut child = Command::new(program)
            .args([
                setup.mtu.to_string(),
                setup.window.to_string(),
                seed.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was just compiled");
        let input = BufWriter::new(child.stdin.take().expect("piped"));
        let output = BufReader::with_capacity(1 << 18, child.stdout.take().expect("piped"));
        Self {
            child,
            input,
            output,
            begun: false,
            ticked: now,
            packets: VecDeque::new(),
            happened: VecDeque::new(),
            taken: false,
        }
    }

    /// Sends a frame to the program and reads the answers.
    fn call(&mut self, kind: u8, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.write(&[kind]);
        self.write(&u32::try_from(len).expect("a message").to_le_bytes());
        parts.iter().for_each(|part| self.write(part));
        self.input.flush().expect("it listens");
        loop {
            let mut head = [0; 5];
            self.output.read_exact(&mut head).expect("it answers");
            let len = u32::from_le_bytes(*head[1..].first_chunk().expect("four bytes"));
            let mut body = vec![0; len as usize];
            self.output.read_exact(&mut body).expect("a whole frame");
            let streams = |body: &[u8]| body.chunks_exact(2).map(u16_of).collect();
            self.happened.push_back(match head[0] {
                b'E' => return,
                b'P' => {
                    self.packets.push_back(body);
                    continue;
                }
                b'R' => {
                    self.taken = body == [1];
                    continue;
                }
                b'C' => Happened::Connected,
                b'M' => Happened::Message {
                    stream: u16_of(&body),
                    data: Bytes::from(body).slice(2..),
                },
                b'I' => Happened::PeerReset(streams(&body)),
                b'O' => Happened::Reset(streams(&body)),
                b'Z' => Happened::Closed("usrsctp says so".to_owned()),
                other => panic!("usrsctp's program said {other}"),
            });
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).expect("it listens");
    }

    fn pass_time(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.ticked).as_millis();
        if passed > 0 {
            self.ticked += Duration::from_millis(passed as u64);
            self.call(b'T', &[&(passed as u32).to_le_bytes()]);
        }
    }

    fn begin(&mut self, how: u8) {
        if !std::mem::replace(&mut self.begun, true) {
            self.call(how, &[]);
        }
    }
}

fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Compiles the program once per run.
fn program() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/usrsctp.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (program, part) = (
            folder.join("usrsctp"),
            format!("usrsctp-{}", std::process::id()),
        );
        let part = folder.join(part);
        let compiled = Command::new("cc")
            // State cookies contain an address, which must be the same each time.
            .args(["-O2", "-fno-pie", "-no-pie", "-o"])
            .arg(&part)
            .arg(&source)
            .arg("-lusrsctp")
            .output()
            .map_err(|error| format!("cc: {error}"))?;
        if compiled.status.success() {
            // The file appears whole or not at all, for runs at the same time.
            std::fs::rename(&part, &program).map_err(|error| format!("usrsctp: {error}"))?;
            return Ok(program);
        }
        let said = String::from_utf8_lossy(&compiled.stderr);
        let first = said.lines().find(|line| line.contains("error"));
        let first = first.unwrap_or("it cannot be linked");
        Err(format!("{first} (Debian: libusrsctp-dev)"))
    })
}

impl Drop for Usrsctp {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer for Usrsctp {
    fn connect(&mut self, now: Instant) {
        self.pass_time(now);
        self.begin(b'C');
    }

    fn handle(&mut self, packet: &[u8], now: Instant) {
        self.pass_time(now);
        self.begin(b'L');
        self.call(b'P', &[packet]);
    }

    fn end_batch(&mut self, _now: Instant) {}

    fn transmit(&mut self, _now: Instant, out: &mut Vec<u8>) -> bool {
        match self.packets.pop_front() {
            Some(packet) => {
                *out = packet;
                true
            }
            None => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.begun.then(|| self.ticked + TICK)
    }

    fn on_deadline(&mut self, now: Instant) {
        self.pass_time(now);
    }

    fn poll(&mut self, _now: Instant) -> Option<Happened> {
        self.happened.pop_front()
    }

    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, now: Instant) -> bool {
        self.pass_time(now);
        let (policy, value) = match options.reliability {
            Reliability::Limited { retransmissions } => (1, retransmissions),
            Reliability::Timed { lifetime } => (2, lifetime.as_millis() as u32),
            _ => (0, 0),
        };
        let how = [u8::from(options.unordered), policy];
        self.taken = false;
        self.call(
            b'S',
            &[&stream.to_le_bytes(), &how, &value.to_le_bytes(), data],
        );
        self.taken
    }

    fn buffered(&mut self, _stream: u16) -> usize {
        // usrsctp does not provide it.
        0
    }

    fn reset(&mut self, stream: u16, now: Instant) {
        self.pass_time(now);
        self.call(b'X', &[&stream.to_le_bytes()]);
    }

    fn shutdown(&mut self, now: Instant) {
        self.pass_time(now);
        self.call(b'D', &[]);
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }
}
