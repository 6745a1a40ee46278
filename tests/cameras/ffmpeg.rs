//! The fake camera as FFmpeg sees it: a quirk that FFmpeg plays is one that a server can play.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use libtest_mimic::Failed;

use super::camera_server::CameraServer;
use super::quirk::Quirk;
use super::row::Way;
use super::scene::Case;

/// Frames that FFmpeg plays of each case.
const FRAMES: usize = 45;

/// Players at a time.
const AT_A_TIME: usize = 6;

/// Plays every case that is pulled. FFmpeg plays what the server must play, but for the rows that say
/// otherwise.
pub(crate) fn plays_the_cameras(cases: Vec<Case>) -> Result<(), Failed> {
    let waiting = Mutex::new(cases);
    let shown = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(case) = next else { break };
                    if case.way != Way::Record && !case.row.has(Quirk::NoVideo) {
                        let frames = frames(case);
                        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                        shown.insert(case.name(), (case, frames));
                    }
                }
            });
        }
    });
    let shown = shown.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut faults = Vec::new();
    for (name, (case, frames)) in shown {
        let is_expected = case.row.ffmpeg;
        let (frames, complaints) = frames?;
        let first = complaints.lines().next().unwrap_or_default();
        let count = complaints.lines().count();
        println!("{frames:>4} frames, {count:>3} complaints  {name} {first}");
        if is_expected != (frames == FRAMES) {
            faults.push(format!(
                "{name}: {frames} frames, expected to play: {is_expected}"
            ));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}

/// Frames that FFmpeg decodes, and what it complains of.
fn frames(case: Case) -> Result<(usize, String), String> {
    let camera = CameraServer::open(case.row, case.video)?;
    let way = case.way.to_string();
    let mut command = Command::new("timeout");
    command.args([
        "15",
        "ffmpeg",
        "-hide_banner",
        "-v",
        "error",
        "-progress",
        "-",
    ]);
    command.args(["-rtsp_transport", &way, "-i", &camera.url()]);
    command.args(["-frames:v", &FRAMES.to_string(), "-vsync", "passthrough"]);
    command.args(["-map", "0:v", "-f", "null", "/dev/null"]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("ffmpeg: {error}"))?;
    let progress = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut counts = progress.lines().filter_map(|it| it.strip_prefix("frame="));
    let frames = counts.next_back().and_then(|it| it.trim().parse().ok());
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((frames.unwrap_or_default(), complaints))
}
