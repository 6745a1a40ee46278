//! Files of a user: another size, frame rate and GOP than the demo's.

use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::output_folder;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "files::a_file_of_ones_own_plays_with_audio_and_loops_without_a_break",
    needs: &[Peer::Chromium, Peer::Ffmpeg],
    run: a_file_of_ones_own_plays_with_audio_and_loops_without_a_break,
}];

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
