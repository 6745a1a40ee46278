//! A start of a program before it is packed, also of one for another processor.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::architecture::Architecture;
use crate::{install, process};

/// Time in which a server begins to serve; an emulator takes long.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs `--version`, and `serve` until it answers that it makes progress; returns what was seen.
///
/// # Errors
/// The program does not run, or another than this version, or does not serve in time.
pub(super) fn run(architecture: Architecture, binary: &Path) -> Result<String, String> {
    let runner = runner(architecture)?;
    let mut command = runner.command(binary);
    let version = process::output_of(command.arg("--version"));
    let version = version.ok_or_else(|| format!("{} failed", process::line(&command)))?;
    let version = version.trim();
    if !version.contains(env!("CARGO_PKG_VERSION")) {
        return Err(format!("{} says {version}", binary.display()));
    }
    let took = serve(runner.command(binary))?;
    let by = runner
        .emulator
        .unwrap_or_else(|| "this processor".to_owned());
    let seconds = took.as_secs_f64();
    Ok(format!("{version}; serves after {seconds:.1} s on {by}"))
}

/// The way in which a program runs here.
struct Runner {
    /// Emulator of the other processor, if one is needed.
    emulator: Option<String>,
    /// Folder of the other processor's libraries.
    libraries: String,
}

impl Runner {
    fn command(&self, binary: &Path) -> Command {
        match &self.emulator {
            None => Command::new(binary),
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.arg("-L").arg(&self.libraries).arg(binary);
                command
            }
        }
    }
}

fn runner(architecture: Architecture) -> Result<Runner, String> {
    let libraries = format!("/usr/{}", architecture.gnu());
    if Architecture::here()? == architecture {
        return Ok(Runner {
            emulator: None,
            libraries,
        });
    }
    let emulator = format!("qemu-{}", architecture.machine());
    install::tool(&emulator, &["qemu-user"])?;
    Ok(Runner {
        emulator: Some(emulator),
        libraries,
    })
}

/// Starts a server, and waits until it answers that every thread makes progress.
fn serve(mut command: Command) -> Result<Duration, String> {
    let [http, admin, media, rtsp] = free_ports()?;
    let configuration =
        std::env::temp_dir().join(format!("glassline-trial-{}.yml", std::process::id()));
    let at = |port: u16| format!("{{address: \"127.0.0.1:{port}\"}}");
    let text = format!(
        "http: {}\nadmin: {}\nmedia: {}\nrtsp: {}\nquic: {{address: null}}\nsources: {{demo: demo}}\n",
        at(http),
        at(admin),
        at(media),
        at(rtsp)
    );
    crate::package::write(&configuration, text)?;
    command.arg("serve").arg(&configuration);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let started = command.spawn();
    let mut child = started.map_err(|error| format!("{}: {error}", process::line(&command)))?;
    let waited = wait(&mut child, SocketAddr::from((Ipv4Addr::LOCALHOST, admin)));
    let took = begun.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(&configuration);
    waited.map(|()| took)
}

/// Returns ports that differ.
fn free_ports() -> Result<[u16; 4], String> {
    let mut listeners = Vec::new();
    let mut ports = [0; 4];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(|error| format!("no free port: {error}"))?;
        *port = listener.local_addr().map_or(0, |it| it.port());
        listeners.push(listener);
    }
    Ok(ports)
}

fn wait(child: &mut Child, admin: SocketAddr) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is_healthy(admin) {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            let mut said = String::new();
            if let Some(errors) = &mut child.stderr {
                let _ = errors.read_to_string(&mut said);
            }
            return Err(format!("serve ended with {status}: {said}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(format!(
        "serve did not answer within {} s",
        PATIENCE.as_secs()
    ))
}

fn is_healthy(admin: SocketAddr) -> bool {
    use std::io::Write as _;

    let Ok(mut stream) = TcpStream::connect(admin) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let asked = stream.write_all(request.as_bytes());
    let read = asked.and_then(|()| stream.read_to_string(&mut answer));
    read.is_ok() && answer.starts_with("HTTP/1.1 200")
}
