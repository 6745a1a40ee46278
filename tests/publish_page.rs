//! The page that publishes, in Chromium, and the encoders that it leads to.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::{decoded, ensure};
use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::Running;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&the_test_pattern_is_seen_and_measured_from_glass_to_glass).needs(&[Peer::Chromium]),
    Test::of(&a_camera_is_published_in_the_chosen_codec).needs(&[Peer::Chromium]),
    Test::of(&a_screen_is_published_until_its_sharing_ends).needs(&[Peer::Chromium]),
    Test::of(&without_https_the_page_says_why_there_is_no_camera).needs(&[Peer::Chromium]),
    Test::of(&a_second_publisher_is_told_and_may_take_over).needs(&[Peer::Chromium]),
    Test::of(&the_key_is_asked_for_and_stays_out_of_the_address).needs(&[Peer::Chromium]),
    Test::of(&publishing_goes_on_after_a_restart_of_ice_and_of_the_server).needs(&[Peer::Chromium]),
    Test::of(&lines_to_copy_publish_as_they_are).needs(&[
        Peer::Chromium,
        Peer::Ffmpeg,
        Peer::RtspServer,
    ]),
    Test::of(&whips_line_leads_ffmpeg_here).needs(&[Peer::Chromium, Peer::FfmpegWhip]),
    Test::of(&b_frames_and_long_keyframe_intervals_are_named_with_their_settings)
        .needs(&[Peer::Chromium, Peer::Ffmpeg]),
];

/// Long, for a browser that encodes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// Opens the page of `stream` in a browser with a false camera, and chooses a small picture from
/// `source`.
pub(crate) fn page_of(server: &Server, stream: &str, source: &str) -> Result<Browser, Failed> {
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;
    browser.open(&server.url(&format!("/{stream}/publish")))?;
    browser.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    choose(&browser, source)?;
    Ok(browser)
}

fn choose(browser: &Browser, source: &str) -> Result<(), Failed> {
    browser.run(&format!(
        "document.querySelector('input[name=source][value={source}]').click();
         document.getElementById('size').value = '640x360';
         document.getElementById('rate').value = '15';
         document.getElementById('bitrate').value = '0.5';"
    ))?;
    Ok(())
}

const START: &str = "document.getElementById('start').click()";

/// Starts publishing, and waits until the server has frames.
pub(crate) fn start(browser: &Browser) -> Result<(), Failed> {
    browser.run(START)?;
    is_publishing(browser)
}

fn is_publishing(browser: &Browser) -> Result<(), Failed> {
    let arrives = "return publishing.state === 'live' && publishing.answer?.state === 'live'
        && publishing.arrives?.fps > 0";
    browser.wait_until(LONG, arrives)?;
    Ok(())
}

fn wait_for_page_state(browser: &Browser, state: &str) -> Result<Value, Failed> {
    let script = format!("return publishing.state === '{state}'");
    browser.wait_until(LONG, &script)?;
    Ok(browser.run("return publishing")?)
}

fn the_test_pattern_is_seen_and_measured_from_glass_to_glass() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = page_of(&server, "studio", "test")?;
    start(&publisher)?;
    let viewer = Browser::start()?;
    viewer.open(&server.url("/studio"))?;
    viewer.wait_until(LONG, "return glassline.state === 'live'")?;
    // Frames are listed one by one while somebody looks at them.
    viewer.run("document.getElementById('details').click()")?;
    // The code in each frame is the server's time: it was drawn, sent, shown and read. A busy browser
    // captures some frames long after their drawing.
    let page = viewer.wait_until(
        LONG,
        "return glassline.glassToGlass?.count >= 5 && glassline.accounted?.within > 0
            && glassline.stages.some((it) => it.stage === 'capture' && it.count > 0)
            && glassline",
    )?;
    let stages = page["stages"].as_array().into_iter().flatten();
    let stages: Vec<_> = stages.filter_map(|it| it["stage"].as_str()).collect();
    let way = [
        "capture",
        "encode",
        "uplink",
        "ingest",
        "hub",
        "pace",
        "send",
        "network",
        "jitter_buffer",
        "decode",
        "render",
    ];
    ensure(stages == way, "stages from the capture on", &page)?;
    // The publishing page has the same waterfall up to this viewer's screen.
    publisher.wait_until(
        LONG,
        "return publishing.answer.latency.glass_to_glass?.count > 0
            && publishing.answer.viewers === 1",
    )?;
    publisher.screenshot("publish")?;
    let page = publisher.run("return publishing")?;
    let video = &page["answer"]["tracks"][0];
    ensure(
        video["width"] == 640 && video["height"] == 360,
        "size",
        &page,
    )?;
    let lines = &page["answer"]["whip"]["lines"];
    ensure(lines[0]["packets"].as_u64() > Some(20), "packets", &page)?;
    ensure(
        page["answer"]["source"]["protocol"] == "whip",
        "source",
        &page,
    )?;
    let listed = http::get_json(&server.admin_url("/api/v1/webrtc/publishers"))?;
    let listed = &listed["publishers"][0];
    ensure(listed["stream"] == "studio", "listed", listed)?;
    publisher.run(START)?;
    server.wait_for_state("studio", "down")?;
    wait_for_page_state(&publisher, "idle")?;
    Ok(())
}

fn a_camera_is_published_in_the_chosen_codec() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    // The start page leads to the publishing page.
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;
    browser.open(&server.url("/"))?;
    browser.wait_until(
        LONG,
        "return !document.getElementById('publish-form').hidden",
    )?;
    browser.run(
        "document.getElementById('publish-name').value = 'cam';
         document.querySelector('#publish-form button').click()",
    )?;
    browser.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    choose(&browser, "camera")?;
    let codecs =
        "return [...document.getElementById('codec').options].some((it) => it.value === 'VP8')";
    browser.wait_until(LONG, codecs)?;
    browser.run("document.getElementById('codec').value = 'VP8'")?;
    start(&browser)?;
    let tracks = server.stream("cam")?["tracks"].clone();
    ensure(tracks[0]["codec"] == "VP8", "codec", &tracks)?;
    ensure(tracks[1]["codec"] == "opus", "the microphone", &tracks)?;
    let named = "return document.getElementById('camera').options.length > 1";
    browser.wait_until(LONG, named)?;
    let viewer = Browser::start()?;
    viewer.open(&server.url("/cam"))?;
    viewer.wait_until(LONG, "return glassline.state === 'live'")?;
    let before = decoded(&viewer)?;
    viewer.wait_until(
        LONG,
        &format!("return glassline.framesDecoded > {}", before + 20),
    )?;
    // The false camera is a colored disc on green: not a black picture.
    let colors = "
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [32, 18];
        const context = canvas.getContext('2d');
        context.drawImage(document.getElementById('video'), 0, 0, 32, 18);
        return Math.max(...context.getImageData(0, 0, 32, 18).data.filter((_, i) => i % 4 < 3))";
    let brightest = viewer.run(colors)?;
    ensure(brightest.as_f64() > Some(60.0), "a picture", &brightest)?;
    // The page is closed: the stream ends by itself.
    browser.open("about:blank")?;
    server.wait_for_state("cam", "down")?;
    // The player leads back to the publishing page.
    viewer.open(&server.url("/nothing"))?;
    let link = "const it = document.getElementById('publish');
        return !it.hidden && new URL(it.href).pathname === '/nothing/publish'";
    viewer.wait_until(LONG, link)?;
    Ok(())
}

fn a_screen_is_published_until_its_sharing_ends() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let browser = page_of(&server, "studio", "screen")?;
    // Browsers share a screen after a user's click only.
    browser.click("#start")?;
    is_publishing(&browser)?;
    let track = "const [track] = document.getElementById('preview').srcObject.getVideoTracks();";
    let shared = browser.run(&format!(
        "{track} return {{surface: track.getSettings().displaySurface, hint: track.contentHint}}"
    ))?;
    ensure(shared["surface"].is_string(), "a shared surface", &shared)?;
    ensure(shared["hint"] == "detail", "text stays sharp", &shared)?;
    // The user ends it by the browser's own button.
    browser.run(&format!(
        "{track} track.stop(); track.dispatchEvent(new Event('ended'))"
    ))?;
    let ended = wait_for_page_state(&browser, "idle")?;
    let text = "return document.getElementById('message').textContent";
    let shown = browser.run(text)?;
    let named = shown.as_str().is_some_and(|it| it.contains("source ended"));
    ensure(named, "the page says that the source ended", &ended)?;
    server.wait_for_state("studio", "down")?;
    Ok(())
}

fn without_https_the_page_says_why_there_is_no_camera() -> Result<(), Failed> {
    let server = Server::configured("http: {hosts: [studio.test]}", &[])?;
    let browser = Browser::start_with(&[
        "--use-fake-device-for-media-stream".to_owned(),
        "--host-resolver-rules=MAP studio.test 127.0.0.1".to_owned(),
    ])?;
    let url = server.url("/studio/publish");
    browser.open(&url.replace("127.0.0.1", "studio.test"))?;
    browser.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    let secure = browser.run("return isSecureContext")?;
    ensure(secure == false, "the browser trusts only HTTPS", &secure)?;
    let notice = "const it = document.getElementById('insecure');
        return it.checkVisibility() && it.textContent";
    let shown = browser.wait_until(LONG, notice)?;
    let text = shown.as_str().unwrap_or_default();
    for part in ["https://", "localhost", "test picture"] {
        ensure(text.contains(part), part, &shown)?;
    }
    browser.screenshot("publish-insecure")?;
    // A start all the same is refused with the same words.
    choose(&browser, "camera")?;
    browser.click("#start")?;
    let refused = "const it = document.getElementById('message');
        return it.checkVisibility() && it.textContent.includes('HTTPS') && it.textContent";
    browser.wait_until(LONG, refused)?;
    // The test picture works without HTTPS.
    choose(&browser, "test")?;
    start(&browser)
}

fn a_second_publisher_is_told_and_may_take_over() -> Result<(), Failed> {
    for _ in 0..5 {
        if second_publisher_is_told_and_takes_over()? {
            return Ok(());
        }
    }
    Err("the machine stalls all the time".into())
}

/// Returns false if the first publisher was silent for so long that it made way by itself.
fn second_publisher_is_told_and_takes_over() -> Result<bool, Failed> {
    let server = Server::serve(&[])?;
    let first = page_of(&server, "studio", "test")?;
    start(&first)?;
    let second = page_of(&server, "studio", "test")?;
    second.wait_until(
        LONG,
        "return !document.getElementById('source-note').hidden
            && document.getElementById('source-note').textContent.includes('WHIP')",
    )?;
    second.run(START)?;
    let decided = "return ['taken', 'live'].includes(publishing.state) && publishing.state";
    let decided = second.wait_until(LONG, decided)?;
    if decided == "live" || first.run("return publishing.sessions")? != 1 {
        return Ok(false);
    }
    second.run("document.getElementById('act').click()")?;
    is_publishing(&second)?;
    let ended = wait_for_page_state(&first, "taken")?;
    let name = "the first does not come back by itself";
    ensure(ended["sessions"] == 1, name, &ended)?;
    Ok(true)
}

fn the_key_is_asked_for_and_stays_out_of_the_address() -> Result<(), Failed> {
    let server = Server::configured("auth: {publish_token: sesame-opens-it}", &[])?;
    let browser = page_of(&server, "studio", "test")?;
    browser.run(START)?;
    let refused = wait_for_page_state(&browser, "refused")?;
    ensure(refused["keyAsked"] == true, "it asks", &refused)?;
    let type_key = |key: &str| {
        browser.run(&format!(
            "const key = document.getElementById('key');
             key.value = '{key}';
             key.dispatchEvent(new Event('input'));
             publishing.state = 'typed'; {START}"
        ))
    };
    type_key("wrong")?;
    let refused = wait_for_page_state(&browser, "refused")?;
    ensure(
        refused["sessions"] == 0,
        "a wrong key opens nothing",
        &refused,
    )?;
    type_key("sesame-opens-it")?;
    is_publishing(&browser)?;
    let address = browser.run(
        "return JSON.stringify([location.href, ...performance.getEntriesByType('resource').map((it) => it.name)])
            + document.getElementById('lines').textContent",
    )?;
    let text = address.as_str().unwrap_or_default();
    ensure(
        !text.contains("sesame"),
        "the key is in no address",
        &address,
    )?;
    ensure(
        text.contains("KEY"),
        "the lines have a place for it",
        &address,
    )
}

fn publishing_goes_on_after_a_restart_of_ice_and_of_the_server() -> Result<(), Failed> {
    let mut server = Server::serve(&[])?;
    let browser = page_of(&server, "studio", "test")?;
    start(&browser)?;
    browser.run("restartIce()")?;
    let packets = "return publishing.answer.whip.lines[0].packets";
    browser.wait_until(LONG, "return publishedRestarts() >= 1")?;
    let before = browser.run(packets)?.as_u64().unwrap_or(0);
    let more = format!("{packets} > {}", before + 30);
    browser.wait_until(LONG, &more)?;
    let page = browser.run("return publishing")?;
    ensure(page["sessions"] == 1, "the same session", &page)?;
    server.kill_and_start_again()?;
    browser.wait_until(LONG, "return publishing.sessions >= 2")?;
    is_publishing(&browser)
}

/// The lines of a program on the page of `stream` that contain `part`.
fn line_of(server: &Server, stream: &str, part: &str) -> Result<String, Failed> {
    let browser = Browser::start()?;
    browser.open(&server.url(&format!("/{stream}/publish")))?;
    let script = format!(
        "return [...document.querySelectorAll('#lines pre')].map((it) => it.textContent)
            .find((it) => it.includes('{part}'))"
    );
    let line = browser.wait_until(LONG, &script)?;
    Ok(line.as_str().unwrap_or_default().to_owned())
}

/// Runs a line as a shell does. The program is the shell's own process, which the test ends.
fn run_line(line: &str) -> Result<Running, Failed> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {line}")]);
    Ok(Running::start("line", shell)?)
}

fn lines_to_copy_publish_as_they_are() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    for (stream, part) in [("by-ffmpeg", "-f rtsp"), ("by-gstreamer", "rtspclientsink")] {
        let line = line_of(&server, stream, part)?;
        let _publisher = run_line(&line)?;
        let live = server.wait_for_state(stream, "live");
        live.map_err(|error| format!("{error}\n{line}"))?;
        let url = server.url(&format!("/api/v1/streams/{stream}/publishing"));
        let told = http::get_json(&url)?;
        ensure(told["source"]["protocol"] == "rtsp", "source", &told)?;
        ensure(told["tracks"][0]["codec"] == "H264", "codec", &told)?;
        let text = told["advice"].to_string();
        ensure(!text.contains("b_frames"), "no B-frames", &told)?;
    }
    Ok(())
}

/// No FFmpeg with WHIP is packaged for the shell: its muxer gets the URL of the line.
fn whips_line_leads_ffmpeg_here() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let line = line_of(&server, "studio", "-f whip")?;
    let url = line.rsplit(' ').next().unwrap_or_default();
    let mut command = peers::aiortc("ffmpeg_whip.py")?;
    command.args([url, "--seconds", "10", "--dtls", "active"]);
    let _publisher = Running::start("publisher", command)?;
    let live = server.wait_for_state("studio", "live");
    live.map_err(|error| format!("{error}\n{line}"))?;
    Ok(())
}

fn b_frames_and_long_keyframe_intervals_are_named_with_their_settings() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let line = format!(
        "ffmpeg -loglevel error -re -f lavfi -i testsrc2=size=320x180:rate=25 \
         -c:v libx264 -preset veryfast -bf 2 -g 1000 -pix_fmt yuv420p -f rtsp -rtsp_transport tcp {}",
        server.rtsp_url("studio")
    );
    let _publisher = run_line(&line)?;
    let live = server.wait_for_state("studio", "live");
    live?;
    let browser = Browser::start()?;
    browser.open(&server.url("/studio/publish"))?;
    for (problem, setting) in [("b_frames", "-bf 0"), ("keyframe_interval", "-g 50")] {
        let script = format!(
            "return document.querySelector('#advice:not([hidden]) [data-problem={problem}]')
                ?.textContent.includes('{setting}')"
        );
        browser.wait_until(LONG, &script)?;
    }
    browser.screenshot("publish-advice")?;
    Ok(())
}
