//! Pion plays a file to our viewers: a WebRTC stack on the server's side that shares no code with
//! ours.

use std::path::Path;
use std::thread;
use std::time::Duration;

use glassline_client::viewers::{Endpoint, Join, Options, Pool, State, Viewer};
use libtest_mimic::Failed;

use crate::peers::{self, Peer, Test};
use crate::process::{Running, eventually};

pub(crate) const TESTS: &[Test] =
    &[Test::of(&its_file_server_plays_to_our_viewers).needs(&[Peer::Pion])];

const VIEWERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);
const WATCH: Duration = Duration::from_secs(2);

fn its_file_server_plays_to_our_viewers() -> Result<(), Failed> {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut command = peers::go("pion")?;
    command.arg("-addr=127.0.0.1:0");
    command.arg("-video").arg(assets.join("demo.h264"));
    command.arg("-audio").arg(assets.join("demo.ogg"));
    let server = Running::start("pion", command)?;
    let url = server.wait_for_line(PATIENCE, |line| {
        line.strip_prefix("ready ").map(str::to_owned)
    })?;
    let url = url.replace("doSignaling", "whep");
    let endpoint = Endpoint::parse(&url).map_err(|error| error.to_string())?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    for _ in 0..VIEWERS {
        pool.join(Join::new(endpoint.clone()));
    }
    let before = eventually(PATIENCE, || all_have_a_frame(&pool))?;
    thread::sleep(WATCH);
    for (before, after) in before.iter().zip(&pool.snapshot()) {
        received_everything(before, after)?;
    }
    Ok(())
}

fn all_have_a_frame(pool: &Pool) -> Result<Vec<Viewer>, String> {
    let viewers = pool.snapshot();
    if let Some(reason) = viewers.iter().find_map(|viewer| viewer.failure.as_ref()) {
        return Err(format!("a viewer failed: {reason}"));
    }
    let ready = |viewer: &&Viewer| viewer.state == State::Playing && viewer.keyframes > 0;
    match viewers.iter().filter(ready).count() {
        VIEWERS => Ok(viewers),
        count => Err(format!("{count} of {VIEWERS} have a frame")),
    }
}

fn received_everything(before: &Viewer, after: &Viewer) -> Result<(), Failed> {
    // Half of real time, since a slow machine may be late.
    let frames_min = 15 * WATCH.as_secs();
    let audio_min = 25 * WATCH.as_secs();
    let frames = after.frames - before.frames;
    let audio = after.audio.received - before.audio.received;
    if frames < frames_min || audio < audio_min {
        return Err(format!("{frames} frames and {audio} packets of audio: {after:?}").into());
    }
    if after.damaged > before.damaged || after.total().lost() > before.total().lost() {
        return Err(format!("lost or damaged on loopback: {after:?}").into());
    }
    Ok(())
}
