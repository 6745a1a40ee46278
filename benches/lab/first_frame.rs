//! Time from opening the page to the first frame in a real browser, and how far behind the source
//! that frame is.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::machine;
use crate::peers;
use crate::report::{self, Table, figure, quantile};
use crate::server::Server;
use crate::webdriver::Browser;

/// Number of browsers, started one after the other with a fresh profile each.
const BROWSERS: usize = 10;

/// Number of reports, one a second, until the page's window of ten seconds is full.
const REPORTS: u32 = 12;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run() -> Result<(), String> {
    if let Err(reason) = peers::chromium().and(peers::chromedriver()) {
        println!("skipped: {reason}; `cargo xtask test` installs it");
        return Ok(());
    }
    let machine = machine::describe();
    let chromium = peers::chromium()?;
    let version = machine::output(&chromium.display().to_string(), &["--version"]);
    let server = Server::demo()?;
    let url = server.url("/demo");
    let mut visits = Vec::new();
    for number in 1..=BROWSERS {
        let visit = visit(&url)?;
        let shown = |value: &Value| figure(value.as_f64(), 1);
        println!(
            "{number}: first frame {} ms, reloaded {} ms, glass to glass {} ms, {} frames/s",
            shown(&visit["first_frame_ms"]),
            shown(&visit["reload_first_frame_ms"]),
            shown(&visit["glass_to_glass_ms"]["p50"]),
            shown(&visit["fps"]),
        );
        visits.push(visit);
    }
    let mut table = Table::new(&["", "p50", "max"]);
    let mut summary = serde_json::Map::new();
    for (name, pointer) in FIGURES {
        let values: Vec<f64> = visits
            .iter()
            .filter_map(|visit| visit.pointer(pointer)?.as_f64())
            .collect();
        let (p50, max) = (quantile(&values, 0.5), quantile(&values, 1.0));
        table.row(vec![name.to_owned(), figure(p50, 1), figure(max, 1)]);
        let key = pointer.trim_start_matches('/').replace('/', "_");
        let min = quantile(&values, 0.0);
        summary.insert(key, json!({"p50": p50, "max": max, "min": min}));
    }
    table.print();
    println!(
        "{}, headless, no GPU; {BROWSERS} browsers; p50 and max are over the browsers",
        version.as_deref().unwrap_or("Chromium")
    );
    let results = json!({"browser": version, "summary": summary, "visits": visits});
    report::write("first_frame", &machine, &results)
}

const FIGURES: [(&str, &str); 12] = [
    ("first frame, fresh profile (ms)", "/first_frame_ms"),
    ("first frame, page reloaded (ms)", "/reload_first_frame_ms"),
    ("offer to first frame (ms)", "/join_ms"),
    ("glass to glass p50 (ms)", "/glass_to_glass_ms/p50"),
    ("glass to glass p95 (ms)", "/glass_to_glass_ms/p95"),
    ("its clock error (ms)", "/glass_to_glass_ms/error"),
    ("  server's part p50 (ms)", "/server_ms"),
    ("  network p50 (ms)", "/stages/network"),
    ("  jitter buffer p50 (ms)", "/stages/jitter_buffer"),
    ("  decode p50 (ms)", "/stages/decode"),
    ("  render p50 (ms)", "/stages/render"),
    ("frames decoded per second", "/fps"),
];

/// One browser's visit: a fresh profile, a reload, and ten seconds of watching.
fn visit(url: &str) -> Result<Value, String> {
    let browser = Browser::start()?;
    let first = open(&browser, url)?;
    let again = open(&browser, url)?;
    let enough = format!(
        "return glassline.reports >= {REPORTS} && glassline.glassToGlass?.count > 0 && glassline"
    );
    let page = browser.wait_until(PATIENCE, &enough)?;
    let mut rates = Vec::new();
    for _ in 0..3 {
        rates.extend(browser.run("return glassline.fps")?.as_f64());
        thread::sleep(Duration::from_secs(1));
    }
    let stages: serde_json::Map<String, Value> = page["stages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|stage| Some((stage["stage"].as_str()?.to_owned(), stage["p50_ms"].clone())))
        .collect();
    let server_ms: f64 = ["ingest", "hub", "pace", "send"]
        .iter()
        .filter_map(|stage| stages.get(*stage)?.as_f64())
        .sum();
    let glass = &page["glassToGlass"];
    Ok(json!({
        "first_frame_ms": first["firstFrameMs"],
        "join_ms": first["joinMs"],
        "reload_first_frame_ms": again["firstFrameMs"],
        "glass_to_glass_ms": {
            "p50": glass["p50_ms"],
            "p95": glass["p95_ms"],
            "error": glass["error_ms"],
            "count": glass["count"],
        },
        "stages": stages,
        "server_ms": server_ms,
        "accounted": page["accounted"],
        "fps": quantile(&rates, 0.5),
    }))
}

fn open(browser: &Browser, url: &str) -> Result<Value, String> {
    browser.open(url)?;
    let shown = "return window.glassline?.firstFrameMs > 0 && glassline";
    browser.wait_until(PATIENCE, shown)
}
