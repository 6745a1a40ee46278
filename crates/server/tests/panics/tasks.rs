//! Panics of sources, and of the tasks that look after a server.

use std::path::PathBuf;
use std::time::Duration;

use glassline_access::auth::{Account, Name, Pattern};
use glassline_config::Config;
use glassline_hub::State;
use glassline_ingest::SourceSpec;

use super::{await_that, fail, fail_at};
use crate::peer::Peer;
use crate::rooms::{join, others};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Authorization of user `ann` with password `pw`, and of `bob`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnB3");
const BOB: (&str, &str) = ("Authorization", "Basic Ym9iOnB3");

#[test]
fn a_camera_whose_task_panics_is_down_and_comes_back() {
    let site = Running::start(1);
    let _source = Source::start(&site.stream(), Film::default());
    let url = format!("door=rtsp://{}/{STREAM}", site.rtsp());
    let spec = SourceSpec::parse(&url).expect("a camera");
    let running = Running::with_sources(vec![spec]);
    let door = running.hub().stream("door").expect("configured");
    let is_live = || matches!(door.state(), State::Live { .. });
    await_that(&running, "the camera is live", |_| is_live());
    let mut viewer = Peer::of_stream(&running, "door").expect("answered");
    viewer.await_media();
    // More often than a part may start anew: a source ends no process.
    for panics in 1..=6 {
        let sources = door.totals().sources;
        fail(&running, "camera door", "panic");
        await_that(&running, "it comes back", |_| {
            is_live() && door.totals().sources > sources
        });
        assert_eq!(running.of_part("panics_total", "source"), panics);
    }
    let before = viewer.received.len();
    let goes_on = |viewer: &Peer<'_>| viewer.received.len() > before + 30;
    assert!(
        viewer.run_until(Duration::from_secs(20), goes_on),
        "its viewers stay"
    );
    assert_eq!(running.admin("/healthz").status, 200);
}

/// Users in a file of their own, which is removed with this.
struct UserFile(PathBuf);

impl UserFile {
    fn new(name: &str) -> Self {
        let name = format!("glassline-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = "auth:\n  users_file: users.yml\n";
        std::fs::write(folder.join("glassline.yml"), config).expect("written");
        Self(folder)
    }

    /// Writes users who may join the room `team`.
    fn write(&self, names: &[&str]) {
        let entry = |name: &&str| {
            let pattern = vec![Pattern::parse("call~team~*").expect("a pattern")];
            let account = Account {
                read: pattern.clone(),
                publish: pattern,
                ..Account::new(Name::parse(name).expect("a name"), "pw", &[5; 16])
            };
            account.to_yaml()
        };
        let entries: String = names.iter().map(entry).collect();
        std::fs::write(self.0.join("users.yml"), entries).expect("written");
    }

    fn serve(&self) -> Running {
        let loaded = Config::load(&self.0.join("glassline.yml")).expect("a configuration");
        Running::with(1, |config| {
            config.auth = loaded.auth;
            config.files = loaded.files;
        })
    }
}

impl Drop for UserFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_reload_that_panics_changes_nothing_and_the_next_one_works() {
    let users = UserFile::new("reload-panic");
    users.write(&["ann"]);
    let running = users.serve();
    let may = |who| join(&running, "team", &[who]).is_ok();
    assert!(may(ANN) && !may(BOB));
    users.write(&["ann", "bob"]);
    fail_at(&running, "reload");
    running.reload();
    await_that(&running, "the panic comes", |running| {
        running.of_part("panics_total", "background") == 1
    });
    assert!(may(ANN) && !may(BOB));
    running.reload();
    await_that(&running, "the next reload", |_| may(BOB));
    assert_eq!(running.admin("/healthz").status, 200);
}

#[test]
fn users_without_rights_are_put_out_of_rooms_after_a_panic() {
    let users = UserFile::new("participants-panic");
    users.write(&["ann", "bob"]);
    let running = users.serve();
    let ann = join(&running, "team", &[ANN]).expect("she may");
    let bob = join(&running, "team", &[BOB]).expect("he may");
    users.write(&["bob"]);
    fail_at(&running, "lost-participants");
    running.reload();
    await_that(&running, "ann has left the room", |_| {
        others(&bob, None)["others"].as_array().map(Vec::len) == Some(0)
    });
    running.get(&ann.location).problem(404);
    assert_eq!(running.of_part("panics_total", "background"), 1);
    assert_eq!(running.of_part("part_restarts_total", "background"), 1);
}

#[test]
fn the_task_that_removes_what_nobody_needs_runs_again_after_a_panic() {
    let running = Running::with(1, |config| config.limits.handshake_s = 2);
    let _source = Source::start(&running.stream(), Film::default());
    fail(&running, "tokio", "panic");
    await_that(&running, "the task runs again", |running| {
        running.of_part("part_restarts_total", "background") == 1
    });
    drop(Peer::answered(&running));
    running.await_sessions(0, Duration::from_secs(60));
}
