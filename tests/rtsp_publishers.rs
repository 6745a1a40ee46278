//! Publishers of other projects, and the keyframes that our RTSP server requests from them.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, rtsps_yaml};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&gstreamer_makes_a_keyframe_for_who_comes_late)
        .needs(&[Peer::Ffmpeg, Peer::RtspServer]),
    Test::of(&gstreamer_publishes_what_it_has_sealed).needs(&[Peer::Ffmpeg, Peer::RtspServer]),
    Test::of(&the_player_is_told_of_another_codec_and_plays_it)
        .needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&ffmpeg_comes_back_with_another_codec).needs(&[Peer::Ffmpeg]),
];

/// Time for which the hub keeps a stream, and a second more.
const KEYFRAME_IS_FORGOTTEN: Duration = Duration::from_secs(3);

/// The only keyframe is the first one; a viewer that joins when it is no longer kept needs
/// another one.
fn gstreamer_makes_a_keyframe_for_who_comes_late() -> Result<(), Failed> {
    let server = Server::configured("limits: {ring_s: 2}\n", &["demo"])?;
    let udp = ["protocols=udp"];
    let _publisher = test_pattern(&server.rtsp_url("studio"), 100_000, &udp)?;
    server.wait_for_state("studio", "live")?;
    thread::sleep(KEYFRAME_IS_FORGOTTEN);
    plays(&server.rtsp_url("studio"))?;
    eventually(PATIENCE, || {
        match server.metric("glassline_rtsp_keyframe_requests_total")? {
            asked if asked >= 1.0 => Ok(()),
            _ => Err("it played, but nobody asked".to_owned()),
        }
    })?;
    Ok(())
}

/// Media that is sealed with the publisher's own keys (`profiles=savp`), within TLS: interleaved,
/// and by UDP.
fn gstreamer_publishes_what_it_has_sealed() -> Result<(), Failed> {
    let port = free_port()?;
    let server = Server::configured(&rtsps_yaml(port), &["demo"])?;
    for way in ["tcp", "udp"] {
        let url = format!("rtsps://127.0.0.1:{port}/{way}");
        // The tests' certificate is self-signed.
        let protocols = format!("protocols={way}");
        let settings = [&protocols, "profiles=savp", "tls-validation-flags=0"];
        let _publisher = test_pattern(&url, 25, &settings)?;
        server.wait_for_state(way, "live")?;
        let clients = server.rtsp_clients()?;
        if !clients
            .iter()
            .any(|it| it["stream"] == way && it["srtp"] == true)
        {
            return Err(format!("not sealed: {clients:?}").into());
        }
        plays(&server.rtsp_url(way))?;
    }
    Ok(())
}

/// H.264 with Opus, then VP8, then H.264 with AAC under one name; somebody plays the first.
fn ffmpeg_comes_back_with_another_codec() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let url = server.rtsp_url("studio");
    let mut watched = None;
    for (codings, codecs) in [
        (
            "-c:v libx264 -bf 0 -c:a libopus",
            ["H264", "opus"].as_slice(),
        ),
        ("-an -c:v libvpx -deadline realtime", &["VP8"]),
        ("-c:v libx264 -bf 0 -c:a aac", &["H264", "mpeg4-generic"]),
    ] {
        let mut publisher = encoder(&url, codings)?;
        eventually(Duration::from_secs(20), || {
            let stream = server.stream("studio")?;
            let tracks = stream["tracks"].as_array().into_iter().flatten();
            let are: Vec<_> = tracks.filter_map(|it| it["codec"].as_str()).collect();
            match stream["state"] == "live" && are == codecs {
                true => Ok(()),
                false => Err(format!("{codecs:?} are not live: {stream}")),
            }
        })?;
        plays(&url)?;
        if watched.is_none() {
            let mut command = Command::new("ffmpeg");
            command.args(["-v", "error", "-rtsp_transport", "tcp", "-i", &url]);
            command.args(["-f", "null", "-"]);
            watched = Some(Running::start("ffmpeg", command)?);
        }
        publisher.terminate()?;
        publisher.wait(Duration::from_secs(10))?;
    }
    // Its connection was closed with the first change.
    if let Some(mut player) = watched {
        player.wait(Duration::from_secs(10))?;
    }
    Ok(())
}

/// The page names the change as the reason of its new session, and makes no pause before it.
fn the_player_is_told_of_another_codec_and_plays_it() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let url = server.rtsp_url("studio");
    let mut publisher = encoder(&url, "-an -c:v libx264 -bf 0")?;
    server.wait_for_state("studio", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/studio"))?;
    let plays = |codec: &str| {
        format!(
            "return glassline.state === 'live' && glassline.framesDecoded > 10 \
             && /{codec}/i.test(glassline.codec)"
        )
    };
    browser.wait_until(PATIENCE, &plays("h264"))?;
    publisher.terminate()?;
    publisher.wait(Duration::from_secs(10))?;
    let _publisher = encoder(&url, "-an -c:v libvpx -deadline realtime")?;
    browser.wait_until(PATIENCE, &plays("vp8"))?;
    let told = browser.run("return glassline.lastEnd")?;
    let is_right = told
        .as_str()
        .is_some_and(|it| it.contains("changed its codecs"));
    match is_right {
        true => Ok(()),
        false => Err(format!("the page was told {told}").into()),
    }
}

/// Publishes a test pattern and a tone by FFmpeg, encoded as `codings` says.
pub(crate) fn encoder(url: &str, codings: &str) -> Result<Running, String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-re", "-f", "lavfi", "-i"]);
    command.args(["testsrc=size=320x240:rate=25", "-f", "lavfi", "-i"]);
    command.args(["sine=frequency=440:sample_rate=48000", "-g", "25"]);
    command
        .args(["-pix_fmt", "yuv420p"])
        .args(codings.split(' '));
    command.args(["-f", "rtsp", "-rtsp_transport", "tcp", url]);
    Running::start("ffmpeg", command)
}

/// Publishes a test pattern at 25 frames per second, with a keyframe every `group` frames.
fn test_pattern(url: &str, group: u32, settings: &[&str]) -> Result<Running, String> {
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "videotestsrc", "is-live=true", "!"]);
    command.args(["video/x-raw,width=320,height=240,framerate=25/1", "!"]);
    command.args(["x264enc", "tune=zerolatency"]);
    command.args([&format!("key-int-max={group}"), "!", "h264parse", "!"]);
    command.args(["rtspclientsink", &format!("location={url}")]);
    command.args(settings);
    Running::start("gst-launch", command)
}

/// Checks that FFmpeg decodes a second of the stream.
pub(crate) fn plays(url: &str) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.args(["25", "ffmpeg", "-hide_banner", "-loglevel", "error"]);
    command.args(["-rtsp_transport", "tcp", "-i", url]);
    command.args(["-frames:v", "25", "-f", "null", "-"]);
    let played = command.stdin(Stdio::null()).output();
    let played = played.map_err(|error| format!("ffmpeg: {error}"))?;
    if played.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&played.stderr);
    Err(format!("{}: {errors}", played.status))
}
