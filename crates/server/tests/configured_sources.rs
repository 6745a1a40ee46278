//! Sources of the configuration that change while the server runs.

use glassline_config::Config;
use glassline_ingest::SourceSpec;
use glassline_media::Kind;
use serde_json::json;

use crate::peer::{Peer, SOON};
use crate::reload::{Folder, reload_until};
use crate::running::{Running, STREAM};
use crate::sources::{Kept, camera, eventually, is_closed, is_live, put, source, url};

/// Starts a server as `serve FILE` does, with more sources of the command line.
fn serve(folder: &Folder, kept: &Kept, text: &str, more: &[&str]) -> Running {
    let file = folder.write("glassline.yml", text);
    let loaded = Config::load(&file).expect("a configuration");
    let mut specs = loaded.specs();
    specs.extend(
        more.iter()
            .map(|it| SourceSpec::parse(it).expect("a source")),
    );
    Running::with_sources_and(specs, |config| {
        kept.configure(config);
        config.files = loaded.files;
    })
}

fn has(running: &Running, name: &str) -> bool {
    running.hub().stream(name).is_some()
}

#[test]
fn cameras_are_added_changed_and_removed_while_viewers_watch() {
    let ((first, _a), (second, _b)) = (camera(), camera());
    let (folder, kept) = (Folder::new("cameras"), Kept::new("cameras"));
    let written = |cameras: &[(&str, &Running)], others: &str| {
        let lines = cameras
            .iter()
            .map(|(name, camera)| format!("  {name}: {}\n", url(camera)));
        format!("sources:\n{}{others}", lines.collect::<String>())
    };
    let begin = written(
        &[(STREAM, &first), ("gate", &second)],
        "  studio: publisher\n",
    );
    let running = serve(&folder, &kept, &begin, &["film=demo"]);
    eventually("the first camera", || is_live(&running, STREAM));
    let stream = running.hub().stream(STREAM).expect("made");
    let mut peer = Peer::joined(&running);

    // The watched camera has another address, one is new, one is gone, and two stay.
    let changed = written(
        &[(STREAM, &second), ("door", &first)],
        "  studio: publisher\nlimits: {viewers: 7}\n",
    );
    folder.write("glassline.yml", changed);
    reload_until(&running, || {
        is_live(&running, "door") && !has(&running, "gate")
    });
    assert!(
        has(&running, "studio") && has(&running, "film"),
        "they stay"
    );
    assert!(
        peer.run_until(SOON, |_| stream.totals().sources >= 2),
        "the second camera"
    );
    let seen = peer.of(Kind::Video).count();
    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > seen + 60;
    assert!(peer.run_until(SOON, goes_on), "its frames come");
    assert!(!is_closed(&peer), "the viewer stayed");
    assert_eq!(source(&running, STREAM)["origin"], "configuration");

    // A file that cannot work changes nothing, not even what would work.
    let broken = written(&[("yard", &first)], "  broken: missing.h264\n");
    folder.write("glassline.yml", broken);
    running.reload_and_wait();
    assert!(is_live(&running, "door") && has(&running, STREAM));
    assert!(!has(&running, "yard") && !has(&running, "broken"));
    let seen = peer.of(Kind::Video).count();
    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > seen + 30;
    assert!(peer.run_until(SOON, goes_on) && !is_closed(&peer));

    folder.write("glassline.yml", "# nothing\n");
    reload_until(&running, || {
        !has(&running, STREAM) && !has(&running, "studio")
    });
    assert!(peer.run_until(SOON, is_closed), "the viewer is told");
    assert!(has(&running, "film"), "the command line has it");
}

#[test]
fn a_name_of_the_file_wins_over_one_of_the_api_until_it_is_gone() {
    let (first, _film) = camera();
    let (folder, kept) = (Folder::new("names"), Kept::new("names-of-file"));
    let running = serve(&folder, &kept, "# nothing\n", &[]);
    let made = put(&running, "studio", &json!({ "source": url(&first) }));
    assert_eq!(made.status, 201, "{}", made.body);
    eventually("the camera", || is_live(&running, "studio"));
    folder.write("glassline.yml", "sources: {studio: demo}\n");
    reload_until(&running, || source(&running, "studio")["kind"] == "demo");
    let refused = put(&running, "studio", &json!({ "source": "publisher" }));
    assert_eq!(refused.status, 409);
    let stored = "/api/v1/sources?origin=api&name=studio";
    let shown = running.admin(stored).json();
    let problem = shown["sources"][0]["problem"].as_str().expect("a reason");
    assert!(problem.contains("configuration"), "{problem}");
    folder.write("glassline.yml", "# nothing again\n");
    reload_until(&running, || source(&running, "studio")["kind"] == "camera");
    eventually("the camera again", || is_live(&running, "studio"));
    assert!(running.admin(stored).json()["sources"][0]["problem"].is_null());
}
