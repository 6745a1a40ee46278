//! Video that no browser of the tests shows as it is, in a server that transcodes always.

use std::process::Command;

use libtest_mimic::Failed;

use crate::browser::PATIENCE;
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::output_folder;
use crate::server::Server;
use crate::transcoding::has_own_trouble;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&chromium_plays_what_it_cannot_show_without_a_click)
        .needs(&[Peer::Ffmpeg, Peer::Chromium]),
];

/// Films that no Chromium of a test shows as they are: their names, and how FFmpeg encodes them.
const FILMS: [(&str, &str); 5] = [
    ("b-frames.mp4", "-c:v libx264 -bf 3 -preset ultrafast"),
    (
        "h265.mp4",
        "-c:v libx265 -x265-params log-level=0:bframes=3 -preset ultrafast",
    ),
    ("mpeg4.mkv", "-c:v mpeg4 -bf 2 -b:v 2M"),
    ("mpeg2.m2v", "-c:v mpeg2video -bf 2 -b:v 3M"),
    ("jpeg.mov", "-c:v mjpeg -pix_fmt yuvj420p -q:v 4"),
];

fn chromium_plays_what_it_cannot_show_without_a_click() -> Result<(), Failed> {
    let mut sources = Vec::new();
    for (number, (name, encoding)) in FILMS.iter().enumerate() {
        let path = output_folder().join(name).display().to_string();
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-y", "-f", "lavfi", "-i"]);
        command.args(["testsrc2=size=640x360:rate=25", "-t", "8", "-g", "25"]);
        command.args(["-pix_fmt", "yuv420p"]);
        command.args(encoding.split(' ')).arg(&path);
        let status = command
            .status()
            .map_err(|error| format!("ffmpeg: {error}"))?;
        if !status.success() {
            return Err(format!("ffmpeg made no {path}").into());
        }
        sources.push(format!("film{number}={path}?transcode=always"));
    }
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let server = Server::serve(&sources)?;
    let browser = Browser::start()?;
    for (number, (name, _)) in FILMS.iter().enumerate() {
        let failed = |reason: String| format!("{name}: {reason}");
        let stream = format!("film{number}");
        server.wait_for_state(&stream, "live").map_err(failed)?;
        browser.open(&server.url(&format!("/{stream}")))?;
        let plays = "return glassline.state === 'live' && glassline.framesDecoded > 60 \
                     && glassline.width === 640 && glassline.height === 360 \
                     && glassline.transcoding?.includes('% of a core')";
        browser.wait_until(PATIENCE, plays).map_err(failed)?;
        browser.screenshot(&format!("always-{number}"))?;
        let views = http::get_json(&server.admin_url("/api/v1/transcodings"))?;
        let views = views["transcodings"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let view = views.into_iter().find(|it| it["stream"] == *stream);
        let view = view.ok_or_else(|| failed("no transcoding".to_owned()))?;
        println!("{name}: {view}");
        if view["to"] != "H264" || has_own_trouble(&view) || view["undecodable"] != 0 {
            return Err(failed(format!("the transcoding is {view}")).into());
        }
    }
    Ok(())
}
