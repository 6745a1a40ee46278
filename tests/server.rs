//! The binary under test, which serves on free ports.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http;
use crate::ports::{free_port, free_ports};
use crate::process::{Running, eventually, output_folder};

/// Long, for a debug build on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Variable of the folder below which programs keep their state.
const STATE: &str = "XDG_STATE_HOME";

/// Variable of a program that is tested in place of the one that cargo has built with the tests. Figures of
/// long forms are those of a release.
const PROGRAM: &str = "GLASSLINE_TEST_PROGRAM";

fn program() -> OsString {
    std::env::var_os(PROGRAM).unwrap_or_else(|| env!("CARGO_BIN_EXE_glassline").into())
}

/// Command for our binary with `arguments`.
pub(crate) fn glassline(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env("NO_COLOR", "1");
    command
}

/// Runs our binary to its end; returns exit status and output.
pub(crate) fn run_to_end(arguments: &[&str]) -> Result<(ExitStatus, String), String> {
    command_to_end(glassline(arguments))
}

/// Runs a command of our binary to its end; returns exit status and output.
pub(crate) fn command_to_end(command: Command) -> Result<(ExitStatus, String), String> {
    let mut running = Running::start("glassline", command)?;
    let status = running.wait(START_TIMEOUT)?;
    Ok((status, running.printed()))
}

/// A serving glassline. Dropping it kills it.
pub(crate) struct Server {
    running: Running,
    /// Folder for what the server keeps.
    state: PathBuf,
    /// Program and arguments, the ports included.
    command: Vec<OsString>,
    /// Base URL of pages, WHEP and API: `http://127.0.0.1:PORT`.
    url: String,
    admin_url: String,
    rtsp_url: String,
    media: SocketAddr,
    quic: SocketAddr,
}

/// Configuration for RTSPS on `port` with a self-signed certificate, and SRTP for clients that
/// ask for it; more of `rtsp:` may follow.
pub(crate) fn rtsps_yaml(port: u16) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/tests/data");
    format!(
        "rtsp:\n  tls:\n    address: 127.0.0.1:{port}\n    certificate: {}\n    key: {}\n    \
         srtp: optional\n",
        data.join("localhost.pem").display(),
        data.join("localhost.key.pem").display(),
    )
}

impl Server {
    /// Starts `glassline demo` on free ports.
    pub(crate) fn demo() -> Result<Server, String> {
        Server::start(&["demo"])
    }

    /// Starts a server of `sources` (`NAME=…`).
    pub(crate) fn serve(sources: &[&str]) -> Result<Server, String> {
        Server::start(&serve_arguments(sources))
    }

    /// Starts a server of `sources` with more configuration, in YAML.
    pub(crate) fn configured(yaml: &str, sources: &[&str]) -> Result<Server, String> {
        Server::configured_on([free_port()?, free_port()?], yaml, sources)
    }

    /// Starts a server as [`configured`](Self::configured) with ports of HTTP and RTSP that others
    /// know.
    pub(crate) fn configured_on(
        known: [u16; 2],
        yaml: &str,
        sources: &[&str],
    ) -> Result<Server, String> {
        // Servers of several tests, and of several runs of the tests, run at the same time.
        static CONFIGURED: AtomicU32 = AtomicU32::new(0);
        let number = CONFIGURED.fetch_add(1, Ordering::Relaxed);
        let name = format!("glassline-{}-{number}.yml", std::process::id());
        let path = write_file(&name, yaml.as_bytes())?;
        let mut arguments = serve_arguments(sources);
        arguments.push(&path);
        Server::start_command(glassline(&arguments), known)
    }

    /// Starts a server of the configuration file at `path`.
    pub(crate) fn of_file(path: &str) -> Result<Server, String> {
        Server::start(&["serve", path])
    }

    /// Starts `glassline demo` with variables of the environment.
    pub(crate) fn with_variables(variables: &[(&str, &str)]) -> Result<Server, String> {
        let mut command = glassline(&["demo"]);
        command.envs(variables.iter().copied());
        Server::start_command(command, [free_port()?, free_port()?])
    }

    /// Starts a server of `sources` that may open `descriptors` files, sockets included.
    pub(crate) fn limited(descriptors: usize, sources: &[&str]) -> Result<Server, String> {
        let limit = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limit]).arg(program());
        command.args(serve_arguments(sources)).env("NO_COLOR", "1");
        Server::start_command(command, [free_port()?, free_port()?])
    }

    fn start(arguments: &[&str]) -> Result<Server, String> {
        Server::start_command(glassline(arguments), [free_port()?, free_port()?])
    }

    /// Starts the server with these ports of HTTP and RTSP, and waits until the API answers.
    fn start_command(mut command: Command, [http, rtsp]: [u16; 2]) -> Result<Server, String> {
        let [media, admin] = free_ports()?;
        let places = [
            ("--http", http),
            ("--media", media),
            ("--admin", admin),
            ("--rtsp", rtsp),
            ("--quic", http),
        ];
        for (flag, port) in places {
            command.args([flag, &port.to_string()]);
        }
        // What one server of the tests is told over its API is no wish of the others.
        let state = output_folder().join(format!("state-{}-{admin}", std::process::id()));
        command.env(STATE, &state);
        let arguments = command.get_args().map(OsString::from);
        let arguments = std::iter::once(command.get_program().into()).chain(arguments);
        let server = Server {
            command: arguments.collect(),
            running: Running::start("glassline", command)?,
            state,
            url: format!("http://127.0.0.1:{http}"),
            admin_url: format!("http://127.0.0.1:{admin}"),
            rtsp_url: format!("rtsp://127.0.0.1:{rtsp}"),
            media: SocketAddr::from(([127, 0, 0, 1], media)),
            quic: SocketAddr::from(([127, 0, 0, 1], http)),
        };
        server.wait_until_it_serves()?;
        Ok(server)
    }

    fn wait_until_it_serves(&self) -> Result<(), String> {
        // Health is told to everybody, also where the admin port requires a role.
        let answer = || {
            let answer = http::request("GET", &self.admin_url("/healthz"), &[], "")?;
            match answer.status {
                200 => Ok(()),
                status => Err(format!("status {status}")),
            }
        };
        eventually(START_TIMEOUT, answer)
    }

    /// Kills the server as a crash does, and starts it again on the same ports; returns the time
    /// at which it served again.
    pub(crate) fn kill_and_start_again(&mut self) -> Result<Instant, String> {
        self.running.kill();
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env("NO_COLOR", "1");
        command.env(STATE, &self.state);
        self.running = Running::start("glassline", command)?;
        self.wait_until_it_serves()?;
        Ok(Instant::now())
    }

    /// Sends a signal to the server by its name for `kill`, like `-STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), String> {
        self.running.signal(signal)
    }

    /// Path of the configuration file of a server that was started with one.
    pub(crate) fn configuration(&self) -> Result<&Path, String> {
        let arguments = self.command.iter().map(Path::new);
        let mut files = arguments.filter(|it| it.extension().is_some_and(|it| it == "yml"));
        files
            .next()
            .ok_or_else(|| "the server has no file".to_owned())
    }

    /// The one URL that the server prints for a person to open.
    pub(crate) fn printed_url(&self) -> Result<String, String> {
        self.running.wait_for_line(START_TIMEOUT, |line| {
            line.strip_prefix("watch ").map(|url| url.trim().to_owned())
        })
    }

    /// `path` begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The RTSP URL of a stream.
    pub(crate) fn rtsp_url(&self, stream: &str) -> String {
        format!("{}/{stream}", self.rtsp_url)
    }

    /// The MoQ URL of a stream, with its certificate pinned.
    pub(crate) fn moq_url(&self, stream: &str) -> Result<String, String> {
        let told = http::get_json(&self.admin_url("/api/v1/quic/sessions"))?;
        let pin = told["certificate_sha256"].as_str();
        let pin = pin.ok_or("no certificate of QUIC")?;
        Ok(format!("moq://{}/{stream}#sha256={pin}", self.quic))
    }

    /// UDP address on which the server takes connections of QUIC.
    pub(crate) fn quic(&self) -> SocketAddr {
        self.quic
    }

    /// RTSP players and publishers in the API.
    pub(crate) fn rtsp_clients(&self) -> Result<Vec<Value>, String> {
        let told = http::get_json(&self.admin_url("/api/v1/rtsp/clients"))?;
        let clients = told["clients"].as_array().cloned();
        clients.ok_or_else(|| format!("clients: {told}"))
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("{}{path}", self.admin_url)
    }

    /// Id of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Address for media datagrams.
    pub(crate) fn media(&self) -> SocketAddr {
        self.media
    }

    pub(crate) fn printed(&self) -> String {
        self.running.printed()
    }

    /// The API's entry of stream `name`.
    pub(crate) fn stream(&self, name: &str) -> Result<Value, String> {
        http::get_json(&self.admin_url(&format!("/api/v1/streams/{name}")))
    }

    /// Waits until stream `name` is in `state` in the API; returns its entry.
    pub(crate) fn wait_for_state(&self, name: &str, state: &str) -> Result<Value, String> {
        eventually(START_TIMEOUT, || {
            let entry = self.stream(name)?;
            if entry["state"] == state {
                Ok(entry)
            } else {
                Err(format!("{name} is not {state}: {entry}"))
            }
        })
    }

    /// The API's entry of the server itself.
    pub(crate) fn status(&self) -> Result<Value, String> {
        http::get_json(&self.admin_url("/api/v1/server"))
    }

    /// Sum of a counter of `/metrics` over its labels; the name may end with the first label.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, String> {
        let text = http::get(&self.admin_url("/metrics"))?.body;
        let values: Vec<f64> = text
            .lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ',', ' ']))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        if values.is_empty() {
            return Err(format!("/metrics has no {name}:\n{text}"));
        }
        Ok(values.iter().sum())
    }

    /// Sends the signal SIGHUP to the server.
    pub(crate) fn hang_up(&self) -> Result<(), String> {
        self.running.signal("-HUP")
    }

    /// Sends SIGTERM; returns the exit status, and fails after `timeout`.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<ExitStatus, String> {
        self.running.terminate()?;
        self.running.wait(timeout)
    }

    /// Waits until the server has ended by itself; returns the exit status.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, String> {
        self.running.wait(timeout)
    }
}

fn serve_arguments<'a>(sources: &[&'a str]) -> Vec<&'a str> {
    let flags = sources.iter().flat_map(|source| ["--source", *source]);
    std::iter::once("serve").chain(flags).collect()
}

/// Returns a name of a file that no other test of this process has.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{name}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Writes a file for a test; returns its path.
pub(crate) fn write_file(name: &str, bytes: &[u8]) -> Result<String, String> {
    let path = output_folder().join(name);
    fs::create_dir_all(output_folder())
        .and_then(|()| fs::write(&path, bytes))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| format!("{} is no UTF-8", path.display()))
}
