//! Servers of NATS with their records in folders of their own, and requests to them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::peers;
use crate::ports::free_port;
use crate::process::{Running, eventually};

/// Longest wait for its port, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server of NATS. Dropping it kills it and removes its records.
pub(crate) struct Nats {
    folder: PathBuf,
    port: u16,
    /// Flags of one of several servers.
    of_cluster: Vec<String>,
    running: Option<Running>,
}

impl Nats {
    /// Starts three servers that keep three copies of each record.
    pub(crate) fn three() -> Result<[Self; 3], String> {
        let mut servers = [Self::away()?, Self::away()?, Self::away()?];
        let routes = [free_port()?, free_port()?, free_port()?];
        let all = routes.map(|port| format!("nats://127.0.0.1:{port}"));
        for (number, (server, own)) in servers.iter_mut().zip(&all).enumerate() {
            let name = format!("nats-{number}");
            let flags = [
                ["--name", &name],
                ["--cluster_name", "media"],
                ["--cluster", own],
                ["--routes", &all.join(",")],
            ];
            server.of_cluster = flags
                .as_flattened()
                .iter()
                .map(ToString::to_string)
                .collect();
            server.start_again()?;
        }
        Ok(servers)
    }

    pub(crate) fn start() -> Result<Self, String> {
        let mut nats = Self::away()?;
        nats.start_again()?;
        Ok(nats)
    }

    /// Returns a server that does not run yet.
    pub(crate) fn away() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("glassline-cluster-{}-{number}", std::process::id());
        Ok(Self {
            folder: std::env::temp_dir().join(name),
            port: free_port()?,
            of_cluster: Vec::new(),
            running: None,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the answer in JSON to a request with this subject.
    pub(crate) fn ask(&self, subject: &str, payload: &str) -> Result<Value, String> {
        let text = |error: std::io::Error| format!("{subject}: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(text)?;
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .map_err(text)?;
        let inbox = "_INBOX.test";
        let length = payload.len();
        write!(
            stream,
            "CONNECT {{\"verbose\":false}}\r\nSUB {inbox} 1\r\nPUB {subject} {inbox} \
             {length}\r\n{payload}\r\n"
        )
        .map_err(text)?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).map_err(text)? == 0 {
                return Err(format!("{subject}: the connection ended"));
            }
            if line.starts_with("-ERR") {
                return Err(format!("{subject}: {line}"));
            }
            let length = line
                .strip_prefix("MSG ")
                .and_then(|it| it.split_ascii_whitespace().last());
            let Some(length) = length.and_then(|it| it.parse().ok()) else {
                continue;
            };
            let mut answer = vec![0; length];
            reader.read_exact(&mut answer).map_err(text)?;
            return serde_json::from_slice(&answer).map_err(|error| format!("{subject}: {error}"));
        }
    }

    /// Kills the server at once.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Starts the server on its port, with the records that it had.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        let mut command: Command = peers::go("nats-server")?;
        let port = self.port.to_string();
        command.args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"]);
        command.arg(&self.folder).args(&self.of_cluster);
        // One thread: the servers under test share the machine.
        command.env("GOMAXPROCS", "1");
        let running = Running::start("nats-server", command)?;
        eventually(START_TIMEOUT, || {
            let connected = TcpStream::connect(("127.0.0.1", self.port));
            connected.map(drop).map_err(|error| error.to_string())
        })?;
        self.running = Some(running);
        Ok(())
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
        // What is left in the system's folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
