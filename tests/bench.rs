//! `glassline bench viewers` against our server: figures, files, exit codes.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::peers::Test;
use crate::process::{Running, output_folder};
use crate::server::{Server, glassline, write_file};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_ramp_becomes_figures_rows_and_a_chart),
    Test::of(&a_condition_that_is_met_ends_with_three),
    Test::of(&bad_clients_are_beside_the_viewers),
    Test::of(&ctrl_c_keeps_what_was_measured),
    Test::of(&what_cannot_be_loaded_is_said_before_the_load),
];

/// Longest time of a run: a ramp of ten seconds with its joins and its end, in a debug build.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);

fn a_ramp_becomes_figures_rows_and_a_chart() -> Result<(), Failed> {
    let server = live_demo()?;
    let [json, csv, svg] = files("ramp")?;
    let pid = server.id().to_string();
    let url = server.url("/demo/whep");
    let flags = [
        "--ramp",
        "0:6:3",
        "--every",
        "2s",
        "--hold",
        "2s",
        "--max-cpu",
        "100",
        "--server-pid",
        &pid,
        "--label",
        "a test",
        "--floor",
        "--json",
        &json,
        "--csv",
        &csv,
        "--svg",
        &svg,
    ];
    let (code, printed) = bench(&url, &flags)?;
    check(code == Some(0), || format!("exit code {code:?}: {printed}"))?;
    check(!printed.contains('\x1b'), || {
        format!("no terminal, but {printed}")
    })?;
    check(
        printed.contains("bottleneck") && printed.contains("floor"),
        || printed.clone(),
    )?;

    let report = read_json(&json)?;
    check(
        report["label"] == "a test" && report["protocol"] == "whep",
        || report.to_string(),
    )?;
    let steps = report["steps"].as_array().ok_or("no steps")?;
    let viewers: Vec<_> = steps.iter().map(|step| step["viewers"].as_u64()).collect();
    check(viewers == [Some(3), Some(6)], || format!("{viewers:?}"))?;
    for step in steps {
        check(step["connected"] == step["viewers"], || step.to_string())?;
        // Not strict, since a busy machine stalls from time to time.
        let delivered = step["delivered_ratio"].as_f64().unwrap_or(0.0);
        check((0.95..1.1).contains(&delivered), || step.to_string())?;
        check(step["frames_verified"].as_u64() > Some(0), || {
            step.to_string()
        })?;
        for name in [
            "/server_cpu_percent",
            "/server_cpu_us_per_packet",
            "/server_rss_bytes",
            "/generator_cpu_percent",
            "/gap_ms/p99",
            "/join_ms/p95",
        ] {
            let value = step.pointer(name).and_then(Value::as_f64);
            check(value > Some(0.0), || format!("{name} of {step}"))?;
        }
        let stages = step["stages"].as_array().map_or(0, Vec::len);
        check(stages >= 4, || format!("the server's stages of {step}"))?;
    }
    let floor = report.pointer("/floor/steps/0/cpu_us_per_packet");
    check(floor.and_then(Value::as_f64) > Some(0.0), || {
        report["floor"].to_string()
    })?;

    let rows = read(&csv)?;
    check(
        rows.starts_with("timestamp, peerConnectionCount, cpuUsage"),
        || rows.clone(),
    )?;
    check(rows.lines().count() >= 2, || format!("no rows: {rows}"))?;
    let chart = read(&svg)?;
    check(
        chart.starts_with("<svg ") && chart.ends_with("</svg>\n"),
        || chart.clone(),
    )?;
    check(chart.contains("a test"), || chart.clone())
}

fn a_condition_that_is_met_ends_with_three() -> Result<(), Failed> {
    let server = live_demo()?;
    let [json, _, svg] = files("condition")?;
    let url = server.url("/demo/whep");
    let short = ["--ramp", "2", "--hold", "1s", "--max-cpu", "100"];
    let flags = [&short[..], &["--fail-if", "delivered<2", "--json", &json]].concat();
    let (code, printed) = bench(&url, &flags)?;
    check(code == Some(3), || format!("exit code {code:?}: {printed}"))?;
    check(printed.contains("delivered_ratio<2"), || printed.clone())?;
    // The report exists all the same, and another run can draw it.
    let flags = [
        &short[..],
        &[
            "--fail-if",
            "delivered<0.1",
            "--overlay",
            &json,
            "--svg",
            &svg,
            "--quiet",
        ],
    ]
    .concat();
    let (code, printed) = bench(&url, &flags)?;
    check(code == Some(0) && printed.is_empty(), || {
        format!("{code:?}: {printed}")
    })?;
    check(read(&svg)?.matches("(whep)").count() == 2, || {
        "no overlay".to_owned()
    })
}

fn bad_clients_are_beside_the_viewers() -> Result<(), Failed> {
    let server = live_demo()?;
    let [json, ..] = files("bad-clients")?;
    let flags = [
        "--ramp",
        "6",
        "--hold",
        "5s",
        "--bad-clients",
        "50%",
        "--max-cpu",
        "100",
        "--json",
        &json,
    ];
    let (code, printed) = bench(&server.url("/demo/whep"), &flags)?;
    check(code == Some(0), || format!("exit code {code:?}: {printed}"))?;
    let step = read_json(&json)?["steps"][0].take();
    check(step["bad_clients"] == 3 && step["viewers"] == 6, || {
        step.to_string()
    })?;
    check(step["connected"] == 6 && step["failed"] == 0, || {
        step.to_string()
    })?;
    let delivered = step["delivered_ratio"].as_f64().unwrap_or(0.0);
    check(delivered >= 0.95, || step.to_string())
}

fn ctrl_c_keeps_what_was_measured() -> Result<(), Failed> {
    let server = live_demo()?;
    let [json, csv, _] = files("interrupted")?;
    let url = server.url("/demo/whep");
    let flags = [
        "--ramp",
        "1:3:1",
        "--every",
        "60s",
        "--max-cpu",
        "100",
        "--json",
        &json,
        "--csv",
        &csv,
    ];
    let mut running = Running::start("bench", glassline(&arguments(&url, &flags)))?;
    // A row means that the first viewer is being measured.
    crate::process::eventually(RUN_TIMEOUT, || match read(&csv) {
        Ok(rows) if rows.lines().count() >= 3 => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status();
    check(interrupted.is_ok_and(|status| status.success()), || {
        "no kill".to_owned()
    })?;
    let status = running.wait(RUN_TIMEOUT)?;
    check(status.code() == Some(130), || {
        format!("{status}: {}", running.printed())
    })?;
    let report = read_json(&json)?;
    check(report["stopped"] == "interrupted", || report.to_string())?;
    let step = &report["steps"][0];
    let seconds = step["duration_s"].as_f64().unwrap_or(0.0);
    check(
        step["viewers"] == 1 && seconds > 0.9 && seconds < 60.0,
        || report.to_string(),
    )
}

fn what_cannot_be_loaded_is_said_before_the_load() -> Result<(), Failed> {
    let taken = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let port = taken
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    drop(taken);
    let dead = format!("http://127.0.0.1:{port}/demo/whep");
    let server = live_demo()?;
    let (alive, missing) = (server.url("/demo/whep"), server.url("/nothing/whep"));
    let no_report = write_file("no-report.json", b"{\"steps\": 1}")?;
    let cases: [(&str, &[&str], i32, &str); 8] = [
        (&dead, &[], 1, &port.to_string()),
        (&missing, &[], 1, "nothing"),
        ("nonsense", &[], 2, "nonsense"),
        (&alive, &["--ramp", "5:1:1"], 2, "goes up"),
        (&alive, &["--server-pid", "4294967294"], 2, "not running"),
        (&alive, &["--json", "/nowhere/x.json"], 1, "/nowhere/x.json"),
        (
            &alive,
            &["--svg", "/dev/null", "--overlay", &no_report],
            2,
            "no-report.json",
        ),
        (&alive, &["--fail-if", "speed>1"], 2, "speed"),
    ];
    for (url, flags, exit_code, word) in cases {
        let (code, printed) = bench(url, flags)?;
        let is_said = code == Some(exit_code) && printed.contains(word);
        check(is_said && !printed.contains("panicked"), || {
            format!("{flags:?}: {exit_code} and '{word}' expected, {code:?}: {printed}")
        })?;
    }
    check(server.stream("demo")?["viewers"] == 0, || {
        "somebody joined".to_owned()
    })
}

fn live_demo() -> Result<Server, String> {
    let server = Server::demo()?;
    server.wait_for_state("demo", "live")?;
    Ok(server)
}

/// Runs the benchmark; returns the exit code and all output.
fn bench(url: &str, flags: &[&str]) -> Result<(Option<i32>, String), String> {
    let mut running = Running::start("bench", glassline(&arguments(url, flags)))?;
    let status = running.wait(RUN_TIMEOUT)?;
    Ok((status.code(), running.printed()))
}

fn arguments<'a>(url: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "viewers", url][..], flags].concat()
}

/// Paths for JSON, CSV and SVG files, which do not exist yet.
fn files(name: &str) -> Result<[String; 3], String> {
    let folder = output_folder();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = |ending: &str| -> PathBuf { folder.join(format!("bench-{name}.{ending}")) };
    let paths = ["json", "csv", "svg"].map(path);
    for path in &paths {
        // Usually the file does not exist.
        let _ = fs::remove_file(path);
    }
    Ok(paths.map(|path| path.display().to_string()))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(Path::new(path)).map_err(|error| format!("{path}: {error}"))
}

fn read_json(path: &str) -> Result<Value, String> {
    let text = read(path)?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(otherwise().into())
    }
}
