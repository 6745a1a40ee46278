//! A publisher in Chromium that sends temporal layers, watched in Chromium over a path that becomes much
//! narrower.

use glassline_client::impairment::{Impairment, ImpairmentProxy};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::{PATIENCE, ensure};
use crate::camera_layers::{LONG, watch_through};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_viewer_of_vp9_sees_frames_go_on)
        .needs(&[Peer::Chromium])
        .alone(),
    Test::of(&a_viewer_of_vp8_sees_frames_go_on)
        .needs(&[Peer::Chromium])
        .soak(),
    Test::of(&a_viewer_of_vp9_sees_frames_go_on_twice)
        .needs(&[Peer::Chromium])
        .soak(),
    Test::of(&a_viewer_of_av1_sees_frames_go_on)
        .needs(&[Peer::Chromium])
        .soak(),
];

fn a_viewer_of_vp9_sees_frames_go_on() -> Result<(), Failed> {
    sees_frames_go_on("VP9", &[25])
}

fn a_viewer_of_vp8_sees_frames_go_on() -> Result<(), Failed> {
    sees_frames_go_on("VP8", &[55, 25])
}

fn a_viewer_of_vp9_sees_frames_go_on_twice() -> Result<(), Failed> {
    sees_frames_go_on("VP9", &[55, 25])
}

fn a_viewer_of_av1_sees_frames_go_on() -> Result<(), Failed> {
    sees_frames_go_on("AV1", &[55, 25])
}

/// A script that publishes a moving pattern at `/cam/whip` in three temporal layers.
const PUBLISH: &str = "
    return (async () => {
        const canvas = Object.assign(document.createElement('canvas'), { width: 320, height: 180 });
        const context = canvas.getContext('2d');
        let frame = 0;
        setInterval(() => {
            frame += 1;
            for (let x = 0; x < 320; x += 20) for (let y = 0; y < 180; y += 20) {
                context.fillStyle = `hsl(${(x * 7 + y * 11 + frame * 9) % 360} 80% 50%)`;
                context.fillRect(x, y, 20, 20);
            }
        }, 1000 / 30);
        const [track] = canvas.captureStream(30).getVideoTracks();
        const peer = new RTCPeerConnection();
        const transceiver = peer.addTransceiver(track, {
            direction: 'sendonly',
            sendEncodings: [{ scalabilityMode: 'L1T3', maxBitrate: 800000 }],
        });
        const { codecs } = RTCRtpSender.getCapabilities('video');
        transceiver.setCodecPreferences(codecs.filter((it) => it.mimeType === 'video/CODEC'));
        await peer.setLocalDescription();
        const headers = { 'content-type': 'application/sdp' };
        const body = peer.localDescription.sdp;
        const answer = await fetch('/cam/whip', { method: 'POST', headers, body });
        await peer.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
        window.publisherPeer = peer;
        return answer.status;
    })()";

/// A script that notes when each frame is shown.
const WATCH: &str = "
    window.shown = [];
    const video = document.querySelector('video');
    const note = (at) => { shown.push(at); video.requestVideoFrameCallback(note); };
    video.requestVideoFrameCallback(note);
    return performance.now()";

/// A span of the viewer's time, in ms.
#[derive(Debug)]
struct Span {
    frames: usize,
    longest_gap: f64,
}

/// Returns the frames that are shown from now on for so many ms, the first `settling` without.
fn shown(viewer: &Browser, settling: u32, ms: u32) -> Result<Span, Failed> {
    let now = viewer.run("return performance.now()")?;
    let since = now.as_f64().ok_or("no time")? + f64::from(settling);
    let until = since + f64::from(ms);
    viewer.wait_until(LONG, &format!("return performance.now() >= {until}"))?;
    let times = viewer.run("return window.shown")?;
    let times = times.as_array().cloned().unwrap_or_default();
    let times = times.iter().filter_map(Value::as_f64);
    let times: Vec<f64> = times.filter(|it| (since..until).contains(it)).collect();
    let ends = std::iter::once(since).chain(times.iter().copied());
    let gaps = ends.zip(times.iter().copied().chain([until]));
    Ok(Span {
        frames: times.len(),
        longest_gap: gaps.map(|(one, next)| next - one).fold(0.0, f64::max),
    })
}

/// Narrows the path to each of `percents` of the stream's rate.
fn sees_frames_go_on(codec: &str, percents: &[u64]) -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = Browser::start()?;
    publisher.open(&server.url("/"))?;
    let status = publisher.run(&PUBLISH.replace("CODEC", codec))?;
    ensure(status == 201, "published", &status)?;
    server.wait_for_state("cam", "live")?;
    let free: Impairment = "delay=20ms rate=5mbit queue=200ms".parse()?;
    let proxy = ImpairmentProxy::start(&free, server.media())?;
    let viewer = watch_through(&server, &proxy, "/cam", "")?;
    let stream = || http::get_json(&server.admin_url("/api/v1/streams/cam"));
    eventually(PATIENCE, || match stream()? {
        told if told["tracks"][0]["temporal_layers"] == 3 => Ok(()),
        told => Err(format!("three temporal layers: {told}")),
    })?;
    viewer.run(WATCH)?;
    let before = shown(&viewer, 2_000, 4_000)?;
    let told = stream()?;
    let rate = told["bitrate_bps"].as_u64().ok_or(told.to_string())?;
    for percent in percents {
        let narrow = format!("delay=20ms rate={} queue=200ms", rate * percent / 100);
        proxy.change(&narrow.parse()?);
        let first = shown(&viewer, 0, 2_000)?;
        let meanwhile = shown(&viewer, 0, 12_000)?;
        proxy.change(&free);
        let mut after = Vec::new();
        // Without the upper layer there is half of the frames.
        let is_back = |it: &Span| it.frames * 20 >= before.frames * 6;
        while after.len() < 10 && !after.last().is_some_and(is_back) {
            after.push(shown(&viewer, 0, 2_000)?);
        }
        println!(
            "{codec}, {percent} % of {rate} bit/s: before {before:?}, first {first:?}, meanwhile {meanwhile:?}, after {after:?}"
        );
        let figures = Value::from(format!("{before:?} {first:?} {meanwhile:?} {after:?}"));
        // A viewer that waits for a keyframe stands for ten seconds, also on a slow machine.
        ensure(meanwhile.longest_gap < 4_000.0, "frames go on", &figures)?;
        // The time is measured without a browser, which is late on a busy machine.
        let is_whole = after.last().is_some_and(is_back);
        ensure(is_whole, "all layers come back within 20 s", &figures)?;
    }
    Ok(())
}
