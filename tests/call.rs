//! `glassline call`: two processes, and a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_lab::call::Marks;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::peers::{Peer, Test};
use crate::process::Running;
use crate::server::{Server, glassline, unique, write_file};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&two_processes_hear_each_other),
    Test::of(&two_processes_account_for_the_same_frames_alike).alone(),
    Test::of(&who_calls_nobody_or_a_busy_end_is_told),
    Test::of(&a_stream_of_a_server_is_heard),
    Test::of(&chromium_and_the_command_line_hear_each_other).needs(&[Peer::Chromium]),
];

/// Long enough for two handshakes and some seconds, in a debug build.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const RATE: u32 = 48_000;

/// Flags that save processor time, for debug builds.
pub(crate) const LIGHT: [&str; 3] = ["--no-aec", "--no-ns", "--no-agc"];

/// A `call listen` process on a free port.
struct Listening {
    running: Running,
    url: String,
}

impl Listening {
    fn start(flags: &[&str]) -> Result<Self, String> {
        let mut arguments = vec!["listen", "--listen", "127.0.0.1:0", "--once"];
        arguments.extend(LIGHT);
        arguments.extend(flags);
        let running = Running::start("call listen", silent_call(&arguments))?;
        let url = running.wait_for_line(PATIENCE, |line| {
            let is_url = line.starts_with("http://") && line.ends_with("/call");
            is_url.then(|| line.to_owned())
        })?;
        Ok(Self { running, url })
    }
}

/// Writes a WAV file with chirps, in 16 bits.
pub(crate) fn marks_file(name: &str, marks: Marks, time: Duration) -> Result<String, String> {
    let samples = marks.signal(RATE, time);
    let data_bytes = u32::try_from(2 * samples.len()).map_err(|it| it.to_string())?;
    let mut bytes = Vec::with_capacity(44 + 2 * samples.len());
    bytes.extend(b"RIFF");
    bytes.extend((36 + data_bytes).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(RATE.to_le_bytes());
    bytes.extend((2 * RATE).to_le_bytes());
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(16u16.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend(data_bytes.to_le_bytes());
    for sample in samples {
        bytes.extend(((sample * 32_767.0) as i16).to_le_bytes());
    }
    write_file(&unique(name), &bytes)
}

/// Samples of a WAV file that `call` wrote.
pub(crate) fn heard(path: &Path) -> Result<Vec<f32>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let at = bytes.windows(4).position(|it| it == b"data");
    let at = at.ok_or_else(|| format!("{}: no samples", path.display()))?;
    let samples = bytes[at + 8..].as_chunks::<2>().0.iter();
    Ok(samples
        .map(|it| f32::from(i16::from_le_bytes(*it)) / 32_768.0)
        .collect())
}

/// Command for `glassline call` without the sound devices that a build may support.
pub(crate) fn silent_call(arguments: &[&str]) -> Command {
    glassline(&[&["call", "--silent"], arguments].concat())
}

/// Number of chirps that are found in `samples`, at any delay, and number of all chirps.
fn found(marks: Marks, samples: &[f32], rate: u32) -> (usize, usize) {
    let anywhere = marks.every + Duration::from_millis(20);
    let all = marks.find(samples, rate, 0.0, anywhere);
    let found = all.iter().filter(|(_, delay)| delay.is_some()).count();
    (found, all.len())
}

pub(crate) fn ensure_found(
    what: &str,
    marks: Marks,
    samples: &[f32],
    rate: u32,
) -> Result<(), Failed> {
    let (found, all) = found(marks, samples, rate);
    println!("{what}: {found} of {all} chirps");
    // A busy machine calls devices late, so that some chirps are damaged.
    match found >= 3 {
        true => Ok(()),
        false => Err(format!("{what}: {found} of {all} chirps").into()),
    }
}

pub(crate) const OURS: Marks = Marks {
    first: Duration::from_millis(500),
    every: Duration::from_micros(1_003_700),
};
pub(crate) const THEIRS: Marks = Marks {
    first: Duration::from_millis(900),
    every: Duration::from_micros(1_103_700),
};

pub(crate) fn out(name: &str) -> Result<(String, PathBuf), String> {
    let path = write_file(&unique(name), b"")?;
    Ok((path.clone(), PathBuf::from(path)))
}

fn two_processes_hear_each_other() -> Result<(), Failed> {
    let (ours, theirs) = (
        marks_file("ours.wav", OURS, Duration::from_secs(20))?,
        marks_file("theirs.wav", THEIRS, Duration::from_secs(20))?,
    );
    let (near, near_path) = out("near.wav")?;
    let (far, far_path) = out("far.wav")?;
    let mut listening =
        Listening::start(&["--wav-in", &theirs, "--wav-out", &far, "--period", "1024"])?;
    let arguments = [
        "call",
        &listening.url,
        "--wav-in",
        &ours,
        "--wav-out",
        &near,
        "--time",
        "7s",
        "--red",
        "--dtx",
        "--fec",
        "--drift",
        "100",
    ];
    let arguments = [&arguments[..], &LIGHT].concat();
    let mut calling = Running::start("call", glassline(&arguments))?;
    let status = calling.wait(PATIENCE)?;
    let printed = calling.printed();
    if !status.success() || !printed.contains("connected to 127.0.0.1") {
        return Err(printed.into());
    }
    let status = listening.running.wait(PATIENCE)?;
    let printed = listening.running.printed();
    if !status.success() || !printed.contains("the other end hung up") {
        return Err(printed.into());
    }
    ensure_found("the called end", OURS, &heard(&far_path)?, RATE)?;
    ensure_found("the calling end", THEIRS, &heard(&near_path)?, RATE)
}

/// Each end joins records of both directions on its own clock. The sent audio of one end is the
/// received audio of the other: where their error ranges do not overlap, one of the ranges is
/// wrong.
fn two_processes_account_for_the_same_frames_alike() -> Result<(), Failed> {
    let (ours, theirs) = (
        marks_file("said.wav", OURS, Duration::from_secs(20))?,
        marks_file("heard.wav", THEIRS, Duration::from_secs(20))?,
    );
    let (near, near_path) = out("near.json")?;
    let (far, far_path) = out("far.json")?;
    let (csv, csv_path) = out("near.csv")?;
    let (svg, svg_path) = out("near.svg")?;
    let flags = [
        "--wav-in", &theirs, "--json", &far, "--period", "480", "--red",
    ];
    let mut listening = Listening::start(&flags)?;
    let arguments = [
        "call",
        &listening.url,
        "--silent",
        "--wav-in",
        &ours,
        "--time",
        "9s",
        "--red",
        "--period",
        "480",
        "--report",
        "--json",
        &near,
        "--csv",
        &csv,
        "--svg",
        &svg,
    ];
    let arguments = [&arguments[..], &LIGHT].concat();
    let mut calling = Running::start("call", glassline(&arguments))?;
    let status = calling.wait(PATIENCE)?;
    let printed = calling.printed();
    for wanted in [
        "Audio sent from here to ",
        "Audio received here from ",
        "Network, ms (network)",
        "|Error, ms           |",
        "note: the other end's clock: known to ± ",
        " redundant, p50 ",
    ] {
        if !status.success() || !printed.contains(wanted) {
            return Err(format!("no {wanted:?} in {printed}").into());
        }
    }
    let status = listening.running.wait(PATIENCE)?;
    if !status.success() {
        return Err(listening.running.printed().into());
    }
    let read = |path: &Path| -> Result<Value, Failed> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    };
    let (near, far) = (read(&near_path)?, read(&far_path)?);
    for (said, heard) in [(&near, &far["back"]), (&far, &near["back"])] {
        let directions = [&said["direction"], &heard["direction"]];
        ensure(directions == ["said", "heard"], "directions", directions[0])?;
        alike(said, heard)?;
    }
    let csv = std::fs::read_to_string(csv_path)?;
    let ends = |end: &str| {
        csv.lines()
            .any(|it| it.starts_with("network,") && it.ends_with(end))
    };
    ensure(
        ends(",said") && ends(",heard"),
        "both in the CSV",
        &Value::Null,
    )?;
    let svg = std::fs::read_to_string(svg_path)?;
    let drawn = svg.matches("Mean delays of a frame").count();
    ensure(drawn == 2, "both in the chart", &drawn.into())
}

/// Frames that both ends have joined must have the same delays at both, and their stages must add
/// up to the whole.
fn alike(said: &Value, heard: &Value) -> Result<(), Failed> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let frames = |report: &Value| report["frames"].as_array().cloned().unwrap_or_default();
    let theirs = frames(heard);
    let mut compared = 0;
    for frame in frames(said) {
        let stages = frame["stages_ms"].as_object().cloned().unwrap_or_default();
        let sum: f64 = stages.values().map(number).sum();
        let (whole, error) = (
            number(&frame["mouth_to_ear_ms"]),
            number(&frame["error_ms"]),
        );
        ensure(
            (sum - whole).abs() <= error,
            "the stages are the whole",
            &frame,
        )?;
        let same = theirs
            .iter()
            .find(|it| it["timestamp"] == frame["timestamp"]);
        let Some(same) = same else { continue };
        let both = error + number(&same["error_ms"]);
        let off = [
            whole - number(&same["mouth_to_ear_ms"]),
            number(&stages["network"]) - number(&same["stages_ms"]["network"]),
        ];
        let is_alike = off.iter().all(|off| off.abs() <= both);
        ensure(is_alike, "the bars meet", &frame)?;
        compared += 1;
    }
    println!("{compared} frames alike");
    ensure(compared >= 50, "frames that both know", &compared.into())
}

fn who_calls_nobody_or_a_busy_end_is_told() -> Result<(), Failed> {
    let listening = Listening::start(&[])?;
    let flags = [&listening.url, "--time", "30s"];
    let first = Running::start("call", silent_call(&flags))?;
    first.wait_for_line(PATIENCE, |line| line.starts_with("connected").then_some(()))?;
    let mut second = Running::start("call", silent_call(&flags))?;
    let status = second.wait(PATIENCE)?;
    let printed = second.printed();
    if status.code() != Some(1) || !printed.contains("503") {
        return Err(printed.into());
    }
    let nobody = silent_call(&["http://127.0.0.1:1/call"]);
    let mut nobody = Running::start("call", nobody)?;
    let status = nobody.wait(PATIENCE)?;
    let printed = nobody.printed();
    if status.code() != Some(1) || !printed.contains("cannot reach http://127.0.0.1:1/call") {
        return Err(printed.into());
    }
    Ok(())
}

fn a_stream_of_a_server_is_heard() -> Result<(), Failed> {
    let server = Server::demo()?;
    let (file, path) = out("stream.wav")?;
    let url = server.url("/demo/whep");
    let flags = ["call", &url, "--silent", "--wav-out", &file, "--time", "4s"];
    let mut calling = Running::start("call", glassline(&flags))?;
    let status = calling.wait(PATIENCE)?;
    let printed = calling.printed();
    if !status.success() || !printed.contains("accepts no audio") {
        return Err(printed.into());
    }
    let samples = heard(&path)?;
    let loudest = samples.iter().fold(0f32, |most, it| most.max(it.abs()));
    match samples.len() > 2 * RATE as usize && loudest > 0.01 {
        true => Ok(()),
        false => Err(format!("{} samples, the loudest {loudest}", samples.len()).into()),
    }
}

/// Script that collects the audio that the page plays.
pub(crate) const LISTEN: &str = "
    const context = new AudioContext({ sampleRate: 48000 });
    const source = context.createMediaStreamSource(window.call.remote);
    const node = context.createScriptProcessor(4096, 1, 1);
    window.heard = [];
    node.onaudioprocess = ({ inputBuffer }) => {
      const samples = inputBuffer.getChannelData(0);
      window.heard.push(Int16Array.from(samples, (it) => Math.max(-1, Math.min(1, it)) * 32767));
    };
    source.connect(node);
    node.connect(context.destination);";

/// Script that returns the audio as base64 of 16-bit samples.
pub(crate) const HEARD: &str = "
    let text = '';
    for (const part of window.heard) {
      const bytes = new Uint8Array(part.buffer);
      for (let at = 0; at < bytes.length; at += 4096) {
        text += String.fromCharCode(...bytes.subarray(at, at + 4096));
      }
    }
    return btoa(text);";

fn chromium_and_the_command_line_hear_each_other() -> Result<(), Failed> {
    let (ours, theirs) = (
        marks_file("cli.wav", OURS, Duration::from_secs(60))?,
        // Chromium repeats the file.
        marks_file("chromium.wav", THEIRS, Duration::from_secs(60))?,
    );
    let (far, far_path) = out("chromium-heard.wav")?;
    let mut listening = Listening::start(&[
        "--wav-in",
        &ours,
        "--wav-out",
        &far,
        "--red",
        "--fec",
        "--report",
    ])?;
    let browser = Browser::start_with(&[
        "--use-fake-device-for-media-stream".to_owned(),
        format!("--use-file-for-fake-audio-capture={theirs}"),
    ])?;
    browser.open(&listening.url)?;
    browser.run("document.getElementById('dial').click()")?;
    browser.wait_until(PATIENCE, "return window.call.state === 'live'")?;
    browser.run(LISTEN)?;
    let enough = "return window.heard.length >= 130 && window.call.stats?.remote !== undefined";
    browser.wait_until(PATIENCE, enough)?;
    let shown = browser.run("return document.querySelector('dl').innerText")?;
    println!("{shown}");
    browser.screenshot("call")?;
    let encoded = browser.run(HEARD)?;
    let bytes = STANDARD.decode(encoded.as_str().unwrap_or_default())?;
    let samples = bytes.as_chunks::<2>().0.iter();
    let samples: Vec<f32> = samples
        .map(|it| f32::from(i16::from_le_bytes(*it)) / 32_768.0)
        .collect();

    browser.run("document.getElementById('mute').click()")?;
    let muted = browser.run("return document.getElementById('mute').textContent")?;
    ensure(muted == "Unmute", "the button mutes", &muted)?;
    let stats = browser.run(
        "const it = window.call.stats; return [it.in.packetsReceived, it.out.packetsSent, \
         it.remote.packetsLost]",
    )?;
    browser.run("document.getElementById('dial').click()")?;
    let status = listening.running.wait(PATIENCE)?;
    let printed = listening.running.printed();
    if !status.success() || !printed.contains("the other end hung up") {
        return Err(printed.into());
    }
    println!("{printed}");
    if !printed.contains("no channel for stamps") || printed.contains("(network)") {
        return Err(format!("a browser tells no stamps: {printed}").into());
    }
    ensure(stats[0].as_u64() > Some(100), "packets both ways", &stats)?;
    ensure_found("the browser", OURS, &samples, RATE)?;
    ensure_found("the command line", THEIRS, &heard(&far_path)?, RATE)
}

pub(crate) fn ensure(holds: bool, what: &str, found: &Value) -> Result<(), Failed> {
    match holds {
        true => Ok(()),
        false => Err(format!("{what}: {found}").into()),
    }
}
