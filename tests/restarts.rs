//! The pages in Chromium while the server is killed and started again, or stands still.
//!
//! The tests print the times that a quiet machine keeps short (see `docs/benchmarks/hardening.md`),
//! and demand only that the pages come back by themselves.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::browser::ensure;
use crate::call::{OURS, THEIRS, marks_file};
use crate::peers::{Peer, Test};
use crate::process::PATIENCE;
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium];

/// Longest time until a page is back that is no fault. A page that waits for ICE to give up, or
/// for a click, is not back by then.
const BACK_MAX: Duration = Duration::from_secs(20);

/// Time for which the server stands still.
const STILL: Duration = Duration::from_secs(5);

pub(crate) const TESTS: &[Test] = &[
    Test::of(&the_player_plays_again_after_the_server_was_killed).needs(NEEDS),
    Test::of(&the_player_goes_on_after_the_server_stood_still).needs(NEEDS),
    Test::of(&a_room_is_joined_again_after_the_server_was_killed).needs(NEEDS),
];

/// A browser whose page plays the stream `demo`, and which would notice a reload.
fn player(server: &Server) -> Result<Browser, String> {
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(
        PATIENCE,
        "return glassline.state === 'live' && glassline.reports > 1",
    )?;
    browser.run("window.isTheSamePage = true")?;
    Ok(browser)
}

/// Waits for what `script` says of each page; prints and returns the time since `since`.
fn back(browsers: &[&Browser], what: &str, since: Instant, script: &str) -> Result<(), Failed> {
    for browser in browsers {
        let left = BACK_MAX.saturating_sub(since.elapsed());
        browser.wait_until(left, script)?;
    }
    println!("{what} after {:.2} s", since.elapsed().as_secs_f64());
    for browser in browsers {
        let is_same = browser.run("return window.isTheSamePage === true")?;
        ensure(is_same == true, "the page was not loaded again", &is_same)?;
    }
    Ok(())
}

fn the_player_plays_again_after_the_server_was_killed() -> Result<(), Failed> {
    let mut server = Server::serve(&["demo"])?;
    let browser = player(&server)?;
    let serving = server.kill_and_start_again()?;
    let live = "return glassline.sessions === 2 && glassline.state === 'live'";
    back(&[&browser], "the player plays", serving, live)
}

fn the_player_goes_on_after_the_server_stood_still() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = player(&server)?;
    server.signal("-STOP")?;
    // The fault itself: that it lasts this long proves nothing.
    std::thread::sleep(STILL);
    let rendered = "return glassline.framesRendered";
    let before = browser.run(rendered)?.as_u64().unwrap_or(0);
    server.signal("-CONT")?;
    let going_on = Instant::now();
    let live = format!("{rendered} > {before} && glassline.state === 'live'");
    back(&[&browser], "the player goes on", going_on, &live)?;
    let sessions = browser.run("return glassline.sessions")?;
    ensure(sessions == 1, "the same session", &sessions)
}

/// Script that is true when the page is in the room, and what `counts` says of the statistics `it`
/// of the other participant's voice is true.
fn hears(counts: &str) -> String {
    format!(
        "const [other] = window.call.others.values(); \
         const pc = other?.session?.pc; \
         pc?.getStats().then((stats) => stats.forEach((it) => {{ \
           if (it.type === 'inbound-rtp') pc.hears = {counts}; \
         }})); \
         return window.call.state === 'live' && pc?.hears === true"
    )
}

/// A fifth of a second of the other's voice has arrived.
const ARRIVES: &str = "it.packetsReceived > 10";

/// The voice is no silence.
const SOUNDS: &str = "it.totalAudioEnergy > 0";

fn a_room_is_joined_again_after_the_server_was_killed() -> Result<(), Failed> {
    let mut server = Server::serve(&[])?;
    let mut browsers = Vec::new();
    for (name, marks) in [("ann", OURS), ("bob", THEIRS)] {
        let says = marks_file(&format!("{name}.wav"), marks, Duration::from_secs(60))?;
        let browser = Browser::start_with(&[
            "--use-fake-device-for-media-stream".to_owned(),
            format!("--use-file-for-fake-audio-capture={says}"),
        ])?;
        browser.open(&server.url("/call/team"))?;
        browser.wait_until(PATIENCE, "return window.call !== undefined")?;
        browser.run(&format!(
            "window.isTheSamePage = true; document.getElementById('name').value = '{name}'; \
             document.getElementById('dial').click()"
        ))?;
        browsers.push(browser);
    }
    let browsers: Vec<&Browser> = browsers.iter().collect();
    for browser in &browsers {
        browser.wait_until(PATIENCE, &hears(SOUNDS))?;
        browser.run("window.sessionBefore = window.call.session.resource")?;
    }
    let serving = server.kill_and_start_again()?;
    let joined = "return window.call.state === 'live' \
                  && window.call.session?.resource !== window.sessionBefore";
    back(&browsers, "both joined the room", serving, joined)?;
    back(&browsers, "both hear each other", serving, &hears(ARRIVES))?;
    for browser in &browsers {
        browser.wait_until(PATIENCE, &hears(SOUNDS))?;
    }
    Ok(())
}
