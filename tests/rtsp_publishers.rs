//! Publishers of others, and what our RTSP server asks of them.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::Running;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "rtsp_publishers::gstreamer_makes_a_keyframe_for_who_comes_late",
    needs: &[Peer::Ffmpeg, Peer::RtspServer],
    run: gstreamer_makes_a_keyframe_for_who_comes_late,
}];

/// What is kept of a stream, and a second more.
const KEYFRAME_IS_FORGOTTEN: Duration = Duration::from_secs(3);

/// Its only keyframe is the first; whoever comes when that is not kept any more needs
/// another one.
fn gstreamer_makes_a_keyframe_for_who_comes_late() -> Result<(), Failed> {
    let server = Server::configured("limits: {ring_s: 2}\n", &["demo"])?;
    let mut command = Command::new("gst-launch-1.0");
    let location = format!("location={}", server.rtsp_url("studio"));
    command.args(["-q", "videotestsrc", "is-live=true", "!"]);
    command.args(["video/x-raw,width=320,height=240,framerate=25/1", "!"]);
    command.args(["x264enc", "tune=zerolatency", "key-int-max=100000", "!"]);
    command.args(["h264parse", "!", "rtspclientsink"]);
    command.args([&location, "protocols=udp"]);
    let publisher = Running::start("gst-launch", command)?;
    let failed = |reason: String| -> Failed {
        format!("{reason}\n{}\n{}", publisher.printed(), server.printed()).into()
    };
    server.wait_for_state("studio", "live").map_err(failed)?;
    thread::sleep(KEYFRAME_IS_FORGOTTEN);
    let url = server.rtsp_url("studio");
    let mut command = Command::new("timeout");
    command.args(["25", "ffmpeg", "-hide_banner", "-loglevel", "error"]);
    command.args(["-rtsp_transport", "tcp", "-i", &url]);
    command.args(["-frames:v", "25", "-f", "null", "-"]);
    let played = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("ffmpeg: {error}")))?;
    if !played.status.success() {
        let errors = String::from_utf8_lossy(&played.stderr).into_owned();
        return Err(failed(format!("{}: {errors}", played.status)));
    }
    let asked = server.metric("glassline_rtsp_keyframe_requests_total");
    match asked.map_err(failed)? {
        asked if asked >= 1.0 => Ok(()),
        _ => Err(failed("it played, but nobody asked".to_owned())),
    }
}
