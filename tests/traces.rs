//! `glassline trace LOG…` with a trace of a real browser.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::ensure;
use crate::peers::{self, Peer, Test};
use crate::process::eventually;
use crate::server::run_to_end;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[Test::of(&a_call_in_chromium_becomes_tables).needs(&[Peer::Chromium])];

/// Seconds that Chromium traces from its start, within which the call begins.
const TRACED_S: u64 = 15;

/// Longest time for the trace and writing it, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// One page calls itself: a tone passes two peer connections and is played.
const CALL: &str = "
    const context = new AudioContext(), tone = context.createOscillator();
    const microphone = context.createMediaStreamDestination();
    tone.connect(microphone);
    tone.start();
    const [a, b] = [new RTCPeerConnection(), new RTCPeerConnection()];
    a.onicecandidate = (event) => b.addIceCandidate(event.candidate);
    b.onicecandidate = (event) => a.addIceCandidate(event.candidate);
    b.ontrack = (event) => {
        window.speaker = new Audio();
        speaker.srcObject = event.streams[0];
        speaker.play();
    };
    a.addTrack(microphone.stream.getAudioTracks()[0], microphone.stream);
    window.ends = [a, b];
    (async () => {
        await a.setLocalDescription();
        await b.setRemoteDescription(a.localDescription);
        await b.setLocalDescription();
        await a.setRemoteDescription(b.localDescription);
    })();";

/// Tables that a trace of both ends has.
const WANTED: [&str; 14] = [
    "capture_interval",
    "encode",
    "encode_queue",
    "encode_operation",
    "send",
    "send_enqueue",
    "send_pace",
    "send_hand_over",
    "send_socket",
    "open",
    "decode",
    "mixer",
    "resample",
    "playout_interval",
];

fn a_call_in_chromium_becomes_tables() -> Result<(), Failed> {
    let trace = peers::target_directory().join("chromium-call.json");
    // Files of an earlier run.
    let _ = std::fs::remove_file(&trace);
    let flags = [
        "--trace-startup=webrtc,disabled-by-default-webrtc".to_owned(),
        format!("--trace-startup-file={}", trace.display()),
        "--trace-startup-format=json".to_owned(),
        format!("--trace-startup-duration={TRACED_S}"),
        "--disable-features=WebRtcHideLocalIpsWithMdns".to_owned(),
    ];
    let browser = Browser::start_with(&flags)?;
    browser.open("data:text/html,<title>call</title>")?;
    browser.run(CALL)?;
    browser.wait_until(PATIENCE, "return ends[1].connectionState === 'connected'")?;
    let json = eventually(PATIENCE, || imported(&trace))?;
    let report: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure(
        report["malformed"] == 0,
        "nothing malformed",
        &report["notes"],
    )?;
    let stages = report["stages"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = stages
        .iter()
        .filter_map(|it| it["stage"].as_str())
        .collect();
    for wanted in WANTED {
        ensure(names.contains(&wanted), wanted, &report["notes"])?;
    }
    for stage in stages {
        let rows = stage["rows"].as_array().into_iter().flatten();
        let sum: u64 = rows.filter_map(|row| row[1].as_u64()).sum();
        let count = stage["count"].as_u64();
        ensure(
            count == Some(sum) && sum > 0,
            "rows sum to the count",
            stage,
        )?;
    }
    // An encoder task has 10 ms, a packet 20 ms.
    let count = |name: &str| {
        let stage = stages.iter().find(|it| it["stage"] == name);
        stage.and_then(|it| it["count"].as_u64()).unwrap_or(0)
    };
    let (tasks, packets) = (count("capture_interval"), count("send"));
    let is_half = packets > 10 && packets * 3 / 2 < tasks;
    ensure(is_half, "packets are fewer than tasks", &report["stages"])
}

/// Reads the trace's report when the whole trace is written.
fn imported(trace: &Path) -> Result<String, String> {
    let text = std::fs::read(trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    if !text.trim_ascii_end().ends_with(b"}") {
        return Err(format!("{} is not finished", trace.display()));
    }
    let path = trace.display().to_string();
    let (status, json) = run_to_end(&["trace", &path, "--json", "-", "--quiet"])?;
    match status.success() {
        true => Ok(json),
        false => Err(format!("glassline trace: {json}")),
    }
}
