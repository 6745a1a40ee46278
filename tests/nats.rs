//! A `nats-server` with its records in a folder of its own.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::peers;
use crate::ports::free_port;
use crate::process::{Running, eventually};

/// Longest wait for its port, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server of NATS. Dropping it kills it and removes its records.
pub(crate) struct Nats {
    folder: PathBuf,
    port: u16,
    running: Option<Running>,
}

impl Nats {
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
            running: None,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills the server at once.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Starts the server on its port, with the records that it had.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        let mut command: Command = peers::nats()?;
        let port = self.port.to_string();
        command.args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"]);
        command.arg(&self.folder);
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
