//! Recordings with copies in versitygw, an S3 server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::ensure;
use crate::cluster::Watching;
use crate::http;
use crate::past::ffmpeg_plays;
use crate::peers::{self, Peer, Test};
use crate::ports::free_port;
use crate::process::{Running, eventually, output_folder};
use crate::server::{Server, run_to_end, unique};

pub(crate) const TESTS: &[Test] = &[Test::of(&what_has_a_copy_is_deleted_and_played_from_it)
    .needs(&[Peer::Versitygw, Peer::Ffmpeg])];

/// Long, for a debug build on a busy machine, and for attempts up to a minute apart.
const PATIENCE: Duration = Duration::from_secs(150);

/// A folder with recordings and a storage for their copies, which is removed with the value.
struct Scene {
    folder: PathBuf,
    port: u16,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Scene {
    fn new() -> Result<Self, Failed> {
        let name = unique("copies");
        let folder = output_folder().join(format!("{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("storage/footage"))?;
        let port = free_port()?;
        Ok(Self { folder, port })
    }

    fn recorded(&self) -> PathBuf {
        self.folder.join("recorded")
    }

    fn yaml(&self, free_gib: u64) -> String {
        format!(
            "recordings:\n  folder: {}\n  free_gib: {free_gib}\n  record: [{{streams: ['**']}}]\n  \
             copy:\n    endpoint: http://127.0.0.1:{}\n    bucket: footage\n    prefix: site-1\n    \
             access_key: tester\n    secret_key: {{file: {}}}\n",
            self.recorded().display(),
            self.port,
            self.folder.join("key").display(),
        )
    }

    fn start_storage(&self) -> Result<Running, String> {
        let mut command = Command::new(peers::go_binary("versitygw")?);
        let at = format!("127.0.0.1:{}", self.port);
        command.args(["--access", "tester", "--secret", "0123456789abcdef"]);
        command.args(["--quiet", "--port", &at, "posix"]);
        command.arg(self.folder.join("storage"));
        Running::start("versitygw", command)
    }

    /// Returns the files of the demo by the index.
    fn files(&self) -> Result<Vec<Value>, String> {
        let folder = self.recorded().display().to_string();
        let list = ["recordings", "list", "--json", "--stream", "demo", &folder];
        let (_, printed) = run_to_end(&list)?;
        let start = printed.find('[').ok_or_else(|| printed.clone())?;
        serde_json::from_str(&printed[start..]).map_err(|error| format!("{error}:\n{printed}"))
    }

    /// Waits until the copy of the first file has the state.
    fn await_copy(&self, state: &str) -> Result<Value, String> {
        eventually(PATIENCE, || {
            let files = self.files()?;
            match files.first().filter(|it| it["copy"] == state) {
                Some(file) => Ok(file.clone()),
                None => Err(format!("{files:?}")),
            }
        })
    }
}

/// Returns the answers for four seconds of the demo, in both forms, and a picture.
fn played(server: &Server, start: &str) -> Result<Vec<String>, String> {
    let part = format!("path=demo&start={start}&duration=4");
    let paths = [
        format!("/-/playback/get?{part}&format=fmp4"),
        format!("/-/playback/get?{part}&format=mp4"),
        format!("/-/playback/thumbnail?path=demo&at={start}"),
    ];
    let answers = paths.iter().map(|path| {
        let answer = http::get(&server.url(path))?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(format!("{path}: {status}: {}", answer.body)),
        }
    });
    answers.collect()
}

fn what_has_a_copy_is_deleted_and_played_from_it() -> Result<(), Failed> {
    let scene = Scene::new()?;
    fs::write(scene.folder.join("key"), "0123456789abcdef\n")?;
    let mut server = Server::configured(&scene.yaml(0), &["demo"])?;
    eventually(PATIENCE, || {
        let written = server.metric("glassline_recording_fragments_total")?;
        match written >= 8.0 {
            true => Ok(()),
            false => Err(format!("{written} fragments")),
        }
    })?;
    let url = server.admin_url("/api/v1/streams/demo/recording");
    let kind = [("Content-Type", "application/json")];
    http::request("POST", &url, &kind, json!({"action": "stop"}).to_string())?;
    // The storage is away: the file waits, also over a crash.
    eventually(PATIENCE, || {
        let overview = http::get_json(&server.admin_url("/api/v1/overview"))?;
        let copies = &overview["server"]["copies"];
        let problem = copies["problem"].as_str().unwrap_or_default();
        match copies["waiting_files"] == 1 && problem.contains("waits for its copy") {
            true => Ok(()),
            false => Err(format!("{copies}")),
        }
    })?;
    server.kill_and_start_again()?;
    let mut storage = scene.start_storage()?;
    let file = scene.await_copy("copied")?;
    let path = PathBuf::from(file["path"].as_str().unwrap_or_default());
    let below = path.strip_prefix(scene.recorded())?;
    let copy = scene.folder.join("storage/footage/site-1").join(below);
    ensure(
        fs::read(&path)? == fs::read(&copy)?,
        "the copy has the bytes of the file",
        &file,
    )?;
    let list = http::get_json(&server.url("/-/playback/list?path=demo"))?;
    let start = list[0]["start"].as_str().unwrap_or_default().to_owned();
    let before = played(&server, &start)?;
    // No disk has so much: whatever has a copy goes.
    fs::write(server.configuration()?, scene.yaml(1 << 20))?;
    server.hang_up()?;
    scene.await_copy("alone")?;
    ensure(!path.exists(), "the file is gone", &file)?;
    ensure(
        played(&server, &start)? == before,
        "the copy plays as the file did",
        &file,
    )?;
    let watching = Watching::join_at(server.url(&format!("/demo/whep?at={start}")), None)?;
    watching.sees(30)?;
    ffmpeg_plays(&server, &format!("demo?at={start}"), 3.0)?;
    let folder = scene.recorded().display().to_string();
    let (status, printed) = run_to_end(&["recordings", "check", &folder])?;
    ensure(
        status.success() && printed.contains("copies alone"),
        "a copy is no fault",
        &json!(printed),
    )?;
    storage.kill();
    server.kill_and_start_again()?;
    let path = format!("/-/playback/get?path=demo&start={start}&duration=4");
    let answer = http::get(&server.url(&path))?;
    ensure(
        answer.status == 503 && answer.body.contains("footage"),
        "whose fault it is",
        &json!(answer.body),
    )
}
