//! `glassline publish` with FFmpeg's output from a pipe, to a server and on to WebRTC viewers.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::cluster::Watching;
use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, glassline, run_to_end};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&raw_frames_of_a_pipe_reach_viewers).needs(&[Peer::Ffmpeg]),
    Test::of(&coded_frames_of_a_pipe_reach_viewers).needs(&[Peer::Ffmpeg]),
    Test::of(&a_whip_endpoint_takes_the_clip_and_gets_keyframes_for_viewers),
    Test::of(&our_rtsp_server_takes_a_stream_by_tcp_and_by_udp),
    Test::of(&ffmpeg_as_rtsp_server_takes_the_clip).needs(&[Peer::Ffmpeg]),
    Test::of(&ctrl_c_ends_a_stream_with_its_figures),
    Test::of(&what_cannot_be_published_is_said_at_once),
];

fn raw_frames_of_a_pipe_reach_viewers() -> Result<(), Failed> {
    through_a_pipe("-pix_fmt yuv420p -f yuv4mpegpipe")
}

fn coded_frames_of_a_pipe_reach_viewers() -> Result<(), Failed> {
    through_a_pipe("-c:v libx264 -preset ultrafast -bf 0 -g 25 -pix_fmt yuv420p -f h264")
}

/// Publishes fifteen seconds of frames, some of which a viewer decodes, and checks the end.
fn through_a_pipe(coding: &str) -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.moq_url("cam")?;
    let program = env!("CARGO_BIN_EXE_glassline");
    let line = format!(
        "ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=25 -t 15 {coding} - \
         | '{program}' publish - '{url}' --log warn"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]);
    let mut publisher = Running::start("publish", shell)?;
    let entry = server.wait_for_state("cam", "live")?;
    let track = &entry["tracks"][0];
    if track["width"] != 320 || track["codec"] != "H264" {
        return Err(format!("it is another stream: {entry}").into());
    }
    let watching = Watching::join(&server, "cam")?;
    watching.reaches(|it| it.keyframes >= 2 && it.frames >= 60 && it.damaged == 0)?;
    let status = publisher.wait(PATIENCE)?;
    if !status.success() {
        return Err(format!("{status}: {}", publisher.printed()).into());
    }
    Ok(())
}

fn a_whip_endpoint_takes_the_clip_and_gets_keyframes_for_viewers() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    for (input, name, has_audio) in [("demo", "clip", true), ("test?size=128x64", "raw", false)] {
        let url = server.url(&format!("/{name}/whip"));
        let command = glassline(&["publish", input, &url, "--json", "-", "--log", "warn"]);
        let mut publisher = Running::start("publish", command)?;
        server.wait_for_state(name, "live")?;
        let watching = Watching::join(&server, name)?;
        let audio_min = if has_audio { 50 } else { 0 };
        watching.reaches(|it| it.frames >= 60 && it.audio.received >= audio_min)?;
        publisher.signal("-INT")?;
        let status = publisher.wait(PATIENCE)?;
        let printed = publisher.printed();
        if status.code() != Some(130) {
            return Err(format!("{status}, not 130: {printed}").into());
        }
        // It ends its session by DELETE.
        server.wait_for_state(name, "down")?;
        let figures = figures(&printed)?;
        if figures["sent_bytes"].as_u64().is_none_or(|sent| sent == 0) {
            return Err(format!("other figures: {figures}").into());
        }
    }
    Ok(())
}

fn our_rtsp_server_takes_a_stream_by_tcp_and_by_udp() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    for (way, feedback) in [("tcp", "tcp"), ("udp", "receiver-reports")] {
        let url = server.rtsp_url(way);
        let flags = ["--transport", way, "--json", "-", "--log", "info"];
        let command = glassline(&[&["publish", "test?size=320x180", &url][..], &flags].concat());
        let mut publisher = Running::start("publish", command)?;
        server.wait_for_state(way, "live")?;
        let watching = Watching::join(&server, way)?;
        watching.reaches(|it| it.frames >= 60 && it.damaged == 0)?;
        publisher.signal("-INT")?;
        let status = publisher.wait(PATIENCE)?;
        let printed = publisher.printed();
        if status.code() != Some(130) || !printed.contains("which follows") {
            return Err(format!("{status}, not 130: {printed}").into());
        }
        // It ends its session by TEARDOWN.
        server.wait_for_state(way, "down")?;
        let figures = figures(&printed)?;
        let sent = figures["sent_bytes"].as_u64();
        if figures["feedback"] != feedback || sent.is_none_or(|sent| sent == 0) {
            return Err(format!("other figures: {figures}").into());
        }
    }
    Ok(())
}

/// FFmpeg waits for one publisher, and writes what it gets.
fn ffmpeg_as_rtsp_server_takes_the_clip() -> Result<(), Failed> {
    let port = free_port()?;
    let url = format!("rtsp://127.0.0.1:{port}/live");
    let mut listening = Command::new("ffmpeg");
    listening.args(["-v", "error", "-rtsp_flags", "listen", "-i", &url]);
    listening.args(["-t", "3", "-map", "0", "-c", "copy", "-f", "framecrc", "-"]);
    let mut ffmpeg = Running::start("ffmpeg", listening)?;
    // It listens a little later, and a first connection must succeed.
    let mut publisher = eventually(PATIENCE, || {
        let command = glassline(&["publish", "demo", &url, "--log", "warn"]);
        let mut publisher = Running::start("publish", command)?;
        match publisher.wait(Duration::from_secs(2)) {
            Ok(_) => Err(publisher.printed()),
            Err(_) => Ok(publisher),
        }
    })?;
    let status = ffmpeg.wait(PATIENCE)?;
    let printed = ffmpeg.printed();
    let lines = |track: &str| {
        printed
            .lines()
            .filter(|line| line.starts_with(track))
            .count()
    };
    publisher.kill();
    if !status.success() || lines("0,") < 50 || lines("1,") < 50 {
        return Err(format!("{status}: {printed}").into());
    }
    Ok(())
}

/// Returns the JSON object that a publisher printed at its end.
/// Returns what `--json -` printed at the end.
pub(crate) fn figures(printed: &str) -> Result<serde_json::Value, Failed> {
    let start = printed.find("\n{").map_or(0, |at| at + 1);
    let end = printed.rfind('}').ok_or("no figures")?;
    let figures = serde_json::from_str(&printed[start..=end]);
    figures.map_err(|error| format!("{error}: {printed}").into())
}

fn ctrl_c_ends_a_stream_with_its_figures() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.moq_url("cam")?;
    let command = glassline(&["publish", "test?size=128x64", &url, "--json", "-"]);
    let mut publisher = Running::start("publish", command)?;
    server.wait_for_state("cam", "live")?;
    publisher.signal("-INT")?;
    let status = publisher.wait(PATIENCE)?;
    let printed = publisher.printed();
    if status.code() != Some(130) {
        return Err(format!("{status}, not 130: {printed}").into());
    }
    let figures = figures(&printed)?;
    let sent = figures["sent_bytes"].as_u64();
    if figures["congestion"] != "glide" || sent.is_none_or(|sent| sent == 0) {
        return Err(format!("other figures: {figures}").into());
    }
    Ok(())
}

fn what_cannot_be_published_is_said_at_once() -> Result<(), Failed> {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["test", "rtsp://127.0.0.1"], 2, "names no stream"),
        (&["test", "rtsp://127.0.0.1:1/cam"], 1, "cannot connect"),
        (&["test", "srt://127.0.0.1/cam"], 2, "moq://"),
        (&["srt://host", "moq://127.0.0.1/cam"], 2, "ffmpeg"),
        (&["/nowhere.mp4", "moq://127.0.0.1/cam"], 1, "/nowhere.mp4"),
        (
            &["/etc/hostname.txt", "moq://127.0.0.1/cam"],
            1,
            "extension",
        ),
    ];
    for (arguments, code, text) in cases {
        let arguments = [&["publish"], arguments].concat();
        let (status, printed) = run_to_end(&arguments)?;
        if status.code() != Some(code) || !printed.contains(text) {
            return Err(format!("{arguments:?}: {status}: {printed}").into());
        }
    }
    Ok(())
}
