//! Layers of the page that publishes, which are sent while somebody watches them.

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::{decoded, ensure};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::publish_page::{LONG, page_of, start};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[Test::of(&layers_that_nobody_watches_are_not_sent).needs(&[Peer::Chromium])];

fn layers_that_nobody_watches_are_not_sent() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = page_of(&server, "studio", "test")?;
    publisher.run(
        "document.getElementById('size').value = '1280x720';
         document.getElementById('bitrate').value = '2';
         document.getElementById('layers').value = '3';",
    )?;
    start(&publisher)?;
    let url = server.admin_url("/api/v1/streams/studio/publishing");
    let states = || -> Result<String, String> {
        let told = http::get_json(&url)?;
        let layers = told["tracks"][0]["layers"].as_array();
        let layers = layers.into_iter().flatten();
        let states = layers.map(|it| format!("{} {}", it["rid"], it["state"]));
        Ok(states.collect::<Vec<_>>().join(", ").replace('"', ""))
    };
    let await_states = |wanted: &str| {
        eventually(LONG, || match states()? {
            states if states == wanted => Ok(()),
            states => Err(states),
        })
    };
    // Bits a second of each layer.
    let sent = |condition: &str| {
        let figures = "const sent = Object.fromEntries((publishing.sends?.layers ?? [])
            .map(({rid, bitrate}) => [rid, Math.round(bitrate)]));";
        publisher.wait_until(
            LONG,
            &format!("{figures} return ({condition}) ? sent : null"),
        )
    };
    let show = |it: &Value, when: &str| println!("{when}: {it}");
    show(
        &sent("sent.l > 5000 && !(sent.m > 5000) && !(sent.h > 5000)")?,
        "unwatched",
    );
    await_states("l live, m paused, h paused")?;
    let viewer = Browser::start()?;
    viewer.open(&server.url("/studio"))?;
    let began = viewer.wait_until(
        LONG,
        "return glassline.state === 'live' && performance.now()",
    )?;
    let whole = "return document.querySelector('video').videoWidth >= 1280 && performance.now()";
    let rose = viewer.wait_until(LONG, whole)?;
    println!("live after {began} ms, at the largest layer after {rose} ms");
    await_states("l live, m paused, h live")?;
    show(&sent("sent.h > 100000 && !(sent.m > 5000)")?, "watched");
    let before = decoded(&viewer)?;
    viewer.wait_until(LONG, "return glassline.reports >= 5")?;
    ensure(
        decoded(&viewer)? > before,
        "it keeps decoding",
        &Value::Null,
    )?;
    drop(viewer);
    await_states("l live, m paused, h paused")?;
    show(
        &sent("sent.l > 5000 && !(sent.h > 5000)")?,
        "unwatched again",
    );
    let page = publisher.run("return document.getElementById('arrives').textContent")?;
    ensure(
        page.as_str().is_some_and(|it| it.contains("720p paused")),
        "the page says so",
        &page,
    )
}
