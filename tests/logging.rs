//! The log: whoever reads it may stop reading, and nobody waits for that.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::http;
use crate::peers::Test;
use crate::ports::free_ports;
use crate::process::eventually;
use crate::server::glassline;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_reader_that_stops_reading_holds_up_nothing),
    Test::of(&long_paths_of_strangers_are_short_lines),
    Test::of(&each_line_is_an_object_where_json_is_asked_for),
];

const SDP: &str = "v=0\r\ns=x\r\nm=audio 0 RTP/AVP 0\r\n";

/// Time limit for an answer, on a machine that is busy.
const ANSWER: Duration = Duration::from_secs(20);

/// A server whose log nobody reads. Dropping it kills it.
struct Unread {
    child: Child,
    admin: u16,
    rtsp: SocketAddr,
}

impl Unread {
    fn start(flags: &[&str]) -> Result<Unread, String> {
        let [http, media, admin, rtsp] = free_ports()?;
        let mut command = glassline(&["serve", "--source", "demo=demo", "--quic", "off"]);
        command.args(flags);
        for (flag, port) in [
            ("--http", http),
            ("--media", media),
            ("--admin", admin),
            ("--rtsp", rtsp),
        ] {
            command.args([flag, &port.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| error.to_string())?;
        let server = Unread {
            child,
            admin,
            rtsp: SocketAddr::from(([127, 0, 0, 1], rtsp)),
        };
        eventually(ANSWER, || server.healthy())?;
        Ok(server)
    }

    fn healthy(&self) -> Result<(), String> {
        let answer = http::get(&format!("http://127.0.0.1:{}/healthz", self.admin))?;
        match answer.status {
            200 => Ok(()),
            status => Err(format!("{status}: {}", answer.body)),
        }
    }

    /// Sends a request over RTSP on a new connection, and returns the first line of the answer.
    fn rtsp(&self, request: &str) -> Result<String, String> {
        let exchange = || {
            let mut stream = TcpStream::connect_timeout(&self.rtsp, ANSWER)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(request.as_bytes())?;
            let mut answer = [0; 200];
            let count = stream.read(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
        };
        let answer = exchange().map_err(|error: std::io::Error| error.to_string())?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }

    fn announce(&self, path: &str) -> Result<String, String> {
        let length = SDP.len();
        self.rtsp(&format!(
            "ANNOUNCE rtsp://h/{path} RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n\
             Content-Length: {length}\r\n\r\n{SDP}"
        ))
    }

    /// Sends SIGTERM, and returns the time until the process has ended.
    fn terminate(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        let id = self.child.id().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-TERM", &id])
            .status();
        kill.map_err(|error| error.to_string())?;
        eventually(ANSWER, || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("SIGTERM has not ended it: {other:?}")),
        })?;
        Ok(start.elapsed())
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn a_reader_that_stops_reading_holds_up_nothing() -> Result<(), Failed> {
    // A pipe holds 64 KiB. Lines of the level `debug` are not limited in number.
    let mut server = Unread::start(&["--log", "debug"])?;
    let path = format!("a/{}", "b".repeat(700));
    for _ in 0..600 {
        server.announce(&path)?;
    }
    // Each thread has its share of the connections.
    for _ in 0..8 {
        let answer = server.rtsp("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")?;
        if !answer.ends_with("200 OK") {
            return Err(format!("OPTIONS: {answer}").into());
        }
    }
    server.healthy()?;
    server.terminate()?;
    Ok(())
}

fn long_paths_of_strangers_are_short_lines() -> Result<(), Failed> {
    let mut server = Unread::start(&["--log", "info"])?;
    let path = format!("a/{}", "b".repeat(900));
    for _ in 0..8 {
        server.announce(&path)?;
    }
    let mut log = server.child.stderr.take().ok_or("stderr is a pipe")?;
    server.terminate()?;
    let mut text = String::new();
    log.read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if !text.contains("publisher refused") {
        return Err(format!("no line of the refusal:\n{text}").into());
    }
    match text.lines().find(|line| line.len() > 700) {
        Some(line) => Err(format!("a line of {} bytes", line.len()).into()),
        None => Ok(()),
    }
}

fn each_line_is_an_object_where_json_is_asked_for() -> Result<(), Failed> {
    let mut server = Unread::start(&["--log-format", "json"])?;
    server.announce("a/\"b\"")?;
    let mut log = server.child.stderr.take().ok_or("stderr is a pipe")?;
    server.terminate()?;
    let mut text = String::new();
    log.read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    // The last words of a program that cannot start are a line of the log, too.
    let failed = glassline(&["serve", "--log-format", "json", "absent.yml"])
        .output()
        .map_err(|error| error.to_string())?;
    let last = String::from_utf8_lossy(&failed.stderr).into_owned();
    for (text, expected) in [(&text, "publisher refused"), (&last, "absent.yml")] {
        let mut messages = Vec::new();
        for line in text.lines() {
            let object: serde_json::Value =
                serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let [_time, level, message] = ["time", "level", "message"]
                .map(|it| object[it].as_str().unwrap_or_default().to_owned());
            if level.is_empty() || message.is_empty() {
                return Err(format!("a line without level or message: {line}").into());
            }
            messages.push(message);
        }
        if !messages.iter().any(|it| it.contains(expected)) {
            return Err(format!("no line with '{expected}':\n{text}").into());
        }
    }
    Ok(())
}
