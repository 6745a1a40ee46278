//! A viewer whose network carries less than the only layer of its stream, and a server that encodes a
//! lower one for as long.

use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::Value;

use crate::http;
use crate::namespace::{self, HERE, INTERFACE, Neighbor};
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, Running, eventually, output_folder};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&a_viewer_on_a_narrow_path_gets_a_rung_and_comes_back)
            .needs(&[Peer::Chromium, Peer::Ffmpeg, Peer::Namespaces])
            .alone()
            .in_namespace(LONG),
    ];

/// Long, for a browser in a namespace on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Frames a second since the first call, once five seconds have passed.
const FRAMES: &str = "
    window.first ??= { at: performance.now(), frames: glassline.framesDecoded };
    const seconds = (performance.now() - first.at) / 1000;
    return seconds > 5 && (glassline.framesDecoded - first.frames) / seconds;";

/// Writes video of 1280 by 720 at 2.5 Mbit/s and 30 frames a second; returns its path.
fn film() -> Result<String, String> {
    let path = output_folder().join("ladder.mp4").display().to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i"]);
    command.args(["testsrc2=size=1280x720:rate=30", "-t", "20"]);
    command.args([
        "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "veryfast",
    ]);
    command.args(["-bf", "0", "-g", "60", "-b:v", "2500k", "-maxrate", "2500k"]);
    command.args(["-bufsize", "2500k", &path]);
    let mut running = Running::start("ffmpeg", command)?;
    let status = running.wait(LONG)?;
    match status.success() {
        true => Ok(path),
        false => Err(format!("ffmpeg ended with {status}")),
    }
}

/// Runs `tc` with the words of `line`.
fn tc(line: &str) -> Result<(), String> {
    let output = Command::new("tc").args(line.split(' ')).output();
    let output = output.map_err(|error| format!("tc {line}: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success().then_some(());
    is_done.ok_or_else(|| format!("tc {line}: {error}"))
}

/// Waits until the viewer gets the layer `rid`; returns how long that took.
fn await_layer(browser: &Browser, rid: &str) -> Result<Duration, String> {
    let begun = Instant::now();
    let is_it = format!("return glassline.layer?.rid === '{rid}'");
    browser.wait_until(PATIENCE, &is_it)?;
    Ok(begun.elapsed())
}

/// Returns the transcodings of the server.
fn transcodings(server: &Server) -> Result<Vec<Value>, String> {
    let all = http::get_json(&server.admin_url("/api/v1/transcodings"))?;
    Ok(all["transcodings"].as_array().cloned().unwrap_or_default())
}

fn a_viewer_on_a_narrow_path_gets_a_rung_and_comes_back() -> Result<(), Failed> {
    let neighbor = Neighbor::start()?;
    let yaml = format!("http: {{address: '{HERE}:0'}}\nmedia: {{address: '{HERE}:0'}}\n");
    let source = format!("cam={}?ladder=360p", film()?);
    let server = Server::configured(&yaml, &[&source])?;
    let browser = namespace::browser_of(&neighbor)?;
    browser.open(&server.url("/cam").replace("127.0.0.1", HERE))?;
    browser.wait_until(LONG, "return glassline.framesDecoded > 60")?;
    await_layer(&browser, "source")?;
    let idle = transcodings(&server)?;
    if !idle.is_empty() {
        return Err(format!("nobody needs a lower layer: {idle:?}").into());
    }
    tc(&format!(
        "qdisc add dev {INTERFACE} root tbf rate 800kbit burst 4kb latency 300ms"
    ))?;
    let down = await_layer(&browser, "360p")?;
    let frames = browser.wait_until(LONG, FRAMES)?.as_f64().unwrap_or(0.0);
    let view = transcodings(&server)?.first().cloned().unwrap_or_default();
    println!("the rung after {down:?}, {frames:.1} frames/s; {view}");
    let layer = browser.run("return glassline.layer")?;
    if frames < 20.0 || layer["rid"] != "360p" || view["layers"][0] != "360p" {
        return Err(format!("{frames:.1} frames/s of {layer}").into());
    }
    tc(&format!("qdisc del dev {INTERFACE} root"))?;
    let up = await_layer(&browser, "source")?;
    println!("the source's layer again after {up:?}");
    eventually(LONG, || match transcodings(&server)? {
        left if left.is_empty() => Ok(()),
        left => Err(format!("still encoded: {left:?}")),
    })?;
    Ok(())
}
