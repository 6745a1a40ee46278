//! `cargo xtask bench-peers --hls`: what a viewer of HLS costs the server.
//!
//! ```text
//!                           ┌► glassline ┐  a live stream in parts of 200 and of 500 ms,
//! glassline bench viewers ──┼► mediamtx  ┘  with HTTP and HTTPS
//!                           └► nginx        files of the sizes that Glassline's answers had, as often
//! ```
//!
//! All servers have the same generator and media, one at a time, in turns. nginx holds no request and makes
//! no part: what it costs is that of sending so many answers of this size.

mod origin;
mod replica;

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::place::{Layout, Placement};
use super::running;
use super::server::Lab;
use crate::install;
use crate::result_table::{Page, Table, commit, today};
use origin::{Load, Server};
use replica::Replica;

/// Table of the last whole run.
pub(crate) static PAGE: Page = Page {
    name: "hls",
    columns: &[
        "load and server",
        "CPU ms per viewer-second",
        "of all turns",
        "ratio to nginx",
        "Mbit/s each",
        "requests per viewer-second",
        "stalls",
        "day and commit",
        "load before",
    ],
};

/// Viewers at the same time.
const VIEWERS: usize = 100;

/// Time for which all but one viewer are watched before: what they load ahead at first is no steady load.
const SETTLING: &str = "5s";

/// Turns of each server, and those of a quick run.
const TURNS: usize = 3;
const QUICK_TURNS: usize = 1;

/// Time in addition to the measured seconds: joining, and answers that are late.
const MARGIN: Duration = Duration::from_secs(60);

/// Largest relative difference of bytes or requests at which two servers had the same load.
const DIFFERENCE_MAX: f64 = 0.1;

const PARTS_MS: [u32; 2] = [200, 500];

/// Result of one server under one load.
#[derive(Clone, Debug)]
struct Outcome {
    cpu_ms: f64,
    mbps_each: f64,
    requests: f64,
    stalls: u64,
}

/// Compares the servers; prints a table and writes `hls.json` to the folder of reports. With `writes`, the
/// page gets the table.
pub(super) fn run(lab: &Lab, layout: Layout, hold: Duration, writes: bool) -> Result<(), String> {
    install::peer("nginx")?;
    install::mediamtx()?;
    let place = Placement::on_this_machine(layout).ok_or("one core: use --layouts shared")?;
    let turns = if writes { TURNS } else { QUICK_TURNS };
    let average = load_average();
    println!(
        "{}; {VIEWERS} viewers, {turns} turns of {} s, load {average}",
        place.words(),
        hold.as_secs()
    );
    let mut table = Table::read(&PAGE)?;
    let mut report = Vec::new();
    let stamp = format!("{} {}", today(), commit());
    for part_ms in PARTS_MS {
        let folder = lab.folder.join(format!("hls-{part_ms}"));
        let replica = {
            let load = Load {
                is_secure: false,
                part_ms,
            };
            let ours = origin::start(Server::Glassline, lab, &place, load, &folder)?;
            Replica::of(ours.http, &folder, hold + MARGIN)?
        };
        println!("{}", replica.told());
        for is_secure in [false, true] {
            let load = Load { is_secure, part_ms };
            let mut outcomes = Server::ALL.map(|_| Vec::new());
            for _ in 0..turns {
                for (server, outcomes) in Server::ALL.into_iter().zip(&mut outcomes) {
                    let origin = origin::start(server, lab, &place, load, &folder)?;
                    let outcome = measure(lab, &place, &origin, hold)
                        .map_err(|error| format!("{}: {error}", server.name()))?;
                    println!(
                        "{} {}: {:.2} ms",
                        load.words(),
                        server.name(),
                        outcome.cpu_ms
                    );
                    outcomes.push(outcome);
                }
            }
            let medians = outcomes.each_ref().map(|of| median(of));
            let is_comparable = comparable(&medians);
            if let Err(reason) = &is_comparable {
                println!("{}: no ratio: {reason}", load.words());
            }
            for ((server, all), outcome) in Server::ALL.iter().zip(&outcomes).zip(&medians) {
                let ratio = outcome.cpu_ms / medians[0].cpu_ms;
                let ratio = is_comparable.is_ok().then_some(ratio);
                table.put(row(load, *server, all, ratio, [&stamp, &average]));
                report.push(entry(load, *server, outcome, ratio));
            }
        }
    }
    println!("\n{}", table.text());
    let document = json!({"viewers": VIEWERS, "layout": layout.name(), "servers": report});
    let path = lab.folder.join("hls.json");
    fs::write(&path, format!("{document:#}\n"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("report: {}", path.display());
    if writes {
        table.write()?;
    }
    Ok(())
}

/// Loads a server; its processor time includes all its processes.
fn measure(
    lab: &Lab,
    place: &Placement,
    origin: &origin::Origin,
    hold: Duration,
) -> Result<Outcome, String> {
    let report = lab.folder.join("hls-viewers.json");
    // A report of an earlier run must not be read as this run's.
    let _ = fs::remove_file(&report);
    let mut generator = Command::new(&lab.glassline);
    generator.args(["bench", "viewers", &origin.url, "--insecure"]);
    let ramp = format!("{}:{VIEWERS}:1", VIEWERS - 1);
    generator.args(["--ramp", &ramp, "--every", SETTLING, "--max-cpu", "100"]);
    generator.args(["--hold", &format!("{}s", hold.as_secs())]);
    generator.args(["--server-pid", &origin.process().to_string()]);
    generator.arg("--json").arg(&report);
    running::run_in_view(&generator, &place.generator, hold + MARGIN)?;
    let text =
        fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    outcome(&report, VIEWERS)
}

/// Reads the last step of a report.
fn outcome(report: &Value, viewers: usize) -> Result<Outcome, String> {
    let steps = report["steps"].as_array().and_then(|steps| steps.last());
    let step = steps.ok_or("a report without steps")?;
    if step["connected"].as_u64() != Some(viewers as u64) {
        let failure = &step["first_failure"];
        return Err(format!("not all {viewers} viewers played: {failure}"));
    }
    let number = |pointer: &str| {
        let found = step.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("the report has no {pointer}"))
    };
    Ok(Outcome {
        cpu_ms: number("/server_cpu_ms_per_viewer_second")?,
        mbps_each: number("/received_mbps")? / viewers as f64,
        requests: number("/hls/requests_per_viewer_second")?,
        stalls: step["hls"]["stalls"].as_u64().unwrap_or(0),
    })
}

fn median(outcomes: &[Outcome]) -> Outcome {
    let mut sorted = outcomes.to_vec();
    sorted.sort_by(|a, b| a.cpu_ms.total_cmp(&b.cpu_ms));
    sorted[sorted.len() / 2].clone()
}

/// Whether the first server, nginx, had the load of the last one, ours.
///
/// # Errors Bytes or requests differ, so that a ratio would mean nothing.
fn comparable(outcomes: &[Outcome]) -> Result<(), String> {
    let (Some(files), Some(ours)) = (outcomes.first(), outcomes.last()) else {
        return Ok(());
    };
    for (what, theirs, ours) in [
        ("Mbit/s", files.mbps_each, ours.mbps_each),
        ("requests/s", files.requests, ours.requests),
    ] {
        if (theirs / ours - 1.0).abs() > DIFFERENCE_MAX {
            return Err(format!(
                "nginx sent {theirs:.2} {what} to a viewer, Glassline {ours:.2}"
            ));
        }
    }
    Ok(())
}

fn row(
    load: Load,
    server: Server,
    all: &[Outcome],
    ratio: Option<f64>,
    circumstances: [&str; 2],
) -> Vec<String> {
    let outcome = median(all);
    let costs = all.iter().map(|it| it.cpu_ms);
    let (least, most) = costs.fold((f64::INFINITY, 0.0_f64), |(least, most), cost| {
        (least.min(cost), most.max(cost))
    });
    let [stamp, average] = circumstances;
    vec![
        format!("{}: {}", load.words(), server.name()),
        format!("{:.2}", outcome.cpu_ms),
        format!("{least:.2} to {most:.2}"),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        format!("{:.2}", outcome.mbps_each),
        format!("{:.1}", outcome.requests),
        outcome.stalls.to_string(),
        stamp.to_owned(),
        average.to_owned(),
    ]
}

fn entry(load: Load, server: Server, outcome: &Outcome, ratio: Option<f64>) -> Value {
    json!({
        "name": format!("{} {}", server.name(), load.words()),
        "server_cpu_ms_per_viewer_second": outcome.cpu_ms,
        "ratio_to_nginx": ratio,
        "mbps_each": outcome.mbps_each,
        "requests_per_viewer_second": outcome.requests,
        "stalls": outcome.stalls,
    })
}

/// The load average of the last minute.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(cpu_ms: f64, requests: f64) -> Outcome {
        Outcome {
            cpu_ms,
            mbps_each: 3.1,
            requests,
            stalls: 0,
        }
    }

    #[test]
    fn servers_with_other_loads_are_not_compared() {
        let [files, ours] = [took(1.0, 20.0), took(1.4, 20.9)];
        assert_eq!(comparable(&[files.clone(), ours]), Ok(()));
        let refused = comparable(&[files, took(1.4, 10.0)]).expect_err("half the requests");
        assert!(refused.contains("requests/s"), "{refused}");
    }

    #[test]
    fn the_cost_is_the_median_of_the_turns() {
        let all = [took(1.4, 20.0), took(9.0, 20.0), took(1.2, 20.0)];
        let load = Load {
            is_secure: true,
            part_ms: 200,
        };
        let row = row(load, Server::Glassline, &all, Some(1.27), ["today", "0.10"]);
        assert_eq!(
            row[..4],
            ["HTTPS 200 ms: glassline", "1.40", "1.20 to 9.00", "1.27"]
        );
        assert_eq!(row.len(), PAGE.columns.len());
        assert!(row.iter().all(|cell| !cell.contains(',')), "CSV: {row:?}");
    }

    #[test]
    fn a_report_of_viewers_that_did_not_play_is_none() {
        let step = json!({
            "connected": 2, "server_cpu_ms_per_viewer_second": 1.5, "received_mbps": 6.0,
            "hls": {"requests_per_viewer_second": 20.0, "stalls": 1},
        });
        let report = json!({"steps": [step]});
        let read = outcome(&report, 2).expect("all play");
        assert_eq!((read.mbps_each, read.stalls), (3.0, 1));
        assert!(outcome(&report, 3).is_err());
        assert!(outcome(&json!({"steps": []}), 2).is_err());
    }
}
