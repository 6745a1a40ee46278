//! `cargo xtask bench-peers --whip`: publishers by WHIP, and what each costs the server.
//!
//! ```text
//! glassline publish × N ─ WHIP, 1080p30 at 3 Mbit/s and Opus ─► mediamtx, then glassline
//! ```
//!
//! Both servers get the same publishers, one server at a time, three times in turns. Nobody
//! watches: what is measured is what a publisher costs. Only publishers that delivered the stream
//! count.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::document;
use super::place::{Layout, Placement};
use super::processor;
use super::running::Running;
use super::server::{self, Lab};
use crate::install;

/// Turns of each server.
const TURNS: usize = 3;

/// Number of publishers that send at the same time.
const PUBLISHERS: usize = 10;

/// Pause after the last publisher began.
const SETTLE: Duration = Duration::from_secs(5);

/// Least share of the stream that must have arrived for a result to count.
const DELIVERED_MIN: f64 = 0.95;

/// The servers, ours last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    MediaMtx,
    Glassline,
}

/// Result of one server.
struct Outcome {
    /// Processor time in ms for each second of a publisher.
    cpu_ms: f64,
    /// Bitrate that a publisher handed to its session, in Mbit/s.
    mbps_each: f64,
}

/// Compares the servers; prints a table of medians and writes `whip.json` to the folder of reports.
pub(super) fn run(lab: &Lab, layout: Layout, hold: Duration) -> Result<(), String> {
    let place = Placement::on_this_machine(layout).ok_or("one core: use --layouts shared")?;
    println!(
        "{}; {PUBLISHERS} publishers, {TURNS} turns of {} s",
        place.words(),
        hold.as_secs()
    );
    let servers = [Server::MediaMtx, Server::Glassline];
    let mut turns = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (server, outcomes) in servers.into_iter().zip(&mut turns) {
            let outcome = measure(server, lab, &place, hold)?;
            println!("{}: {:.2} ms", server.name(), outcome.cpu_ms);
            outcomes.push(outcome);
        }
    }
    let heads = [
        "server",
        "Mbit/s each",
        "CPU ms/publisher-s",
        "of all turns",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut report = Vec::new();
    for (server, mut outcomes) in servers.into_iter().zip(turns) {
        outcomes.sort_by(|a, b| a.cpu_ms.total_cmp(&b.cpu_ms));
        let all: Vec<f64> = outcomes.iter().map(|it| it.cpu_ms).collect();
        let median = &outcomes[outcomes.len() / 2];
        rows.push(vec![
            server.name().to_owned(),
            format!("{:.2}", median.mbps_each),
            format!("{:.2}", median.cpu_ms),
            format!("{:.2} to {:.2}", all[0], all[all.len() - 1]),
        ]);
        report.push(json!({
            "server": server.name(),
            "mbps_each": median.mbps_each,
            "server_cpu_ms_per_publisher_second": all,
        }));
    }
    println!("\n{}", document::aligned(&rows));
    let document = json!({"publishers": PUBLISHERS, "layout": layout.name(), "servers": report});
    let path = lab.folder.join("whip.json");
    fs::write(&path, format!("{document:#}\n"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("report: {}", path.display());
    Ok(())
}

impl Server {
    const fn name(self) -> &'static str {
        match self {
            Self::MediaMtx => "mediamtx",
            Self::Glassline => "glassline",
        }
    }

    /// Starts the server with its HTTP at `http` and its media at `media`.
    fn start(
        self,
        lab: &Lab,
        place: &Placement,
        [http, media]: [u16; 2],
    ) -> Result<Running, String> {
        let log = lab.log(&format!("whip-{}", self.name()), place);
        let mut command = match self {
            Self::MediaMtx => {
                let path = lab.folder.join("mediamtx-whip.yml");
                let off = ["rtsp", "rtmp", "hls", "srt", "moq"].map(|it| format!("{it}: no\n"));
                let text = format!(
                    "logLevel: warn\n{}webrtcAddress: 127.0.0.1:{http}\n\
                     webrtcLocalUDPAddress: 127.0.0.1:{media}\n\
                     webrtcIPsFromInterfaces: no\nwebrtcAdditionalHosts: [127.0.0.1]\n\
                     paths:\n  all_others:\n",
                    off.concat()
                );
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
                let mut command = Command::new(install::mediamtx()?);
                // The program writes certificates into its working directory.
                command.arg(path).current_dir(&lab.folder);
                command
            }
            Self::Glassline => {
                let mut command = Command::new(&lab.glassline);
                command.args(["serve", "--quic", "0", "--rtsp", "0", "--admin", "0"]);
                command.args(["--http", &http.to_string(), "--media", &media.to_string()]);
                if place.server.is_single() {
                    command.args(["--shards", "1"]);
                }
                command
            }
        };
        command.env("RUST_LOG", "warn");
        let running = Running::start(&command, &place.server, &log)?;
        thread::sleep(Duration::from_secs(2));
        Ok(running)
    }
}

fn measure(
    server: Server,
    lab: &Lab,
    place: &Placement,
    hold: Duration,
) -> Result<Outcome, String> {
    let [http, media] = server::free_ports()?;
    let serving = server.start(lab, place, [http, media])?;
    let mut publishers = Vec::new();
    for number in 0..PUBLISHERS {
        let mut command = Command::new(&lab.glassline);
        command.args(["publish", "--loop", "--bitrate", "1M..20M"]);
        let files = (lab.media.video.display(), lab.media.audio.display());
        command.arg(format!("{},{}", files.0, files.1));
        command.arg(format!("http://127.0.0.1:{http}/cam{number}/whip"));
        let report = lab.folder.join(format!("whip-publisher-{number}.json"));
        // A report of an earlier run must not be read as this run's.
        let _ = fs::remove_file(&report);
        command.arg("--json").arg(&report);
        let log = lab.log(&format!("whip-publisher-{number}"), place);
        let running = Running::start(&command, &place.generator, &log)?;
        publishers.push((running, report));
    }
    thread::sleep(SETTLE);
    let before = (Instant::now(), processor::of(serving.id())?);
    thread::sleep(hold);
    let took = before.0.elapsed().as_secs_f64();
    let cpu = processor::of(serving.id())?.saturating_sub(before.1);
    let mut mbps = Vec::new();
    for (mut publisher, report) in publishers {
        if publisher.has_ended().is_some() {
            return Err(publisher.complain("ended before the measurement did"));
        }
        // It writes its report when it is ended.
        drop(publisher);
        mbps.push(handed_mbps(&report)?);
    }
    drop(serving);
    let publisher_seconds = mbps.len() as f64 * took;
    let mbps_each = mbps.iter().sum::<f64>() / mbps.len() as f64;
    let least = mbps.iter().copied().fold(f64::INFINITY, f64::min);
    if least < DELIVERED_MIN * mbps_each {
        return Err(format!(
            "a publisher delivered {least:.2} Mbit/s of {mbps_each:.2}"
        ));
    }
    Ok(Outcome {
        cpu_ms: cpu.as_secs_f64() * 1e3 / publisher_seconds,
        mbps_each,
    })
}

/// Returns the bitrate that a publisher handed to its session, by its report.
fn handed_mbps(report: &std::path::Path) -> Result<f64, String> {
    let text =
        fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let goodput = report["goodput_mbps"].as_f64();
    goodput.ok_or_else(|| format!("no goodput in {text}"))
}
