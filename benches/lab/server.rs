//! The release binary, serving on free ports.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use glassline_lab::meter::Process;
use serde_json::Value;

use crate::http;
use crate::media::Media;
use crate::process::{Running, eventually};
use crate::report;

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Limits of the server: all viewers of a load test have one address.
const LIMITS: &str = "limits: {half_open_per_address: 1000}\n";

/// A serving glassline. Dropping it kills it.
pub(crate) struct Server {
    running: Running,
    url: String,
    admin_url: String,
}

impl Server {
    /// `glassline demo`, as a newcomer starts it.
    pub(crate) fn demo() -> Result<Self, String> {
        let server = Self::start(&["demo"])?;
        server.wait_until_live("demo")?;
        Ok(server)
    }

    /// A server without sources, for publishers.
    pub(crate) fn empty() -> Result<Self, String> {
        let server = Self::start(&["serve"])?;
        let url = format!("{}/api/v1/streams", server.admin_url);
        eventually(START_TIMEOUT, || http::get_json(&url))?;
        Ok(server)
    }

    /// Serves `media`, with limits that allow many joins from one address.
    pub(crate) fn serve(media: &Media) -> Result<Self, String> {
        Self::limited(media, LIMITS)
    }

    /// Serves `media` with `limits`, a line of configuration.
    pub(crate) fn limited(media: &Media, limits: &str) -> Result<Self, String> {
        let path = report::folder()?.join("glassline.yml");
        fs::write(&path, limits).map_err(|error| format!("{}: {error}", path.display()))?;
        let source = format!("{}={}", media.name, media.source);
        let path = path.display().to_string();
        let server = Self::start(&["serve", &path, "--source", &source])?;
        server.wait_until_live(media.name)?;
        Ok(server)
    }

    fn start(arguments: &[&str]) -> Result<Self, String> {
        let [http, media, admin] = free_ports().map_err(|error| format!("no port: {error}"))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassline"));
        command.args(arguments).env("NO_COLOR", "1");
        for (flag, port) in [
            ("--http", http),
            ("--media", media),
            ("--admin", admin),
            ("--rtsp", 0),
            ("--quic", 0),
        ] {
            command.args([flag, &port.to_string()]);
        }
        Ok(Self {
            running: Running::start("glassline-bench", command)?,
            url: format!("http://127.0.0.1:{http}"),
            admin_url: format!("http://127.0.0.1:{admin}"),
        })
    }

    fn wait_until_live(&self, stream: &str) -> Result<(), String> {
        let url = format!("{}/api/v1/streams/{stream}", self.admin_url);
        let look = || {
            let entry: Value = http::get_json(&url)?;
            if entry["state"] == "live" {
                Ok(())
            } else {
                Err(format!("{stream} is not live: {entry}"))
            }
        };
        eventually(START_TIMEOUT, look)
            .map_err(|reason| format!("{reason}\n{}", self.running.printed()))
    }

    /// The server's process, for measurements.
    pub(crate) fn process(&self) -> Result<Process, String> {
        Process::of(self.running.id()).map_err(|error| error.to_string())
    }

    /// `path` begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sum of a counter of `/metrics` over its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, String> {
        let text = http::get(&format!("{}/metrics", self.admin_url))?.body;
        let values: Vec<f64> = text
            .lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        if values.is_empty() {
            return Err(format!("/metrics has no {name}"));
        }
        Ok(values.iter().sum())
    }
}

/// Three ports that are free for TCP at this moment, and very likely for UDP.
pub(crate) fn free_ports() -> std::io::Result<[u16; 3]> {
    let listen = || TcpListener::bind(("127.0.0.1", 0));
    // All are held at the same time, so that they differ.
    let held = [listen()?, listen()?, listen()?];
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    Ok([port(&held[0])?, port(&held[1])?, port(&held[2])?])
}
