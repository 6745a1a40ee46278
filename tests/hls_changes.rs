//! HLS of a source that returns with another size or codec, in players of other projects.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::{PATIENCE, ensure};
use crate::hls::without_errors;
use crate::peers::{Peer, Test};
use crate::process::Running;
use crate::server::{Server, glassline};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&playlists_keep_the_rules_behind_another_size_and_another_codec)
        .needs(&[Peer::Ffmpeg]),
    Test::of(&hls_js_plays_on_behind_another_size_and_another_codec)
        .needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&hls_js_plays_on_without_audio_and_without_video)
        .needs(&[Peer::Ffmpeg, Peer::Chromium])
        .alone(),
];

/// A publisher of a test pattern and a tone.
#[derive(Clone, Copy)]
struct Pattern {
    size: &'static str,
    /// Flags of FFmpeg for its codecs.
    codings: &'static str,
}

const WITH_B_FRAMES: Pattern = Pattern {
    size: "320x240",
    codings: "-c:v libx264 -bf 2 -preset ultrafast -c:a libopus",
};
const SMALLER: Pattern = Pattern {
    size: "160x120",
    codings: "-c:v libx264 -bf 0 -preset ultrafast -c:a libopus",
};
const VP9: Pattern = Pattern {
    size: "240x180",
    codings: "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -strict experimental -c:a libopus",
};
const WITHOUT_AUDIO: Pattern = Pattern {
    size: "280x200",
    codings: "-an -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -strict experimental",
};

const WITH_AAC: Pattern = Pattern {
    size: "200x120",
    codings: "-c:v libx264 -bf 0 -preset ultrafast -c:a aac -ac 2",
};
const WITHOUT_VIDEO: Pattern = Pattern {
    size: "120x120",
    codings: "-vn -c:a libopus",
};

fn publisher(url: &str, pattern: Pattern) -> Result<Running, String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-re", "-f", "lavfi", "-i"]);
    command.args([
        &format!("testsrc=size={}:rate=25", pattern.size),
        "-f",
        "lavfi",
        "-i",
    ]);
    command.args(["sine=frequency=440:sample_rate=48000", "-g", "25"]);
    command.args(["-pix_fmt", "yuv420p"]);
    command.args(pattern.codings.split(' '));
    command.args(["-f", "rtsp", "-rtsp_transport", "tcp", url]);
    Running::start("ffmpeg", command)
}

/// Ends a publisher as a camera ends that is pulled out.
fn end(mut publisher: Running) -> Result<(), String> {
    publisher.kill();
    publisher.wait(Duration::from_secs(10)).map(|_| ())
}

fn playlists_keep_the_rules_behind_another_size_and_another_codec() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let url = server.rtsp_url("studio");
    let mut present = publisher(&url, WITH_B_FRAMES)?;
    server.wait_for_state("studio", "live")?;
    let hls = server.url("/studio/hls/index.m3u8");
    let seconds = "24";
    let mut check = Running::start(
        "check",
        glassline(&["hls", "check", &hls, "--seconds", seconds]),
    )?;
    for source in [SMALLER, WITHOUT_AUDIO] {
        std::thread::sleep(Duration::from_secs(7));
        end(present)?;
        present = publisher(&url, source)?;
    }
    check.wait(Duration::from_secs(60))?;
    let report = check.printed();
    // Nothing comes until the next source is there.
    without_errors(&report, &["parts-late", "segments-late"])?;
    // The present source plays by itself, too.
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args([
        "-nostdin",
        "-v",
        "error",
        "-live_start_index",
        "-1",
        "-i",
        &hls,
    ]);
    ffmpeg.args([
        "-map",
        "v:0",
        "-frames:v",
        "50",
        "-c",
        "copy",
        "-f",
        "framemd5",
        "-",
    ]);
    let output = ffmpeg.output()?;
    let list = String::from_utf8_lossy(&output.stdout);
    let frames = list.lines().filter(|it| !it.starts_with('#')).count();
    let is_played = output.status.success() && frames == 50;
    ensure(is_played, "FFmpeg plays the last source", &json!(list))
}

fn hls_js_plays_on_behind_another_size_and_another_codec() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let url = server.rtsp_url("studio");
    let mut present = publisher(&url, WITH_B_FRAMES)?;
    server.wait_for_state("studio", "live")?;
    let browser = watching(&server)?;
    for next in [None, Some(SMALLER), Some(VP9)] {
        if let Some(next) = next {
            end(present)?;
            present = publisher(&url, next)?;
        }
        shows(&browser, next.unwrap_or(WITH_B_FRAMES))?;
    }
    drop(present);
    Ok(())
}

/// Opens the page of the stream as a viewer who chose HLS.
fn watching(server: &Server) -> Result<Browser, String> {
    let browser = Browser::start()?;
    browser.open(&server.url("/studio"))?;
    browser.run(
        "const menu = document.getElementById('how');
         menu.value = 'hls';
         menu.dispatchEvent(new Event('change'))",
    )?;
    Ok(browser)
}

/// Waits until the page shows more than a second of this pattern.
fn shows(browser: &Browser, pattern: Pattern) -> Result<(), String> {
    let (width, _) = pattern.size.split_once('x').ok_or("a size")?;
    let plays = format!(
        "const video = document.querySelector('video');
         globalThis.rendered ??= {{}};
         if (video.videoWidth !== {width} || glassline.how !== 'hls') return false;
         rendered[{width}] ??= glassline.framesRendered;
         return glassline.framesRendered > rendered[{width}] + 30"
    );
    let found = browser.wait_until(PATIENCE, &plays);
    let found = found.map_err(|error| told(browser, pattern, &error))?;
    println!("{width} pixels are shown: {found}");
    Ok(())
}

fn told(browser: &Browser, pattern: Pattern, error: &str) -> String {
    let state = browser.run(
        "const video = document.querySelector('video');
         const ranges = [...Array(video.buffered.length).keys()];
         return [glassline.how, glassline.state, glassline.sessions, video.videoWidth, video.currentTime,
             ranges.map((it) => [video.buffered.start(it), video.buffered.end(it)]),
             document.getElementById('line').textContent]",
    );
    format!("{}: {error}: {state:?}", pattern.size)
}

/// A source has no audio after one that had it, then another codec of audio, then no video, then all again.
fn hls_js_plays_on_without_audio_and_without_video() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let url = server.rtsp_url("studio");
    let mut present = publisher(&url, WITH_B_FRAMES)?;
    server.wait_for_state("studio", "live")?;
    let browser = watching(&server)?;
    shows(&browser, WITH_B_FRAMES)?;
    let time = "return document.querySelector('video').currentTime";
    for next in [WITHOUT_AUDIO, WITH_AAC, WITHOUT_VIDEO, SMALLER] {
        end(present)?;
        present = publisher(&url, next)?;
        if next.codings.starts_with("-vn") {
            server.wait_for_state("studio", "live")?;
            let begin = browser.run(time)?.as_f64().unwrap_or(f64::INFINITY);
            let plays = format!("{time} > {}", begin + 6.0);
            let found = browser.wait_until(PATIENCE, &plays);
            found.map_err(|error| told(&browser, next, &error))?;
        } else {
            shows(&browser, next)?;
        }
    }
    let known = browser.run("return [glassline.sessions, glassline.lastEnd]")?;
    ensure(known[0] == 1, "one playback", &known)?;
    drop(present);
    Ok(())
}
