//! Delay from one browser to another: Chromium publishes a test video and Chromium watches it.
//!
//! Once with our own pages, which tell where the time goes, and then with the same script for our
//! server and for MediaMTX, in turn. The script reads the calendar time that is drawn into each frame;
//! both browsers have this machine's calendar.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http;
use crate::machine;
use crate::peers;
use crate::process::{Running, eventually};
use crate::report::{self, Table, figure, quantile};
use crate::server::{Server, free_ports};
use crate::webdriver::Browser;

/// Number of pairs of browsers for each row.
const PAIRS: usize = 5;

/// Time for which a pair is measured; the page's own window is ten seconds.
const SECONDS: u64 = 12;

const PATIENCE: Duration = Duration::from_secs(60);

const STAGES: [&str; 11] = [
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

pub(crate) fn run() -> Result<(), String> {
    if let Err(reason) = peers::chromium().and(peers::chromedriver()) {
        println!("skipped: {reason}; `cargo xtask test` installs it");
        return Ok(());
    }
    let machine = machine::describe();
    let chromium = peers::chromium()?;
    let version = machine::output(&chromium.display().to_string(), &["--version"]);
    let server = Server::empty()?;
    let mediamtx = match MediaMtx::start() {
        Ok(mediamtx) => Some(mediamtx),
        Err(reason) => {
            println!("without MediaMTX: {reason}");
            None
        }
    };
    let (mut pages, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=PAIRS {
        pages.push(with_our_pages(&server, &format!("page{number}"))?);
        let path = format!("script{number}");
        let urls = ["whip", "whep"].map(|way| server.url(&format!("/{path}/{way}")));
        ours.push(with_script(&server, &urls)?);
        if let Some(mediamtx) = &mediamtx {
            let urls = ["whip", "whep"].map(|way| mediamtx.url(&path, way));
            theirs.push(with_script(&server, &urls)?);
        }
        let shown = |of: &[Value]| figure(of.last().and_then(|it| it["p50"].as_f64()), 1);
        println!(
            "{number}: glass to glass p50: our pages {} ms, script {} ms, MediaMTX {} ms",
            shown(&pages),
            shown(&ours),
            shown(&theirs)
        );
    }
    print(&pages, &ours, &theirs);
    println!(
        "{}, headless, no GPU; 1280x720 at 30 frames/s, H.264, 3 Mbit/s; median of {PAIRS} pairs",
        version.as_deref().unwrap_or("Chromium")
    );
    let results = json!({
        "browser": version,
        "summary": {
            "our_pages": medians(&pages),
            "script_glassline": medians(&ours),
            "script_mediamtx": medians(&theirs),
        },
        "our_pages": pages,
        "script_glassline": ours,
        "script_mediamtx": theirs,
    });
    report::write("publish", &machine, &results)
}

/// Medians of all pairs, in ms; `null` where there is no pair.
fn medians(pairs: &[Value]) -> Value {
    let of = |name: &str| {
        let values = pairs.iter().filter_map(|pair| pair[name].as_f64());
        quantile(&values.collect::<Vec<_>>(), 0.5)
    };
    json!({"p50": of("p50"), "p95": of("p95")})
}

fn print(pages: &[Value], ours: &[Value], theirs: &[Value]) {
    let of = |pairs: &[Value], pointer: &str| {
        let values = pairs.iter().filter_map(|it| it.pointer(pointer)?.as_f64());
        quantile(&values.collect::<Vec<_>>(), 0.5)
    };
    let mut table = Table::new(&["glass to glass", "p50 ms", "p95 ms"]);
    for (name, pairs) in [
        ("our pages", pages),
        ("one script, Glassline", ours),
        ("one script, MediaMTX", theirs),
    ] {
        let figures = ["/p50", "/p95"].map(|it| figure(of(pairs, it), 1));
        table.row([&[name.to_owned()], &figures[..]].concat());
    }
    table.print();
    let mut table = Table::new(&["stage, our pages", "p50 ms"]);
    for stage in STAGES {
        let pointer = format!("/stages/{stage}");
        table.row(vec![stage.to_owned(), figure(of(pages, &pointer), 2)]);
    }
    table.row(vec!["error".to_owned(), figure(of(pages, "/error"), 1)]);
    table.print();
}

/// One pair of our own pages.
fn with_our_pages(server: &Server, stream: &str) -> Result<Value, String> {
    let publisher = Browser::start()?;
    publisher.open(&server.url(&format!("/{stream}/publish")))?;
    publisher.wait_until(PATIENCE, "return window.publishing?.state === 'idle'")?;
    publisher.run(
        "document.querySelector('input[name=source][value=test]').click();
         document.getElementById('codec').value = 'H264';
         document.getElementById('start').click()",
    )?;
    let arrives = "return publishing.state === 'live' && publishing.arrives?.fps > 20";
    publisher.wait_until(PATIENCE, arrives)?;
    let viewer = Browser::start()?;
    viewer.open(&server.url(&format!("/{stream}")))?;
    // The first frames of a session are old on purpose: the window must have left them behind.
    let full = format!(
        "if (!(glassline.glassToGlass?.count > 0)) return false;
         window.since ??= performance.now();
         return performance.now() - window.since > {} && glassline",
        1000 * SECONDS
    );
    let page = viewer.wait_until(PATIENCE, &full)?;
    let stages: serde_json::Map<String, Value> = page["stages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|stage| Some((stage["stage"].as_str()?.to_owned(), stage["p50_ms"].clone())))
        .collect();
    let glass = &page["glassToGlass"];
    Ok(json!({
        "p50": glass["p50_ms"],
        "p95": glass["p95_ms"],
        "error": glass["error_ms"],
        "count": glass["count"],
        "accounted": page["accounted"],
        "stages": stages,
        "fps": page["fps"],
    }))
}

/// Publishes the test video of our page, with the calendar in place of the server's clock.
const PUBLISH: &str = "
    (async () => {
        const { TestPicture } = await import('/-/pattern.js');
        const picture = window.picture = new TestPicture({width: 1280, height: 720, frameRate: 30,
            name: 'bench', tone: false, serverMs: () => performance.timeOrigin + performance.now()});
        const pc = window.pc = new RTCPeerConnection({bundlePolicy: 'max-bundle'});
        const [track] = picture.stream.getVideoTracks();
        track.contentHint = 'motion';
        const line = pc.addTransceiver(track, {direction: 'sendonly', streams: [picture.stream],
            sendEncodings: [{maxBitrate: 3e6, maxFramerate: 30}]});
        const all = RTCRtpSender.getCapabilities('video').codecs;
        const is = (it) => it.mimeType === 'video/H264' && /profile-level-id=42e0/.test(it.sdpFmtpLine)
            && /packetization-mode=1/.test(it.sdpFmtpLine);
        line.setCodecPreferences([...all.filter(is), ...all.filter((it) => it.mimeType === 'video/rtx')]);
        await pc.setLocalDescription();
        await gathered(pc);
        window.offer = pc.localDescription.sdp;
    })().catch((error) => { window.failure = String(error); });
";

/// Reads the time in each frame when it is presented.
const WATCH: &str = "
    (async () => {
        const { FrameCodeReader } = await import('/-/framecode.js');
        const reader = new FrameCodeReader();
        const pc = window.pc = new RTCPeerConnection({bundlePolicy: 'max-bundle'});
        const { receiver } = pc.addTransceiver('video', {direction: 'recvonly'});
        receiver.jitterBufferTarget = 0;
        const video = document.createElement('video');
        Object.assign(video, {muted: true, autoplay: true, srcObject: new MediaStream([receiver.track])});
        document.body.prepend(video);
        window.delays = [];
        const next = (_, metadata) => {
            video.requestVideoFrameCallback(next);
            const shown = performance.timeOrigin + metadata.presentationTime;
            reader.read(video, metadata).then((code) => {
                if (code === null) return;
                const ms = (((shown - code) % 65536) + 65536) % 65536;
                window.delays.push([performance.now(), ms > 60000 ? ms - 65536 : ms]);
            });
        };
        video.requestVideoFrameCallback(next);
        await pc.setLocalDescription();
        await gathered(pc);
        window.offer = pc.localDescription.sdp;
    })().catch((error) => { window.failure = String(error); });
";

/// Waits for the browser's candidates, because one server may want them in the offer.
const GATHERED: &str = "
    window.gathered = (pc) => new Promise((done) => {
        if (pc.iceGatheringState === 'complete') return done();
        pc.addEventListener('icegatheringstatechange', () => pc.iceGatheringState === 'complete' && done());
        setTimeout(done, 2000);
        return undefined;
    });
";

/// One pair of the script, which publishes and watches by the two `urls`.
fn with_script(server: &Server, [whip, whep]: &[String; 2]) -> Result<Value, String> {
    let publisher = dialled(server, PUBLISH, whip)?;
    let connected = "return window.pc.connectionState === 'connected'";
    publisher.wait_until(PATIENCE, connected)?;
    // A stream is there once its first keyframe is.
    let viewer = eventually(PATIENCE, || dialled(server, WATCH, whep))?;
    let full = format!(
        "window.begun ??= window.delays[0]?.[0];
         return window.begun && performance.now() - window.begun > {} && window.delays
            .filter(([at]) => at > performance.now() - 10000).map(([, ms]) => ms)",
        1000 * SECONDS
    );
    let delays = viewer.wait_until(PATIENCE, &full)?;
    let delays = delays.as_array().into_iter().flatten();
    let delays: Vec<f64> = delays.filter_map(Value::as_f64).collect();
    Ok(json!({
        "p50": quantile(&delays, 0.5),
        "p95": quantile(&delays, 0.95),
        "count": delays.len(),
    }))
}

/// Runs `script` in a page of our server, and posts its offer to `url`.
fn dialled(server: &Server, script: &str, url: &str) -> Result<Browser, String> {
    let browser = Browser::start()?;
    browser.open(&server.url("/call"))?;
    browser.run(&format!("{GATHERED}{script}"))?;
    let offer = browser.wait_until(PATIENCE, "return window.failure ?? window.offer")?;
    let offer = offer.as_str().unwrap_or_default();
    if !offer.starts_with("v=") {
        return Err(format!("no offer: {offer}"));
    }
    let kind = [("Content-Type", "application/sdp")];
    let answer = http::request("POST", url, &kind, offer)?;
    if answer.status != 201 {
        return Err(format!("{url}: {} {}", answer.status, answer.body));
    }
    let answer = json!({"type": "answer", "sdp": answer.body});
    browser.run(&format!(
        "window.pc.setRemoteDescription({answer}).catch((error) => {{ window.failure = String(error); }})"
    ))?;
    Ok(browser)
}

/// MediaMTX, serving WHIP and WHEP. Dropping it ends it.
struct MediaMtx {
    http: u16,
    _running: Running,
}

impl MediaMtx {
    /// Starts the program that `cargo xtask bench` names, or the one on the PATH.
    fn start() -> Result<Self, String> {
        let program = std::env::var_os("MEDIAMTX").map_or("mediamtx".into(), PathBuf::from);
        let [http, media, _] = free_ports().map_err(|error| format!("no port: {error}"))?;
        let path = report::folder()?.join("mediamtx.yml");
        let configuration = format!(
            "logLevel: warn\nrtsp: no\nrtmp: no\nhls: no\nsrt: no\n\
             webrtcAddress: 127.0.0.1:{http}\nwebrtcLocalUDPAddress: 127.0.0.1:{media}\n\
             webrtcIPsFromInterfaces: no\nwebrtcAdditionalHosts: [127.0.0.1]\n\
             paths:\n  all_others:\n"
        );
        fs::write(&path, configuration).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = Command::new(&program);
        // The program writes certificates into its working directory.
        command.arg(&path).current_dir(report::folder()?);
        let running = Running::start("mediamtx", command)
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mediamtx = Self {
            http,
            _running: running,
        };
        let answers = || http::request("GET", &mediamtx.url("none", "whep"), &[], "");
        eventually(Duration::from_secs(20), answers)?;
        Ok(mediamtx)
    }

    fn url(&self, path: &str, way: &str) -> String {
        format!("http://127.0.0.1:{}/{path}/{way}", self.http)
    }
}
