//! Snapshots of streams: the right frame, right colors, right answers.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::{PATIENCE, ensure};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::{Server, write_file};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&an_image_has_the_colors_of_the_video).needs(&[Peer::Ffmpeg]),
    Test::of(&answers_tell_rights_sizes_and_codecs).needs(&[Peer::Ffmpeg]),
    Test::of(&the_start_page_shows_an_image_of_each_stream).needs(&[Peer::Chromium]),
];

/// Width and height of the images that are compared.
const GRID: (usize, usize) = (16, 9);

/// FFmpeg's exact arithmetic; its usual one is off by two levels.
const SCALING: &str = "area+accurate_rnd+full_chroma_int";

/// The sizes that are asked for, each with the largest mean difference of colors, of 255. JPEG costs
/// 0.25 here, and making the image smaller another 0.6; the colors of BT.601 in place of BT.709 differ
/// by 0.9, the next keyframe by 3.
const DIFFERENCES_MAX: [(&str, f64); 2] = [("", 0.6), ("?width=320", 1.5)];

/// Waits for the first keyframe of a stream.
fn wait_for_image(url: &str) -> Result<(), String> {
    eventually(Duration::from_secs(60), || {
        let answer = http::get(url)?;
        match answer.status {
            200 => Ok(()),
            status => Err(format!("{status}: {}", answer.body)),
        }
    })
}

/// Decodes images or video with FFmpeg into rows of [`GRID`], three bytes for each point.
fn decoded(arguments: &[&str]) -> Result<Vec<Vec<u8>>, Failed> {
    let (width, height) = GRID;
    let mut command = Command::new("ffmpeg");
    command
        .args(["-nostdin", "-loglevel", "error"])
        .args(arguments);
    command.args(["-vf", &format!("scale={width}:{height}:flags={SCALING}")]);
    command.args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]);
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let images = output.stdout.chunks_exact(width * height * 3);
    Ok(images.map(<[u8]>::to_vec).collect())
}

fn difference(one: &[u8], other: &[u8]) -> f64 {
    let pairs = one.iter().zip(other);
    let sum: u32 = pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
    f64::from(sum) / one.len() as f64
}

fn an_image_has_the_colors_of_the_video() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let film = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.h264");
    let keyframes = decoded(&["-skip_frame", "nokey", "-i", film, "-vsync", "passthrough"])?;
    ensure(
        keyframes.len() > 3,
        "keyframes",
        &Value::from(keyframes.len()),
    )?;
    for (query, most) in DIFFERENCES_MAX {
        let url = server.url(&format!("/demo/snapshot.jpg{query}"));
        wait_for_image(&url)?;
        let image = decoded(&["-i", &url])?;
        let image = image.first().ok_or("no image")?;
        let differences = keyframes.iter().map(|it| difference(it, image));
        let least = differences.fold(f64::INFINITY, f64::min);
        ensure(least < most, query, &Value::from(least))?;
    }
    Ok(())
}

fn answers_tell_rights_sizes_and_codecs() -> Result<(), Failed> {
    let other = write_file(&format!("snapshot-{}.webm", std::process::id()), b"")?;
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i"])
        .args(["testsrc2=size=160x90:rate=10:duration=2", "-c:v", "libvpx"])
        .arg(&other)
        .status()?;
    ensure(made.success(), "VP8", &Value::Null)?;
    let source = format!("other={other}");
    let server = Server::configured("auth: {read_token: sesame-opens-it}", &["demo", &source])?;
    let get = |path: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("Authorization", "Bearer sesame-opens-it")];
        all.extend(headers);
        http::request("GET", &server.url(path), &all, String::new())
    };
    let closed = http::get(&server.url("/demo/snapshot.jpg"))?;
    ensure(closed.status == 401, "no right", &closed.status.into())?;
    let image = eventually(Duration::from_secs(60), || {
        let answer = get("/demo/snapshot.jpg?width=64", &[])?;
        match answer.status {
            200 => Ok(answer),
            status => Err(format!("{status}: {}", answer.body)),
        }
    })?;
    ensure(
        image.header("content-type") == Some("image/jpeg"),
        "type",
        &Value::Null,
    )?;
    ensure(
        image.header("cache-control") == Some("private, max-age=1"),
        "cache",
        &Value::Null,
    )?;
    // The keyframe may be followed by another one between two requests.
    let unchanged = eventually(Duration::from_secs(60), || {
        let image = get("/demo/snapshot.jpg?width=64", &[])?;
        let tag = image.header("etag").ok_or("no tag")?.to_owned();
        let again = get("/demo/snapshot.jpg?width=64", &[("If-None-Match", &tag)])?;
        match again.status {
            304 => Ok(again),
            status => Err(format!("{status} instead of 304")),
        }
    })?;
    ensure(unchanged.body.is_empty(), "304 has no body", &Value::Null)?;
    for (path, status, part) in [
        ("/demo/snapshot.jpg?width=100000", 400, "width=100000"),
        ("/demo/snapshot.jpg?height=-1", 400, "height=-1"),
        ("/nothing/snapshot.jpg", 404, "nothing"),
        ("/other/snapshot.jpg", 501, "VP8"),
    ] {
        let answer = get(path, &[])?;
        let named = answer.status == status && answer.body.contains(part);
        ensure(
            named,
            path,
            &format!("{} {}", answer.status, answer.body).into(),
        )?;
    }
    Ok(())
}

fn the_start_page_shows_an_image_of_each_stream() -> Result<(), Failed> {
    let server = Server::serve(&["demo", "second=demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/"))?;
    let shown = "
        const all = [...document.querySelectorAll('#rows img')];
        return all.length === 2 && all.every((it) => it.checkVisibility() && it.naturalWidth === 192
            && it.naturalHeight === 108)";
    browser.wait_until(PATIENCE * 4, shown)?;
    browser.screenshot("index-images")?;
    Ok(())
}
