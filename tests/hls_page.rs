//! The player page by HLS: where WebRTC does not connect, and where a viewer chose HLS.

use libtest_mimic::Failed;

use crate::browser::{PATIENCE, ensure};
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium];

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "hls_page::a_page_that_ice_does_not_reach_plays_by_hls_and_says_why",
        needs: NEEDS,
        run: a_page_that_ice_does_not_reach_plays_by_hls_and_says_why,
    },
    Test {
        name: "hls_page::a_viewer_chooses_how_it_plays_and_the_page_remembers",
        needs: NEEDS,
        run: a_viewer_chooses_how_it_plays_and_the_page_remembers,
    },
];

/// Chromium opens no UDP socket under this policy, as if a firewall dropped all UDP.
const NO_UDP: &str = "--webrtc-ip-handling-policy=disable_non_proxied_udp";

/// Video is shown, and its frames go on.
const PLAYS: &str = "return glassline.state === 'live' && glassline.framesRendered > 60";

fn a_page_that_ice_does_not_reach_plays_by_hls_and_says_why() -> Result<(), Failed> {
    let server = Server::configured("media: {tcp: false}\n", &["demo=demo"])?;
    let browser = Browser::start_with(&[NO_UDP.to_owned()])?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame by HLS {first} ms after navigation");
    let line = "return document.getElementById('line').textContent";
    browser.wait_until(
        PATIENCE,
        "return /Delay.*HLS, WebRTC did not connect/.test(document.getElementById('line').textContent)",
    )?;
    println!("the line says: {}", browser.run(line)?);
    let how = browser.run("return [glassline.how, glassline.sessions]")?;
    ensure(
        how[0] == "hls" && how[1] == 1,
        "the page stays with HLS",
        &how,
    )?;
    browser.run("document.getElementById('details').click()")?;
    let stages = "return glassline.stages.map((it) => it.stage)";
    let shown = browser.run(stages)?;
    let named: Vec<_> = shown
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str())
        .collect();
    ensure(
        named.starts_with(&["segment", "publish", "network", "buffer"]),
        "the waterfall has the stages of HLS",
        &shown,
    )?;
    let total = browser.run("return glassline.endToEnd")?;
    ensure(
        total["p50_ms"]
            .as_f64()
            .is_some_and(|it| it > 0.0 && it < 10_000.0)
            && total["error_ms"].as_f64().is_some_and(|it| it <= 1000.0),
        "the delay has an error",
        &total,
    )?;
    browser.screenshot("player-hls")?;
    Ok(())
}

fn a_viewer_chooses_how_it_plays_and_the_page_remembers() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(
        PATIENCE,
        "return /WebRTC over UDP/.test(document.getElementById('line').textContent)",
    )?;
    let choose = |value: &str| {
        browser.run(&format!(
            "const menu = document.getElementById('how');
             menu.value = '{value}';
             menu.dispatchEvent(new Event('change'))"
        ))
    };
    choose("hls")?;
    let by_hls = format!("{PLAYS} && glassline.how === 'hls'");
    browser.wait_until(PATIENCE, &by_hls)?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, &by_hls)?;
    let why = browser.run("return glassline.howWhy")?;
    ensure(why == "as you chose", "the page says why", &why)?;
    choose("")?;
    browser.wait_until(PATIENCE, &format!("{PLAYS} && glassline.how === 'webrtc'"))?;
    Ok(())
}
