//! `cargo xtask bench-peers --record`: a hundred cameras, and what their recording costs.
//!
//! ```text
//! glassline, one file ─ RTSP, TCP, 1080p30 at 3 Mbit/s and Opus ─► 100 streams of mediamtx, then glassline ─► disk
//! the same bytes ─ write ─► disk                                    the floor
//! ```
//!
//! Both servers pull the same camera a hundred times, one server at a time, three times in turns,
//! with recording and without. A result counts if the bytes of the streams are on the disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
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

/// Streams that are pulled at the same time.
const STREAMS: usize = 100;

/// Pause in which all streams begin, and files are made.
const SETTLE: Duration = Duration::from_secs(8);

/// Bits a second of a stream's media.
const STREAM_BPS: f64 = 3.064e6;

/// Least share of the media that must have been written while it was measured.
const WRITTEN_MIN: f64 = 0.95;

/// The servers, ours last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    MediaMtx,
    Glassline,
}

/// The processor time of one turn, in ms for each second of a stream.
#[derive(Clone, Copy, Debug)]
struct Turn {
    with_recording: f64,
    without: f64,
}

/// The addresses that one turn of a server uses.
struct Ports {
    camera: u16,
    http: u16,
    media: u16,
}

/// Compares the servers; prints a table of medians and writes `record.json` to the folder of
/// reports.
pub(super) fn run(lab: &Lab, layout: Layout, hold: Duration) -> Result<(), String> {
    let place = Placement::on_this_machine(layout).ok_or("one core: use --layouts shared")?;
    let seconds = hold.as_secs();
    println!(
        "{}; {STREAMS} streams, {TURNS} turns of {seconds} s",
        place.words()
    );
    let servers = [Server::MediaMtx, Server::Glassline];
    let (mut turns, mut floor) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..TURNS {
        for (server, turns) in servers.into_iter().zip(&mut turns) {
            let turn = Turn {
                with_recording: measure(server, lab, &place, hold, true)?,
                without: measure(server, lab, &place, hold, false)?,
            };
            println!("{}: {turn:.2?}", server.name());
            turns.push(turn);
        }
        floor.push(write_alone(&lab.folder, hold)?);
    }
    let heads = ["", "CPU ms/stream-s", "without recording", "of all turns"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut report = Vec::new();
    for (server, mut turns) in servers.into_iter().zip(turns) {
        turns.sort_by(|a, b| a.with_recording.total_cmp(&b.with_recording));
        let median = turns[turns.len() / 2];
        let (least, most) = (turns[0], turns[turns.len() - 1]);
        rows.push(vec![
            server.name().to_owned(),
            format!("{:.2}", median.with_recording),
            format!("{:.2}", median.without),
            format!("{:.2} to {:.2}", least.with_recording, most.with_recording),
        ]);
        let all = |of: fn(&Turn) -> f64| turns.iter().map(of).collect::<Vec<_>>();
        report.push(json!({
            "server": server.name(),
            "cpu_ms_per_stream_second": all(|it| it.with_recording),
            "without_recording": all(|it| it.without),
        }));
    }
    floor.sort_by(f64::total_cmp);
    let (name, none) = ("equal writes".to_owned(), "–".to_owned());
    let median = format!("{:.2}", floor[floor.len() / 2]);
    let range = format!("{:.2} to {:.2}", floor[0], floor[floor.len() - 1]);
    rows.push(vec![name, median, none, range]);
    println!("\n{}", document::aligned(&rows));
    let document = json!({
        "streams": STREAMS, "layout": layout.name(), "servers": report,
        "equal_writes_ms_per_stream_second": floor,
    });
    let path = lab.folder.join("record.json");
    write(&path, &format!("{document:#}\n"))?;
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

    /// Starts the server, which pulls the camera, and records into `folder` if there is one.
    fn start(
        self,
        lab: &Lab,
        place: &Placement,
        ports: &Ports,
        folder: &Scratch,
        records: bool,
    ) -> Result<Running, String> {
        let footage = records.then(|| folder.footage());
        let camera = format!("rtsp://127.0.0.1:{}/cam", ports.camera);
        let file = lab.folder.join(format!("{}-record.yml", self.name()));
        let (text, mut command) = match self {
            Self::MediaMtx => {
                let mut command = Command::new(install::mediamtx()?);
                // The program writes certificates into its working directory.
                command.arg(&file).current_dir(&lab.folder);
                (mediamtx_settings(&camera, footage.as_deref()), command)
            }
            Self::Glassline => {
                let mut command = Command::new(&lab.glassline);
                command.arg("serve").arg(&file).args(["--quic", "0"]);
                command.args(["--rtsp", "0", "--admin", "0"]);
                command.args(["--http", &ports.http.to_string()]);
                command.args(["--media", &ports.media.to_string()]);
                if place.server.is_single() {
                    command.args(["--shards", "1"]);
                }
                (our_settings(&camera, folder, footage.as_deref()), command)
            }
        };
        write(&file, &text)?;
        command.env("RUST_LOG", "warn");
        let log = lab.log(&format!("record-{}", self.name()), place);
        Running::start(&command, &place.server, &log)
    }
}

fn mediamtx_settings(camera: &str, folder: Option<&Path>) -> String {
    let off = ["rtsp", "rtmp", "hls", "srt", "webrtc", "moq"].map(|it| format!("{it}: no\n"));
    let mut text = format!("logLevel: warn\n{}pathDefaults:\n", off.concat());
    text += "  rtspTransport: tcp\n";
    if let Some(folder) = folder {
        let path = folder.join("%path/%Y-%m-%d_%H-%M-%S-%f");
        text += &format!("  record: yes\n  recordPath: {}\n", path.display());
    }
    text += "paths:\n";
    for number in 0..STREAMS {
        text += &format!("  cam{number}: {{source: '{camera}'}}\n");
    }
    text
}

fn our_settings(camera: &str, folder: &Scratch, footage: Option<&Path>) -> String {
    // A server that knows the folder would take an empty one for another disk.
    let mut text = format!("state_folder: {}\n", folder.0.join("state").display());
    if let Some(footage) = footage {
        text += &format!("recordings:\n  folder: {}\n", footage.display());
        text += "  free_gib: 0\n  record: [{streams: ['cam*']}]\n";
    }
    text += "sources:\n";
    for number in 0..STREAMS {
        text += &format!("  cam{number}: '{camera}'\n");
    }
    text
}

/// Returns the processor time of a server, in ms for each second of a stream.
fn measure(
    server: Server,
    lab: &Lab,
    place: &Placement,
    hold: Duration,
    records: bool,
) -> Result<f64, String> {
    let [camera, http] = server::free_ports()?;
    let [media, cameras_http] = server::free_ports()?;
    let ports = Ports {
        camera,
        http,
        media,
    };
    let _camera = start_camera(lab, place, &ports, cameras_http)?;
    let folder = Scratch::make(&lab.folder)?;
    let mut serving = server.start(lab, place, &ports, &folder, records)?;
    thread::sleep(SETTLE);
    let (begun, cpu) = (Instant::now(), processor::of(serving.id())?);
    let bytes = folder.bytes();
    thread::sleep(hold);
    let took = begun.elapsed().as_secs_f64();
    let cpu = processor::of(serving.id())?.saturating_sub(cpu);
    if serving.has_ended().is_some() {
        return Err(serving.complain("ended before the measurement did"));
    }
    let stream_seconds = STREAMS as f64 * took;
    let written = (folder.bytes() - bytes) as f64 / (stream_seconds * STREAM_BPS / 8.0);
    if records && written < WRITTEN_MIN {
        return Err(serving.complain(&format!("wrote {written:.2} of the media")));
    }
    Ok(cpu.as_secs_f64() * 1e3 / stream_seconds)
}

/// Starts the server that every stream is pulled from.
fn start_camera(lab: &Lab, place: &Placement, ports: &Ports, http: u16) -> Result<Running, String> {
    let mut command = Command::new(&lab.glassline);
    let files = (lab.media.video.display(), lab.media.audio.display());
    command.args(["serve", "--source"]);
    command.arg(format!("cam={},{}", files.0, files.1));
    command.args(["--quic", "0", "--admin", "0", "--media", "0"]);
    command.args(["--http", &http.to_string()]);
    command.args(["--rtsp", &ports.camera.to_string()]);
    let log = lab.log("record-camera", place);
    let running = Running::start(&command, &place.generator, &log)?;
    thread::sleep(Duration::from_secs(2));
    Ok(running)
}

/// Returns the processor time of this thread, in ms for each second of a stream, for the writes of
/// as many bytes to as many files, a fragment of a second at a time.
fn write_alone(beside: &Path, hold: Duration) -> Result<f64, String> {
    let folder = Scratch::make(beside)?;
    let fragment = vec![7; (STREAM_BPS / 8.0) as usize];
    let mut files = Vec::new();
    for number in 0..STREAMS {
        let path = folder.footage().join(number.to_string());
        files.push(File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let before = processor::of(std::process::id())?;
    for _ in 0..hold.as_secs() {
        for file in &mut files {
            file.write_all(&fragment)
                .map_err(|error| format!("{}: {error}", folder.footage().display()))?;
        }
    }
    let took = processor::of(std::process::id())?.saturating_sub(before);
    Ok(took.as_secs_f64() * 1e3 / (STREAMS as f64 * hold.as_secs_f64()))
}

/// A folder for recordings, deleted at the end of its turn.
struct Scratch(PathBuf);

impl Scratch {
    fn make(beside: &Path) -> Result<Self, String> {
        let path = beside.join("recordings");
        // One of a run that was killed may be there.
        let _ = fs::remove_dir_all(&path);
        let footage = path.join("footage");
        fs::create_dir_all(footage).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn footage(&self) -> PathBuf {
        self.0.join("footage")
    }

    /// Returns the bytes that lie on the disk. Space that is reserved ahead counts from its first use.
    fn bytes(&self) -> u64 {
        fn of(folder: &Path) -> u64 {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let bytes = entries.map(|entry| match entry.metadata() {
                Ok(it) if it.is_dir() => of(&entry.path()),
                Ok(it) => it.len(),
                Err(_) => 0,
            });
            bytes.sum()
        }
        of(&self.footage())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
