//! `cargo xtask bench-peers --moq`: one live upload, many readers, over MoQ.
//!
//! ```text
//! ffmpeg ─ Annex B ─► moq import ─ QUIC ─► relay, or glassline ─ QUIC ─► moq export × N
//!                     glassline publish ─► relay ──────────────────────► moq export × 1
//! ```
//!
//! Publisher and readers are the MoQ project's own, so that what is measured also
//! shows that both understand each other. The figures are the server's processor time
//! a reader-second, and how much of the stream its readers were given.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::document;
use super::place::{Cores, Layout, Placement};
use super::processor;
use super::running::{self, Running};
use super::server::{self, Lab};
use crate::{install, versions};

/// Combinations of publisher and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    /// `moq` publishes through the project's relay.
    Relay,
    /// `moq` publishes through Glassline.
    Ours,
    /// `glassline publish` publishes through the project's relay.
    Published,
}

/// Number of readers, and time of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) readers: usize,
    pub(super) hold: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            readers: 10,
            hold: Duration::from_secs(20),
        }
    }
}

/// Result of one combination.
struct Outcome {
    mbps_each: f64,
    delivered: f64,
    cpu_ms: f64,
    rss_mb: f64,
}

/// Pause after the last reader began, since the group in which a reader joins is no steady load.
const SETTLE: Duration = Duration::from_secs(4);

/// Longest wait for a server to be ready, and for the stream to be there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Name of the stream.
const NAME: &str = "reference";

/// Compares the combinations; prints a table and writes `moq.json` to the folder of reports.
pub(super) fn run(lab: &Lab, layout: Layout, load: Load) -> Result<(), String> {
    let (client, relay) = install::moq()?;
    let place = Placement::on_this_machine(layout).ok_or("one core: use --layouts shared")?;
    let source = Upload::measure(&lab.media.video)?;
    println!(
        "{}; {} readers, {} s",
        place.words(),
        load.readers,
        load.hold.as_secs()
    );
    let mut rows = vec![
        [
            "way",
            "readers",
            "Mbit/s each",
            "delivered",
            "CPU ms/reader-s",
            "RSS MB",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut report = Vec::new();
    for way in [
        Combination::Relay,
        Combination::Ours,
        Combination::Published,
    ] {
        let readers = match way {
            Combination::Published => 1,
            _ => load.readers,
        };
        let bench = Bench {
            lab,
            place: &place,
            client: &client,
            relay: &relay,
            way,
        };
        println!("\n-- {}", way.about());
        let outcome = bench.measure(readers, load.hold, &source)?;
        rows.push(vec![
            way.name().to_owned(),
            readers.to_string(),
            format!("{:.2}", outcome.mbps_each),
            format!("{:.3}", outcome.delivered),
            format!("{:.2}", outcome.cpu_ms),
            format!("{:.0}", outcome.rss_mb),
        ]);
        report.push(json!({
            "way": way.name(),
            "readers": readers,
            "mbps_each": outcome.mbps_each,
            "delivered_ratio": outcome.delivered,
            "server_cpu_ms_per_reader_second": outcome.cpu_ms,
            "server_rss_bytes": outcome.rss_mb * 1e6,
        }));
    }
    println!("\n{}", document::aligned(&rows));
    let document = json!({
        "moq_cli": versions::of("moq-cli", "version")?,
        "moq_relay": versions::of("moq-relay", "version")?,
        "layout": layout.name(),
        "ways": report,
    });
    let path = lab.folder.join("moq.json");
    fs::write(&path, format!("{document:#}\n"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("report: {}", path.display());
    Ok(())
}

impl Combination {
    fn name(self) -> &'static str {
        match self {
            Combination::Relay => "moq-relay",
            Combination::Ours => "glassline",
            Combination::Published => "glassline publish → moq-relay",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Combination::Relay => "ffmpeg | moq import → moq-relay → moq export",
            Combination::Ours => "ffmpeg | moq import → glassline serve → moq export",
            Combination::Published => "glassline publish → moq-relay → moq export",
        }
    }
}

/// The stream as it is sent.
struct Upload {
    video: PathBuf,
    bytes_per_second: f64,
}

impl Upload {
    /// The file is ten seconds long and is sent repeatedly.
    fn measure(video: &Path) -> Result<Upload, String> {
        let file = fs::metadata(video).map_err(|error| format!("{}: {error}", video.display()))?;
        Ok(Upload {
            video: video.to_owned(),
            bytes_per_second: file.len() as f64 / super::media::SECONDS as f64,
        })
    }
}

/// A combination that is being measured.
struct Bench<'a> {
    lab: &'a Lab,
    place: &'a Placement,
    client: &'a Path,
    relay: &'a Path,
    way: Combination,
}

impl Bench<'_> {
    fn measure(&self, readers: usize, hold: Duration, source: &Upload) -> Result<Outcome, String> {
        let [port] = server::free_ports()?;
        let server = self.serve(port)?;
        let url = format!("https://localhost:{port}/");
        let _publisher = self.publish(&url, port, source)?;
        let readers: Vec<Reader> = (0..readers)
            .map(|_| Reader::start(self.client, &url, &self.place.generator))
            .collect::<Result<_, _>>()?;
        let deadline = Instant::now() + PATIENCE;
        while readers.iter().any(|reader| reader.bytes() == 0) {
            if Instant::now() > deadline {
                let silent = readers.iter().filter(|reader| reader.bytes() == 0).count();
                return Err(format!("{silent} readers got nothing of {url}{NAME}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        thread::sleep(SETTLE);
        let before = (Instant::now(), processor::of(server.id())?, total(&readers));
        thread::sleep(hold);
        let took = before.0.elapsed().as_secs_f64();
        let cpu = processor::of(server.id())? - before.1;
        Ok(outcome(&Window {
            took,
            cpu,
            bytes: total(&readers) - before.2,
            readers: readers.len(),
            expected: source.bytes_per_second,
            rss_kib: resident_kib(server.id()),
        }))
    }

    fn serve(&self, port: u16) -> Result<Running, String> {
        let log = self
            .lab
            .log(&format!("moq-{:?}", self.way).to_lowercase(), self.place);
        let mut command = match self.way {
            Combination::Relay | Combination::Published => {
                let mut command = Command::new(self.relay);
                command.args(["--listen", &format!("127.0.0.1:{port}")]);
                command.args(["--listen-tls-generate", "localhost"]);
                command.args(["--auth-public", "**"]);
                command
            }
            Combination::Ours => {
                let mut command = Command::new(&self.lab.glassline);
                command.args(["serve", "--quic", &port.to_string()]);
                for flag in ["--http", "--media", "--rtsp", "--admin"] {
                    command.args([flag, "0"]);
                }
                command
            }
        };
        command.env("RUST_LOG", "warn");
        let running = Running::start(&command, &self.place.server, &log)?;
        // A QUIC server does not answer probes, so there is nothing to poll.
        thread::sleep(Duration::from_secs(1));
        Ok(running)
    }

    fn publish(&self, url: &str, port: u16, source: &Upload) -> Result<Running, String> {
        let log = self.lab.log("moq-publisher", self.place);
        let video = source.video.display();
        let command = match self.way {
            Combination::Published => {
                let mut command = Command::new(&self.lab.glassline);
                command.args(["publish", "--loop"]).arg(&source.video);
                command.arg(format!("moq://127.0.0.1:{port}/{NAME}"));
                command.arg("--insecure");
                command
            }
            _ => {
                let client = self.client.display();
                let mut command = Command::new("sh");
                // Raw H.264 cannot be looped by the program, so a shell restarts it.
                command.arg("-c").arg(format!(
                    "while cat '{video}'; do :; done | \
                     ffmpeg -hide_banner -loglevel error -re -f h264 -r 30 -i - \
                     -c copy -f h264 - | \
                     '{client}' --connect {url} --connect-tls-insecure \
                     --broadcast {NAME} import avc3"
                ));
                command
            }
        };
        Running::start(&command, &self.place.generator, &log)
    }
}

/// A `moq export` process whose output is counted and discarded.
struct Reader {
    child: Child,
    bytes: Arc<AtomicU64>,
}

impl Reader {
    fn start(client: &Path, url: &str, cores: &Cores) -> Result<Reader, String> {
        let mut command = Command::new(client);
        command.args(["--connect", url, "--connect-tls-insecure"]);
        command.args(["--broadcast", NAME, "export", "h264"]);
        let mut child = running::on(&command, cores)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", client.display()))?;
        let bytes = Arc::new(AtomicU64::new(0));
        if let Some(output) = child.stdout.take() {
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || count(output, &bytes));
        }
        Ok(Reader { child, bytes })
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(mut output: impl std::io::Read, bytes: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = output.read(&mut buffer) {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
}

fn total(readers: &[Reader]) -> u64 {
    readers.iter().map(Reader::bytes).sum()
}

/// Figures of the measured window.
struct Window {
    took: f64,
    cpu: Duration,
    bytes: u64,
    readers: usize,
    expected: f64,
    rss_kib: u64,
}

fn outcome(window: &Window) -> Outcome {
    let reader_seconds = window.readers as f64 * window.took;
    let rate = window.bytes as f64 / reader_seconds;
    Outcome {
        mbps_each: rate * 8.0 / 1e6,
        delivered: rate / window.expected,
        cpu_ms: window.cpu.as_secs_f64() * 1e3 / reader_seconds,
        rss_mb: window.rss_kib as f64 * 1024.0 / 1e6,
    }
}

fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_is_known() {
        assert!(resident_kib(std::process::id()) > 0);
    }

    #[test]
    fn what_readers_got_is_set_against_the_stream() {
        let outcome = outcome(&Window {
            took: 10.0,
            cpu: Duration::from_millis(400),
            bytes: 36_000_000,
            readers: 10,
            expected: 375_000.0,
            rss_kib: 1000,
        });
        assert!((outcome.mbps_each - 2.88).abs() < 1e-9);
        assert!((outcome.delivered - 0.96).abs() < 1e-9);
        assert!((outcome.cpu_ms - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_readers_bytes_are_counted_to_the_end() {
        let bytes = AtomicU64::new(0);
        count(&[7; 100_000][..], &bytes);
        assert_eq!(bytes.into_inner(), 100_000);
    }
}
