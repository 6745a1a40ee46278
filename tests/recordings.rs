//! Recordings of the built binary: what a crash leaves, names that are paths, wishes and marks, and a
//! disk that is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::ensure;
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, eventually, output_folder};
use crate::rtsp_publishers::encoder;
use crate::server::{Server, run_to_end, unique};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_killed_server_loses_nothing_that_it_wrote).needs(&[Peer::Ffmpeg]),
    Test::of(&a_recording_is_started_marked_and_stopped_over_the_api).needs(&[Peer::Ffmpeg]),
    Test::of(&a_second_server_is_told_whose_folder_it_is),
    Test::of(&a_track_that_has_no_place_in_a_file_is_named).needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&a_full_disk_is_a_gap_with_its_reason),
];

/// A folder of recordings that is removed with the value.
pub(crate) struct Recorded(PathBuf);

impl Recorded {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let folder = output_folder().join(format!("{}-{}", std::process::id(), unique(name)));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn yaml(&self, more: &str) -> String {
        format!(
            "recordings:\n  folder: {}\n  free_gib: 0\n{more}",
            self.0.display()
        )
    }

    /// Runs `glassline recordings ACTION` on the folder.
    fn command(&self, action: &[&str]) -> Result<(bool, String), String> {
        let folder = self.0.to_str().ok_or("a path of text")?;
        let arguments = [&["recordings"], action, &[folder]].concat();
        let (status, printed) = run_to_end(&arguments)?;
        Ok((status.success(), printed))
    }

    /// Returns the files of a stream by the index.
    fn files(&self, stream: &str) -> Result<Vec<Value>, String> {
        let (is_well, printed) = self.command(&["list", "--json", "--stream", stream])?;
        let start = printed.find('[').filter(|_| is_well);
        let start = start.ok_or_else(|| format!("no list:\n{printed}"))?;
        serde_json::from_str(&printed[start..]).map_err(|error| format!("{error}:\n{printed}"))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until so many fragments of all streams are written.
pub(crate) fn wait_for_fragments(server: &Server, count: f64) -> Result<(), String> {
    eventually(PATIENCE, || {
        let written = server.metric("glassline_recording_fragments_total")?;
        match written >= count {
            true => Ok(()),
            false => Err(format!(
                "{written} fragments of {count}\n{}",
                server.printed()
            )),
        }
    })
}

/// Changes the recording of a stream, and returns what the server says of it.
fn change(server: &Server, stream: &str, body: &Value) -> Result<Value, String> {
    let stream = stream.replace('/', "%2F");
    let url = server.admin_url(&format!("/api/v1/streams/{stream}/recording"));
    let kind = [("Content-Type", "application/json")];
    let answer = http::request("POST", &url, &kind, body.to_string())?;
    match answer.status {
        200 => answer.json(),
        status => Err(format!("{status}: {}", answer.body)),
    }
}

/// Decodes a file with FFmpeg, and returns the number of its video frames.
fn frames(path: &Path) -> Result<u64, String> {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-count_frames", "-select_streams", "v:0"]);
    command.args(["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"]);
    let output = command.arg(path).output();
    let output = output.map_err(|error| format!("cannot run ffprobe: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counted = String::from_utf8_lossy(&output.stdout).trim().parse();
    match said.trim() {
        "" => counted.map_err(|error| format!("{}: {error}", path.display())),
        said => Err(format!("{}: {said}", path.display())),
    }
}

fn a_killed_server_loses_nothing_that_it_wrote() -> Result<(), Failed> {
    let recorded = Recorded::new("killed")?;
    let yaml = recorded.yaml("  record: [{streams: ['**']}]\n");
    let mut server = Server::configured(&yaml, &["demo", "site/yard=demo"])?;
    wait_for_fragments(&server, 12.0)?;
    let written = server.stream("demo")?["recording"]["bytes"].as_u64();
    let written = written.ok_or("no recording")?;
    server.kill_and_start_again()?;
    // The server closes what it found before it records on.
    let found = eventually(PATIENCE, || {
        let files = recorded.files("demo")?;
        match files.len() >= 2 && files[0]["closed"] == true {
            true => Ok(files),
            false => Err(format!("{files:?}")),
        }
    })?;
    let bytes = found[0]["bytes"].as_u64().unwrap_or(0);
    ensure(
        bytes >= written,
        "all that was written is there",
        &json!([bytes, written]),
    )?;
    let path = PathBuf::from(found[0]["path"].as_str().unwrap_or_default());
    let length = fs::metadata(&path)?.len();
    ensure(
        length == bytes,
        "the file ends with its last fragment",
        &json!([length, bytes]),
    )?;
    let seconds = found[0]["duration_s"].as_f64().unwrap_or(0.0);
    let counted = frames(&path)?;
    let expected = (seconds * 30.0).round();
    ensure(
        (counted as f64 - expected).abs() <= 1.0,
        "each frame of the index plays",
        &json!([counted, expected]),
    )?;
    let yard = recorded.files("site/yard")?;
    let yard = PathBuf::from(yard[0]["path"].as_str().unwrap_or_default());
    ensure(
        yard.starts_with(recorded.0.join("site/yard")),
        "a name with folders is a folder",
        &json!(yard),
    )?;
    wait_for_fragments(&server, 4.0)?;
    server.stop(PATIENCE)?;
    let (is_well, printed) = recorded.command(&["check"])?;
    ensure(
        is_well,
        "the index is right without repair",
        &json!(printed),
    )?;
    for file in recorded.files("demo")? {
        ensure(
            file["closed"] == true,
            "a server that ends closes its files",
            &file,
        )?;
        frames(Path::new(file["path"].as_str().unwrap_or_default()))?;
    }
    is_made_anew(&recorded)
}

/// Damages the index of a folder, and checks that it is named and made anew.
fn is_made_anew(recorded: &Recorded) -> Result<(), Failed> {
    let index = recorded.0.join(".glassline/index.sqlite");
    // SQLite would read the pages of its log in place of the file's.
    let _ = fs::remove_file(index.with_extension("sqlite-wal"));
    fs::write(index, "no database")?;
    let (is_well, printed) = recorded.command(&["check"])?;
    ensure(
        !is_well && printed.contains("repair"),
        "what helps",
        &json!(printed),
    )?;
    let before = recorded.command(&["repair"])?;
    ensure(before.0, "the index is made anew", &json!(before.1))?;
    let (is_well, printed) = recorded.command(&["check"])?;
    ensure(is_well, "the new index is right", &json!(printed))
}

fn a_recording_is_started_marked_and_stopped_over_the_api() -> Result<(), Failed> {
    let recorded = Recorded::new("wished")?;
    let server = Server::configured(&recorded.yaml(""), &["site/yard=demo"])?;
    let stream = || server.stream("site%2Fyard");
    ensure(
        stream()?["recording"]["state"] == "off",
        "nobody wants it",
        &stream()?,
    )?;
    change(&server, "site/yard", &json!({"action": "start"}))?;
    wait_for_fragments(&server, 3.0)?;
    ensure(
        stream()?["recording"]["state"] == "recording",
        "it is recorded",
        &stream()?,
    )?;
    let mark = json!({"action": "mark", "label": "door", "before_s": 3, "for_ever": true});
    change(&server, "site/yard", &mark)?;
    let told = change(&server, "site/yard", &json!({"action": "stop"}))?;
    ensure(told["state"] == "off", "it is not recorded any more", &told)?;
    for (body, status) in [
        (json!({"action": "begin"}), "400"),
        (json!({"action": "mark", "before_s": 90_000}), "422"),
        (json!({"action": "mark", "label": "a\u{7}"}), "422"),
    ] {
        let refused = change(&server, "site/yard", &body).expect_err("it cannot be done");
        ensure(refused.starts_with(status), "a wrong body", &json!(refused))?;
    }
    let closed = eventually(PATIENCE, || {
        let files = recorded.files("site/yard")?;
        match files.iter().all(|it| it["closed"] == true) {
            true => Ok(files),
            false => Err(format!("{files:?}")),
        }
    })?;
    frames(Path::new(closed[0]["path"].as_str().unwrap_or_default()))?;
    // Start and stop are told by a task that looks now and then.
    eventually(PATIENCE, || {
        let events = http::get_json(&server.admin_url("/api/v1/events?kind=recording"))?;
        match events["total"].as_u64() {
            Some(2..) => Ok(()),
            _ => Err(format!("operators are not told: {events}")),
        }
    })?;
    let audit = http::get_json(&server.admin_url("/api/v1/audit"))?.to_string();
    ensure(
        audit.contains("changeRecording"),
        "changes are noted",
        &json!(audit),
    )?;
    let none = Server::serve(&["demo"])?;
    let refused = change(&none, "demo", &json!({"action": "start"})).expect_err("no folder");
    ensure(
        refused.contains("recordings.folder"),
        "what to set",
        &json!(refused),
    )?;
    ensure(
        none.stream("demo")?["recording"].is_null(),
        "nothing",
        &Value::Null,
    )
}

fn a_second_server_is_told_whose_folder_it_is() -> Result<(), Failed> {
    let recorded = Recorded::new("shared")?;
    let yaml = recorded.yaml("  record: [{streams: [demo]}]\n");
    let first = Server::configured(&yaml, &["demo"])?;
    wait_for_fragments(&first, 1.0)?;
    let second = Server::configured(&yaml, &["demo"])?;
    let id = first.id();
    eventually(PATIENCE, || {
        let told = second.stream("demo")?["recording"].clone();
        let reason = told["reason"].as_str().unwrap_or_default();
        match reason.contains(&format!("(process {id})")) {
            true => Ok(()),
            false => Err(format!("{told}")),
        }
    })?;
    let (is_well, printed) = recorded.command(&["repair"])?;
    ensure(
        !is_well && printed.contains("another server"),
        "in use",
        &json!(printed),
    )
}

fn a_track_that_has_no_place_in_a_file_is_named() -> Result<(), Failed> {
    let recorded = Recorded::new("mp3")?;
    let server = Server::configured(&recorded.yaml("  record: [{streams: [cam]}]\n"), &[])?;
    let url = server.rtsp_url("cam");
    let _publisher = encoder(&url, "-c:v libx264 -bf 0 -c:a libmp3lame")?;
    wait_for_fragments(&server, 2.0)?;
    let told = server.stream("cam")?["recording"].clone();
    ensure(
        told["state"] == "recording" && told["left_out"] == json!(["MPEG audio"]),
        "the video is recorded",
        &told,
    )?;
    let browser = Browser::start()?;
    browser.open(&server.url("/cam/timeline"))?;
    let names_it = "const said = document.getElementById('left-out');
         return !said.hidden && said.textContent.endsWith(': MPEG audio.')";
    browser.wait_until(PATIENCE, names_it)?;
    Ok(())
}

/// A file system in memory of a few MiB, where this machine lets us mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path, mib: u32) -> Option<Self> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]);
        let mounted = command.arg(folder).output().ok()?.status.success();
        mounted.then(|| Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn a_full_disk_is_a_gap_with_its_reason() -> Result<(), Failed> {
    let recorded = Recorded::new("full")?;
    let Some(disk) = SmallDisk::mount(&recorded.0, 6) else {
        println!("no file system can be mounted here: the model of a disk is tested alone");
        return Ok(());
    };
    // What others wrote, which goes away when the recording has stopped.
    let filler = recorded.0.join("filler");
    fs::write(&filler, vec![0; 4 << 20])?;
    let yaml = recorded.yaml("  record: [{streams: [demo]}]\n");
    let mut server = Server::configured(&yaml, &["demo"])?;
    let state = |wanted: &str| {
        eventually(PATIENCE, || {
            let told = server.stream("demo")?["recording"].clone();
            match told["state"] == wanted {
                true => Ok(told),
                false => Err(format!("{told}")),
            }
        })
    };
    let told = state("losing")?;
    let reason = told["reason"].as_str().unwrap_or_default();
    ensure(reason.contains("the disk is full"), "the reason", &told)?;
    fs::remove_file(&filler)?;
    state("recording")?;
    let files = eventually(PATIENCE, || {
        let files = recorded.files("demo")?;
        let lost = files.iter().any(|it| it["lost_before"].is_string());
        match lost {
            true => Ok(files),
            false => Err(format!("{files:?}")),
        }
    })?;
    ensure(
        files[0]["closed"] == true,
        "the file before the gap",
        &json!(files),
    )?;
    server.stop(PATIENCE)?;
    let (is_well, printed) = recorded.command(&["check"])?;
    ensure(is_well, "the index is right", &json!(printed))?;
    drop(disk);
    Ok(())
}
