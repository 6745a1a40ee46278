//! `glassline bench data`: two processes, a browser, and coturn between them.

use libtest_mimic::Failed;
use serde_json::Value;

use crate::coturn::Coturn;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, Running};
use crate::server::{glassline, unique, write_file};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&two_processes_tell_the_same_run_as_json_rows_and_a_chart),
    Test::of(&half_a_minute_of_messages_keeps_its_goodput).soak(),
    Test::of(&chromium_runs_the_test_in_the_page).needs(&[Peer::Chromium]),
    Test::of(&a_relay_is_used_when_it_must_be_and_told).needs(&[Peer::Coturn]),
    Test::of(&a_direct_path_is_preferred_to_a_relay).needs(&[Peer::Coturn]),
    Test::of(&where_udp_is_blocked_the_relay_is_reached_by_tcp_and_tls).needs(&[Peer::Coturn]),
];

const USER: &str = "alice:secret";

/// A `bench data serve` process on a free port.
struct Serving {
    _running: Running,
    url: String,
}

impl Serving {
    fn start() -> Result<Self, String> {
        let command = glassline(&["bench", "data", "serve", "--listen", "127.0.0.1:0"]);
        let running = Running::start("bench data serve", command)?;
        let url = running.wait_for_line(PATIENCE, |line| {
            let is_url = line.starts_with("http://") && line.ends_with("/data");
            is_url.then(|| line.to_owned())
        })?;
        Ok(Self {
            _running: running,
            url,
        })
    }
}

/// Runs `bench data` against `url` for two seconds; returns the JSON, or the output of a failure.
fn measured(url: &str, flags: &[&str]) -> Result<Result<Value, String>, String> {
    measured_for("2s", url, flags)
}

/// Runs `bench data` against `url` for `time`, as [`measured`] does.
fn measured_for(time: &str, url: &str, flags: &[&str]) -> Result<Result<Value, String>, String> {
    let json = write_file(&unique("data.json"), b"")?;
    let mut arguments = vec!["bench", "data", url, "--time", time, "--interval", "250ms"];
    arguments.extend(["--json", &json]);
    arguments.extend(flags);
    let mut running = Running::start("bench data", glassline(&arguments))?;
    let status = running.wait(PATIENCE)?;
    if !status.success() {
        return Ok(Err(running.printed()));
    }
    let text = std::fs::read_to_string(&json).map_err(|error| format!("{json}: {error}"))?;
    let value = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
    Ok(Ok(value))
}

fn ensure(holds: bool, what: &str, value: &Value) -> Result<(), Failed> {
    match holds {
        true => Ok(()),
        false => Err(format!("{what}: {value:#}").into()),
    }
}

fn two_processes_tell_the_same_run_as_json_rows_and_a_chart() -> Result<(), Failed> {
    let serving = Serving::start()?;
    let (csv, svg) = (write_file("data.csv", b"")?, write_file("data.svg", b"")?);
    let flags = ["--direction", "both", "--csv", &csv, "--svg", &svg];
    let report = measured(&serving.url, &flags)??;
    let goodput = report["goodput_mbps"].as_f64();
    ensure(goodput > Some(1.0), "messages go", &report)?;
    for name in ["sender", "receiver"] {
        let cost = report["cpu_s_per_gbit"][name].as_f64();
        ensure(cost > Some(0.0), "both ends' processor time", &report)?;
    }
    ensure(report["path"]["relayed"] == false, "direct", &report)?;
    ensure(report["cipher"].is_string(), "a cipher", &report)?;
    let rows = std::fs::read_to_string(&csv)?;
    let intervals = report["intervals"].as_array().map_or(0, Vec::len);
    ensure(
        intervals >= 4 && rows.lines().count() == intervals + 1,
        "a row for each",
        &report,
    )?;
    let chart = std::fs::read_to_string(&svg)?;
    ensure(chart.starts_with("<svg"), "a chart", &report)
}

/// The goodput of each of six spells of five seconds is at least half of the median's.
fn half_a_minute_of_messages_keeps_its_goodput() -> Result<(), Failed> {
    let serving = Serving::start()?;
    for direction in ["down", "up"] {
        let report = measured_for("30s", &serving.url, &["--direction", direction])??;
        let goodput = |it: &Value| it["goodput_mbps"].as_f64().unwrap_or(0.0);
        let intervals = report["intervals"].as_array().map_or(&[][..], |it| it);
        ensure(intervals.len() >= 110, "half a minute", &report)?;
        let spells = intervals.chunks(intervals.len().div_ceil(6));
        let mut spells: Vec<f64> = spells
            .map(|it| it.iter().map(goodput).sum::<f64>() / it.len() as f64)
            .collect();
        spells.sort_by(f64::total_cmp);
        println!("{direction}: {spells:.0?} Mbit/s in spells of five seconds");
        ensure(spells[0] > spells[3] / 2.0, "the least spell", &report)?;
    }
    Ok(())
}

fn chromium_runs_the_test_in_the_page() -> Result<(), Failed> {
    let serving = Serving::start()?;
    let browser = Browser::start()?;
    browser.open(&serving.url)?;
    for direction in ["down", "up"] {
        browser.run(&format!(
            "window.run = null; const form = document.getElementById('plan'); \
             form.elements.direction.value = '{direction}'; form.elements.time.value = 3; \
             form.requestSubmit()"
        ))?;
        browser.wait_until(PATIENCE, "return window.run?.done || window.run?.failure")?;
        let done = browser.run("return window.run.failure || window.run.done")?;
        let goodput = done[format!("{direction}_mbps")].as_f64();
        println!("{done}");
        ensure(goodput > Some(1.0), direction, &done)?;
        let verdict = done["verdict"].as_str().unwrap_or_default().to_owned();
        ensure(verdict.contains("direct"), "the path", &done)?;
        let rows = browser.run("return document.querySelectorAll('#rows tr').length")?;
        ensure(rows.as_u64() >= Some(3), "rows", &rows)?;
        let chart = "return document.querySelectorAll('#chart polyline').length";
        ensure(browser.run(chart)? == 2, "a chart", &done)?;
    }
    browser.screenshot("data")?;
    Ok(())
}

fn relayed(report: &Value, uri: &str, protocol: &str) -> Result<(), Failed> {
    let path = &report["path"];
    let told = path["relayed"] == true
        && path["local"]["type"] == "relay"
        && path["relay"] == uri
        && path["relay_protocol"] == protocol;
    ensure(told, "the relay is told", report)?;
    ensure(
        report["goodput_mbps"].as_f64() > Some(0.1),
        "messages go",
        report,
    )
}

fn a_relay_is_used_when_it_must_be_and_told() -> Result<(), Failed> {
    let (serving, coturn) = (Serving::start()?, Coturn::for_user(USER, &[])?);
    let uri = format!("turn:127.0.0.1:{}?transport=udp", coturn.plain);
    let flags = ["--turn", &uri, "--turn-user", USER, "--relayed"];
    let report = measured(&serving.url, &flags)??;
    relayed(&report, &uri, "udp")?;
    let wrong = ["--turn", &uri, "--turn-user", "alice:wrong", "--relayed"];
    match measured(&serving.url, &wrong)? {
        Ok(report) => ensure(false, "a wrong password gives no relay", &report),
        Err(text) => ensure(text.contains("no TURN server"), "why", &Value::from(text)),
    }
}

fn a_direct_path_is_preferred_to_a_relay() -> Result<(), Failed> {
    let (serving, coturn) = (Serving::start()?, Coturn::for_user(USER, &[])?);
    let uri = format!("turn:127.0.0.1:{}", coturn.plain);
    let report = measured(&serving.url, &["--turn", &uri, "--turn-user", USER])??;
    ensure(report["path"]["relayed"] == false, "direct", &report)
}

fn where_udp_is_blocked_the_relay_is_reached_by_tcp_and_tls() -> Result<(), Failed> {
    let (serving, coturn) = (Serving::start()?, Coturn::for_user(USER, &["--no-udp"])?);
    let udp = format!("turn:127.0.0.1:{}?transport=udp", coturn.plain);
    let tcp = format!("turn:127.0.0.1:{}?transport=tcp", coturn.plain);
    let tls = format!("turns:127.0.0.1:{}?transport=tcp", coturn.tls);
    let common = ["--turn-user", USER, "--relayed", "--insecure"];
    let flags = [&["--turn", &udp, "--turn", &tcp][..], &common].concat();
    relayed(&measured(&serving.url, &flags)??, &tcp, "tcp")?;
    let flags = [&["--turn", &tls][..], &common].concat();
    relayed(&measured(&serving.url, &flags)??, &tls, "tls")
}
