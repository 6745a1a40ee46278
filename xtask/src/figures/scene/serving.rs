//! A server on free ports, and requests to it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::Setting;
use crate::process;

/// Longest wait for a stream to be live.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(30);

/// A serving glassline. Dropping it ends it.
pub(super) struct Serving {
    child: Child,
    pub(super) http: u16,
    pub(super) rtsp: u16,
    pub(super) admin: u16,
    pub(super) configuration: PathBuf,
}

impl Serving {
    /// Starts a server with the lines of `configuration` and further `arguments` on the first core,
    /// and waits until `stream` is live.
    pub(super) fn start(
        setting: &Setting,
        configuration: &str,
        arguments: &[&str],
        stream: &str,
    ) -> Result<Self, String> {
        let path = setting.folder.join("glassline.yml");
        let log = setting.folder.join("server.log");
        let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        fs::write(&path, configuration).map_err(|error| at(&path, error))?;
        let file = File::create(&log).map_err(|error| at(&log, error))?;
        let errors = file.try_clone().map_err(|error| at(&log, error))?;
        let [http, rtsp, admin] = free_ports().map_err(|error| format!("no port: {error}"))?;
        let media = free_datagram_port().map_err(|error| format!("no port: {error}"))?;
        let mut command = pinned(&setting.glassline, true);
        command.arg("serve").arg(&path).args(arguments);
        for (flag, port) in [
            ("--http", http),
            ("--media", media),
            ("--rtsp", rtsp),
            ("--admin", admin),
            ("--quic", 0),
        ] {
            command.args([flag, &port.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", setting.glassline.display()))?;
        let serving = Self {
            child,
            http,
            rtsp,
            admin,
            configuration: path,
        };
        serving.wait_until_live(stream).map_err(|reason| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(4).collect();
            format!("{reason}; the server's last lines: {}", last.join(" / "))
        })?;
        Ok(serving)
    }

    pub(super) fn id(&self) -> String {
        self.child.id().to_string()
    }

    fn wait_until_live(&self, stream: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let path = format!("/api/v1/streams/{stream}");
        loop {
            let last = request(self.admin, "GET", &path).and_then(|it| it.json());
            match &last {
                Ok(entry) if entry["state"] == "live" => return Ok(()),
                _ if Instant::now() > deadline => {
                    return Err(format!("`{stream}` is not live: {last:?}"));
                }
                _ => thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error says that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program on the first core, or on the last one; on any where there is one core or no taskset.
pub(super) fn pinned(program: &Path, is_server: bool) -> Command {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 || process::find("taskset").is_none() {
        return Command::new(program);
    }
    let core = if is_server { 0 } else { cores - 1 };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// An answer to a request.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Result<Json, String> {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).map_err(|error| format!("{error}: {} {text}", self.status))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&bytes[..head]);
        let status = text.split(' ').nth(1)?.parse().ok()?;
        Some(Self {
            status,
            body: bytes[head + 4..].to_vec(),
        })
    }
}

/// Sends a request without a body to this machine, on a connection of its own.
///
/// # Errors The server does not answer.
pub(super) fn request(port: u16, method: &str, path: &str) -> Result<Answer, String> {
    let failed = |error: std::io::Error| format!("{method} {path}: {error}");
    let mut connection = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    connection.set_read_timeout(Some(ANSWER)).map_err(failed)?;
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    connection.write_all(text.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).map_err(failed)?;
    Answer::parse(&bytes).ok_or_else(|| format!("{method} {path}: no answer of HTTP"))
}

/// Ports that nobody listens on. All are held until the last is found, so that they differ.
fn free_ports() -> std::io::Result<[u16; 3]> {
    let listeners = [(), (), ()].map(|()| TcpListener::bind(("127.0.0.1", 0)));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = match listener {
            Ok(listener) => listener.local_addr()?.port(),
            Err(error) => return Err(error.kind().into()),
        };
    }
    Ok(ports)
}

/// A port for media, which takes datagrams and connections.
fn free_datagram_port() -> std::io::Result<u16> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    Ok(socket.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let answer = Answer::parse(b"HTTP/1.1 201 Created\r\nA: b\r\n\r\n{\"x\":1}\r\n\r\n");
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 201);
        assert_eq!(answer.json().map(|it| it["x"].clone()), Ok(1.into()));
        assert!(Answer::parse(b"HTTP/1.1 201 Created\r\n").is_none());
        assert!(Answer::parse(b"no HTTP\r\n\r\n").is_none());
    }

    #[test]
    fn ports_differ() {
        let [a, b, c] = free_ports().expect("there are some");
        assert!(a != b && b != c && a != c);
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let [port, ..] = free_ports().expect("there are some");
        let error = request(port, "GET", "/api").err().expect("nobody listens");
        assert!(error.starts_with("GET /api: "), "{error}");
    }
}
