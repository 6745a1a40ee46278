//! The pages in Firefox.
//!
//! Firefox sends nothing to an address of the loopback interface, and gives pages no candidates
//! there. The tests therefore run in a network namespace with another interface: the test program
//! runs itself again there.

use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::ensure;
use crate::marionette::Firefox;
use crate::namespace::ip;
use crate::peers::{Peer, Test};
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&publishes_and_watches_by_the_pages)
        .needs(&[Peer::Firefox])
        .in_namespace(LONG.saturating_mul(3)),
    Test::of(&publishes_and_watches_on_the_machine_of_a_server_with_defaults)
        .needs(&[Peer::Firefox])
        .in_namespace(LONG.saturating_mul(3)),
    Test::of(&plays_by_hls_what_webrtc_does_not_bring)
        .needs(&[Peer::Firefox])
        .in_namespace(LONG.saturating_mul(3)),
];

/// Longest time from the opening of a page to its first frame, for a debug build on a busy machine.
const FIRST_FRAME_MS_MAX: f64 = 5000.0;

/// Address of the server inside the namespace, from those for documentation (RFC 5737).
const ADDRESS: &str = "198.51.100.1";

/// Long, for a browser that encodes and decodes on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Makes an interface besides loopback, and the route by which Firefox finds its own address.
fn make_interface() -> Result<(), Failed> {
    for line in [
        "link set lo up",
        "link add media0 type veth peer name media1",
        "address add 198.51.100.1/24 dev media0",
        "link set media0 up",
        "link set media1 up",
        "route add default via 198.51.100.2 dev media0",
    ] {
        ip(line)?;
    }
    Ok(())
}

fn publishes_and_watches_by_the_pages() -> Result<(), Failed> {
    make_interface()?;
    let media = format!("media: {{address: '{ADDRESS}:0'}}");
    publishes_and_watches(&Server::configured(&media, &[])?)
}

/// The server listens at 127.0.0.1 alone, for pages and for media.
fn publishes_and_watches_on_the_machine_of_a_server_with_defaults() -> Result<(), Failed> {
    make_interface()?;
    publishes_and_watches(&Server::configured("{}", &[])?)
}

fn publishes_and_watches(server: &Server) -> Result<(), Failed> {
    let browser = Firefox::start()?;
    browser.open(&server.url("/studio/publish"))?;
    browser.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    browser.run(
        "document.querySelector('input[name=source][value=test]').click();
         document.getElementById('size').value = '640x360';
         document.getElementById('rate').value = '15';
         document.getElementById('bitrate').value = '0.5';
         document.getElementById('start').click()",
    )?;
    let arrives = "return publishing.state === 'live' && publishing.arrives?.fps > 0";
    browser.wait_until(LONG, arrives)?;
    let tracks = server.stream("studio")?["tracks"].clone();
    ensure(tracks[0]["codec"] == "VP8", "video", &tracks)?;
    ensure(tracks[1]["codec"] == "opus", "the tone", &tracks)?;
    browser.new_window()?;
    browser.open(&server.url("/studio"))?;
    let plays = "return glassline.state === 'live' && glassline.framesDecoded > 20";
    browser.wait_until(LONG, plays)?;
    // The decoder has its own start behind it.
    browser.open(&server.url("/studio"))?;
    browser.wait_until(LONG, plays)?;
    let first = first_frame_ms(&browser, "webrtc")?;
    let is_soon = first < FIRST_FRAME_MS_MAX;
    ensure(is_soon, "the first frame comes soon", &json!(first))
}

/// Checks how the page plays. Returns the time from its opening to its first frame, in ms.
fn first_frame_ms(browser: &Firefox, how: &str) -> Result<f64, Failed> {
    let known = browser.run("return [glassline.how, glassline.firstFrameMs, glassline.howWhy]")?;
    ensure(known[0] == how, "the way", &known)?;
    println!("first frame by {how} {} ms after navigation", known[1]);
    Ok(known[1].as_f64().unwrap_or(f64::INFINITY))
}

/// A new Firefox has no H.264 in WebRTC, and plays it by Media Source Extensions.
fn plays_by_hls_what_webrtc_does_not_bring() -> Result<(), Failed> {
    make_interface()?;
    let server = Server::configured("{}", &["demo=demo"])?;
    let browser = Firefox::start()?;
    for _ in 0..2 {
        browser.open(&server.url("/demo"))?;
        let plays = "return glassline.state === 'live' && glassline.framesDecoded > 20";
        browser.wait_until(LONG, plays)?;
    }
    first_frame_ms(&browser, "hls").map(drop)
}
