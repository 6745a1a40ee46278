//! Cost of one join for the server: offer, answer, connectivity checks, handshake, goodbye.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use glassline_lab::meter::{Machine, Process, Usage};
use serde_json::{Value, json};

use crate::machine;
use crate::media::{self, Media};
use crate::process::Running;
use crate::report::{self, Table, figure};
use crate::server::Server;

const ROUNDS: usize = 30;
const VIEWERS_PER_ROUND: usize = 10;

pub(crate) fn run() -> Result<(), String> {
    let machine = machine::describe();
    let mut table = Table::new(&[
        "stream",
        "joins",
        "CPU ms/join",
        "of it shards",
        "HTTP",
        "media packets/join",
        "keys p50 ms",
        "p95",
        "media p50 ms",
        "p95",
        "idle %",
    ]);
    let mut results = Vec::new();
    for media in [media::audio(), media::demo()] {
        let result = measure(&media)?;
        let number = |name: &str, digits| figure(result[name].as_f64(), digits);
        let time = |name: &str, quantile: &str| figure(result[name][quantile].as_f64(), 1);
        table.row(vec![
            format!("{} ({})", media.name, media.about),
            result["joins"].to_string(),
            number("server_cpu_ms_per_join", 3),
            number("shard_cpu_ms_per_join", 3),
            number("http_cpu_ms_per_join", 3),
            number("media_packets_per_join", 1),
            time("connect_ms", "p50"),
            time("connect_ms", "p95"),
            time("join_ms", "p50"),
            time("join_ms", "p95"),
            figure(result["machine_idle_ratio"].as_f64().map(|r| r * 100.0), 0),
        ]);
        results.push(result);
    }
    table.print();
    println!(
        "{VIEWERS_PER_ROUND} at a time, keys and first media from the start of the POST; CPU less \
         what the server uses without viewers"
    );
    report::write("join", &machine, &json!({"streams": results}))
}

fn measure(media: &Media) -> Result<Value, String> {
    let server = Server::serve(media)?;
    thread::sleep(Duration::from_secs(1));
    let mut process = server.process()?;
    let (idle_from, idle_began) = (look(&mut process)?, Instant::now());
    thread::sleep(Duration::from_secs(4));
    let idle = look(&mut process)?.since(&idle_from);
    let idle = idle.as_secs_f64() / idle_began.elapsed().as_secs_f64();

    let url = server.url(&format!("/{}/whep", media.name));
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.arg("--role=joins").arg(url);
    command.args([ROUNDS.to_string(), VIEWERS_PER_ROUND.to_string()]);
    let generator = Running::start("joins", command)?;
    let patience = Duration::from_secs(180);
    generator.wait_for_line(patience, |line| (line == "begin").then_some(()))?;
    let (before, began, machine) = (look(&mut process)?, Instant::now(), Machine::now());
    let packets_before = server.metric("glassline_egress_packets_total")?;
    let mut result: Value = generator.wait_for_line(patience, |line| {
        serde_json::from_str(line.strip_prefix("end ")?).ok()
    })?;
    let (after, took) = (look(&mut process)?, began.elapsed());
    let idle_ratio = Machine::now().idle_since(&machine);
    let packets = server.metric("glassline_egress_packets_total")? - packets_before;
    let joins = result["joins"].as_f64().unwrap_or(1.0);
    let is_shard = |name: &str| name.starts_with("shard-");
    let shards = after.since_by(&before, is_shard).as_secs_f64();
    let all = after.since(&before).as_secs_f64() - idle * took.as_secs_f64();
    let each = |seconds: f64| seconds * 1e3 / joins;
    if let Some(result) = result.as_object_mut() {
        result.insert("stream".to_owned(), media.name.into());
        result.insert("server_cpu_ms_per_join".to_owned(), each(all).into());
        result.insert("shard_cpu_ms_per_join".to_owned(), each(shards).into());
        result.insert("http_cpu_ms_per_join".to_owned(), each(all - shards).into());
        result.insert(
            "media_packets_per_join".to_owned(),
            (packets / joins).into(),
        );
        result.insert("idle_cpu_ms_per_second".to_owned(), (idle * 1e3).into());
        result.insert("machine_idle_ratio".to_owned(), idle_ratio.into());
    }
    Ok(result)
}

fn look(process: &mut Process) -> Result<Usage, String> {
    process.look().map_err(|error| error.to_string())
}
