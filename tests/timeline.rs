//! The page of a stream's recordings in Chromium.

use std::fs;
use std::path::PathBuf;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::ensure;
use crate::dashboard::AXE;
use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::{PATIENCE, eventually, output_folder};
use crate::server::{Server, command_to_end, glassline, unique};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&the_page_plays_what_was_recorded_and_leads_to_any_second)
        .needs(&[Peer::Chromium, Peer::Axe]),
    Test::of(&the_player_goes_back_ten_seconds_and_returns_in_one_session)
        .needs(&[Peer::Chromium, Peer::Axe]),
    Test::of(&the_player_offers_no_past_without_the_right_or_without_recordings)
        .needs(&[Peer::Chromium]),
    Test::of(&ffmpeg_seeks_in_a_recording_and_in_an_export).needs(&[Peer::Ffmpeg]),
];

/// A server that records the demo, and its folder.
pub(crate) struct Recording {
    pub(crate) server: Server,
    folder: PathBuf,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Recording {
    pub(crate) fn start(name: &str) -> Result<Self, String> {
        Self::configured(name, "")
    }

    /// Starts a server with more configuration.
    fn configured(name: &str, more: &str) -> Result<Self, String> {
        let folder = output_folder().join(format!("{}-{}", std::process::id(), unique(name)));
        let yaml = format!(
            "recordings:\n  folder: {}\n  free_gib: 0\n  record: [{{streams: ['**']}}]\n{more}",
            folder.display()
        );
        let server = Server::configured(&yaml, &["demo"])?;
        Ok(Self { server, folder })
    }

    /// Waits until so many seconds are recorded. Returns the start of the first stretch.
    pub(crate) fn await_seconds(&self, seconds: f64) -> Result<String, String> {
        let url = self.server.url("/-/playback/list?path=demo");
        let list = eventually(PATIENCE, || {
            let list = http::get_json(&url)?;
            match list[0]["duration"].as_f64() >= Some(seconds) {
                true => Ok(list),
                false => Err(format!("{list}")),
            }
        })?;
        let start = list[0]["start"].as_str().map(str::to_owned);
        start.ok_or_else(|| "the first stretch has no start".to_owned())
    }
}

fn the_page_plays_what_was_recorded_and_leads_to_any_second() -> Result<(), Failed> {
    let recording = Recording::start("timeline")?;
    let start = recording.await_seconds(12.0)?;
    let browser = Browser::start()?;
    let second = format!("{}T{}", &start[..10], &start[11..19]);
    browser.open(
        &recording
            .server
            .url(&format!("/demo/timeline?at={second}Z")),
    )?;
    let time = "const shown = document.getElementById('clock').dateTime;
         return shown ? Date.parse(shown) : null";
    let plays = "const video = document.getElementById('video');
         return video.readyState >= 2 && video.videoWidth === 1280 && !video.paused && video.currentTime > 0";
    browser.wait_until(PATIENCE, plays)?;
    let shown = browser.run(time)?;
    let began = browser.run(&format!("return Date.parse('{start}')"))?;
    let late = shown.as_f64().unwrap_or(0.0) - began.as_f64().unwrap_or(0.0);
    ensure(
        (-2_000.0..9_000.0).contains(&late),
        "the asked second",
        &json!([shown, began]),
    )?;
    browser.screenshot("timeline")?;
    // The keyboard leads ahead, and a frame back, and pauses.
    browser.run(
        "document.getElementById('strip').focus(); document.getElementById('video').pause()",
    )?;
    let before = browser.run(time)?;
    browser.press("\u{E014}")?;
    let ahead = format!(
        "const shown = Date.parse(document.getElementById('clock').dateTime);
         return Math.abs(shown - {before} - 5000) < 700"
    );
    browser.wait_until(PATIENCE, &ahead)?;
    let spans = browser.run("return document.querySelectorAll('#strip .span').length")?;
    ensure(spans == 1, "one stretch is shown", &spans)?;
    let live = browser.run("return new URL(document.getElementById('live').href).pathname")?;
    ensure(live == "/demo", "a link back to the live stream", &live)?;
    let said = "return document.getElementById('stages-said').textContent !== ''";
    browser.wait_until(PATIENCE, said)?;
    browser.press("b")?;
    let is_open = "return document.getElementById('mark').open";
    browser.wait_until(PATIENCE, is_open)?;
    browser.run(
        "document.getElementById('mark-label').value = 'door';
         document.querySelector('#mark-form [type=submit]').click()",
    )?;
    let marked = "return document.querySelector('#marks span')?.textContent === 'door'";
    browser.wait_until(PATIENCE, marked)?;
    for width in [1280, 390] {
        browser.resize([width, 900])?;
        let wide = "return document.documentElement.scrollWidth <= innerWidth";
        browser.wait_until(PATIENCE, wide)?;
        browser.screenshot(&format!("timeline-{width}"))?;
    }
    let axe = peers::axe()?;
    for theme in ["dark", "light"] {
        browser.run(&format!(
            "document.documentElement.dataset.theme = '{theme}'"
        ))?;
        browser.run(&axe)?;
        let found = browser.run(AXE)?;
        let none = found.as_array().is_some_and(Vec::is_empty);
        ensure(none, "axe finds nothing serious", &found)?;
    }
    Ok(())
}

/// Notes the requests of the page: method and address, once they are answered.
const REQUESTS: &str = "
    window.requests = [];
    const { fetch } = window;
    window.fetch = async (url, options) => {
      const answer = await fetch(url, options);
      window.requests.push([options?.method ?? 'GET', String(url)]);
      return answer;
    };
";

/// Reads the frame code of the video, and notes in `ages` how old the last ten frames were, in ms. The demo
/// begins anew each ten seconds, and so does the age.
const AGES: &str = "
    window.ages = [];
    Promise.all([
      import('/-/framecode.js'), fetch('/api/v1/streams/demo/frame-code').then((answer) => answer.json()),
    ]).then(([{ FrameCodeReader }, { fps, frames, epoch_ns: epoch }]) => {
      const [reader, video] = [new FrameCodeReader(), document.getElementById('video')];
      const next = async (now, metadata) => {
        video.requestVideoFrameCallback(next);
        const code = await reader.read(video, metadata);
        if (code === null || !glassline.clock) return;
        const round = frames * 1000 / fps;
        const age = now + glassline.clock.offsetMs - epoch / 1e6 - code * 1000 / fps;
        window.ages.push(((age % round) + round) % round);
        if (window.ages.length > 10) window.ages.shift();
      };
      video.requestVideoFrameCallback(next);
    });
";

/// Waits until all of the last frames are as old, in ms beyond whole rounds of the demo.
fn await_ages(browser: &Browser, ages: std::ops::Range<u32>) -> Result<(), String> {
    let std::ops::Range { start, end } = ages;
    let are_so = format!(
        "return window.ages.length === 10 && window.ages.every((age) => age >= {start} && age < {end})"
    );
    browser.wait_until(PATIENCE, &are_so)?;
    Ok(())
}

/// The time that the page says it shows, in ms before the present.
fn ago(browser: &Browser) -> Result<f64, String> {
    let past =
        "return glassline.state === 'past' && glassline.pastMs && Date.now() - glassline.pastMs";
    let ago = browser.wait_until(PATIENCE, past)?;
    Ok(ago.as_f64().unwrap_or_default())
}

fn the_player_goes_back_ten_seconds_and_returns_in_one_session() -> Result<(), Failed> {
    let recording = Recording::start("player")?;
    recording.await_seconds(32.0)?;
    let browser = Browser::start()?;
    browser.run_in_every_page(REQUESTS)?;
    browser.open(&recording.server.url("/demo"))?;
    let is_offered =
        "return glassline.reports > 0 && document.getElementById('past').checkVisibility()";
    browser.wait_until(PATIENCE, is_offered)?;
    browser.run(AGES)?;
    await_ages(&browser, 0..1500)?;
    browser.screenshot("player-live")?;
    browser.click("#past-step")?;
    let back = ago(&browser)?;
    ensure(
        (9_000.0..13_500.0).contains(&back),
        "ten seconds back",
        &json!(back),
    )?;
    browser.run("window.ages.length = 0")?;
    // Whole rounds of the demo would look like the present.
    browser.click("#past-time")?;
    browser.run(
        "const local = Date.now() - new Date().getTimezoneOffset() * 60_000 - 14_000;
         const { at } = document.getElementById('past-form').elements;
         at.value = new Date(local).toISOString().slice(0, 19);
         document.querySelector('#past-form [type=submit]').click()",
    )?;
    await_ages(&browser, 3_800..7_500)?;
    let before = ago(&browser)?;
    browser.press("j")?;
    let earlier = format!(
        "return Date.now() - glassline.pastMs > {}",
        before + 9_000.0
    );
    browser.wait_until(PATIENCE, &earlier)?;
    await_ages(&browser, 3_800..9_500)?;
    let reports = browser.run("return glassline.reports")?;
    for width in [1280, 390] {
        browser.resize([width, 900])?;
        let wide = "return document.documentElement.scrollWidth <= innerWidth";
        browser.wait_until(PATIENCE, wide)?;
        browser.screenshot(&format!("player-past-{width}"))?;
    }
    let axe = peers::axe()?;
    browser.run(&axe)?;
    let found = browser.run(AXE)?;
    let none = found.as_array().is_some_and(Vec::is_empty);
    ensure(none, "axe finds nothing serious", &found)?;
    browser.press("\u{E010}")?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    await_ages(&browser, 0..1500)?;
    browser.wait_until(PATIENCE, &format!("return glassline.reports > {reports}"))?;
    let asked = browser.run(
        "const of = (end) => window.requests.filter(([method, url]) => method === 'POST' && url.endsWith(end));
         const places = new Set(of('/at').map(([, url]) => url));
         return [of('/whep').length, places.size, of('/at').length, glassline.sessions]",
    )?;
    ensure(
        asked == json!([1, 1, 4, 1]),
        "one session has it all",
        &asked,
    )
}

/// Readers may not watch recordings where there is a token that may.
const TOKENS: &str = "auth: {read_token: sesame-opens-it, publish_token: north-wind-publishes}\n";

fn the_player_offers_no_past_without_the_right_or_without_recordings() -> Result<(), Failed> {
    let recording = Recording::configured("no-right", TOKENS)?;
    let browser = Browser::start()?;
    browser.run_in_every_page(REQUESTS)?;
    browser.open(&recording.server.url("/demo?token=sesame-opens-it"))?;
    let asked = "return window.requests.some(([, url]) => url.includes('/-/playback/'))";
    browser.wait_until(PATIENCE, asked)?;
    browser.wait_until(PATIENCE, "return glassline.reports > 2")?;
    let shown =
        "return ['past', 'recordings'].map((id) => document.getElementById(id).checkVisibility())";
    let without_right = browser.run(shown)?;
    ensure(
        without_right == json!([false, false]),
        "no right",
        &without_right,
    )?;
    let server = Server::serve(&["demo"])?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, "return glassline.reports > 6")?;
    let without_recordings = browser.run(shown)?;
    ensure(
        without_recordings == json!([false, false]),
        "no recordings",
        &without_recordings,
    )?;
    let asked = browser.run(asked)?;
    ensure(asked == false, "nothing is asked", &asked)
}

fn ffmpeg_seeks_in_a_recording_and_in_an_export() -> Result<(), Failed> {
    let recording = Recording::start("seek")?;
    let start = recording.await_seconds(9.0)?;
    for form in ["fmp4", "mp4"] {
        let path = format!("/-/playback/get?path=demo&start={start}&duration=8&format={form}");
        let mut ffmpeg = std::process::Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-ss", "5", "-i"]);
        ffmpeg.arg(recording.server.url(&path));
        ffmpeg.args(["-frames:v", "5", "-f", "framemd5", "-"]);
        let (status, text) = command_to_end(ffmpeg)?;
        let frames = text.lines().filter(|it| it.starts_with("0,")).count();
        ensure(
            status.success() && frames == 5,
            "five frames behind second 5",
            &json!([form, text]),
        )?;
    }
    let file = recording.folder.join("part.mp4");
    let mut export = glassline(&["recordings", "export", "demo", "--exact", "--from", &start]);
    export.args(["--to", "1"]);
    export
        .args(["--url", &recording.server.admin_url("")])
        .arg(&file);
    let (status, text) = command_to_end(export)?;
    ensure(
        !status.success(),
        "an end before the start is refused",
        &text.into(),
    )?;
    let mut export = glassline(&["recordings", "export", "demo", "--exact", "--from", &start]);
    export.args(["--to", &plus(&start, 6)?]);
    export
        .args(["--url", &recording.server.admin_url("")])
        .arg(&file);
    let (status, text) = command_to_end(export)?;
    ensure(status.success(), "the export", &text.into())?;
    let mut probe = std::process::Command::new("ffprobe");
    probe
        .args([
            "-v",
            "error",
            "-show_entries",
            "format=duration",
            "-of",
            "csv=p=0",
        ])
        .arg(&file);
    let (_, seconds) = command_to_end(probe)?;
    let seconds: f64 = seconds.trim().parse().unwrap_or(0.0);
    ensure(
        (5.8..6.3).contains(&seconds),
        "six seconds",
        &json!(seconds),
    )
}

/// Returns a time some seconds later, as seconds since 1970: the day is that of the test.
fn plus(start: &str, seconds: u64) -> Result<String, String> {
    let output = std::process::Command::new("date")
        .args(["-u", "-d", start, "+%s.%N"])
        .output()
        .map_err(|error| format!("date: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let at: f64 = text
        .trim()
        .parse()
        .map_err(|error| format!("{text}: {error}"))?;
    Ok(format!("{:.6}", at + seconds as f64))
}
