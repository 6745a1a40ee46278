//! `glassline publish` with lower encodings of the video beside the input, and viewers of each.

use glassline_client::viewers::{Pool, State};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::cluster::Watching;
use crate::http;
use crate::peers::Test;
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, glassline};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&layers_by_quic_reach_viewers_and_rest_unwatched),
    Test::of(&layers_by_whip_reach_viewers),
];

/// Publishes the test pattern in three sizes.
fn publisher(url: &str) -> Result<Running, String> {
    let layers = [
        "--layer",
        "test?size=320x180",
        "--layer",
        "test?size=160x90",
    ];
    let words = [
        &["publish", "test?size=640x360", url, "--log", "warn"][..],
        &["--bitrate", "800k", "--json", "-"],
        &layers,
    ];
    Running::start("publish", glassline(&words.concat()))
}

/// Returns the layers of the stream's video.
fn layers(server: &Server) -> Result<Vec<Value>, String> {
    let told = http::get_json(&server.admin_url("/api/v1/streams/cam"))?;
    Ok(told["tracks"][0]["layers"]
        .as_array()
        .cloned()
        .unwrap_or_default())
}

/// Returns name, rows and state of each layer.
fn states(server: &Server) -> Result<String, String> {
    let states = layers(server)?.into_iter().map(|it| {
        let text = |key: &str| it[key].to_string().replace('"', "");
        format!("{} {} {}", text("rid"), text("height"), text("state"))
    });
    Ok(states.collect::<Vec<_>>().join(", "))
}

/// Waits until the layers are in these states.
fn await_states(server: &Server, wanted: &str) -> Result<(), String> {
    eventually(PATIENCE, || match states(server)? {
        states if states == wanted => Ok(()),
        states => Err(states),
    })
}

/// Lets a viewer join at `url`, and waits until thirty of its frames in a row have a size in bytes that `fits`.
/// Returns the viewer and that size.
fn watch(url: &str, fits: impl Fn(u64) -> bool) -> Result<(Pool, u64), String> {
    let pool = Watching::join_at(url.to_owned(), None)?.pool;
    let mut before = (0, 0);
    let mut size = 0;
    eventually(PATIENCE, || {
        let viewers = pool.snapshot();
        let viewer = viewers.first().ok_or("no viewer")?;
        if viewer.state != State::Playing || viewer.damaged > 0 {
            return Err(format!("{viewer:?}"));
        }
        let (frames, bytes) = (viewer.frames - before.0, viewer.video.bytes - before.1);
        if frames >= 30 {
            size = bytes / frames;
            before = (viewer.frames, viewer.video.bytes);
        }
        match fits(size) {
            true => Ok(()),
            false => Err(format!("{url}: {size} bytes a frame")),
        }
    })?;
    Ok((pool, size))
}

fn layers_by_quic_reach_viewers_and_rest_unwatched() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let mut publisher = publisher(&server.moq_url("cam")?)?;
    server.wait_for_state("cam", "live")?;
    await_states(&server, "360p 360 paused, 180p 180 paused, 90p 90 live")?;
    let (low, small) = watch(&server.rtsp_url("cam?layer=low"), |size| size > 0)?;
    // Whoever joins reads the best layer for a moment.
    await_states(&server, "360p 360 paused, 180p 180 paused, 90p 90 live")?;
    let (top, large) = watch(&server.url("/cam/whep"), |size| size > 3 * small)?;
    println!("{small} and {large} bytes a frame");
    await_states(&server, "360p 360 live, 180p 180 paused, 90p 90 live")?;
    drop((low, top));
    await_states(&server, "360p 360 paused, 180p 180 paused, 90p 90 live")?;
    end(&mut publisher)
}

fn layers_by_whip_reach_viewers() -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let mut publisher = publisher(&server.url("/cam/whip"))?;
    server.wait_for_state("cam", "live")?;
    await_states(&server, "360p 360 live, 180p 180 live, 90p 90 live")?;
    let (low, small) = watch(&server.rtsp_url("cam?layer=low"), |size| size > 0)?;
    let (top, large) = watch(&server.url("/cam/whep"), |size| size > 3 * small)?;
    println!("{small} and {large} bytes a frame");
    drop((low, top));
    end(&mut publisher)
}

/// Ends the publisher, which lost nothing.
fn end(publisher: &mut Running) -> Result<(), Failed> {
    publisher.signal("-INT")?;
    let status = publisher.wait(PATIENCE)?;
    let printed = publisher.printed();
    match status.code() {
        Some(130) => Ok(()),
        _ => Err(format!("{status}, not 130: {printed}").into()),
    }
}
