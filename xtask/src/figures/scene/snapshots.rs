//! How long a picture of a stream takes over HTTP.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::serving::{Serving, request};
use super::{Setting, median};
use crate::bench_peers;

/// Longer than the time between two keyframes, so that each round has a fresh image.
const ROUND: Duration = Duration::from_millis(2_300);
const ROUNDS: usize = 12;

/// Requests for the same image again in each round.
const AGAIN: usize = 5;

pub(super) fn run(setting: &Setting) -> Result<Json, String> {
    let (video, _) = bench_peers::reference()?;
    let source = format!("hd={}", video.display());
    let serving = Serving::start(setting, "", &["--source", &source], "hd")?;
    let mut report = serde_json::Map::new();
    for (name, query) in [("full", ""), ("w640", "?width=640"), ("w192", "?width=192")] {
        let path = format!("/hd/snapshot.jpg{query}");
        let (mut fresh, mut again, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            thread::sleep(ROUND);
            let (took, size) = image(&serving, &path)?;
            fresh.push(took);
            bytes = size;
            for _ in 0..AGAIN {
                again.push(image(&serving, &path)?.0);
            }
        }
        let figures = json!({
            "fresh_ms": median(&fresh),
            "cached_ms": median(&again),
            "bytes": bytes,
        });
        report.insert(name.to_owned(), figures);
    }
    Ok(report.into())
}

/// Time in ms until an image was read, and its bytes.
fn image(serving: &Serving, path: &str) -> Result<(f64, usize), String> {
    let began = Instant::now();
    let answer = request(serving.http, "GET", path)?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let is_jpeg = answer.body.starts_with(&[0xff, 0xd8]);
    match answer.status {
        200 if is_jpeg => Ok((took, answer.body.len())),
        status => Err(format!("GET {path}: {status}, {} bytes", answer.body.len())),
    }
}
