//! The player page in Chromium: the first minute of a new user.

use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::{Server, run_to_end};
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium];

/// Long, for a debug build, a software decoder and two cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const TESTS: &[Test] = &[
    Test::of(&plays_the_demo_with_audio_and_tells_where_the_time_goes).needs(NEEDS),
    Test::of(&index_leads_to_the_player).needs(NEEDS),
    Test::of(&an_unknown_stream_is_waited_for).needs(NEEDS),
    Test::of(&a_page_that_does_not_connect_shows_the_servers_reason_and_tries_again).needs(NEEDS),
    Test::of(&a_read_token_in_the_address_opens_the_player).needs(NEEDS),
];

fn plays_the_demo_with_audio_and_tells_where_the_time_goes() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start()?;
    browser.open(&server.printed_url()?)?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    let at_live = decoded(&browser)?;
    // Frames are listed one by one while somebody looks at them.
    browser.run("document.getElementById('details').click()")?;
    // The page starts muted, as browsers demand; muted audio is not decoded at all.
    browser.run("document.getElementById('sound').click()")?;

    browser.wait_until(
        PATIENCE,
        "return glassline.reports >= 12 && glassline.glassToGlass?.count > 0",
    )?;
    let page = browser.run("return glassline")?;
    println!(
        "first frame {} ms, {} frames/s",
        page["firstFrameMs"], page["fps"]
    );
    browser.screenshot("player")?;
    ensure(
        page["width"] == 1280 && page["height"] == 720,
        "size",
        &page,
    )?;
    ensure(
        decoded(&browser)? > at_live + 100,
        "it keeps decoding",
        &page,
    )?;
    ensure(page["fps"].as_f64() >= Some(20.0), "frame rate", &page)?;
    ensure(page["audioEnergy"].as_f64() > Some(0.0), "audio", &page)?;
    ensure(page["sessions"] == 1, "one session", &page)?;
    every_stage_is_there(&page["stages"])?;
    stages_add_up_to_the_measured_delay(&page)?;
    trace_tells_the_same(&server)
}

const STAGES: [&str; 8] = [
    "ingest",
    "hub",
    "pace",
    "send",
    "network",
    "jitter_buffer",
    "decode",
    "render",
];

/// Checks the stages of the waterfall, in the order of the media's path.
fn every_stage_is_there(stages: &Value) -> Result<(), Failed> {
    let found: Vec<&str> = stages
        .as_array()
        .into_iter()
        .flatten()
        .filter(|stage| stage["count"].as_u64() > Some(0))
        .filter_map(|stage| stage["stage"].as_str())
        .collect();
    ensure(found == STAGES, "stages", stages)
}

/// Checks the API and `glassline trace` while the page watches.
fn trace_tells_the_same(server: &Server) -> Result<(), Failed> {
    let latency = http::get_json(&server.url("/api/v1/streams/demo/latency"))?;
    every_stage_is_there(&latency["stages"])?;
    let measured = latency["glass_to_glass"]["p50_ms"].as_f64();
    ensure(measured > Some(0.0), "glass to glass", &latency)?;
    let viewers = latency["viewers"].as_array().map(Vec::len);
    ensure(viewers == Some(1), "one viewer reports", &latency)?;

    let url = server.url("");
    let (status, table) = run_to_end(&["trace", "demo", "--url", &url])?;
    let tells_all = STAGES.iter().all(|stage| table.contains(stage));
    ensure(
        status.success() && tells_all,
        "the table",
        &Value::from(table),
    )?;
    let (_, json) = run_to_end(&["trace", "demo", "--url", &url, "--json", "-"])?;
    let same: Value = serde_json::from_str(&json).map_err(|error| format!("{error}: {json}"))?;
    every_stage_is_there(&same["stages"])
}

/// For each frame, the sum of the stages must equal the delay that the frame code in the video
/// shows, within the printed error.
fn stages_add_up_to_the_measured_delay(page: &Value) -> Result<(), Failed> {
    let accounted = &page["accounted"];
    ensure(
        accounted["total"].as_u64() >= Some(30),
        "frames accounted",
        accounted,
    )?;
    ensure(
        accounted["within"] == accounted["total"],
        "all within the error",
        accounted,
    )?;
    let frames = page["frames"].as_array().map_or(&[][..], Vec::as_slice);
    ensure(!frames.is_empty(), "frames are listed", page)?;
    for frame in frames {
        let Some(measured) = frame["glass_to_glass_ms"].as_f64() else {
            continue;
        };
        let stages = frame["stages"].as_object().into_iter().flatten();
        let sum: f64 = stages
            .filter_map(|(_, milliseconds)| milliseconds.as_f64())
            .sum();
        let error = frame["error_ms"].as_f64().unwrap_or(0.0);
        // Without cross-origin isolation, the page's clock has a resolution of 0.1 ms.
        ensure(
            (sum - measured).abs() <= error + 0.1,
            "the sum is the delay",
            frame,
        )?;
    }
    Ok(())
}

fn index_leads_to_the_player() -> Result<(), Failed> {
    let server = Server::serve(&["demo", "second=demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/"))?;
    let links = "return document.querySelectorAll('#rows a[href]').length >= 2";
    browser.wait_until(PATIENCE, links)?;
    browser.screenshot("index")?;
    browser.run("document.querySelector('#rows a[href$=\"/second\"]').click()")?;
    browser.wait_until(PATIENCE, "return window.glassline?.state === 'live'")?;
    let stream = browser.run("return glassline.stream")?;
    ensure(stream == "second", "the link leads to its stream", &stream)
}

fn an_unknown_stream_is_waited_for() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/nothing"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'waiting'")?;
    let shown = browser.run("return document.getElementById('message').innerText")?;
    browser.screenshot("waiting")?;
    let shows = |text: &str| shown.as_str().is_some_and(|it| it.contains(text));
    let is_told = shows("Nobody publishes this yet") && shows("All streams");
    ensure(
        is_told,
        "the page says why, and leads to all streams",
        &shown,
    )
}

/// The server advertises an address that nobody has, as behind a NAT or in a container.
fn a_page_that_does_not_connect_shows_the_servers_reason_and_tries_again() -> Result<(), Failed> {
    // With HLS the page would play by it.
    let config = "media: {advertise: [192.0.2.99]}\nhls: {enabled: false}\n";
    let server = Server::configured(config, &["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'reconnecting'")?;
    // A browser on a busy machine may find its own network too late for the first try.
    let told = || {
        let shown = browser.run("return document.getElementById('operator').textContent")?;
        let tells = |text: &str| text.contains("192.0.2.99:") && text.contains("media.advertise");
        match shown.as_str().is_some_and(tells) {
            true => Ok(()),
            false => Err(format!(
                "the page has the server's reason and remedy: {shown}"
            )),
        }
    };
    eventually(PATIENCE, told)?;
    browser.screenshot("no-connection")?;
    let list = http::get_json(&server.admin_url("/api/v1/failures?stream=demo"))?;
    let stage = &list["failures"][0]["stage"];
    ensure(stage == "ice", "the API has the failure", &list)?;
    // The page dials again, and the reason stays on the screen meanwhile.
    let sessions = || -> Result<(), String> {
        let counts = http::get_json(&server.url("/api/v1/server"))?;
        match counts["half_open"].as_u64() {
            Some(1..) => Ok(()),
            _ => Err(format!("no other try: {counts}")),
        }
    };
    eventually(PATIENCE, sessions)?;
    Ok(())
}

fn a_read_token_in_the_address_opens_the_player() -> Result<(), Failed> {
    let server = Server::configured("auth: {read_token: sesame-opens-it}", &["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'refused'")?;
    browser.open(&server.url("/demo?token=sesame-opens-it"))?;
    browser.wait_until(
        PATIENCE,
        "return glassline.state === 'live' && glassline.reports > 0",
    )?;
    Ok(())
}

pub(crate) fn decoded(browser: &Browser) -> Result<u64, Failed> {
    let frames = browser.run("return glassline.framesDecoded")?;
    Ok(frames.as_u64().unwrap_or(0))
}

pub(crate) fn ensure(holds: bool, what: &str, found: &Value) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(format!("{what}: {found}").into())
    }
}
