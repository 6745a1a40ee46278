//! A camera that browsers show only where the server encodes its video again.

use libtest_mimic::Failed;

use super::camera_server::CameraServer;
use super::row::{Row, Video};
use super::scene::{put, wait_until_live};
use super::table;
use super::test_server::TestServer;
use crate::browser::PATIENCE;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&chromium_shows_a_camera_without_idr_frames).needs(&[Peer::Ffmpeg, Peer::Chromium])
];

/// w3c/webcodecs#650: Chromium asked for an IDR picture 127 times, and decoded no frame.
fn chromium_shows_a_camera_without_idr_frames() -> Result<(), Failed> {
    let mut rows = table::rows();
    let row: &'static Row = rows.find(|row| row.encoded_again).ok_or("no such row")?;
    let camera = CameraServer::open(row, Video::H264)?;
    let server = TestServer::alone("")?;
    put(&server, "cam", &camera.url())?;
    wait_until_live(&server, "cam")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/cam"))?;
    let told = "return !document.getElementById('anyway').hidden \
                && document.getElementById('operator-detail').textContent.includes('intra refresh')";
    browser.wait_until(PATIENCE, told)?;
    browser.run("document.getElementById('anyway').click()")?;
    // Two seconds of the camera's pictures.
    let plays = "return glassline.state === 'live' && glassline.framesDecoded >= 30 \
                 && glassline.width === 320";
    browser.wait_until(PATIENCE, plays)?;
    browser.screenshot("intra-refresh")?;
    let view = eventually(PATIENCE, || {
        let views = crate::http::get_json(&server.admin_url("/api/v1/transcodings"))?;
        let view = views["transcodings"][0].clone();
        match view["frames_out"].as_u64() >= Some(30) {
            true => Ok(view),
            false => Err(format!("the transcoding is {view}")),
        }
    })?;
    println!("{view}");
    if view["undecodable"] != 0 || !view["trouble"].is_null() {
        return Err(format!("the transcoding is {view}").into());
    }
    Ok(())
}
