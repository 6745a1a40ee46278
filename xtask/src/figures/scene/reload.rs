//! What viewers lose while the configuration is read again and again.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::serving::{Serving, request};
use super::{Setting, number, read};

const VIEWERS: &str = "200";

/// Time between two reloads.
const EVERY: Duration = Duration::from_millis(400);

pub(super) fn run(setting: &Setting) -> Result<Json, String> {
    let serving = Serving::start(setting, &configuration(0), &[], "demo")?;
    let url = format!("http://127.0.0.1:{}/demo/whep", serving.http);
    let arguments = [url.as_str(), "--ramp", VIEWERS, "--hold", "12s"];
    let quiet = setting.viewers(&arguments)?;
    let report = setting.folder.join("reloaded.json");
    let _ = fs::remove_file(&report);
    let mut generator = setting
        .generator(&arguments, &report)
        .spawn()
        .map_err(|error| format!("cannot start the viewers: {error}"))?;
    let (mut reloads, mut longest_ms) = (0_u32, 0.0_f64);
    let ended = loop {
        match generator.try_wait().map_err(|error| error.to_string()) {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        reloads += 1;
        match reload(&serving, reloads) {
            Ok(took) => longest_ms = longest_ms.max(took.as_secs_f64() * 1e3),
            Err(error) => break Err(error),
        }
        thread::sleep(EVERY);
    };
    if ended.is_err() {
        let _ = generator.kill();
        let _ = generator.wait();
    }
    let status = ended?;
    if !status.success() {
        return Err(format!("the viewers ended with {status}"));
    }
    let loud = read(&report)?;
    Ok(json!({
        "reloads": reloads,
        "longest_reload_ms": longest_ms,
        "quiet_gap_p99_ms": number(&quiet, "/steps/-1/gap_ms/p99")?,
        "quiet_gap_max_ms": number(&quiet, "/steps/-1/gap_ms/max")?,
        "gap_p99_ms": number(&loud, "/steps/-1/gap_ms/p99")?,
        "gap_max_ms": number(&loud, "/steps/-1/gap_ms/max")?,
    }))
}

/// Writes another configuration, and has it read; returns the time until the answer.
fn reload(serving: &Serving, number: u32) -> Result<Duration, String> {
    let path = &serving.configuration;
    fs::write(path, configuration(number))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let began = Instant::now();
    let answer = request(serving.admin, "POST", "/api/v1/reloads")?;
    match answer.status {
        200..=299 => Ok(began.elapsed()),
        status => {
            let body = String::from_utf8_lossy(&answer.body);
            Err(format!("reload {number} was refused: {status} {body}"))
        }
    }
}

/// A source comes and goes, and a limit and a bitrate change with each number.
fn configuration(number: u32) -> String {
    format!(
        "sources: {{demo: demo, side{number}: demo}}\n\
         limits: {{half_open_per_address: 1000, viewers: {}}}\n\
         transcoding: {{opus_kbps: {}}}\n",
        1_000 + number,
        64 + number % 3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_differs_in_all_three_keys() {
        let (first, second) = (configuration(0), configuration(1));
        let differing = first.lines().zip(second.lines()).filter(|(a, b)| a != b);
        assert_eq!(differing.count(), 3);
    }
}
