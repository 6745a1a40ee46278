//! Files of the media folder, watched by WHEP.

use std::path::{Path, PathBuf};

use glassline_media::Kind;

use crate::peer::{Peer, SDP, SOON};
use crate::running::Running;

/// A folder with the shipped clip, removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("glassline-{test}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).expect("a folder");
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
        let clip = std::fs::read(assets.join("demo.h264")).expect("the clip");
        std::fs::write(folder.0.join("clip.h264"), &clip).expect("a file");
        std::fs::write(folder.0.join("broken.h264"), "no clip").expect("a file");
        let films = folder.0.join("films");
        std::fs::create_dir_all(&films).expect("a folder");
        std::fs::write(films.join("a clip.h264"), &clip).expect("a file");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_plays_while_somebody_watches_it() {
    let folder = Folder::new("plays");
    let running = Running::with(1, |config| {
        config.rtsp.media_folder = Some(folder.0.clone());
        config.limits.handshake_s = 3;
    });
    let offer = |path: &str| running.request("POST", path, &[SDP], "v=0\r\n");
    offer("/none.h264/whep").problem(404);
    let broken = offer("/broken.h264/whep").problem(422);
    let detail = broken["detail"].as_str().expect("words").to_owned();
    assert!(
        !detail.contains(folder.0.to_str().expect("a plain path")),
        "{detail}"
    );
    assert!(detail.starts_with("broken.h264: "), "{detail}");
    offer("/clip.h264/whep").problem(400);
    assert!(running.hub().streams().is_empty(), "only asked for");
    let mut peer = Peer::of_stream(&running, "clip.h264").expect("an answer");
    let begun = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 50;
    assert!(peer.run_until(SOON, begun), "frames of the file");
    let stream = running.hub().stream("clip.h264").expect("listed");
    // Longer than what holds it until the viewer is connected.
    peer.run_for(std::time::Duration::from_secs(4));
    assert_eq!(stream.state().as_str(), "live");
    assert_eq!(running.total("media_files_opened_total"), 2);
    peer.delete();
    let end = std::time::Instant::now() + SOON;
    while running.hub().stream("clip.h264").is_some() {
        assert!(
            std::time::Instant::now() < end,
            "it ends with its last viewer"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(stream.state().as_str(), "ended");
}

#[test]
fn a_viewer_of_a_file_in_a_folder_leaves_by_its_location() {
    let folder = Folder::new("folder");
    let running = Running::with(1, |config| {
        config.rtsp.media_folder = Some(folder.0.clone());
    });
    for spelling in ["films%2Fa%20clip.h264", "%66ilms%2fa%20clip.h264"] {
        let peer = Peer::of_stream(&running, spelling).expect("an answer");
        let start = "/films/a%20clip.h264/whep/";
        assert!(peer.location.starts_with(start), "{}", peer.location);
        // A session of this name belongs to this file alone.
        let (_, session) = peer.location.rsplit_once('/').expect("a path");
        let other = format!("/clip.h264/whep/{session}");
        running.request("DELETE", &other, &[], "").problem(404);
        assert_eq!(peer.delete().status, 200);
        assert_eq!(running.total("media_files_opened_total"), 1, "one entry");
    }
    running.await_sessions(0, SOON);
}

#[test]
fn files_are_listed_and_their_pages_answer_before_they_play() {
    let folder = Folder::new("listed");
    let running = Running::with(1, |config| {
        config.rtsp.media_folder = Some(folder.0.clone());
    });
    let listed = running.get("/api/v1/files").json();
    let names = listed["files"].as_array().expect("a list").iter();
    let names: Vec<_> = names
        .map(|file| (file["name"].as_str().expect("a name"), &file["page"]))
        .collect();
    assert_eq!(
        names,
        [
            ("broken.h264", &true.into()),
            ("clip.h264", &true.into()),
            ("films/a clip.h264", &true.into()),
        ]
    );
    assert_eq!(listed["more"], false);
    assert_eq!(running.get("/clip.h264").status, 200);
    for missing in ["/none.h264", "/clip.txt", "/..%2Fclip.h264"] {
        assert_eq!(running.get(missing).status, 404, "{missing}");
    }
    assert_eq!(running.total("media_files_opened_total"), 0, "only listed");
}

#[test]
fn a_file_of_a_format_that_is_not_read_is_listed_and_refused_with_the_way_out() {
    let folder = Folder::new("unread");
    std::fs::write(folder.0.join("a song.aiff"), "FORM").expect("a file");
    let running = Running::with(1, |config| {
        config.rtsp.media_folder = Some(folder.0.clone());
    });
    let refused = |name: &str| {
        let listed = running.get("/api/v1/files").json();
        let files = listed["files"].as_array().expect("a list").clone();
        let found = files.into_iter().find(|file| file["name"] == name);
        found.expect("the file")["refused"]
            .as_str()
            .map(str::to_owned)
    };
    let way_out = "AIFF is not read; convert it with: \
                   ffmpeg -i 'a song.aiff' -c:a libopus 'a song.ogg'";
    assert_eq!(refused("a song.aiff").as_deref(), Some(way_out));
    assert_eq!(running.get("/a%20song.aiff").status, 200, "its page");
    let offer = |path: &str, status| {
        let problem = running
            .request("POST", path, &[SDP], "v=0\r\n")
            .problem(status);
        problem["detail"].as_str().expect("words").to_owned()
    };
    let detail = offer("/a%20song.aiff/whep", 422);
    assert_eq!(detail, format!("a song.aiff: {way_out}"));
    offer("/none.aiff/whep", 404);
    let why = offer("/broken.h264/whep", 422);
    let why = why.strip_prefix("broken.h264: ").expect("the name");
    assert_eq!(refused("broken.h264").as_deref(), Some(why));
    assert_eq!(refused("clip.h264"), None);
}

#[test]
fn without_a_media_folder_no_file_is_listed() {
    let running = Running::with(1, |_| {});
    let listed = running.get("/api/v1/files").json();
    assert_eq!(listed["files"].as_array().map(Vec::len), Some(0));
}
