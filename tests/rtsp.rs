//! Cameras: RTSP from servers of other projects, which disappear and return.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::peers::{self, Peer, Test};
use crate::ports::free_port;
use crate::process::{Running, eventually, output_folder};
use crate::server::{Server, glassline};
use crate::webdriver::Browser;

const PATIENCE: Duration = Duration::from_secs(30);

/// Longest time from the camera's return to its first frame, without a reload.
const RETURN_MAX: Duration = Duration::from_secs(5);

pub(crate) const TESTS: &[Test] = &[
    Test::of(&video_returns_by_itself_after_the_camera_restarts)
        .needs(&[Peer::Chromium, Peer::RtspServer]),
    Test::of(&video_and_audio_of_a_camera_reach_aiortc).needs(&[Peer::Aiortc, Peer::RtspServer]),
    Test::of(&a_camera_that_is_not_there_shows_in_the_api_and_is_retried)
        .needs(&[Peer::RtspServer]),
    Test::of(&cameras_of_gstreamer_are_live_by_every_transport).needs(&[Peer::RtspServer]),
    Test::of(&a_password_is_shown_to_gstreamer_and_a_wrong_one_is_told).needs(&[Peer::RtspServer]),
    Test::of(&a_session_with_gstreamer_is_kept_alive).needs(&[Peer::RtspServer]),
    Test::of(&a_camera_of_gstreamer_is_published_on).needs(&[Peer::RtspServer]),
    Test::of(&a_file_of_live555_plays_on_when_it_begins_again)
        .needs(&[Peer::Chromium, Peer::Live555]),
];

fn video_returns_by_itself_after_the_camera_restarts() -> Result<(), Failed> {
    let mut camera = Camera::start(0, &[])?;
    let server = Server::serve(&[&format!("cam={}", camera.url)])?;
    server.wait_for_state("cam", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/cam"))?;
    let live = "return glassline.state === 'live' && glassline.framesDecoded > 30";
    browser.wait_until(PATIENCE, live)?;

    camera.running.kill();
    browser.wait_until(PATIENCE, "return glassline.state === 'stalled'")?;
    let away = server.stream("cam")?;
    if away["state"] == "live" || away["detail"].is_null() {
        return Err(format!("the API does not tell that the camera is gone: {away}").into());
    }
    let before = browser.run("return glassline.framesRendered")?;
    let before = before.as_u64().unwrap_or(0);

    let camera = Camera::start(camera.port, &[])?;
    let back = Instant::now();
    let moving = format!("return glassline.framesRendered > {before}");
    browser.wait_until(PATIENCE, &moving)?;
    let took = back.elapsed();
    println!("video back {took:?} after the camera");
    browser.screenshot("camera")?;
    let sessions = browser.run("return glassline.sessions")?;
    if sessions != 1 {
        return Err(format!("the viewer had to join again: {sessions} sessions").into());
    }
    drop(camera);
    if took > RETURN_MAX {
        return Err(format!("{took:?} until the video was back").into());
    }
    Ok(())
}

fn video_and_audio_of_a_camera_reach_aiortc() -> Result<(), Failed> {
    let camera = Camera::start(0, &["--audio", "opus", "--size", "640x360"])?;
    let server = Server::serve(&[&format!("cam={}", camera.url)])?;
    let entry = server.wait_for_state("cam", "live")?;
    if entry["tracks"].as_array().map(Vec::len) != Some(2) {
        return Err(format!("video and audio expected: {entry}").into());
    }
    let report = crate::aiortc::watch(&server.url("/cam/whep"), 6)?;
    let frames = report["frames"].as_u64().unwrap_or(0);
    let audio = report["audio_energy"].as_f64().unwrap_or(0.0);
    if frames < 60 || audio < 0.01 || report["width"] != 640 {
        return Err(format!("{report}").into());
    }
    Ok(())
}

fn a_camera_that_is_not_there_shows_in_the_api_and_is_retried() -> Result<(), Failed> {
    let port = free_port()?;
    let server = Server::serve(&[&format!("cam=rtsp://127.0.0.1:{port}/cam")])?;
    let entry = eventually(PATIENCE, || {
        let entry = server.stream("cam")?;
        match (entry["state"].as_str(), entry["detail"].as_str()) {
            (Some("connecting" | "down"), Some(detail)) if !detail.is_empty() => Ok(entry),
            _ => Err(format!("no word of the missing camera: {entry}")),
        }
    })?;
    println!("{entry}");
    let _camera = Camera::start(port, &[])?;
    server.wait_for_state("cam", "live")?;
    Ok(())
}

/// H.264 and H.265, with and without audio, within the connection and by UDP. Each camera disappears
/// once, and the stream is live again.
fn cameras_of_gstreamer_are_live_by_every_transport() -> Result<(), Failed> {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--codec", "h264"], &["H264"]),
        (&["--codec", "h265"], &["H265"]),
        (
            &["--codec", "h264", "--audio", "aac"],
            &["H264", "mpeg4-generic"],
        ),
        (&["--codec", "h265", "--audio", "opus"], &["H265", "opus"]),
    ];
    for (arguments, codecs) in cases {
        let mut camera = Camera::start(0, arguments)?;
        let sources = ["tcp", "udp"].map(|way| format!("{way}={}?transport={way}", camera.url));
        let server = Server::serve(&sources.each_ref().map(String::as_str))?;
        let failed = |reason: String| format!("{arguments:?}: {reason}");
        for way in ["tcp", "udp"] {
            let entry = server.wait_for_state(way, "live").map_err(failed)?;
            let tracks = entry["tracks"].as_array().into_iter().flatten();
            let are: Vec<_> = tracks.filter_map(|it| it["codec"].as_str()).collect();
            if are != codecs {
                return Err(failed(format!("{way}: {entry}")).into());
            }
        }
        camera.running.kill();
        for way in ["tcp", "udp"] {
            server.wait_for_state(way, "down").map_err(failed)?;
        }
        let _camera = Camera::start(camera.port, arguments)?;
        for way in ["tcp", "udp"] {
            server.wait_for_state(way, "live").map_err(failed)?;
        }
    }
    Ok(())
}

fn a_password_is_shown_to_gstreamer_and_a_wrong_one_is_told() -> Result<(), Failed> {
    for scheme in ["digest", "basic"] {
        let camera = Camera::start(0, &["--user", "viewer:se cret", "--scheme", scheme])?;
        let with = |user: &str| camera.url.replace("rtsp://", &format!("rtsp://{user}@"));
        let right = format!("right={}", with("viewer:se%20cret"));
        let wrong = format!("wrong={}", with("viewer:guess"));
        let server = Server::serve(&[&right, &wrong])?;
        let failed = |reason: String| format!("{scheme}: {reason}");
        server.wait_for_state("right", "live").map_err(failed)?;
        let refused = server.wait_for_state("wrong", "down").map_err(failed)?;
        let told = refused["detail"].as_str().unwrap_or_default();
        if !told.contains("refuses the credentials") {
            return Err(failed(format!("a wrong password gave {refused}")).into());
        }
    }
    Ok(())
}

/// The camera ends sessions that show no life for 5 s. By UDP, media alone shows none.
fn a_session_with_gstreamer_is_kept_alive() -> Result<(), Failed> {
    const SESSION: Duration = Duration::from_secs(5);
    let camera = Camera::start(0, &["--timeout", &SESSION.as_secs().to_string()])?;
    let server = Server::serve(&[&format!("cam={}?transport=udp", camera.url)])?;
    server.wait_for_state("cam", "live")?;
    // Three times the session's life: it is the passage of time that is tested.
    std::thread::sleep(3 * SESSION);
    let entry = server.wait_for_state("cam", "live")?;
    if entry["sources"] == 1 {
        return Ok(());
    }
    Err(format!("the session ended: {entry}").into())
}

/// `glassline publish rtsp://…` pulls the camera, with its password, and sends it to a server.
fn a_camera_of_gstreamer_is_published_on() -> Result<(), Failed> {
    for (codec, audio, codecs) in [
        ("h264", "aac", ["H264", "mpeg4-generic"]),
        ("h265", "opus", ["H265", "opus"]),
    ] {
        let guarded = [
            "--user",
            "viewer:secret",
            "--codec",
            codec,
            "--audio",
            audio,
        ];
        let mut camera = Camera::start(0, &guarded)?;
        let server = Server::serve(&[])?;
        let url = camera.url.replace("rtsp://", "rtsp://viewer:secret@");
        let command = glassline(&["publish", &url, &server.moq_url("cam")?]);
        let publisher = Running::start("publish", command)?;
        let failed = |reason: String| format!("{codec}: {reason}");
        let entry = server.wait_for_state("cam", "live").map_err(failed)?;
        let tracks = entry["tracks"].as_array().into_iter().flatten();
        let are: Vec<_> = tracks.filter_map(|it| it["codec"].as_str()).collect();
        let has_size = entry["tracks"][0]["width"] == 640;
        if are != codecs || !has_size {
            return Err(failed(format!("other tracks: {entry}")).into());
        }
        let packets = || server.stream("cam").map(|it| it["packets"].as_u64());
        camera.running.kill();
        publisher
            .wait_for_line(PATIENCE, |line| line.contains("reconnecting").then_some(()))
            .map_err(failed)?;
        let _camera = Camera::start(camera.port, &guarded)?;
        let before = packets().map_err(failed)?;
        eventually(PATIENCE, || match packets()? {
            now if now > before.map(|it| it + 60) => Ok(()),
            now => Err(format!("{now:?} packets, {before:?} before")),
        })
        .map_err(failed)?;
    }
    Ok(())
}

/// live555 ends the stream at the end of the file, which looks like a camera that disappears.
fn a_file_of_live555_plays_on_when_it_begins_again() -> Result<(), Failed> {
    let folder = output_folder().join("live555");
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.h264");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(&clip, folder.join("clip.264")))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new(peers::installed("live555MediaServer")?);
    command.current_dir(&folder);
    let live555 = Running::start("live555", command)?;
    let port: u16 = live555.wait_for_line(Duration::from_secs(10), |line| {
        let authority = line
            .trim()
            .strip_prefix("rtsp://")?
            .strip_suffix("/<filename>")?;
        match authority.rsplit_once(':') {
            Some((_, port)) => port.parse().ok(),
            None => Some(554),
        }
    })?;
    let server = Server::serve(&[&format!("clip=rtsp://127.0.0.1:{port}/clip.264")])?;
    server.wait_for_state("clip", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/clip"))?;
    // The clip has 300 frames: a larger number means that it began again.
    browser.wait_until(PATIENCE, "return glassline.framesDecoded > 400")?;
    let sessions = browser.run("return glassline.sessions")?;
    if sessions == 1 {
        Ok(())
    } else {
        Err(format!("the viewer had to join again: {sessions} sessions").into())
    }
}

/// A GStreamer RTSP server. Dropping it kills it.
pub(crate) struct Camera {
    running: Running,
    pub(crate) url: String,
    port: u16,
}

impl Camera {
    /// Starts the camera on `port`, or on a free one for 0.
    pub(crate) fn start(port: u16, arguments: &[&str]) -> Result<Camera, String> {
        let mut command = peers::rtsp_server();
        command.args(["--port", &port.to_string()]).args(arguments);
        let running = Running::start("camera", command)?;
        let url: String = running.wait_for_line(Duration::from_secs(20), |line| {
            line.strip_prefix("ready ").map(str::to_owned)
        })?;
        let port = url
            .split(':')
            .next_back()
            .and_then(|rest| rest.split('/').next()?.parse().ok())
            .ok_or_else(|| format!("no port in {url}"))?;
        Ok(Camera { running, url, port })
    }
}
