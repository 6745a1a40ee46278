//! The player page by HLS: where WebRTC does not connect, or connects late, and where a viewer chose HLS.

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::{PATIENCE, ensure};
use crate::http::request;
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_page_that_ice_does_not_reach_plays_by_hls_and_says_why).needs(NEEDS),
    Test::of(&webrtc_that_connects_late_takes_the_place_of_hls_once).needs(NEEDS),
    Test::of(&a_path_that_webrtc_comes_through_costs_no_request_for_hls)
        .needs(NEEDS)
        .alone(),
    Test::of(&video_that_the_browser_does_not_take_by_webrtc_plays_by_hls).needs(NEEDS),
    Test::of(&a_viewer_chooses_how_it_plays_and_the_page_remembers).needs(NEEDS),
    Test::of(&a_stream_that_ends_is_asked_for_again_before_it_plays).needs(NEEDS),
    Test::of(&scripts_that_do_not_load_are_told_and_tried_again).needs(NEEDS),
];

/// Chromium opens no UDP socket under this policy, as if a firewall dropped all UDP.
const NO_UDP: &str = "--webrtc-ip-handling-policy=disable_non_proxied_udp";

/// Video is shown, and its frames go on.
const PLAYS: &str = "return glassline.state === 'live' && glassline.framesRendered > 60";

/// Longest time from the opening of a page to its first frame, for a debug build on a busy machine.
const FIRST_FRAME_MS_MAX: f64 = 3000.0;

/// Notes in `trail` what plays and how it goes whenever that changes, and in `asked` the requests for HLS. On a
/// busy machine what plays stalls now and then.
const NOTES: &str = "
    window.trail = [];
    window.asked = [];
    setInterval(() => {
      const [{ how, state } = {}, trail] = [window.glassline, window.trail];
      if (how && state !== 'stalled' && trail.at(-1) !== `${how} ${state}`) trail.push(`${how} ${state}`);
    }, 10);
    const note = (url) => { if (/[/]hls[/]/.test(String(url))) window.asked.push(String(url)); };
    const [fetch, open] = [window.fetch, XMLHttpRequest.prototype.open];
    window.fetch = (url, ...more) => { note(url); return fetch(url, ...more); };
    XMLHttpRequest.prototype.open = function (method, url, ...more) { note(url); return open.call(this, method, url, ...more); };
";

/// Opens the page of the demo with `script` and the notes in it.
fn open_noting(server: &Server, flags: &[String], script: &str) -> Result<Browser, String> {
    let browser = Browser::start_with(flags)?;
    browser.run_in_every_page(&format!("{NOTES}{script}"))?;
    browser.open(&server.url("/demo"))?;
    Ok(browser)
}

/// Checks what the page noted of its ways.
fn ensure_trail(browser: &Browser, wanted: &[&str]) -> Result<(), Failed> {
    let trail = browser.run("return window.trail")?;
    ensure(trail == json!(wanted), "the page goes one way", &trail)
}

fn a_page_that_ice_does_not_reach_plays_by_hls_and_says_why() -> Result<(), Failed> {
    let server = Server::configured("media: {tcp: false}\n", &["demo=demo"])?;
    let browser = open_noting(&server, &[NO_UDP.to_owned()], "")?;
    browser.wait_until(PATIENCE, PLAYS)?;
    // The browser has its own start behind it.
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame by HLS {first} ms after navigation");
    ensure(
        first.as_f64().is_some_and(|ms| ms < FIRST_FRAME_MS_MAX),
        "HLS does not wait for the end of WebRTC",
        &first,
    )?;
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
    ensure_trail(
        &browser,
        &["webrtc connecting", "hls connecting", "hls live"],
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

/// Holds the server's candidates back, as on a path on which checks are lost: HLS has a frame by then, on a
/// busy machine, too.
const LATE: &str = r"
    const take = RTCPeerConnection.prototype.setRemoteDescription;
    RTCPeerConnection.prototype.setRemoteDescription = async function ({ type, sdp }) {
      const lines = sdp.split('\r\n');
      const isHeld = (line) => /^a=(candidate|end-of-candidates)/.test(line);
      await take.call(this, { type, sdp: lines.filter((line) => !isHeld(line)).join('\r\n') });
      const candidates = lines.filter((line) => line.startsWith('a=candidate')).map((line) => line.slice(2));
      setTimeout(() => candidates.forEach((candidate) => this.addIceCandidate({ candidate, sdpMLineIndex: 0 })), 3500);
    };
";

fn webrtc_that_connects_late_takes_the_place_of_hls_once() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = open_noting(&server, &[], LATE)?;
    let late = "return glassline.how === 'webrtc' && glassline.framesDecoded > 60 \
                && /WebRTC over/.test(document.getElementById('line').textContent)";
    browser.wait_until(PATIENCE, late)?;
    let known = browser.run("return glassline")?;
    let connected = known["howWhy"] == Value::Null && known["sessions"] == 1;
    ensure(connected, "WebRTC plays", &known)?;
    ensure_trail(
        &browser,
        &[
            "webrtc connecting",
            "hls connecting",
            "hls live",
            "webrtc live",
        ],
    )?;
    let shown = browser.run(
        "const all = [...document.querySelectorAll('.picture video')];
         return [all.length, all[0].srcObject !== null, all[0].src, window.asked.length]",
    )?;
    ensure(
        shown[0] == 1 && shown[1] == true && shown[2] == "",
        "nothing is left of HLS",
        &shown,
    )?;
    let more = format!("return glassline.framesDecoded > {}", 60 + 90);
    browser.wait_until(PATIENCE, &more)?;
    let asked = browser.run("return window.asked.length")?;
    ensure(asked == shown[3], "no more requests for HLS", &asked)?;
    let stages = browser.run("return glassline.stages.map((it) => it.stage)")?;
    let named = stages
        .as_array()
        .is_some_and(|it| it.contains(&json!("jitter_buffer")));
    ensure(named, "the waterfall has the stages of WebRTC", &stages)
}

fn a_path_that_webrtc_comes_through_costs_no_request_for_hls() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = open_noting(&server, &[], "")?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame by WebRTC {first} ms after navigation");
    ensure_trail(&browser, &["webrtc connecting", "webrtc live"])?;
    let asked = browser.run("return window.asked")?;
    ensure(asked == json!([]), "no request", &asked)?;
    let begun = server.metric("glassline_hls_streams_begun_total")?;
    ensure(begun == 0.0, "no segments", &json!(begun))
}

/// Takes H.264 out of offers, as in a Firefox that has not fetched its decoder.
const NO_H264: &str = "
    const add = RTCPeerConnection.prototype.addTransceiver;
    RTCPeerConnection.prototype.addTransceiver = function (kind, options) {
      const made = add.call(this, kind, options);
      if (kind === 'video') {
        const { codecs } = RTCRtpReceiver.getCapabilities('video');
        made.setCodecPreferences(codecs.filter(({ mimeType }) => !/h264/i.test(mimeType)));
      }
      return made;
    };
";

fn video_that_the_browser_does_not_take_by_webrtc_plays_by_hls() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = open_noting(&server, &[], NO_H264)?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let how = browser.run("return [glassline.how, glassline.howWhy]")?;
    let said = json!(["hls", "this browser has no H.264 in WebRTC"]);
    ensure(how == said, "the page says why", &how)?;
    ensure_trail(
        &browser,
        &["webrtc connecting", "hls connecting", "hls live"],
    )
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

/// A page that went over to HLS, and whose stream is removed, has the server's reason for it and no playback.
fn a_stream_that_ends_is_asked_for_again_before_it_plays() -> Result<(), Failed> {
    let server = Server::configured("media: {tcp: false}\n", &[])?;
    let source = server.admin_url("/api/v1/sources/show");
    let json = [("Content-Type", "application/json")];
    let made = request("PUT", &source, &json, r#"{"source": "demo"}"#)?;
    ensure(made.status == 201, "a source", &json!(made.body))?;
    let browser = Browser::start_with(&[NO_UDP.to_owned()])?;
    browser.open(&server.url("/show"))?;
    let fell = format!("{PLAYS} && glassline.howWhy === 'WebRTC did not connect'");
    browser.wait_until(PATIENCE, &fell)?;
    let removed = request("DELETE", &source, &[], "")?;
    ensure(removed.status == 204, "no source", &json!(removed.body))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'waiting'")?;
    let known = browser.run("return [glassline.how, glassline.sessions, glassline.lastEnd]")?;
    ensure(known[0] == "hls" && known[1] == 1, "one playback", &known)
}

fn scripts_that_do_not_load_are_told_and_tried_again() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.run("localStorage.setItem('glassline-how', 'hls')")?;
    browser.block(&["*hls.min.mjs*"])?;
    browser.open(&server.url("/demo"))?;
    let told = "return glassline.state === 'reconnecting' \
                && /scripts of HLS did not load/.test(document.body.innerText)";
    browser.wait_until(PATIENCE, told)?;
    browser.block(&[])?;
    browser.wait_until(PATIENCE, &format!("{PLAYS} && glassline.how === 'hls'"))?;
    Ok(())
}
