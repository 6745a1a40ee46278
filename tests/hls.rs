//! HLS in a player of another project.

use std::process::Command;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::ensure;
use crate::peers::{Peer, Test};
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "hls::ffmpeg_plays_video_and_audio_without_a_hole",
    needs: &[Peer::Ffmpeg],
    run: ffmpeg_plays_video_and_audio_without_a_hole,
}];

/// Seconds that are played.
const SPAN_S: usize = 6;

/// Frames of the demo's video a second, and their distance in ticks of 90 kHz.
const VIDEO: (usize, i64) = (30, 3_000);

/// Packets of the demo's audio a second, and their distance in ticks of 48 kHz.
const AUDIO: (usize, i64) = (50, 960);

fn ffmpeg_plays_video_and_audio_without_a_hole() -> Result<(), Failed> {
    let server = Server::demo()?;
    let span = SPAN_S.to_string();
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-i"]);
    ffmpeg.arg(server.url("/demo/hls/index.m3u8"));
    // Both are decoded, and the packets are listed as they came.
    ffmpeg.args(["-t", &span, "-f", "null", "-y", "/dev/null"]);
    ffmpeg.args(["-t", &span, "-c", "copy", "-f", "framemd5", "-"]);
    let output = ffmpeg.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_clean = output.status.success() && errors.is_empty();
    ensure(is_clean, "FFmpeg complains", &json!(errors))?;
    let list = String::from_utf8_lossy(&output.stdout);
    for (stream, (rate, step)) in [("0", VIDEO), ("1", AUDIO)] {
        let times = decode_times(&list, stream);
        let found = json!({ "stream": stream, "times": times });
        ensure(
            times.len() >= (SPAN_S - 1) * rate,
            "packets are missing",
            &found,
        )?;
        let mut steps = times.windows(2).map(|it| it[1] - it[0]);
        ensure(steps.all(|it| it == step), "there is a hole", &found)?;
    }
    Ok(())
}

/// Returns the decode times of the packets of a stream in a list of FFmpeg.
fn decode_times(list: &str, stream: &str) -> Vec<i64> {
    let rows = list.lines().map(|it| it.split(',').map(str::trim));
    let times = rows.filter_map(|mut row| {
        let is_of_stream = row.next() == Some(stream);
        row.next()?.parse().ok().filter(|_| is_of_stream)
    });
    times.collect()
}
