//! A source that goes away while Chromium watches, and comes back.

use libtest_mimic::Failed;

use crate::browser::ensure;
use crate::peers::{Peer, Test};
use crate::process::PATIENCE;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&the_player_shows_the_placeholder_and_then_the_camera_in_one_session)
            .needs(&[Peer::Chromium]),
    ];

/// Script that draws the video small, and returns the largest difference between two primary colors of
/// a point.
const COLORFULNESS: &str = "\
    const video = document.querySelector('video'); \
    const canvas = document.createElement('canvas'); \
    [canvas.width, canvas.height] = [64, 36]; \
    const context = canvas.getContext('2d'); \
    context.drawImage(video, 0, 0, 64, 36); \
    const points = context.getImageData(0, 0, 64, 36).data; \
    let most = 0; \
    for (let at = 0; at < points.length; at += 4) { \
      const colors = points.slice(at, at + 3); \
      most = Math.max(most, Math.max(...colors) - Math.min(...colors)); \
    } ";

fn the_player_shows_the_placeholder_and_then_the_camera_in_one_session() -> Result<(), Failed> {
    let camera = Server::serve(&["demo"])?;
    let url = camera.rtsp_url("demo");
    let source = format!("door={url}?timeout_s=1&placeholder&after_s=0.2");
    let server = Server::serve(&[&source])?;
    server.wait_for_state("door", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/door"))?;
    let plays = "return glassline.state === 'live' && glassline.reports > 1";
    browser.wait_until(PATIENCE, plays)?;
    browser.run("window.isTheSamePage = true")?;
    let in_color = format!("{COLORFULNESS} return most > 60 && glassline.state === 'live'");
    browser.wait_until(PATIENCE, &in_color)?;

    camera.signal("-STOP")?;
    let in_grey = format!("{COLORFULNESS} return most < 16 && glassline.state === 'away'");
    let shown = browser.wait_until(PATIENCE, &in_grey);
    let screenshot = browser.screenshot("placeholder")?;
    shown?;
    println!("the placeholder is in {}", screenshot.display());
    let entry = server.stream("door")?;
    ensure(entry["stand_in"] == "placeholder", "what is shown", &entry)?;

    camera.signal("-CONT")?;
    browser.wait_until(PATIENCE, &in_color)?;
    let sessions = browser.run("return window.isTheSamePage && glassline.sessions")?;
    ensure(sessions == 1, "the same page and session", &sessions)
}
