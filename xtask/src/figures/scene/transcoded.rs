//! H.264 with B-frames, transcoded for one viewer.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::serving::{Serving, request};
use super::{Setting, number};
use crate::process;

/// The server's own figures are read this long after the viewer was started.
const AFTER: Duration = Duration::from_secs(14);

pub(super) fn run(setting: &Setting) -> Result<Json, String> {
    let mut report = serde_json::Map::new();
    for (name, size) in [("p720", "1280x720"), ("p1080", "1920x1080")] {
        let file = setting.folder.join(format!("b-frames-{size}.h264"));
        if !file.is_file() {
            encode(size, &file)?;
        }
        report.insert(name.to_owned(), measure(setting, &file)?);
    }
    Ok(report.into())
}

/// Writes twenty seconds of a test picture at 3 Mbit/s, with two B-frames. Another name first, so
/// that an interrupted run leaves no incomplete file.
fn encode(size: &str, file: &Path) -> Result<(), String> {
    let unfinished = file.with_extension("unfinished");
    let words = format!(
        "-hide_banner -loglevel error -nostdin -y -f lavfi -i testsrc2=size={size}:rate=30 -t 20 \
         -c:v libx264 -profile:v high -preset veryfast -bf 2 -g 60 -b:v 3M -pix_fmt yuv420p -f h264"
    );
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(words.split_ascii_whitespace()).arg(&unfinished);
    process::run_quietly(&mut ffmpeg)?;
    std::fs::rename(&unfinished, file).map_err(|error| format!("{}: {error}", file.display()))
}

fn measure(setting: &Setting, file: &Path) -> Result<Json, String> {
    let source = format!("b={}", file.display());
    let serving = Serving::start(setting, "", &["--source", &source], "b")?;
    let url = format!("http://127.0.0.1:{}/b/whep?transcode", serving.http);
    let viewer = setting.folder.join("viewer.json");
    let mut viewer = setting
        .generator(&[&url, "--ramp", "1", "--hold", "16s"], &viewer)
        .spawn()
        .map_err(|error| format!("cannot start a viewer: {error}"))?;
    let began = Instant::now();
    thread::sleep(AFTER);
    let answer = request(serving.admin, "GET", "/api/v1/transcodings").and_then(|it| it.json());
    let after = began.elapsed().as_secs_f64();
    // The viewer has done its part.
    let _ = viewer.kill();
    let _ = viewer.wait();
    let answer = answer?;
    let of = |name: &str| number(&answer, &format!("/transcodings/to=H264/{name}"));
    Ok(json!({
        "after_s": after,
        "cpu_ratio": of("cpu_ratio")?,
        "delay_p50_ms": of("delay_p50_ms")?,
        // The last frames are on their way; where much is missing, the processor is too slow.
        "transcoded_ratio": of("frames_out")? / of("frames_in")?.max(1.0),
    }))
}
