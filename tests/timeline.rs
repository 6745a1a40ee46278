//! The page of a stream's recordings in Chromium.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::ensure;
use crate::dashboard::AXE;
use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::{eventually, output_folder};
use crate::server::{Server, command_to_end, glassline, unique};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "timeline::the_page_plays_what_was_recorded_and_leads_to_any_second",
        needs: &[Peer::Chromium, Peer::Axe],
        run: the_page_plays_what_was_recorded_and_leads_to_any_second,
    },
    Test {
        name: "timeline::ffmpeg_seeks_in_a_recording_and_in_an_export",
        needs: &[Peer::Ffmpeg],
        run: ffmpeg_seeks_in_a_recording_and_in_an_export,
    },
];

/// Long, for a debug build, a software decoder and two cores.
const PATIENCE: Duration = Duration::from_secs(60);

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
        let folder = output_folder().join(format!("{}-{}", std::process::id(), unique(name)));
        let yaml = format!(
            "recordings:\n  folder: {}\n  free_gib: 0\n  record: [{{streams: ['**']}}]\n",
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
