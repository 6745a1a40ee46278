//! Files of a user: another size, frame rate and GOP than the demo's.

use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;

use crate::browser::ensure;
use crate::peers::{Peer, Test};
use crate::process::output_folder;
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium, Peer::Ffmpeg];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_file_of_ones_own_plays_with_audio_and_loops_without_a_break).needs(NEEDS),
    Test::of(&a_stream_of_audio_alone_plays).needs(NEEDS),
    Test::of(&the_page_of_a_refused_stream_names_the_reason_alone).needs(NEEDS),
];

const PATIENCE: Duration = Duration::from_secs(30);

fn a_file_of_ones_own_plays_with_audio_and_loops_without_a_break() -> Result<(), Failed> {
    let video = encode(
        "own.h264",
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=640x360:rate=25",
            "-t",
            "3",
            "-c:v",
            "libx264",
            "-profile:v",
            "main",
            "-bf",
            "0",
            "-g",
            "75",
            "-x264-params",
            "slices=3:aud=1",
            "-f",
            "h264",
        ],
    )?;
    let audio = encode(
        "own.ogg",
        &[
            "-f",
            "lavfi",
            "-i",
            "sine=frequency=330:sample_rate=48000",
            "-t",
            "3",
            "-c:a",
            "libopus",
            "-b:a",
            "48k",
            "-frame_duration",
            "60",
            "-f",
            "ogg",
        ],
    )?;
    let server = Server::serve(&[&format!("own={video},{audio}?fps=25")])?;
    server.wait_for_state("own", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/own"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    browser.run("document.getElementById('sound').click()")?;
    // Three times through the file: a jump of the timestamps would freeze the video or flush the
    // buffer.
    browser.wait_until(
        PATIENCE,
        "return glassline.framesDecoded > 225 && glassline.audioEnergy > 0",
    )?;
    let page = browser.run("return glassline")?;
    browser.screenshot("file")?;
    let fps = page["fps"].as_f64().unwrap_or(0.0);
    let as_made = page["width"] == 640 && page["height"] == 360 && page["sessions"] == 1;
    if !as_made || !(20.0..=30.0).contains(&fps) || page["glassToGlass"].is_object() {
        return Err(format!("{page}").into());
    }
    Ok(())
}

/// A page offers to receive video and audio, and the stream has no video.
fn a_stream_of_audio_alone_plays() -> Result<(), Failed> {
    let tone = "sine=frequency=330:sample_rate=48000";
    let audio = encode(
        "tone.ogg",
        &["-f", "lavfi", "-i", tone, "-t", "3", "-c:a", "libopus"],
    )?;
    let server = Server::serve(&[&format!("tone={audio}")])?;
    server.wait_for_state("tone", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/tone"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    // Its loudness is shown also while it is muted.
    browser.wait_until(PATIENCE, "return glassline.audioLevel > 0.01")?;
    let shown = browser.run(
        "const box = (id) => document.getElementById(id).getBoundingClientRect();
         return { strip: box('levels').height, video: box('video').height,
                  message: document.getElementById('message').hidden }",
    )?;
    let is_strip = shown["strip"].as_f64() > Some(100.0)
        && shown["video"].as_f64() < Some(2.0)
        && shown["message"] == true;
    ensure(is_strip, "loudness in place of an empty video box", &shown)?;
    browser.run("document.getElementById('sound').click()")?;
    browser.wait_until(PATIENCE, "return glassline.audioEnergy > 0")?;
    browser.screenshot("audio-alone")?;
    let sessions = browser.run("return glassline.sessions")?;
    ensure(sessions == 1, "one session is enough", &sessions)
}

/// Chromium plays H.264, so a remark on a browser's decoder would mislead.
fn the_page_of_a_refused_stream_names_the_reason_alone() -> Result<(), Failed> {
    let source = "testsrc2=size=320x180:rate=25";
    let encoder = ["-c:v", "libx264", "-bf", "2", "-g", "50"];
    let input = ["-f", "lavfi", "-i", source, "-t", "3"];
    let video = encode("reordered.mp4", &[&input[..], &encoder].concat())?;
    let server = Server::serve(&[&format!("film={video}")])?;
    server.wait_for_state("film", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/film"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'refused'")?;
    let shown = browser.run("return document.getElementById('message').innerText")?;
    browser.screenshot("refused")?;
    let text = shown.as_str().unwrap_or_default();
    let is_alone = text.contains("B-frames") && !text.contains("Firefox");
    ensure(
        is_alone,
        "the page names B-frames and no other browser",
        &shown,
    )
}

/// Encodes a test source; returns the path of the file.
fn encode(name: &str, arguments: &[&str]) -> Result<String, String> {
    let path = output_folder().join(name);
    std::fs::create_dir_all(output_folder()).map_err(|error| error.to_string())?;
    let status = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-y"])
        .args(arguments)
        .arg(&path)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("ffmpeg: {error}"))?;
    if !status.success() {
        return Err(format!("ffmpeg could not make {name}: {status}"));
    }
    path.into_os_string()
        .into_string()
        .map_err(|path| format!("{} is no UTF-8", path.display()))
}
