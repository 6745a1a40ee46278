//! aiortc plays our WHEP: a WebRTC implementation that shares no code with ours.

use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::Running;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&plays_video_and_audio_and_leaves).needs(&[Peer::Aiortc]),
    Test::of(&srtp_profiles_that_do_not_match_are_named).needs(&[Peer::Aiortc]),
];

fn plays_video_and_audio_and_leaves() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let report = watch(&server.url("/demo/whep"), 8)?;
    println!("{report}");
    let at_least = |name: &str, least: f64| match report[name].as_f64() {
        Some(value) if value >= least => Ok(()),
        _ => Err(Failed::from(format!("{name} below {least}: {report}"))),
    };
    // Least numbers: of 30 frames and 50 audio packets a second a slow machine may decode half.
    at_least("frames", 90.0)?;
    at_least("audio_frames", 150.0)?;
    at_least("audio_energy", 0.01)?;
    if report["width"] != 1280 || report["height"] != 720 {
        return Err(format!("wrong size: {report}").into());
    }
    if report["timestamps_backwards"] != 0 {
        return Err(format!("time ran backwards: {report}").into());
    }
    if report["video_packets_lost"] != 0 || report["audio_packets_lost"] != 0 {
        return Err(format!("lost on loopback: {report}").into());
    }
    if report["delete_status"] != 200 {
        return Err(format!("it could not leave: {report}").into());
    }
    let left = server.stream("demo")?;
    if left["viewers"] != 0 {
        return Err(format!("a viewer has left, and still: {left}").into());
    }
    Ok(())
}

/// A client that has no SRTP profile of ours, or none at all, gets no media, and the list of failures
/// says which ones it has.
fn srtp_profiles_that_do_not_match_are_named() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    for (offered, reason) in [
        (
            "SRTP_AES128_CM_SHA1_32",
            "use_srtp) besides SRTP_AES128_CM_SHA1_32, and the server has none of these",
        ),
        ("none", "the client's ClientHello has no SRTP profile"),
    ] {
        let report = watch_with(&server.url("/demo/whep"), 3, &["--srtp", offered])?;
        if report["frames"] != 0 {
            return Err(format!("media without a profile: {report}").into());
        }
        let list = http::get_json(&server.admin_url("/api/v1/failures"))?;
        let latest = &list["failures"][0];
        let found = latest["reason"].as_str().unwrap_or_default();
        if !found.contains(reason) || latest["stage"] != "handshake" {
            return Err(format!("{offered}: {list}").into());
        }
    }
    Ok(())
}

/// Lets aiortc watch for some seconds; returns its report.
pub(crate) fn watch(url: &str, seconds: u32) -> Result<Value, String> {
    watch_with(url, seconds, &[])
}

fn watch_with(url: &str, seconds: u32, more: &[&str]) -> Result<Value, String> {
    let mut command = peers::aiortc("aiortc_whep.py")?;
    command.args([url, "--seconds", &seconds.to_string()]);
    command.args(more);
    let mut viewer = Running::start("aiortc", command)?;
    let status = viewer.wait(Duration::from_secs(u64::from(seconds) + 60))?;
    let printed = viewer.printed();
    if !status.success() {
        return Err(format!("aiortc ended with {status}: {printed}"));
    }
    let report = printed
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_default();
    serde_json::from_str(report).map_err(|error| format!("{error}: {printed}"))
}
