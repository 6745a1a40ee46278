//! HLS in players of other projects: live, and what was recorded.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::{PATIENCE, ensure};
use crate::cluster::{publish, wait_for_each_other, wait_for_owner};
use crate::http;
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::server::{Server, run_to_end};
use crate::timeline::Recording;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&ffmpeg_plays_video_and_audio_without_a_hole).needs(&[Peer::Ffmpeg]),
    Test::of(&ffmpeg_plays_what_was_recorded_and_goes_on_with_the_present).needs(&[Peer::Ffmpeg]),
    Test::of(&every_kind_of_source_plays_and_keeps_the_rules).needs(&[Peer::Ffmpeg]),
    Test::of(&a_viewer_at_another_server_of_the_cluster_plays).needs(&[Peer::Ffmpeg, Peer::Nats]),
    Test::of(&hls_js_goes_back_to_what_was_recorded).needs(&[Peer::Chromium]),
];

/// Seconds that are played.
const SPAN_S: usize = 6;

/// Frames of the demo's video a second, and their distance in ticks of 90 kHz.
const VIDEO: (usize, i64) = (30, 3_000);

/// Packets of the demo's audio a second, and their distance in ticks of 48 kHz.
const AUDIO: (usize, i64) = (50, 960);

fn ffmpeg_plays_video_and_audio_without_a_hole() -> Result<(), Failed> {
    let server = Server::demo()?;
    let span = SPAN_S.to_string();
    let list = played(&["-t", &span], &server.url("/demo/hls/index.m3u8"), &[])?;
    without_hole(&list, SPAN_S - 1)
}

fn ffmpeg_plays_what_was_recorded_and_goes_on_with_the_present() -> Result<(), Failed> {
    let recording = Recording::start("past")?;
    let start = recording.await_seconds(14.0)?;
    let hours = recording.server.url("/demo/hls/dvr.m3u8");
    // From the oldest segment on, and longer than what was there when it began.
    let list = played(&["-t", "18"], &hours, &["-live_start_index", "0"])?;
    without_hole(&list, 16)?;
    let span = format!("/demo/hls/vod.m3u8?start={start}&duration=7");
    // The end is that of the playlist, at a keyframe.
    let list = played(&[], &recording.server.url(&span), &[])?;
    without_hole(&list, 7)?;
    let frames = decode_times(&list, "0").len();
    ensure(
        frames <= 13 * VIDEO.0,
        "the span is too long",
        &json!(frames),
    )?;
    judge(&hours, 12)
}

/// Delay of a thread from which a source on this machine may be late by itself.
const LATE: Duration = Duration::from_millis(50);

/// Has playlists judged for some seconds. Parts may be late only if this machine was, too.
fn judge(url: &str, seconds: u32) -> Result<(), Failed> {
    let seconds = seconds.to_string();
    let (judged, stall) =
        longest_stall(|| run_to_end(&["hls", "check", url, "--seconds", &seconds]));
    println!("threads started {stall:?} late at most");
    let (_, report) = judged?;
    let expected: &[&str] = match stall > LATE {
        true => &["parts-late"],
        false => &[],
    };
    without_errors(&report, expected)
}

/// Returns the result of `work`, and the longest time by which a thread that slept meanwhile woke late.
fn longest_stall<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    const SLEEP: Duration = Duration::from_millis(10);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let meter = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(SLEEP);
                longest = longest.max(began.elapsed() - SLEEP);
            }
            longest
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        (result, meter.join().unwrap_or_default())
    })
}

/// Checks that a report of the judge names no errors but those that begin with one of `expected`.
pub(crate) fn without_errors(report: &str, expected: &[&str]) -> Result<(), Failed> {
    let mut errors = report.lines().filter_map(|it| it.strip_prefix("✗ "));
    let is_broken = errors.any(|it| !expected.iter().any(|rule| it.starts_with(rule)));
    let is_judged = report.contains(" errors, ");
    ensure(
        is_judged && !is_broken,
        "the judge finds errors",
        &json!(report),
    )?;
    println!("{report}");
    Ok(())
}

/// A sample of the demuxer, and the distances of its packets in ticks of each track.
struct Kind {
    file: &'static str,
    steps: &'static [i64],
}

/// B-frames in two codecs, codecs of browsers with Opus, and audio alone.
const KINDS: [Kind; 5] = [
    Kind {
        file: "b-frames.h264",
        steps: &[3600],
    },
    Kind {
        file: "h265.ts",
        steps: &[3600],
    },
    Kind {
        file: "vp9-opus.webm",
        steps: &[3600, 960],
    },
    Kind {
        file: "av1.mp4",
        steps: &[3600],
    },
    Kind {
        file: "sine.aac",
        steps: &[1024],
    },
];

fn every_kind_of_source_plays_and_keeps_the_rules() -> Result<(), Failed> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/demux/samples");
    let source = |kind: &Kind| {
        let (name, _) = kind.file.split_once('.').expect("an ending");
        format!("{name}={}", samples.join(kind.file).display())
    };
    let sources = KINDS.each_ref().map(source);
    let server = Server::serve(&sources.each_ref().map(String::as_str))?;
    for kind in &KINDS {
        let (name, _) = kind.file.split_once('.').expect("an ending");
        let url = server.url(&format!("/{name}/hls/index.m3u8"));
        let list = played(&["-t", "4"], &url, &[])?;
        for (stream, step) in kind.steps.iter().enumerate() {
            let decoded = times(&list, &stream.to_string(), Time::Decode);
            let mut shown = times(&list, &stream.to_string(), Time::Presentation);
            shown.sort_unstable();
            for times in [decoded, shown] {
                let found = json!({ "file": kind.file, "stream": stream, "times": times });
                ensure(times.len() > 90, "packets are missing", &found)?;
                // Behind the last packets, those that are shown earlier are still to come.
                let whole = &times[..times.len() - 4];
                let mut steps = whole.windows(2).map(|it| it[1] - it[0]);
                ensure(steps.all(|it| it == *step), "there is a hole", &found)?;
            }
        }
        judge(&url, 5)?;
    }
    Ok(())
}

fn a_viewer_at_another_server_of_the_cluster_plays() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let node = |name: &str| {
        let url = nats.url();
        let cluster = format!("{{name: {name}, secret: shared-by-all, nats: '{url}'}}");
        Server::configured(&format!("cluster: {cluster}\n"), &[])
    };
    let [a, b] = [node("a")?, node("b")?];
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let list = played(&["-t", "4"], &b.url("/cam/hls/index.m3u8"), &[])?;
    let frames = decode_times(&list, "0");
    ensure(frames.len() > 60, "frames are missing", &json!(frames))?;
    // Both servers know the passes of each other.
    let index = http::get(&a.url("/cam/hls/index.m3u8"))?.body;
    let playlist = index.lines().find(|it| it.ends_with(".m3u8"));
    let playlist = playlist.ok_or("no playlist")?;
    let answer = http::get(&b.url(&format!("/cam/hls/{playlist}")))?;
    ensure(
        answer.status == 200,
        "the pass of the other",
        &json!(answer.body),
    )
}

/// The page of a stream is one where scripts of the server may run.
const PLAYS_THE_PAST: &str = "
    const video = document.createElement('video');
    Object.assign(video, { id: 'past', muted: true });
    document.body.append(video);
    import('/-/hls.min.mjs').then(({ default: Hls }) => {
        const hls = globalThis.pastHls = new Hls({ enableWorker: false });
        hls.on(Hls.Events.ERROR, (_, { fatal, details }) => { if (fatal) globalThis.pastError = details });
        hls.loadSource('/demo/hls/dvr.m3u8');
        hls.attachMedia(video);
        hls.on(Hls.Events.MANIFEST_PARSED, () => video.play());
    })";

fn hls_js_goes_back_to_what_was_recorded() -> Result<(), Failed> {
    let recording = Recording::start("past-page")?;
    recording.await_seconds(20.0)?;
    let browser = Browser::start()?;
    browser.open(&recording.server.url("/demo/timeline"))?;
    browser.run(PLAYS_THE_PAST)?;
    let at_the_end = "const video = document.getElementById('past');
        return globalThis.pastError ?? (video.readyState >= 3 && video.videoWidth === 1280
            && video.currentTime > 4)";
    let found = browser.wait_until(PATIENCE, at_the_end)?;
    ensure(found == true, "it plays near the present", &found)?;
    browser.run("document.getElementById('past').currentTime = 0.5")?;
    let back = "const video = document.getElementById('past');
        return globalThis.pastError ?? (!video.seeking && video.currentTime > 2 && video.currentTime < 4)";
    let found = browser.wait_until(PATIENCE, back)?;
    ensure(found == true, "it plays from the beginning", &found)?;
    let kind = browser.run("return globalThis.pastHls.levels[0].details.live")?;
    ensure(kind == true, "the playlist goes on", &kind)
}

/// Plays with FFmpeg, which must not complain. Returns the list of packets as they came.
fn played(span: &[&str], url: &str, input: &[&str]) -> Result<String, Failed> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error"]).args(input);
    ffmpeg.args(["-i", url]);
    // Both are decoded, and the packets are listed.
    ffmpeg.args(span).args(["-f", "null", "-y", "/dev/null"]);
    ffmpeg
        .args(span)
        .args(["-c", "copy", "-f", "framemd5", "-"]);
    let output = ffmpeg.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_clean = output.status.success() && errors.is_empty();
    ensure(is_clean, "FFmpeg complains", &json!(errors))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that at least so many seconds of both tracks came, each packet behind the one before.
fn without_hole(list: &str, seconds: usize) -> Result<(), Failed> {
    for (stream, (rate, step)) in [("0", VIDEO), ("1", AUDIO)] {
        let times = decode_times(list, stream);
        let found = json!({ "stream": stream, "times": times });
        let is_long = times.len() >= seconds * rate;
        ensure(is_long, "packets are missing", &found)?;
        let mut steps = times.windows(2).map(|it| it[1] - it[0]);
        ensure(steps.all(|it| it == step), "there is a hole", &found)?;
    }
    Ok(())
}

/// A column in a list of FFmpeg.
#[derive(Clone, Copy)]
enum Time {
    Decode,
    Presentation,
}

/// Returns the decode times of the packets of a stream in a list of FFmpeg.
fn decode_times(list: &str, stream: &str) -> Vec<i64> {
    times(list, stream, Time::Decode)
}

fn times(list: &str, stream: &str, time: Time) -> Vec<i64> {
    let rows = list.lines().map(|it| it.split(',').map(str::trim));
    let times = rows.filter_map(|mut row| {
        let is_of_stream = row.next() == Some(stream);
        let text = match time {
            Time::Decode => row.next(),
            Time::Presentation => row.nth(1),
        };
        text?.parse().ok().filter(|_| is_of_stream)
    });
    times.collect()
}
