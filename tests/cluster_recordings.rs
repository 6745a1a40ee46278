//! Recordings in a cluster: each stream is recorded once, by the server that has its source, and played by every
//! server, whichever recorded it.

use std::process::Command;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::ensure;
use crate::cluster::{Watching, cluster, wait_for_each_other, wait_for_owner};
use crate::http;
use crate::nats::Nats;
use crate::past::ffmpeg_plays;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, eventually, output_folder};
use crate::server::{Server, command_to_end, unique};

pub(crate) const TESTS: &[Test] =
    &[Test::of(&what_two_servers_recorded_is_one_for_a_third).needs(&[Peer::Nats, Peer::Ffmpeg])];

/// Starts a server of the cluster.
fn node(name: &str, nats: &Nats, more: &str) -> Result<Server, String> {
    let yaml = format!(
        "cluster: {{name: {name}, secret: shared-by-all, nats: '{}', linger_s: 2}}\n{more}",
        nats.url()
    );
    Server::configured(&yaml, &[])
}

/// Waits until a server has written so many fragments.
fn wait_for_fragments(server: &Server, count: f64) -> Result<(), String> {
    eventually(PATIENCE, || {
        match server.metric("glassline_recording_fragments_total")? {
            written if written >= count => Ok(()),
            written => Err(format!("{written} fragments")),
        }
    })
}

/// Returns what a server says of the recordings of `hall`, and which servers it misses.
fn list(server: &Server) -> Result<(Vec<Value>, String), String> {
    let answer = http::get(&server.url("/-/playback/list?path=hall"))?;
    let missing = answer.header("glassline-missing").unwrap_or_default();
    let missing = missing.to_owned();
    match answer.status {
        200 => Ok((
            serde_json::from_str(&answer.body).map_err(|error| error.to_string())?,
            missing,
        )),
        _ => Err(answer.body),
    }
}

/// Returns the length in seconds of the video that a program decodes of a part of `hall`.
fn seconds(url: &str) -> Result<f64, String> {
    let mut ffprobe = Command::new("ffprobe");
    ffprobe.args(["-v", "error", "-count_frames", "-select_streams", "v:0"]);
    let entries = "stream=duration,nb_read_frames";
    ffprobe.args(["-show_entries", entries, "-of", "json", url]);
    let (status, text) = command_to_end(ffprobe)?;
    let found: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let number = |key: &str| found["streams"][0][key].as_str()?.parse::<f64>().ok();
    match (number("duration"), number("nb_read_frames")) {
        (Some(seconds), Some(frames)) if status.success() && frames > seconds => Ok(seconds),
        _ => Err(text),
    }
}

fn what_two_servers_recorded_is_one_for_a_third() -> Result<(), Failed> {
    let camera = Server::demo()?;
    let nats = Nats::start()?;
    let folder = output_folder().join(format!("{}-{}", std::process::id(), unique("of-cluster")));
    let recording = |name: &str| {
        format!(
            "sources: {{hall: '{}'}}\nrecordings: {{folder: '{}', free_gib: 0, record: [{{streams: [hall]}}]}}\n",
            camera.rtsp_url("demo"),
            folder.join(name).display()
        )
    };
    let mut a = node("a", &nats, &recording("a"))?;
    let mut b = node("b", &nats, &recording("b"))?;
    let c = node("c", &nats, "")?;
    wait_for_each_other(&[&a, &b, &c])?;
    let owner = eventually(PATIENCE, || {
        let told = cluster(&a)?;
        let owner = told["streams"][0]["owner"].as_str().map(str::to_owned);
        owner.ok_or_else(|| format!("nobody has the camera: {told}"))
    })?;
    let (killed, other, other_name) = match owner.as_str() {
        "a" => (&mut a, &b, "b"),
        _ => (&mut b, &a, "a"),
    };
    // A server that pulls the stream does not record it.
    let watching = Watching::join(other, "hall")?;
    watching.sees(30)?;
    wait_for_fragments(killed, 6.0)?;
    let doubled = other
        .metric("glassline_recording_fragments_total")
        .unwrap_or(0.0);
    ensure(
        doubled == 0.0,
        "the stream is recorded once",
        &json!(doubled),
    )?;
    killed.signal("-KILL")?;
    wait_for_owner(other, "hall", other_name)?;
    wait_for_fragments(other, 6.0)?;
    // The third server, which records nothing, names the one that does not answer.
    let (stretches, missing) = list(&c)?;
    ensure(
        stretches.len() == 1,
        "the second server's part",
        &json!(stretches),
    )?;
    ensure(
        missing.starts_with(&format!("{owner}: ")),
        "who is missing",
        &json!(missing),
    )?;
    killed.kill_and_start_again()?;
    let (stretches, _) = eventually(PATIENCE, || {
        let (stretches, missing) = list(&c)?;
        match stretches.len() == 2 && missing.is_empty() {
            true => Ok((stretches, missing)),
            false => Err(format!("{stretches:?} without {missing}")),
        }
    })?;
    plays_as_one(&c, &stretches)
        .and_then(|()| plays_as_stream(&c, &stretches))
        .map_err(|error| format!("{error:?}"))?;
    is_marked_on_both(killed, &c, &stretches)?;
    let again = killed
        .metric("glassline_recording_fragments_total")
        .unwrap_or(0.0);
    ensure(
        again == 0.0,
        "the first server does not record again",
        &json!(again),
    )?;
    let refused = http::request(
        "POST",
        &c.url("/-/playback/ask?path=hall&ticket=1.0..x"),
        &[("Content-Type", "application/json")],
        r#"{"holdings":{"from_us":0,"to_us":1}}"#,
    )?;
    ensure(
        refused.status == 403,
        "strangers ask no server",
        &json!(refused.body),
    )?;
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

/// Checks that the third server gives the whole span, in every form.
fn plays_as_one(server: &Server, stretches: &[Value]) -> Result<(), Failed> {
    let start = stretches[0]["start"].as_str().unwrap_or_default();
    let lengths = stretches.iter().filter_map(|it| it["duration"].as_f64());
    let recorded: f64 = lengths.sum();
    for form in ["mp4", "fmp4"] {
        let path = format!("/-/playback/get?path=hall&start={start}&duration=600&format={form}");
        let played = seconds(&server.url(&path))?;
        // The newest file has grown since.
        ensure(
            played > recorded - 1.5,
            "both parts play as one",
            &json!([form, played, recorded]),
        )?;
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "warning", "-i", &server.url(&path), "-map", "0"]);
        ffmpeg.args(["-c", "copy", "-f", "framecrc", "-"]);
        let output = ffmpeg.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure(
            output.status.success() && !said.to_lowercase().contains("monoton"),
            "no track goes back in time",
            &json!([form, said]),
        )?;
        let part = http::request("GET", &server.url(&path), &[("Range", "bytes=100-199")], "")?;
        ensure(part.status == 206, "a range of it", &json!(part.status))?;
    }
    for stretch in stretches {
        let at = stretch["start"].as_str().unwrap_or_default();
        let path = format!("/-/playback/thumbnail?path=hall&at={at}&width=160");
        let thumbnail = http::get(&server.url(&path))?;
        ensure(
            thumbnail.status == 200,
            "a thumbnail of each part",
            &json!(thumbnail.body),
        )?;
    }
    Ok(())
}

/// Checks that the third server plays both parts over RTSP and WHEP.
fn plays_as_stream(server: &Server, stretches: &[Value]) -> Result<(), Failed> {
    let start = stretches[0]["start"].as_str().unwrap_or_default();
    // The first part, and two seconds of the other one.
    let seconds = stretches[0]["duration"].as_f64().unwrap_or_default() + 2.0;
    let at = server.url(&format!("/hall/whep?at={start}"));
    let watching = Watching::join_at(at, None)?;
    ffmpeg_plays(server, &format!("hall?at={start}"), seconds)?;
    let wanted = (27.0 * seconds) as u64;
    eventually(PATIENCE, || match watching.frames()? {
        seen if seen >= wanted => Ok(()),
        seen => Err(format!("{seen} of {wanted} frames over WHEP")),
    })?;
    Ok(())
}

/// Checks that a span of both servers is marked on both, and shown once.
fn is_marked_on_both(at: &Server, third: &Server, stretches: &[Value]) -> Result<(), Failed> {
    let url = at.admin_url("/api/v1/streams/hall/recording");
    let body = json!({"action": "mark", "label": "takeover", "before_s": 600});
    let kind = [("Content-Type", "application/json")];
    let answer = http::request("POST", &url, &kind, body.to_string())?;
    ensure(
        answer.status == 200,
        "the mark is made",
        &json!(answer.body),
    )?;
    let marks = http::get_json(&third.url("/-/playback/marks?path=hall"))?;
    let labels: Vec<_> = marks.as_array().into_iter().flatten().collect();
    ensure(labels.len() == 1, "one mark", &json!([marks, stretches]))
}
