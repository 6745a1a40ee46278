//! A camera whose source leaves the configuration, which the server reads again.

use std::fs;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use super::camera_server::CameraServer;
use super::row::Video;
use super::table;
use crate::process::eventually;
use crate::server::Server;
use crate::sharing;

/// Longest time in which the server reads its configuration and ends the session.
const FAREWELL: Duration = Duration::from_secs(10);

pub(super) fn trial(is_skipped: bool) -> Trial {
    let run = || sharing::beside(gets_a_goodbye);
    let trial = Trial::test("cameras::a_source_leaves_the_configuration", run);
    trial.with_ignored_flag(is_skipped)
}

/// A camera that takes one client is not free again before TEARDOWN (bluenviron/mediamtx#4377).
fn gets_a_goodbye() -> Result<(), Failed> {
    let mut rows = table::rows();
    let row = rows.find(|row| row.name == "a_session_is_deleted");
    let camera = CameraServer::open(row.ok_or("the row has another name")?, Video::H264)?;
    let yaml = format!("sources:\n  cam: {{source: '{}'}}\n", camera.url());
    let server = Server::configured(&yaml, &[])?;
    server.wait_for_state("cam", "live")?;
    fs::write(server.configuration()?, "sources: {}\n").map_err(|error| error.to_string())?;
    server.hang_up()?;
    let said = eventually(FAREWELL, || match camera.device.ledger(|it| *it) {
        it if it.teardowns == 1 && it.left_behind == 0 && !it.busy => Ok(()),
        it => Err(format!("the camera was left without TEARDOWN: {it:?}")),
    });
    said.map_err(|reason| format!("{reason}\n{}", server.printed()).into())
}
