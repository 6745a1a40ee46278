//! Calls through a server: the command line and a browser in one room.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_lab::call::Marks;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::call::{
    HEARD, LIGHT, LISTEN, OURS, PATIENCE, RATE, THEIRS, ensure, ensure_found, heard, marks_file,
    out, silent_call,
};
use crate::peers::{Peer, Test};
use crate::process::{Running, eventually};
use crate::server::{Server, command_to_end, glassline};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&three_processes_hear_each_other),
    Test::of(&copies_mend_what_a_bad_network_loses),
    Test::of(&everybody_has_tables_of_what_is_said_and_heard),
    Test::of(&who_is_killed_is_gone_and_the_others_go_on),
    Test::of(&chromium_and_the_command_line_hear_each_other).needs(&[Peer::Chromium]),
    Test::of(&a_server_that_comes_back_is_joined_again),
    Test::of(&who_may_not_or_finds_no_place_is_told),
];

/// Chirps of the third participant.
const MORE: Marks = Marks {
    first: Duration::from_millis(200),
    every: Duration::from_micros(1_211_300),
};

/// A process in a room.
struct Participant {
    running: Running,
    hears: PathBuf,
}

impl Participant {
    fn start(url: &str, name: &str, marks: Marks, flags: &[&str]) -> Result<Self, String> {
        let says = marks_file(&format!("{name}-says.wav"), marks, Duration::from_secs(60))?;
        let (file, hears) = out(&format!("{name}-hears.wav"))?;
        let mut arguments = vec!["call", url, "--name", name];
        arguments.extend(["--wav-in", &says, "--wav-out", &file]);
        arguments.extend(LIGHT);
        arguments.extend(flags);
        let running = Running::start(name, glassline(&arguments))?;
        Ok(Self { running, hears })
    }

    fn says(&self, what: &str) -> Result<(), String> {
        self.running
            .wait_for_line(PATIENCE, |line| (line == what).then_some(()))
    }

    fn ends_well(&mut self) -> Result<String, Failed> {
        let status = self.running.wait(PATIENCE)?;
        let printed = self.running.printed();
        match status.success() {
            true => Ok(printed),
            false => Err(printed.into()),
        }
    }
}

fn three_processes_hear_each_other() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.url("/call/team");
    let seconds = ["--time", "12s"];
    let people = [("ann", OURS), ("bob", THEIRS), ("eve", MORE)];
    let mut started = Vec::new();
    for (name, marks) in people {
        started.push(Participant::start(&url, name, marks, &seconds)?);
    }
    for participant in &mut started {
        println!("{}", participant.ends_well()?);
    }
    for (participant, (name, _)) in started.iter().zip(people) {
        let samples = heard(&participant.hears)?;
        for (other, theirs) in people.iter().filter(|(other, _)| *other != name) {
            ensure_found(&format!("{name} of {other}"), *theirs, &samples, RATE)?;
        }
        let printed = participant.running.printed();
        if people
            .iter()
            .any(|(other, _)| *other != name && !printed.contains(&format!("{other} is here")))
        {
            return Err(printed.into());
        }
    }
    Ok(())
}

/// Two participants have networks with losses, and send copies; the third has neither.
fn copies_mend_what_a_bad_network_loses() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.url("/call/team");
    let lossy = |seed: u32| format!("delay=5ms loss=10% seed={seed}");
    let networks = [lossy(1), lossy(2)];
    let start = |name: &str, marks, network: &str| {
        let flags = ["--time", "15s", "--red", "--impair", network];
        Participant::start(&url, name, marks, &flags)
    };
    let mut ann = start("ann", OURS, &networks[0])?;
    let mut bob = start("bob", THEIRS, &networks[1])?;
    let mut eve = Participant::start(&url, "eve", MORE, &["--time", "12s"])?;
    for participant in [&mut ann, &mut bob, &mut eve] {
        println!("{}", participant.ends_well()?);
    }
    ensure_found("ann of bob", THEIRS, &heard(&ann.hears)?, RATE)?;
    ensure_found("bob of eve", MORE, &heard(&bob.hears)?, RATE)?;
    ensure_found("eve of ann", OURS, &heard(&eve.hears)?, RATE)?;
    let recovered = server.metric("glassline_voice_recovered_total")?;
    ensure(
        recovered >= 100.0,
        "the server mends what it misses",
        &recovered.into(),
    )?;
    // The participant who leaves first may not be in the other's summary.
    let printed = [&ann, &bob].map(|it| it.running.printed()).concat();
    let with_copies = voices(&printed);
    ensure(
        !with_copies.is_empty(),
        "somebody is heard",
        &printed.into(),
    )?;
    for [packets, lost, copies] in with_copies {
        let told = vec![packets, lost, copies].into();
        ensure(packets > 500 && copies >= 30, "its network loses", &told)?;
        ensure(copies > 2 * lost, "copies stand in for most", &told)?;
    }
    // Ten packets in a hundred were lost from each of them; of two losses in a row only the
    // second has a copy.
    for [packets, lost, copies] in voices(&eve.running.printed()) {
        let told = vec![packets, lost, copies].into();
        ensure(packets > 500 && lost * 20 < packets, "without, too", &told)?;
        ensure(copies == 0, "she has no copies", &told)?;
    }
    Ok(())
}

/// Two participants ask for tables, the third only sends stamps. Each stage that an end stamps
/// must be there, and those that need both ends: the network and the whole path.
fn everybody_has_tables_of_what_is_said_and_heard() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.url("/call/team");
    let (ann_file, ann_path) = out("ann-room.json")?;
    let (bob_file, bob_path) = out("bob-room.json")?;
    let mut eve = Participant::start(&url, "eve", MORE, &["--time", "40s"])?;
    let mut bob = Participant::start(&url, "bob", THEIRS, &["--time", "20s", "--json", &bob_file])?;
    let mut ann = Participant::start(&url, "ann", OURS, &["--time", "18s", "--json", &ann_file])?;
    println!("{}{}", ann.ends_well()?, bob.ends_well()?);
    eve.running.signal("-INT")?;
    eve.running.wait(PATIENCE)?;
    for (path, others) in [(ann_path, ["bob", "eve"]), (bob_path, ["ann", "eve"])] {
        let text = std::fs::read_to_string(&path).map_err(|it| it.to_string())?;
        let report: Value = serde_json::from_str(&text).map_err(|it| it.to_string())?;
        let more = report["more"].as_array().cloned().unwrap_or_default();
        let all = [vec![report.clone(), report["back"].clone()], more].concat();
        for other in others {
            for direction in ["said", "heard"] {
                let is_it = |it: &&Value| it["peer"] == other && it["direction"] == direction;
                let found = all.iter().find(is_it);
                let what = format!("{direction}, {other}, {}", path.display());
                accounted(&what, found.unwrap_or(&Value::Null))?;
            }
        }
    }
    Ok(())
}

/// Checks that all stages are there, and that almost every frame has records of both ends.
fn accounted(what: &str, report: &Value) -> Result<(), Failed> {
    let stages = report["stages"].as_array().cloned().unwrap_or_default();
    let count = |stage: &str, name: &str| {
        let table = stages.iter().find(|it| it["stage"] == stage);
        table.and_then(|it| it[name].as_u64()).unwrap_or(0)
    };
    let counts = [
        "capture_interval",
        "encode",
        "send",
        "network",
        "jitter_buffer",
        "mixer",
        "resample",
        "playout",
        "playout_interval",
        "mouth_to_ear",
    ]
    .map(|stage| (stage, count(stage, "count")));
    println!("{what}: {counts:?}; {}", report["notes"]);
    let missing = counts.iter().find(|it| it.1 < 300);
    ensure(missing.is_none(), what, report)?;
    let (whole, unmatched) = (count("network", "count"), count("network", "unmatched"));
    let lost = count("network", "lost");
    println!("{what}: {lost} lost, {unmatched} unmatched of {whole}");
    ensure(20 * (lost + unmatched) < whole, what, report)?;
    let of = |stage: &str| stages.iter().find(|it| it["stage"] == stage).cloned();
    let error = of("network").and_then(|it| it["error_ms"].as_f64());
    let whole = of("mouth_to_ear").and_then(|it| it["p50_ms"].as_f64());
    // The least delay is that of a packet's length and the encoder's look-ahead.
    let is_known = error.is_some_and(|it| it > 0.0) && whole.is_some_and(|it| it > 12.5);
    ensure(is_known, what, report)
}

/// Numbers of each voice in a summary: packets, lost ones, and those played from copies.
fn voices(printed: &str) -> Vec<[u64; 3]> {
    let number = |text: &str, before: &str| -> u64 {
        let found = text.split_once(before).map_or("", |it| it.0);
        let digits = found.rsplit(|it: char| !it.is_ascii_digit()).next();
        digits.and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let voices = printed.split("; heard ").skip(1);
    let voices = voices.map(|voice| voice.split(';').next().unwrap_or(""));
    let voices = voices.map(|voice| {
        ["packets", "lost", "played from copies"].map(|what| number(voice, &format!(" {what}")))
    });
    voices.collect()
}

fn who_is_killed_is_gone_and_the_others_go_on() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let url = server.url("/call/team");
    let mut ann = Participant::start(&url, "ann", OURS, &["--time", "90s"])?;
    let mut bob = Participant::start(&url, "bob", THEIRS, &["--time", "90s"])?;
    ann.says("bob is here")?;
    bob.says("ann is here")?;
    let killed = Instant::now();
    bob.running.kill();
    ann.says("bob has left")?;
    println!("gone after {:?}", killed.elapsed());
    // A new participant is audible, too.
    let mut eve = Participant::start(&url, "eve", MORE, &["--time", "10s"])?;
    ann.says("eve is here")?;
    eve.ends_well()?;
    ann.says("eve has left")?;
    ann.running.signal("-INT")?;
    let status = ann.running.wait(PATIENCE)?;
    if status.code() != Some(130) {
        return Err(ann.running.printed().into());
    }
    ensure_found("ann of eve", MORE, &heard(&ann.hears)?, RATE)?;
    ensure_found("eve of ann", OURS, &heard(&eve.hears)?, RATE)
}

/// Script that sets `window.copies` to the format that the browser sends, and to the number of
/// packets that it had already, since on a path without losses it has all copies.
const COPIES: &str = "\
    const [ann] = window.call.others.values(); \
    const [{ sender }] = window.call.session.pc.getTransceivers(); \
    ann.session.pc.getStats().then((stats) => stats.forEach((it) => { \
      if (it.type !== 'inbound-rtp') return; \
      const sent = sender.getParameters().codecs[0].mimeType; \
      window.copies = { sent, discarded: it.packetsDiscarded }; \
    }))";

fn chromium_and_the_command_line_hear_each_other() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    // Chromium repeats the file.
    let theirs = marks_file("chromium.wav", THEIRS, Duration::from_secs(60))?;
    let browser = Browser::start_with(&[
        "--use-fake-device-for-media-stream".to_owned(),
        format!("--use-file-for-fake-audio-capture={theirs}"),
    ])?;
    browser.open(&server.url("/call"))?;
    browser.wait_until(PATIENCE, "return !document.getElementById('choose').hidden")?;
    browser.screenshot("call-choose")?;
    browser.run(
        "document.getElementById('room').value = 'team'; \
         document.querySelector('#room-form button').click()",
    )?;
    browser.wait_until(
        PATIENCE,
        "return location.pathname === '/call/team' && window.call !== undefined",
    )?;
    browser.run(
        "document.getElementById('name').value = 'Zoë in Chromium'; \
         document.getElementById('copies').checked = true; \
         document.getElementById('dial').click()",
    )?;
    browser.wait_until(PATIENCE, "return window.call.state === 'live'")?;
    browser.screenshot("call-alone")?;
    let mut ann = Participant::start(&server.url("/call/team"), "ann", OURS, &["--time", "90s"])?;
    ann.says("Zoë in Chromium is here")?;
    browser.wait_until(
        PATIENCE,
        "const [ann] = window.call.others.values(); window.call.remote = ann?.remote; \
         return ann?.name === 'ann' && ann.session?.connected && ann.remote !== undefined",
    )?;
    browser.run(LISTEN)?;
    browser.wait_until(PATIENCE, "return window.heard.length >= 130")?;
    let shown = browser.run("return document.getElementById('people').innerText")?;
    println!("{shown}");
    ensure(
        shown
            .as_str()
            .is_some_and(|it| it.contains("jitter buffer")),
        "figures of the other",
        &shown,
    )?;
    browser.run(COPIES)?;
    browser.wait_until(PATIENCE, "return window.copies !== undefined")?;
    let copies = browser.run("return window.copies")?;
    let is_both = copies["sent"] == "audio/red" && copies["discarded"].as_u64() > Some(100);
    ensure(is_both, "copies both ways", &copies)?;
    let path = browser.screenshot("call-room")?;
    println!("{}", path.display());
    let encoded = browser.run(HEARD)?;
    let bytes = STANDARD.decode(encoded.as_str().unwrap_or_default())?;
    let samples = bytes.as_chunks::<2>().0.iter();
    let samples: Vec<f32> = samples
        .map(|it| f32::from(i16::from_le_bytes(*it)) / 32_768.0)
        .collect();
    browser.run("document.getElementById('mute').click()")?;
    let muted = browser.run("return document.getElementById('mute').textContent")?;
    ensure(muted == "Unmute", "the button mutes", &muted)?;
    // Left by the button: the others know it at once, and the room has one participant less.
    browser.run("document.getElementById('dial').click()")?;
    ann.says("Zoë in Chromium has left")?;
    ann.running.signal("-INT")?;
    ann.running.wait(PATIENCE)?;
    println!("{}", ann.running.printed());
    ensure_found("the browser", OURS, &samples, RATE)?;
    ensure_found("the command line", THEIRS, &heard(&ann.hears)?, RATE)
}

fn a_server_that_comes_back_is_joined_again() -> Result<(), Failed> {
    let start = |http: &str| {
        let places = ["--media", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let arguments = [&["serve", "--http", http], &places[..]].concat();
        let off = ["--rtsp", "off", "--quic", "off"];
        let running = Running::start("serve", glassline(&[&arguments[..], &off].concat()))?;
        let http = running.wait_for_line(PATIENCE, |line| {
            let rest = line.strip_prefix("http ")?.trim_start();
            rest.strip_prefix("http://")?
                .split_whitespace()
                .next()
                .map(str::to_owned)
        })?;
        Ok::<_, String>((running, http))
    };
    let (mut server, address) = start("127.0.0.1:0")?;
    let url = format!("http://{address}/call/team");
    let mut ann = Running::start("ann", silent_call(&[&url, "--mute"]))?;
    let connected = |count: usize| {
        let printed = ann.printed();
        let lines = printed.lines().filter(|it| it.starts_with("connected"));
        match lines.count() >= count {
            true => Ok(()),
            false => Err(printed),
        }
    };
    eventually(PATIENCE, || connected(1))?;
    server.terminate()?;
    server.wait(PATIENCE)?;
    ann.wait_for_line(PATIENCE, |line| {
        line.ends_with("joining again").then_some(())
    })?;
    let (_server, _) = start(&address)?;
    eventually(PATIENCE, || connected(2))?;
    ann.signal("-INT")?;
    let status = ann.wait(PATIENCE)?;
    match status.code() == Some(130) {
        true => Ok(()),
        false => Err(ann.printed().into()),
    }
}

fn who_may_not_or_finds_no_place_is_told() -> Result<(), Failed> {
    let yaml = "auth: {publish_token: speak-12345678}\nlimits: {room_participants: 1}\n";
    let server = Server::configured(yaml, &[])?;
    let url = server.url("/call/team");
    let refused = |flags: &[&str], wanted: &str| {
        let command = silent_call(&[&[url.as_str()], flags].concat());
        let (status, printed) = command_to_end(command)?;
        match status.code() == Some(1) && printed.contains(wanted) {
            true => Ok(()),
            false => Err(printed),
        }
    };
    refused(&[], "requires its publish token")?;
    refused(&["--token", "wrong-12345678"], "requires its publish token")?;
    let token = ["--token", "speak-12345678"];
    let first = Participant::start(&url, "ann", OURS, &token)?;
    first
        .running
        .wait_for_line(PATIENCE, |line| line.starts_with("connected").then_some(()))?;
    refused(&token, "the room has 1 participants already")?;
    let (status, printed) = command_to_end(silent_call(&[&server.url("/call")]))?;
    match status.code() == Some(1) && printed.contains("open /call/ROOM") {
        true => Ok(()),
        false => Err(printed.into()),
    }
}
