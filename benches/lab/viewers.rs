//! What a viewer costs the server, from one to three hundred of them.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::floor;
use crate::machine;
use crate::media::{self, Media};
use crate::process::Running;
use crate::processor::{Machine, Usage, resident_bytes};
use crate::report::{self, Table, figure};
use crate::server::Server;

const VIEWERS: [usize; 4] = [1, 25, 100, 300];
const WARM_UP_S: u64 = 3;
const SECONDS: u64 = 10;

/// Below this share of idle time a delay or a loss may be the machine's.
const IDLE_MIN: f64 = 0.1;

const HEADS: [&str; 15] = [
    "stream",
    "viewers",
    "delivered",
    "loss %",
    "join p50 ms",
    "p95",
    "CPU ms/viewer-s",
    "us/packet",
    "floor ms",
    "ratio",
    "packets/s each",
    "kB/viewer",
    "generator CPU %",
    "idle %",
    "limit",
];

pub(crate) fn run() -> Result<(), String> {
    let machine = machine::describe();
    let mut table = Table::new(&HEADS);
    let mut streams = Vec::new();
    let chosen = [Some(media::demo()), media::reference()?];
    for media in chosen.into_iter().flatten() {
        let idle = idle_cost(&media)?;
        let mut steps = Vec::new();
        for viewers in VIEWERS {
            let step = step(&media, viewers)?;
            println!("{} {viewers}: {}", media.name, brief(&step));
            table.row(row(&media, &step));
            steps.push(step);
        }
        streams.push(json!({
            "stream": media.name,
            "about": media.about,
            "server_cpu_ms_per_second_without_viewers": idle,
            "steps": steps,
        }));
    }
    table.print();
    println!(
        "CPU: all threads of the server, kernel time included; floor: AES-256-GCM and segmented \
         sends of the same packets to the same number of sockets, right after the step"
    );
    report::write("viewers", &machine, &json!({"streams": streams}))
}

/// Milliseconds of processor per second for a stream that nobody watches.
fn idle_cost(media: &Media) -> Result<f64, String> {
    let server = Server::serve(media)?;
    thread::sleep(Duration::from_secs(1));
    let (before, began) = (Usage::of(server.id())?, Instant::now());
    thread::sleep(Duration::from_secs(5));
    let (after, took) = (Usage::of(server.id())?, began.elapsed());
    Ok(after.since(&before).as_secs_f64() * 1e3 / took.as_secs_f64())
}

fn step(media: &Media, viewers: usize) -> Result<Value, String> {
    let server = Server::serve(media)?;
    thread::sleep(Duration::from_secs(1));
    let empty = resident_bytes(server.id())?;
    let url = server.url(&format!("/{}/whep", media.name));
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.arg("--role=viewers").arg(url);
    command.args([
        viewers.to_string(),
        WARM_UP_S.to_string(),
        SECONDS.to_string(),
    ]);
    let generator = Running::start("viewers", command)?;
    let patience = Duration::from_secs(120);
    let joined = generator.wait_for_line(patience, |line| told(line, "joined "))?;
    generator.wait_for_line(patience, |line| (line == "begin").then_some(()))?;
    let before = Moment::of(&server, &generator)?;
    let received = generator.wait_for_line(patience, |line| told(line, "end "))?;
    let after = Moment::of(&server, &generator)?;
    let full = resident_bytes(server.id())?;
    drop(generator);
    drop(server);
    let floor = floor::measure(media, viewers, SECONDS)?;

    let took = (after.at - before.at).as_secs_f64();
    let cpu = after.server.since(&before.server);
    let generator_cpu = after.generator.since(&before.generator);
    let shards = after
        .server
        .since_by(&before.server, |name| name.starts_with("shard-"));
    let packets = received["packets_received"].as_f64().unwrap_or(0.0);
    let viewer_seconds = viewers as f64 * took;
    let per_viewer = cpu.as_secs_f64() * 1e3 / viewer_seconds;
    let floor_per_packet = floor.cpu.as_secs_f64() * 1e6 / floor.packets as f64;
    let floor_per_viewer =
        floor.cpu.as_secs_f64() * 1e3 / (viewers as f64 * floor.took.as_secs_f64());
    let idle = after.machine.idle_since(before.machine);
    let mut step = json!({
        "viewers": viewers,
        "join_ms": joined,
        "packets_per_viewer_second": packets / viewer_seconds,
        "server_cpu_percent": cpu.as_secs_f64() / took * 100.0,
        "server_cpu_us_per_packet": cpu.as_secs_f64() * 1e6 / packets,
        "server_cpu_ms_per_viewer_second": per_viewer,
        "shard_cpu_ms_per_viewer_second": shards.as_secs_f64() * 1e3 / viewer_seconds,
        "server_rss_bytes": full,
        "server_rss_bytes_per_viewer": full.saturating_sub(empty) / viewers as u64,
        "generator_cpu_percent": generator_cpu.as_secs_f64() / took * 100.0,
        "machine_idle_ratio": idle,
        "machine_stolen_ratio": after.machine.stolen_since(before.machine),
        "floor": {
            "cpu_ms_per_viewer_second": floor_per_viewer,
            "cpu_us_per_packet": floor_per_packet,
            "delivered_ratio": floor.delivered,
        },
        "ratio_to_floor": per_viewer / floor_per_viewer,
        "bottleneck": bottleneck(idle, generator_cpu.as_secs_f64() / took),
    });
    if let (Some(step), Some(received)) = (step.as_object_mut(), received.as_object()) {
        step.extend(received.clone());
    }
    Ok(step)
}

/// Clocks of everybody at one moment.
struct Moment {
    server: Usage,
    generator: Usage,
    machine: Machine,
    at: Instant,
}

impl Moment {
    fn of(server: &Server, generator: &Running) -> Result<Self, String> {
        Ok(Self {
            server: Usage::of(server.id())?,
            generator: Usage::of(generator.id())?,
            machine: Machine::now(),
            at: Instant::now(),
        })
    }
}

fn bottleneck(idle: f64, generator_cores: f64) -> Option<&'static str> {
    if generator_cores > 0.85 {
        Some("generator")
    } else if idle < IDLE_MIN {
        Some("machine")
    } else {
        None
    }
}

fn told(line: &str, word: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix(word)?).ok()
}

fn brief(step: &Value) -> String {
    format!(
        "delivered {}, {} ms CPU per viewer-second, floor {}",
        figure(step["delivered_ratio"].as_f64(), 4),
        figure(step["server_cpu_ms_per_viewer_second"].as_f64(), 3),
        figure(step["floor"]["cpu_ms_per_viewer_second"].as_f64(), 3),
    )
}

fn row(media: &Media, step: &Value) -> Vec<String> {
    let number = |name: &str, scale: f64, digits| {
        let value = step[name].as_f64().map(|value| value * scale);
        figure(value, digits)
    };
    vec![
        media.name.to_owned(),
        step["viewers"].to_string(),
        number("delivered_ratio", 1.0, 4),
        number("loss_ratio", 100.0, 3),
        figure(step["join_ms"]["p50"].as_f64(), 0),
        figure(step["join_ms"]["p95"].as_f64(), 0),
        number("server_cpu_ms_per_viewer_second", 1.0, 3),
        number("server_cpu_us_per_packet", 1.0, 2),
        figure(step["floor"]["cpu_ms_per_viewer_second"].as_f64(), 3),
        number("ratio_to_floor", 1.0, 2),
        number("packets_per_viewer_second", 1.0, 1),
        number("server_rss_bytes_per_viewer", 1e-3, 0),
        number("generator_cpu_percent", 1.0, 1),
        number("machine_idle_ratio", 100.0, 0),
        step["bottleneck"].as_str().unwrap_or("").to_owned(),
    ]
}
