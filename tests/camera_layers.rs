//! A camera with a main and a sub stream, watched in Chromium over a path that becomes narrow.

use std::time::{Duration, Instant};

use glassline_client::impairment::{Impairment, ImpairmentProxy};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::{PATIENCE, ensure};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::{Running, eventually, output_folder};
use crate::server::{Server, unique};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[Test::of(&a_viewer_moves_between_the_streams_of_a_camera)
    .needs(&[Peer::Ffmpeg, Peer::Chromium])];

/// Long, for browsers on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Makes a film of these sides and this bitrate; returns its file.
fn film(size: &str, rate: &str) -> Result<String, Failed> {
    film_with(size, rate, &[])
}

/// Makes a film of these sides, this bitrate, and what further arguments of FFmpeg add.
pub(crate) fn film_with(size: &str, rate: &str, more: &[&str]) -> Result<String, Failed> {
    let file = output_folder().join(unique(&format!("layers-{size}.mp4")));
    let file = file.to_str().ok_or("no UTF-8")?.to_owned();
    let mut ffmpeg = std::process::Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error", "-y", "-f", "lavfi", "-i"]);
    ffmpeg.arg(format!("testsrc2=size={size}:rate=25:duration=12"));
    ffmpeg.args(more);
    ffmpeg.args(["-vf", "noise=alls=16:allf=t", "-pix_fmt", "yuv420p"]);
    ffmpeg.args([
        "-c:v",
        "libx264",
        "-profile:v",
        "baseline",
        "-preset",
        "veryfast",
    ]);
    ffmpeg.args([
        "-g", "25", "-b:v", rate, "-maxrate", rate, "-bufsize", rate, &file,
    ]);
    let mut running = Running::start("FFmpeg", ffmpeg)?;
    match running.wait(LONG)?.success() {
        true => Ok(file),
        false => Err(format!("FFmpeg: {}", running.printed()).into()),
    }
}

/// Opens a player page whose media goes by the proxy, after `script` has run in the page.
pub(crate) fn watch_through(
    server: &Server,
    proxy: &ImpairmentProxy,
    page: &str,
    script: &str,
) -> Result<Browser, Failed> {
    let browser = Browser::start()?;
    let (from, to) = (server.media().port(), proxy.address().port());
    browser.run_in_every_page(&format!(
        "{script}
         const set = RTCPeerConnection.prototype.setRemoteDescription;
         RTCPeerConnection.prototype.setRemoteDescription = function (answer) {{
             window.watchedPeer = this;
             const sdp = answer.sdp.replace(/^a=candidate:.* tcp .*\\r\\n/gim, '')
                 .replace(/ {from} typ host/g, ' {to} typ host');
             return set.call(this, {{ type: answer.type, sdp }});
         }};"
    ))?;
    browser.open(&server.url(page))?;
    browser.wait_until(LONG, "return glassline.state === 'live'")?;
    Ok(browser)
}

/// Waits until the video has so many rows; returns how long that took.
fn shows(viewer: &Browser, rows: u32) -> Result<Duration, Failed> {
    let since = Instant::now();
    let shown = "document.querySelector('video').videoHeight";
    viewer.wait_until(LONG, &format!("return {shown} === {rows}"))?;
    Ok(since.elapsed())
}

fn a_viewer_moves_between_the_streams_of_a_camera() -> Result<(), Failed> {
    let (main, sub) = (film("1280x720", "2M")?, film("320x180", "200k")?);
    let camera = Server::serve(&[&format!("main={main}"), &format!("sub={sub}")])?;
    let [main, sub] = ["main", "sub"].map(|name| camera.rtsp_url(name));
    let yaml = format!("sources:\n  yard: {{layers: ['{main}', '{sub}']}}\n");
    let server = Server::configured(&yaml, &[])?;
    server.wait_for_state("yard", "live")?;
    let layers = || -> Result<Value, String> {
        let told = http::get_json(&server.admin_url("/api/v1/streams/yard"))?;
        Ok(told["tracks"][0]["layers"].clone())
    };
    let free: Impairment = "delay=20ms".parse()?;
    let proxy = ImpairmentProxy::start(&free, server.media())?;
    let viewer = watch_through(&server, &proxy, "/yard", "")?;
    shows(&viewer, 720)?;
    // Nobody watches the sub stream any more, and its connection is left.
    eventually(PATIENCE, || match layers()? {
        told if told[1]["state"] == "paused" => Ok(()),
        told => Err(told.to_string()),
    })?;
    viewer.wait_until(
        LONG,
        "return document.getElementById('quality').options.length === 3",
    )?;
    let choose = |rid: &str| {
        viewer.run(&format!(
            "const menu = document.getElementById('quality');
             menu.value = '{rid}'; menu.dispatchEvent(new Event('change'));"
        ))
    };
    choose("sub")?;
    let low = shows(&viewer, 180)?;
    viewer.screenshot("camera-layers-low")?;
    choose("main")?;
    let high = shows(&viewer, 720)?;
    println!("pinned: low after {low:?}, high after {high:?}");
    choose("")?;
    proxy.change(&"delay=20ms rate=800kbit queue=300ms".parse()?);
    let down = shows(&viewer, 180)?;
    viewer.wait_until(LONG, "return /path/.test(glassline.layerNote ?? '')")?;
    let note = viewer.run("return glassline.layerNote")?;
    proxy.change(&free);
    let up = shows(&viewer, 720)?;
    println!("by the path: down after {down:?} ({note}), up after {up:?}");
    let page = viewer.run("return glassline")?;
    ensure(page["sessions"] == 1, "one session", &page)
}
