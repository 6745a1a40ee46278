//! WHIP publishers of other projects, each with its own ways, and a viewer that sees them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::aiortc;
use crate::browser::{PATIENCE, decoded, ensure};
use crate::cluster::Watching;
use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::{Running, eventually};
use crate::server::{Server, write_file};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&ffmpeg_publishes_as_dtls_server_and_client).needs(&[Peer::FfmpegWhip]),
    Test::of(&ffmpeg_publishes_video_alone_with_a_stream_key).needs(&[Peer::FfmpegWhip]),
    Test::of(&ffmpeg_8_0_publishes_with_all_its_ways).needs(&[Peer::Ffmpeg80]),
    Test::of(&gstreamer_publishes_with_rtx_and_ulpfec).needs(&[Peer::GstreamerWhip]),
    Test::of(&pion_publishes_h264_and_opus).needs(&[Peer::PionWhip]),
    Test::of(&aiortc_publishes_vp8_and_h264).needs(&[Peer::Aiortc]),
    Test::of(&obs_publishes_and_with_three_simulcast_layers).needs(&[Peer::Datachannel]),
    Test::of(&chromium_publishes_and_chromium_watches).needs(&[Peer::Chromium]),
    Test::of(&chromium_publishes_in_each_of_its_codecs).needs(&[Peer::Chromium]),
    Test::of(&all_layers_of_chromium_are_in_the_hub_and_viewers_follow_the_best_one)
        .needs(&[Peer::Chromium]),
];

/// Runs `publisher` until it ends, while a viewer of `stream` waits for frames. Returns what the
/// publisher printed.
fn publish(
    server: &Server,
    stream: &str,
    publisher: Command,
    has_audio: bool,
) -> Result<String, Failed> {
    let mut publisher = Running::start("publisher", publisher)?;
    let result = seen(server, stream, has_audio);
    let status = publisher.wait(Duration::from_secs(120))?;
    let printed = publisher.printed();
    result.map_err(|error| format!("{error}; the publisher printed: {printed}"))?;
    if !status.success() {
        return Err(format!("the publisher ended with {status}: {printed}").into());
    }
    Ok(printed)
}

/// Waits until a viewer has seen frames of `stream` and heard its audio.
pub(crate) fn seen(server: &Server, stream: &str, has_audio: bool) -> Result<(), String> {
    server.wait_for_state(stream, "live")?;
    let watching = Watching::join(server, stream)?;
    let audio_min = if has_audio { 25 } else { 0 };
    watching.reaches(|it| it.keyframes > 0 && it.frames >= 15 && it.audio.received >= audio_min)
}

/// Returns the JSON object that a publisher printed.
fn report(printed: &str) -> Result<Value, Failed> {
    let line = printed.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| format!("no report: {printed}"))?;
    serde_json::from_str(line).map_err(|error| format!("{error}: {printed}").into())
}

fn ffmpeg_publishes_as_dtls_server_and_client() -> Result<(), Failed> {
    for dtls in ["passive", "active"] {
        let server = Server::serve(&[])?;
        let mut command = peers::aiortc("ffmpeg_whip.py")?;
        let url = server.url("/studio/whip");
        command.args([&url, "--seconds", "15", "--dtls", dtls]);
        let sent = report(&publish(&server, "studio", command, true)?)?;
        ensure(sent["video"].as_u64() >= Some(400), "all frames", &sent)?;
        ensure(sent["audio"].as_u64() >= Some(700), "all audio", &sent)?;
        // It ends its session.
        server.wait_for_state("studio", "down")?;
    }
    Ok(())
}

fn ffmpeg_publishes_video_alone_with_a_stream_key() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let mut command = peers::aiortc("ffmpeg_whip.py")?;
    let url = server.url("/whip");
    command.args([&url, "--seconds", "12", "--no-audio", "--token", "studio"]);
    publish(&server, "studio", command, false)?;
    Ok(())
}

/// FFmpeg 8.0 is the DTLS server, sends no PRIORITY in its one STUN request and no STUN afterwards,
/// and writes seven digits for constrained baseline.
fn ffmpeg_8_0_publishes_with_all_its_ways() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut copied = peers::ffmpeg_8_0()?;
    copied.args(["-nostdin", "-loglevel", "verbose", "-re", "-r", "30", "-i"]);
    copied.arg(assets.join("demo.h264"));
    copied.args(["-c", "copy", "-t", "12", "-f", "whip"]);
    copied.arg(server.url("/copied/whip"));
    let printed = publish(&server, "copied", copied, false)?;
    for line in ["profile-level-id=422001f", "a=setup:passive"] {
        ensure(printed.contains(line), line, &Value::from(&*printed))?;
    }
    server.wait_for_state("copied", "down")?;
    let mut encoded = peers::ffmpeg_8_0()?;
    encoded.args(["-nostdin", "-re", "-f", "lavfi", "-i"]);
    encoded.args(["testsrc2=size=320x180:rate=30", "-f", "lavfi", "-i"]);
    encoded.args(["sine=sample_rate=48000", "-ac", "2", "-t", "12"]);
    encoded.args(["-c:v", "libopenh264", "-b:v", "500k", "-g", "30"]);
    encoded.args(["-c:a", "libopus", "-f", "whip"]);
    encoded.arg(server.url("/encoded/whip"));
    publish(&server, "encoded", encoded, true)?;
    Ok(())
}

/// GStreamer 1.28 makes ECDSA certificates, as browsers do; the older one here is given such a
/// certificate.
fn gstreamer_publishes_with_rtx_and_ulpfec() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/tests/data");
    let read = |name: &str| std::fs::read_to_string(data.join(name));
    let both = read("localhost.pem")? + &read("localhost.key.pem")?;
    let name = format!("gstreamer-{}.pem", std::process::id());
    let certificate = write_file(&name, both.as_bytes())?;
    let mut command = peers::gstreamer_whip();
    command.arg(server.url("/studio/whip"));
    command.args(["--seconds", "12", "--certificate", &certificate]);
    let sent = report(&publish(&server, "studio", command, true)?)?;
    ensure(sent["status"] == 201, "POST", &sent)?;
    ensure(sent["delete_status"] == 200, "DELETE", &sent)?;
    let offer = sent["offer"].as_str().unwrap_or_default();
    for line in ["ulpfec/90000", "rtx/90000", "transport-wide-cc"] {
        ensure(offer.contains(line), line, &sent)?;
    }
    server.wait_for_state("studio", "down")?;
    Ok(())
}

fn pion_publishes_h264_and_opus() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut command = peers::go("whip")?;
    command.arg(format!("-url={}", server.url("/studio/whip")));
    command.arg("-video").arg(assets.join("demo.h264"));
    command.arg("-audio").arg(assets.join("demo.ogg"));
    command.arg("-seconds=12");
    let printed = publish(&server, "studio", command, true)?;
    let left = printed.lines().any(|line| line == "left 200");
    ensure(left, "DELETE", &Value::from(printed))?;
    server.wait_for_state("studio", "down")?;
    Ok(())
}

fn aiortc_publishes_vp8_and_h264() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    for codec in ["vp8", "h264"] {
        let mut command = peers::aiortc("aiortc_whip.py")?;
        let url = server.url(&format!("/{codec}/whip"));
        command.args([&url, "--seconds", "12", "--codec", codec]);
        let mut publisher = Running::start("publisher", command)?;
        server.wait_for_state(codec, "live")?;
        // It makes keyframes only when asked, and its own viewer tells whether it decodes them.
        let watched = aiortc::watch(&server.url(&format!("/{codec}/whep")), 4)?;
        let frames = watched["frames"].as_f64();
        ensure(frames >= Some(30.0), "frames", &watched)?;
        publisher.wait(Duration::from_secs(120))?;
        let sent = report(&publisher.printed())?;
        ensure(sent["delete_status"] == 200, "DELETE", &sent)?;
    }
    Ok(())
}

fn obs_publishes_and_with_three_simulcast_layers() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.h264");
    for (stream, layers) in [("plain", "1"), ("layers", "3")] {
        let mut command = peers::obs_whip()?;
        command.arg(server.url("/whip")).arg(stream).arg(&demo);
        command.args([layers, "12"]);
        let sent = report(&publish(&server, stream, command, true)?)?;
        ensure(sent["post"] == 201, "POST", &sent)?;
        ensure(sent["delete"] == 200, "DELETE", &sent)?;
        let tracks = server.stream(stream)?["tracks"].as_array().map(Vec::len);
        ensure(tracks == Some(2), "one video track and one of audio", &sent)?;
    }
    Ok(())
}

/// The publishing page of a user who writes one: camera and microphone, an offer, an answer.
const PUBLISH: &str = "
    const [url, codec] = arguments;
    window.published = (async () => {
        const media = await navigator.mediaDevices.getUserMedia({
            video: {width: 1280, height: 720, frameRate: 30}, audio: true});
        const connection = window.connection = new RTCPeerConnection();
        for (const track of media.getTracks()) {
            const sender = connection.addTransceiver(track, {direction: 'sendonly', streams: [media]});
            if (codec && track.kind === 'video') {
                const all = RTCRtpSender.getCapabilities('video').codecs;
                const first = all.filter((it) => it.mimeType.toLowerCase() === `video/${codec}`);
                if (!first.length) throw new Error('unknown codec');
                sender.setCodecPreferences([...first, ...all.filter((it) => !first.includes(it))]);
            }
        }
        await connection.setLocalDescription();
        const answer = await fetch(url, {method: 'POST', body: connection.localDescription.sdp,
            headers: {'Content-Type': 'application/sdp'}});
        window.publishStatus = answer.status;
        await connection.setRemoteDescription({type: 'answer', sdp: await answer.text()});
    })().catch((error) => { window.publishError = String(error); });
";

/// Opens a page of the server in a browser with a false camera and publishes from there.
fn chromium_publisher(server: &Server, stream: &str, codec: &str) -> Result<Browser, Failed> {
    chromium_publishes(PUBLISH, (server, stream), codec)
}

/// Opens a page of the server in a browser with a false camera and publishes from there by `script`.
fn chromium_publishes(
    script: &str,
    (server, stream): (&Server, &str),
    codec: &str,
) -> Result<Browser, Failed> {
    let flags = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
    ];
    let browser = Browser::start_with(&flags.map(str::to_owned))?;
    browser.open(&server.url("/"))?;
    let url = server.url(&format!("/{stream}/whip"));
    let script = script.replace(
        "arguments;",
        &format!("{};", Value::from(vec![url, codec.to_owned()])),
    );
    browser.run(&script)?;
    let state =
        "return window.publishError ?? (window.connection?.connectionState === 'connected')";
    let state = browser.wait_until(PATIENCE, state)?;
    ensure(state == true, "connected", &state)?;
    Ok(browser)
}

fn chromium_publishes_and_chromium_watches() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = chromium_publisher(&server, "studio", "")?;
    server.wait_for_state("studio", "live")?;
    let viewer = Browser::start()?;
    viewer.open(&server.url("/studio"))?;
    viewer.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    let before = decoded(&viewer)?;
    viewer.wait_until(PATIENCE, "return glassline.reports >= 5")?;
    let page = viewer.run("return glassline")?;
    ensure(decoded(&viewer)? > before, "it keeps decoding", &page)?;
    ensure(page["width"].as_u64() >= Some(320), "size", &page)?;
    // The estimate of the path rises with our feedback, from 300 kbit/s on.
    let estimate = "
        if (!window.asked) {
            window.asked = true;
            setInterval(async () => {
                for (const it of (await window.connection.getStats()).values())
                    if (it.availableOutgoingBitrate) window.estimate = it.availableOutgoingBitrate;
            }, 200);
        }
        return (window.estimate ?? 0) > 500000";
    publisher.wait_until(PATIENCE, estimate)?;
    // A page that closes says so by DTLS.
    publisher.run("window.connection.close()")?;
    server.wait_for_state("studio", "down")?;
    Ok(())
}

fn chromium_publishes_in_each_of_its_codecs() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    for codec in ["vp8", "vp9", "h264", "av1"] {
        let publisher = chromium_publisher(&server, codec, codec)?;
        seen(&server, codec, true)?;
        let tracks = server.stream(codec)?["tracks"].to_string().to_lowercase();
        ensure(tracks.contains(codec), "codec", &Value::from(tracks))?;
        drop(publisher);
    }
    Ok(())
}

/// The encodings of a page that sends three layers.
const ENCODINGS: &str = "streams: [media], sendEncodings: track.kind === 'video'
    ? [{rid: 'h'}, {rid: 'm', scaleResolutionDownBy: 2}, {rid: 'l', scaleResolutionDownBy: 4}] : []";

/// Turns the largest encoding of the publishing page on or off.
fn set_largest(publisher: &Browser, is_active: bool) -> Result<(), Failed> {
    let script = format!(
        "const sender = window.connection.getSenders().find((it) => it.track.kind === 'video');
         const parameters = sender.getParameters();
         parameters.encodings[0].active = {is_active};
         sender.setParameters(parameters);"
    );
    publisher.run(&script)?;
    Ok(())
}

fn all_layers_of_chromium_are_in_the_hub_and_viewers_follow_the_best_one() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let script = PUBLISH.replace("streams: [media]", ENCODINGS);
    for codec in ["vp8", "h264"] {
        let publisher = chromium_publishes(&script, (&server, codec), codec)?;
        let url = server.admin_url(&format!("/api/v1/streams/{codec}/publishing"));
        let layers = || Ok::<_, String>(http::get_json(&url)?["tracks"][0]["layers"].clone());
        eventually(PATIENCE, || {
            let told = layers()?;
            let layers = told.as_array().ok_or("no layers")?;
            let arrives = |it: &Value| it["frame_rate"].as_f64() > Some(5.0);
            let is_best = layers.first().is_some_and(|it| it["is_best"] == true);
            match layers.len() == 3 && layers.iter().all(arrives) && is_best {
                true => Ok(()),
                false => Err(told.to_string()),
            }
        })?;
        let viewer = Browser::start()?;
        viewer.open(&server.url(&format!("/{codec}")))?;
        let plays = |width: &str| {
            let shown = "document.querySelector('video').videoWidth";
            viewer.wait_until(PATIENCE, &format!("return {shown} {width}"))
        };
        plays(">= 1280")?;
        set_largest(&publisher, false)?;
        plays("=== 640")?;
        let before = decoded(&viewer)?;
        viewer.wait_until(PATIENCE, "return glassline.reports >= 5")?;
        ensure(decoded(&viewer)? > before, "it keeps decoding", &layers()?)?;
        set_largest(&publisher, true)?;
        plays(">= 1280")?;
    }
    Ok(())
}
